"""The table lock between processes: a lease on S3, and a file on a disk."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Table
from tests.rows import arrow_rows
from tests.s3_server import BUCKET, S3Server

LOCKS = "org.apache.hudi.client.transaction.lock."
LEASE = {"hoodie.write.lock.provider": LOCKS + "StorageBasedLockProvider"}
LOCK_FILE = {"hoodie.write.lock.provider": LOCKS + "FileSystemBasedLockProvider"}
SHORT = {"hoodie.write.lock.storage.validity.timeout.secs": "10", "hoodie.write.lock.storage.renew.interval.secs": "1"}
# As on different machines, where writers wait for the lock only.
APART = {"hoodoo.write.lease": "false"}
ONCE = {"hoodie.write.lock.wait_time_ms": "300", "hoodie.write.lock.client.num_retries": "0"}
SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("val", pa.string())])

WRITER = """
import json, sys, pyarrow as pa, hoodoo
uri, options, storage_options, row = json.loads(sys.argv[1])
table = hoodoo.Table(uri, options, storage_options)
print("ready", flush=True)
sys.stdin.readline()
try:
    commit = table.upsert(pa.table({"id": [row[0]], "ts": [row[1]], "val": [row[2]]}))
    said = {"instant": commit.instant, "completed": commit.completed}
except hoodoo.HudiError as error:
    said = {"error": type(error).__name__, "text": str(error), "retryable": error.retryable}
