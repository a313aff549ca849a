"""Several writers on one table, on keys that all change: hoodoo's processes beside real Hudi's threads in one JVM.

`python -m benches.peers.writers [--writers 4] [--upserts 40] [--kind MERGE_ON_READ]`
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console

from benches.peers import spark_session
from tests.many_writers import Plan, check_snapshot, create, is_committed, is_conflict, rows, run, table_of

OPTIONS = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.write.lock.wait_time_ms_between_retry": "100",
    "hoodie.write.lock.num_retries": "600",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "100",
    "hoodie.write.lock.client.num_retries": "600",
    "hoodie.write.num.retries.on.conflict.failures": "40",
    "hoodie.upsert.shuffle.parallelism": "2",
    # One of Hudi's writers fails after its commit when another one executes the compaction that it has just found.
    "hoodie.compact.inline": "false",
}


def ours(plan: Plan) -> tuple[float, int]:
    """Lets processes of hoodoo write; gives the seconds, and the conflicts that a caller saw."""
    begun = time.perf_counter()
    outcome = run(plan)
    took = time.perf_counter() - begun
    if not outcome.ok or outcome.acknowledged != plan.writers * plan.upserts:
        raise AssertionError(outcome)
    return took, outcome.conflicts


def theirs(session: Any, plan: Plan) -> tuple[float, int]:
    """The same by threads of one JVM. A write that fails by a conflict is begun again, as the caller would."""
    create(plan)
    options = {
        **plan.options,
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.table.type": plan.kind,
        "hoodie.datasource.write.operation": "upsert",
    }

    def is_written(frame: Any) -> bool:
        try:
            frame.write.format("hudi").options(**options).mode("append").save(plan.uri)
        except Exception as error:
            said = str(error)
            if is_committed(said):
                return True
            if not is_conflict(said):
                raise
            return False
        return True

    def write(frame: Any) -> int:
        conflicts = 0
        while not is_written(frame):
            conflicts += 1
        return conflicts

    def writer(name: str) -> int:
        return sum(write(frames[name, seq]) for seq in range(1, plan.upserts + 1))

    names = [f"w{number}" for number in range(plan.writers)]
    given = {(name, seq): rows(name, seq, plan.same_keys) for name in names for seq in range(1, plan.upserts + 1)}
    frames = {at: session.createDataFrame(data.to_pandas()) for at, data in given.items()}
    begun = time.perf_counter()
    with ThreadPoolExecutor(plan.writers) as pool:
        conflicts = sum(pool.map(writer, names))
    took = time.perf_counter() - begun
    found = check_snapshot(table_of(plan))
    missing = [key for (name, seq) in given for key in (f"{name}-new-{seq}", f"both-{seq}") if key not in found]
    if missing:
        raise AssertionError(missing)
    return took, conflicts


def main() -> int:
    """Measures both, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m benches.peers.writers", description=__doc__)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--upserts", type=int, default=40, help="of each writer")
    parser.add_argument("--kind", default="MERGE_ON_READ", choices=["COPY_ON_WRITE", "MERGE_ON_READ"])
    given = parser.parse_args()
    console = Console() if sys.stdout.isatty() else Console(width=160)
    with tempfile.TemporaryDirectory(prefix="writers-") as folder:
        plans = {
            name: Plan(
                str(Path(folder) / name),
                given.kind,
                options=OPTIONS,
                writers=given.writers,
                upserts=given.upserts,
                services=(),
            )
            for name in ("warm", "hoodoo", "hudi")
        }
        plans["warm"].upserts = 2
        results = {"hoodoo": ours(plans["hoodoo"])}
        if reason := spark_session.missing_hudi():
            console.print(f"without Hudi: {reason}")
        else:
            session, _ = spark_session.start(2, "4g", folder, spark_session.hudi_settings())
            session.sparkContext.setLogLevel("OFF")
            theirs(session, plans["warm"])
            results["hudi"] = theirs(session, plans["hudi"])
            session.stop()
    commits = given.writers * given.upserts
    for name, (took, conflicts) in results.items():
        console.print(
            f"{name}: {commits} commits in {took:.1f} s, {commits / took:.2f} a second, {conflicts} conflicts"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
