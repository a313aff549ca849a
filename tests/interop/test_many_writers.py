"""Processes of ours and real Hudi write to one table at once, under each lock that both have: nothing is lost."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from hoodoo import Table
from tests.buckets import INDEX as BUCKETS
from tests.interop.hudi import QUICK, Hudi
from tests.many_writers import OTHER, Plan, is_committed, is_conflict, rows, run
from tests.zookeeper_server import ZookeeperServer

_UPSERTS = 40
_LOCKS = "org.apache.hudi.client.transaction.lock."
_PROVIDER = "hoodie.write.lock.provider"
_PATIENCE = {
    "hoodie.write.lock.wait_time_ms_between_retry": "100",
    "hoodie.write.lock.num_retries": "200",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "100",
    "hoodie.write.lock.client.num_retries": "600",
    "hoodie.write.num.retries.on.conflict.failures": "20",
    "hoodie.clean.failed.writes.policy": "LAZY",
}
_MODE = "hoodie.write.concurrency.mode"
_OPTIMISTIC = {_MODE: "OPTIMISTIC_CONCURRENCY_CONTROL"}
_NON_BLOCKING = {_MODE: "NON_BLOCKING_CONCURRENCY_CONTROL", **BUCKETS}
# What `verify` may say: a write that failed in Hudi has a heartbeat for two more minutes, and a clean after that rolls
# it back; a rollback that Hudi failed at counts as under way for as long.
_LEFT = ("warning: a write is pending", "warning: a rollback is pending")


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Gives the options of a lock in a server of this test."""
    folder = tmp_path / "zookeeper"
    folder.mkdir()
    server = ZookeeperServer(folder)
    prefix = "hoodie.write.lock.zookeeper."
    yield {
        _PROVIDER: f"{_LOCKS}ZookeeperBasedLockProvider",
        f"{prefix}url": server.hosts,
        f"{prefix}base_path": "/hudi",
        f"{prefix}lock_key": "t",
    }
    server.stop()


@pytest.fixture
def file_system() -> dict[str, str]:
    """Gives the options of a lock in the table's folder."""
    return {_PROVIDER: f"{_LOCKS}FileSystemBasedLockProvider"}


class _Hudi:
    """Hudi as one of the writers."""

    def __init__(self, hudi: Hudi, plan: Plan) -> None:
        self.hudi, self.plan = hudi, plan
        self.options = {
            **QUICK,
            **plan.options,
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.table.name": "t",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.datasource.write.table.type": plan.kind,
        }
        if plan.by_ordering:
            self.options["hoodie.datasource.write.precombine.field"] = "ts"

    def write(self, log: Path) -> None:
        """Upsert as often as the others, and note what was acknowledged, and when."""
        with log.open("w", buffering=1) as out:
            for seq in range(1, self.plan.upserts + 1):
                given, begun = rows(OTHER, seq, self.plan.same_keys, self.plan.by_ordering), time.monotonic()
                for conflict in self._conflicts_of(given):
                    out.write(json.dumps({"seq": seq, "conflict": conflict[:300]}) + "\n")
                took = round(time.monotonic() - begun, 3)
                out.write(json.dumps({"seq": seq, "completed": self._completed(seq), "took": took}) + "\n")

    def _conflicts_of(self, given: pa.Table) -> Iterator[str]:
        while (conflict := self._try(given)) is not None:
            yield conflict

    def _try(self, given: pa.Table) -> str | None:
        """Write; gives what Hudi says of a conflict, after which it is to be done again."""
        from py4j.protocol import Py4JJavaError

        try:
            # Not `Hudi.write`, which looks at the files of the table: others delete some of them meanwhile.
            writer = self.hudi.frame(given).write.format("hudi").options(**self.options)
            writer.mode("append").save(self.plan.uri)
        except Py4JJavaError as error:
            said = str(error)
            if is_committed(said):
                return None
            if not is_conflict(said):
                raise
            return said
        return None

    def _completed(self, seq: int) -> str | None:
        """When an upsert completed: no other one has its new row."""
        table = Table(self.plan.uri)
        found = table.to_arrow(columns=["_hoodie_commit_time"], filters=[("id", "=", f"{OTHER}-new-{seq}")])
        (commit,) = found["_hoodie_commit_time"].to_pylist()
        return next(i.completed for i in table.timeline.instants(history=True) if i.requested == commit)


# A few writes of both at once are in test_locks and test_non_blocking every day.
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("lock", "mode", "kind"),
    [
        ("file_system", "optimistic", "MERGE_ON_READ"),
        ("file_system", "optimistic", "COPY_ON_WRITE"),
        ("zookeeper", "optimistic", "MERGE_ON_READ"),
        ("zookeeper", "optimistic", "COPY_ON_WRITE"),
        ("file_system", "non-blocking", "MERGE_ON_READ"),
        ("zookeeper", "non-blocking", "MERGE_ON_READ"),
    ],
)
def test_two_of_ours_beside_hudi(
    hudi: Hudi, tmp_path: Path, request: pytest.FixtureRequest, lock: str, mode: str, kind: str
) -> None:
    waits = mode == "optimistic"
    options = {
        **(_OPTIMISTIC if waits else _NON_BLOCKING),
        **_PATIENCE,
        **request.getfixturevalue(lock),
        "hoodie.metadata.enable": "true",
    }
    services = [*(["cluster"] if waits else []), *(["compact"] if kind == "MERGE_ON_READ" else []), "read"]
    plan = Plan(
        str(tmp_path / "t"),
        kind,
        options=options,
        writers=2,
        upserts=_UPSERTS,
        services=tuple(services),
        by_ordering=not waits,
    )
    begun = time.monotonic()
    outcome = run(plan, _Hudi(hudi, plan).write)
    took = time.monotonic() - begun
    print(f"{lock}, {mode}, {kind}: {took:.0f} s, {outcome}")
    outcome.problems = [problem for problem in outcome.problems if not problem.startswith(_LEFT)]
    assert outcome.ok, outcome
    assert outcome.acknowledged == 3 * _UPSERTS