print(json.dumps(said), flush=True)
"""


class Writer:
    """Another process that writes one row when it is told to."""

    def __init__(
        self, uri: str, options: Mapping[str, str], storage: Mapping[str, str], row: tuple[str, int, str]
    ) -> None:
        job = json.dumps([uri, dict(options), dict(storage), row])
        command = [sys.executable, "-c", WRITER, job]
        environment = dict(os.environ)
        if options.get("hoodoo.write.lease") == "false":
            # Processes of one machine meet in its folder for temporary files.
            self.folder = tempfile.TemporaryDirectory()
            environment["TMPDIR"] = self.folder.name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def go(self) -> Writer:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return self

    def said(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.process.communicate(timeout=120)[0])
        return said


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.close()


@dataclass
class Stall:
    """Holds up the first request that completes a commit, before the server serves it."""

    reached: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    lose: bool = False

    def __call__(self, method: str, key: str, query: str) -> None:
        del query
        if method == "PUT" and re.search(r"/\d+_\d+\.commit$", key) and not self.reached.is_set():
            self.reached.set()
            assert self.go_on.wait(60)
            if self.lose:
                raise ConnectionError("the client is gone, and its request with it")


@dataclass
class Place:
    """A table on the server."""

    server: S3Server
    uri: str
    table: Table

    def lock(self) -> dict[str, Any]:
        key = self.uri.removeprefix(f"s3://{BUCKET}/") + "/.hoodie/.locks/table_lock.json"
        found: dict[str, Any] = json.loads(self.server.client.get_object(Bucket=BUCKET, Key=key)["Body"].read())
        return found

    def put_lock(self, lock: Mapping[str, Any]) -> None:
        key = self.uri.removeprefix(f"s3://{BUCKET}/") + "/.hoodie/.locks/table_lock.json"
        self.server.client.put_object(Bucket=BUCKET, Key=key, Body=json.dumps(lock).encode())

    def writer(self, options: Mapping[str, str], *row: Any) -> Writer:
        return Writer(self.uri, options, self.server.storage_options, row)

    def values(self) -> dict[str, str]:
        table = Table(self.uri, storage_options=self.server.storage_options)
        assert not table.verify().problems
        return {row["id"]: row["val"] for row in arrow_rows(table.to_arrow())}


@pytest.fixture
def place(server: S3Server) -> Iterator[Place]:
    uri = f"s3://{BUCKET}/{uuid.uuid4().hex}/t"
    Table.create(uri, SCHEMA, name="t", record_key="id", ordering="ts", storage_options=server.storage_options)
    table = Table(uri, {**LEASE, **SHORT}, server.storage_options)
    table.upsert(pa.table({"id": ["a"], "ts": [1], "val": ["first"]}))
    yield Place(server, uri, table)
    server.before = None


@pytest.mark.s3
def test_a_lease_is_given_back(place: Place):
    lock = place.lock()
    assert lock["expired"] is True
    assert sorted(lock) == ["expired", "owner", "validUntil"]
    assert 9_000 < lock["validUntil"] - time.time() * 1000 + 10_000 <= 20_000


@pytest.mark.s3
def test_of_two_processes_one_waits_for_the_other(place: Place):
    first = place.writer({**LEASE, **SHORT, **APART}, "b", 1, "of the first")
    hasty = place.writer({**LEASE, **ONCE, **APART}, "c", 1, "of the hasty")
    patient = place.writer({**LEASE, **APART}, "d", 1, "of the patient")
    place.server.before = stall = Stall()
    first.go()
    assert stall.reached.wait(30)
    held = place.lock()
    assert held["expired"] is False

    refused = hasty.go().said()
    assert (refused["error"], refused["retryable"]) == ("LockError", True)
    assert held["owner"] in refused["text"]
    patient.go()
    time.sleep(2.5)
    assert patient.process.poll() is None
    renewed = place.lock()
    assert renewed["owner"] == held["owner"]
    assert renewed["validUntil"] >= held["validUntil"] + 1_000
    stall.go_on.set()

    one, other = first.said(), patient.said()
    assert one["completed"] < other["instant"], (one, other)
    assert place.values() == {"a": "first", "b": "of the first", "d": "of the patient"}
    assert place.lock()["expired"] is True


@pytest.mark.s3
@pytest.mark.parametrize("machine", ["this one", "another one"])
def test_the_lock_of_a_killed_writer_is_free_when_its_lease_has_run_out(place: Place, machine: str):
    """Or at once, if it was killed on the same machine."""
    killed = place.writer({**LEASE, **SHORT}, "a", 2, "of the killed")
    heir = place.writer({**LEASE, **SHORT}, "b", 1, "of the heir")
    place.server.before = stall = Stall(lose=True)
    killed.go()
    assert stall.reached.wait(30)
    killed.process.kill()
    killed.process.wait()
    stall.go_on.set()
    until = place.lock()["validUntil"]
    assert place.lock()["expired"] is False
    if machine == "another one":
        place.put_lock({**place.lock(), "owner": f"elsewhere 1 {uuid.uuid4()}"})
    assert "error" not in heir.go().said()
    assert (time.time() * 1000 > until + 500) == (machine == "another one")
    assert place.values() == {"a": "first", "b": "of the heir"}
    states = [(i.action, i.state) for i in place.table.timeline.instants() if i.action != "commit"]
    assert states == [("rollback", "COMPLETED")]


@pytest.mark.s3
def test_a_writer_whose_lease_was_taken_commits_nothing(place: Place):
    key = place.uri.removeprefix(f"s3://{BUCKET}/") + "/.hoodie/.locks/table_lock.json"

    def take(method: str, path: str, query: str) -> None:
        del query
        if method != "GET" or not path.endswith("hoodie.properties"):
            return
        # The clean-up right before the commit is made, under the lock.
        inflight = [
            k
            for k in place.server.keys(path.partition(".hoodie")[0])
            if k.endswith(".inflight") and "/metadata/" not in k
        ]
        if len(inflight) == 2:
            thief = json.dumps({"expired": False, "validUntil": 9_999_999_999_999, "owner": "thief"})
            place.server.client.put_object(Bucket=BUCKET, Key=key, Body=thief.encode())
            place.server.before = None

    table = Table(place.uri, {**LEASE, **ONCE}, place.server.storage_options)
    place.server.before = take
    with pytest.raises(hoodoo.LockError, match=r"lost: thief took it.*Write again"):
        table.upsert(pa.table({"id": ["a"], "ts": [2], "val": ["second"]}))
    assert place.lock()["owner"] == "thief"
    assert {row["val"] for row in arrow_rows(place.table.to_arrow())} == {"first"}
    with pytest.raises(hoodoo.LockError, match="another writer holds it: thief"):
        table.delete(["a"])
    place.server.client.delete_object(Bucket=BUCKET, Key=key)
    place.table.upsert(pa.table({"id": ["a"], "ts": [3], "val": ["third"]}))
    assert place.values() == {"a": "third"}


def _on_disk(folder: Path, options: Mapping[str, str]) -> Table:
    return Table.create(str(folder / "t"), SCHEMA, name="t", record_key="id", ordering="ts", options=dict(options))


def _row(value: str, ts: int = 1) -> pa.Table:
    return pa.table({"id": ["a"], "ts": [ts], "val": [value]})


def test_a_lock_file_is_waited_for_and_removed(tmp_path: Path):
    table = _on_disk(tmp_path, {**LOCK_FILE, **ONCE})
    lock = tmp_path / "t/.hoodie/lock"
    table.upsert(_row("first"))
    assert not lock.exists()
    lock.touch()
    with pytest.raises(hoodoo.LockError, match=rf"(?s)lock={lock}.*delete the file") as caught:
        table.upsert(_row("second", 2))
    assert caught.value.retryable
    assert isinstance(caught.value, TimeoutError)
    assert lock.exists()
    patient = Writer(str(tmp_path / "t"), {**LOCK_FILE, "hoodie.write.lock.wait_time_ms": "60000"}, {}, ("a", 3, "x"))
    patient.go()
    time.sleep(1)
    assert patient.process.poll() is None
    lock.unlink()
    assert "error" not in patient.said()
    assert [row["val"] for row in arrow_rows(table.to_arrow())] == ["x"]
    assert not lock.exists()


def test_a_lock_file_can_be_elsewhere(tmp_path: Path):
    elsewhere = {"hoodie.write.lock.filesystem.path": f"file://{tmp_path}/locks"}
    table = _on_disk(tmp_path, {**LOCK_FILE, **ONCE, **elsewhere})
    table.upsert(_row("first"))
    (tmp_path / "locks/lock").touch()
    with pytest.raises(hoodoo.LockError, match="locks/lock"):
        table.upsert(_row("second", 2))
    expiring = Table(str(tmp_path / "t"), {**LOCK_FILE, **elsewhere, "hoodie.write.lock.filesystem.expire": "1"})
    old = time.time() - 61
    os.utime(tmp_path / "locks/lock", (old, old))
    expiring.upsert(_row("third", 3))
    assert not (tmp_path / "locks/lock").exists()


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        ("org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider", "HiveMetastore"),
        ("com.example.Lock", "com.example.Lock"),
    ],
)
def test_other_locks_are_refused_by_name(tmp_path: Path, provider: str, said: str):
    _on_disk(tmp_path, {})
    with pytest.raises(hoodoo.UnsupportedError, match=rf"(?s){said}.*StorageBasedLockProvider"):
        Table(str(tmp_path / "t"), {"hoodie.write.lock.provider": provider})


def test_a_lock_that_the_storage_cannot_keep_is_refused(tmp_path: Path):
    table = _on_disk(tmp_path, LEASE)
    with pytest.raises(hoodoo.UnsupportedError, match="FileSystemBasedLockProvider"):
        table.upsert(_row("first"))
    table = _on_disk(tmp_path / "more", {"hoodie.write.lock.wait_time_ms": "soon"})
    with pytest.raises(hoodoo.InvalidOptionError, match=r"hoodie\.write\.lock\.wait_time_ms"):
        table.upsert(_row("first"))


def test_a_clock_that_is_behind_the_table_is_found_out(tmp_path: Path):
    table = _on_disk(tmp_path, {**LOCK_FILE, "hoodie.time.generator.max_expected_clock_skew_ms": "20"})
    table.upsert(_row("first"))
    timeline = tmp_path / "t/.hoodie/timeline"
    year = str(int(time.strftime("%Y")) + 1)
    for name in (".commit.requested", ".inflight", f"_{year}0101000001000.commit"):
        (timeline / f"{year}0101000000000{name}").touch()
    begun = time.monotonic()
    with pytest.raises(hoodoo.LockError, match=r"(?s)clock is behind.*skew=20 ms"):
        table.upsert(_row("second", 2))
    assert time.monotonic() - begun < 4
    assert not (tmp_path / "t/.hoodie/lock").exists()
