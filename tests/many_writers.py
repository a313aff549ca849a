"""Several processes at work on one table, some of them killed, and what has to hold of it afterwards.

Run by tests/crash/test_many_writers.py; by hand: `python -m tests.many_writers FOLDER-OR-URI …`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodoo

SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("writer", pa.string()), ("seq", pa.int64()), ("ts", pa.int64())]
)
SHARED = 6
"""Rows that every upsert of every writer changes, in three partitions: a reader sees all of one upsert, or nothing."""


OTHER = "other"
"""The name of a writer that is no process of ours."""
Other = Callable[[Path], None]

_AFTERWARDS = (
    "due to heartbeat by concurrent writer/job",
    "is not present as pending or already completed",
    "Failed to rollback",
)
_CONFLICTS = ("conflict", "Not allowed to update the clustering file group", "Unable to acquire the lock")


@dataclass
class Plan:
    """What is run."""

    uri: str
    kind: str = "COPY_ON_WRITE"
    storage: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    writers: int = 4
    upserts: int = 200
    kills: int = 0
    services: tuple[str, ...] = ("cluster", "compact", "read")
    same_keys: bool = True
    seconds: float = 3600.0
    apart: bool = False
    """Whether writers take no writer lease, as if they were on different machines."""
    seed: int = 0
    pause: float = 0.05
    """Seconds between two reads. A server that does one request at a time has no time for writers without them."""
    by_ordering: bool = False
    """Whether rows have ordering values, none twice, so that these say which row of a key stays: if nobody waits."""


def is_committed(said: str) -> bool:
    """Whether Hudi says that what came after its commit failed: another process executes or executed the compaction or
    the rollback. That the rows are there has to be looked at."""
    return any(known in said for known in _AFTERWARDS)


def is_conflict(said: str) -> bool:
    """Whether Hudi says that somebody was faster, that a clustering has the file group, or that others had the lock
    each time."""
    return any(known in said for known in _CONFLICTS)


def table_of(plan: Plan) -> hoodoo.Table:
    return hoodoo.Table(plan.uri, plan.options, plan.storage)


def rows(writer: str, seq: int, same_keys: bool, by_ordering: bool = False) -> pa.Table:
    """What upsert `seq` of a writer writes: its own rows, a new row, and, if asked, rows that all writers change."""
    found = [(f"{writer}-{i}", f"p{i % 3}") for i in range(3)] + [(f"{writer}-new-{seq}", f"p{seq % 3}")]
    if same_keys:
        # Of a key that several writers bring at the same time for the first time, one row must come.
        found += [(f"shared-{i}", f"p{i % 3}") for i in range(SHARED)] + [(f"both-{seq}", f"p{seq % 3}")]
    ids, parts = zip(*found, strict=True)
    count = len(ids)
    ts = seq * 1000 + sum(writer.encode()) % 1000 if by_ordering else 1
    return pa.table(
        {"id": ids, "part": parts, "writer": [writer] * count, "seq": [seq] * count, "ts": [ts] * count}, schema=SCHEMA
    )


def write_loop(plan: Plan, writer: str, log: Path) -> None:
    """One writer: goes on after what its log says, and notes each commit when it has been acknowledged."""
    done = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    seq = max((entry["seq"] for entry in done), default=0)
    table = table_of(plan)
    with log.open("a", buffering=1) as out:
        while seq < plan.upserts:
            seq += 1
            out.write(json.dumps({"seq": seq, "begun": True}) + "\n")
            given = rows(writer, seq, plan.same_keys, plan.by_ordering)
            begun = time.monotonic()
            while True:
                try:
                    commit = table.upsert(given)
                    break
                except (hoodoo.ConflictError, hoodoo.LockError) as e:
                    out.write(json.dumps({"seq": seq, "conflict": str(e)[:300]}) + "\n")
            took = time.monotonic() - begun
            entry = {"seq": seq, "instant": commit.instant, "completed": commit.completed, "took": round(took, 3)}
            entry["stages"] = {stage: round(seconds, 3) for stage, seconds in commit.timings.items()}
            entry["at"] = round(time.time(), 3)
            out.write(json.dumps(entry) + "\n")


def service_loop(plan: Plan, service: str, log: Path) -> None:
    """One service, again and again, until it is killed."""
    table = table_of(plan)
    with log.open("a", buffering=1) as out:
        while True:
            begun = time.monotonic()
            try:
                if service == "read":
                    check_snapshot(table)
                elif service == "cluster":
                    table.cluster()
                else:
                    table.compact()
                took = round(time.monotonic() - begun, 3)
                out.write(json.dumps({"done": service, "took": took, "at": round(time.time(), 3)}) + "\n")
            except hoodoo.HudiError as e:
                fatal = service == "read" and not isinstance(e, hoodoo.StorageError)
                out.write(json.dumps({"failed" if fatal else "conflict": f"{type(e).__name__}: {e}"[:300]}) + "\n")
            except AssertionError as e:
                out.write(json.dumps({"failed": str(e)[:500]}) + "\n")
            time.sleep(plan.pause if service == "read" else 0.4)


def check_snapshot(table: hoodoo.Table) -> dict[str, dict[str, Any]]:
    """One snapshot: no key twice, and no half of a commit."""
    read = table.to_arrow(columns=["id", "writer", "seq", "ts", "_hoodie_commit_time"]).to_pylist()
    found = {row["id"]: row for row in read}
    twice = [row["id"] for row in read if found[row["id"]] is not row]
    assert not twice, f"keys that are there twice: {sorted(twice)}"
    shared = {(row["writer"], row["seq"]) for key, row in found.items() if key.startswith("shared-")}
    assert len(shared) <= 1, f"half of a commit: {sorted(shared)}"
    return found


@dataclass
class Outcome:
    """What came of it."""

    lost: list[str]
    failed: list[str]
    slowest: float
    acknowledged: int
    conflicts: int
    killed: int
    done: dict[str, int]
    problems: list[str]
    errors: list[str]

    @property
    def ok(self) -> bool:
        return not (self.lost or self.failed or self.problems or self.errors)


class Crew:
    """The processes."""

    def __init__(self, plan: Plan, folder: Path, other: Other | None = None) -> None:
        self.plan, self.folder, self.other = plan, folder, other
        self.errors_of_other: list[str] = []
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.random = random.Random(plan.seed)
        (folder / "plan.json").write_text(json.dumps(plan.__dict__))

    def start(self, name: str) -> None:
        command = [sys.executable, "-m", "tests.many_writers", "--process", str(self.folder / "plan.json"), name]
        log = (self.folder / f"{name}.err").open("a")
        environment = dict(os.environ)
        if self.plan.apart:
            (self.folder / f"{name}.tmp").mkdir(exist_ok=True)
            environment["TMPDIR"] = str(self.folder / f"{name}.tmp")
        self.running[name] = subprocess.Popen(command, stderr=log, text=True, env=environment)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def run(self) -> Outcome:
        writers = [f"w{n}" for n in range(self.plan.writers)]
        other = threading.Thread(target=self._run_other, daemon=True)
        other.start()
        names = [*writers, *self.plan.services]
        for name in names:
            self.start(name)
        begun, killed, errors = time.monotonic(), 0, []
        while other.is_alive() or any(name in self.running for name in writers):
            time.sleep(0.05)
            for name in [n for n in self.running if self.running[n].poll() is not None]:
                process = self.running.pop(name)
                if name not in writers or process.returncode != 0:
                    errors.append(f"{name} ended with {process.returncode}: {self.said(name)[-600:]}")
            if time.monotonic() - begun > self.plan.seconds:
                errors.append("it took too long")
                break
            alive = [name for name in names if name in self.running and name != "read"]
            if killed < self.plan.kills and alive and self.random.random() < 0.15:
                name = self.random.choice(alive)
                self.kill(name)
                self.start(name)
                killed += 1
        for name in list(self.running):
            self.kill(name)
        other.join(60)
        if self.other is not None:
            writers.append(OTHER)
        return self.judge(writers, killed, errors + self.errors_of_other)

    def _run_other(self) -> None:
        """Let the writer that is no process work; what it fails with counts as an error."""
        try:
            if self.other is not None:
                self.other(self.folder / f"{OTHER}.log")
        except Exception as e:  # noqa: BLE001 - looked at by the test
            # Of a Java stack, the causes.
            said = [line for line in str(e).splitlines() if not line.lstrip().startswith("at ")]
            self.errors_of_other.append(f"{OTHER}: {type(e).__name__}: {' / '.join(said)[:4000]}")

    def said(self, name: str) -> str:
        path = self.folder / f"{name}.err"
        return path.read_text() if path.exists() else ""

    def entries(self, name: str) -> list[dict[str, Any]]:
        path = self.folder / f"{name}.log"
        # A killed process may have written half a line.
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def judge(self, writers: list[str], killed: int, errors: list[str]) -> Outcome:
        plan = self.plan
        table = table_of(plan)
        # Whatever the killed left is rolled back by the next write.
        table.upsert(rows("last", 1, False, plan.by_ordering))
        report = table.verify()
        problems = [f"{p.severity}: {p.message}" for p in report.problems]
        completed = {i.requested: i.completed for i in table.timeline.instants(history=True) if i.completed}
        lost: list[str] = []
        acknowledged: list[tuple[str, str, int]] = []
        conflicts = 0
        slowest = 0.0
        for writer in writers:
            for entry in self.entries(writer):
                conflicts += "conflict" in entry
                if "completed" in entry:
                    slowest = max(slowest, entry["took"])
                    acknowledged.append((entry["completed"], writer, entry["seq"]))
        try:
            found = check_snapshot(table)
        except AssertionError as e:
            found, lost = {}, [str(e)]
        for at, writer, seq in acknowledged if found else []:
            for given in rows(writer, seq, plan.same_keys, plan.by_ordering).to_pylist():
                key, row = given["id"], found.get(given["id"])
                if row is None:
                    lost.append(f"{key} of {writer} {seq} is gone")
                elif plan.by_ordering and row["ts"] < given["ts"]:
                    lost.append(f"{key} of {writer} {seq} is newer than the row {row}")
                elif not plan.by_ordering and (completed.get(row["_hoodie_commit_time"]) or "") < at:
                    lost.append(f"{key} of {writer} {seq} was completed at {at}, the row is of {row}")
        done: dict[str, int] = {}
        failed: list[str] = []
        for service in plan.services:
            entries = self.entries(service)
            done[service] = sum("done" in entry for entry in entries)
            conflicts += sum("conflict" in entry for entry in entries)
            failed += [f"{service}: {entry['failed']}" for entry in entries if "failed" in entry]
        return Outcome(lost, failed, slowest, len(acknowledged), conflicts, killed, done, problems, errors)


def create(plan: Plan) -> None:
    """The table, with the rows that all writers change."""
    table = hoodoo.Table.create(
        plan.uri,
        SCHEMA,
        name="t",
        record_key="id",
        partition_by="part",
        ordering="ts" if plan.by_ordering else None,
        table_type=plan.kind,
        options=plan.options,
        storage_options=plan.storage,
    )
    table.insert(rows("first", 0, plan.same_keys, plan.by_ordering))


def run(plan: Plan, other: Other | None = None) -> Outcome:
    """Creates the table, lets the processes work on it, and looks at what came of it.

    Args:
        plan: What is run.
        other: A writer that is no process of ours, but runs in a thread of this one. It writes `rows` of `OTHER`, and
            a log like that of the others.
    """
    create(plan)
    with tempfile.TemporaryDirectory() as folder:
        outcome = Crew(plan, Path(folder), other).run()
        if os.environ.get("HOODOO_KEEP"):
            print("kept:", Path(folder).rename(Path(tempfile.mkdtemp()) / "kept"))
        return outcome


def main() -> None:
    if sys.argv[1] == "--process":
        given = json.loads(Path(sys.argv[2]).read_text())
        plan = Plan(**{**given, "services": tuple(given["services"])})
        name = sys.argv[3]
        log = Path(sys.argv[2]).with_name(f"{name}.log")
        if name.startswith("w"):
            write_loop(plan, name, log)
        else:
            service_loop(plan, name, log)
        return
    given = dict(argument.split("=", 1) for argument in sys.argv[2:])
    numbers: dict[str, Any] = {key: int(given[key]) for key in ("writers", "upserts", "kills", "seed") if key in given}
    options = {key: value for key, value in given.items() if key.startswith("hoodie.")}
    services = tuple(s for s in given.get("services", "cluster,compact,read").split(",") if s)
    kind = given.get("kind", "COPY_ON_WRITE")
    if kind == "COPY_ON_WRITE":
        services = tuple(s for s in services if s != "compact")
    server: Any = None
    storage: dict[str, str] = {}
    if sys.argv[1] in ("s3", "memory-s3"):
        from tests.memory_s3 import MemoryS3
        from tests.s3_server import BUCKET, S3Server

        server = S3Server() if sys.argv[1] == "s3" else MemoryS3()
        uri, storage = f"s3://{BUCKET}/t", server.storage_options
    else:
        uri = sys.argv[1]
    begun = time.monotonic()
    plan = Plan(
        uri,
        kind,
        storage,
        options,
        services=services,
        same_keys=given.get("keys") != "own",
        apart="apart" in given,
        pause=float(given.get("pause", Plan.pause)),
        **numbers,
    )
    outcome = run(plan)
    print(f"{time.monotonic() - begun:.1f} s", "OK" if outcome.ok else "BAD", outcome)
    if server is not None:
        if requests := len(getattr(server, "log", ())):
            print(f"{requests} requests, {requests / (time.monotonic() - begun):.0f} a second")
        server.close()
    sys.exit(not outcome.ok)


if __name__ == "__main__":
    main()
