"""Hudi's lock and ours are one lock: each side waits for the other."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from tests.interop.hudi import Hudi
from tests.interop.layouts import SIMPLE, batch, row
from tests.rows import arrow_rows

_FILE_SYSTEM = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
_LOCK = {"hoodie.write.lock.provider": _FILE_SYSTEM}
_ONCE = {"hoodie.write.lock.wait_time_ms": "200", "hoodie.write.lock.client.num_retries": "0"}
_OPTIONS = {**SIMPLE.options(), **_LOCK}
_SHARED = {
    **_OPTIONS,
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "100",
}


class _HudisLock:
    """The lock provider of Hudi itself."""

    def __init__(self, hudi: Hudi, table: Path, expire: int = 0) -> None:
        java: Any = hudi.spark._jvm
        given = java.org.apache.hudi.common.config.TypedProperties()
        given.setProperty("hoodie.base.path", str(table))
        given.setProperty("hoodie.write.lock.filesystem.expire", str(expire))
        config = java.org.apache.hudi.common.config.LockConfiguration(given)
        hadoop = hudi.spark._jsc.hadoopConfiguration()
        storage = java.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(hadoop)
        self._lock = java.org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider(config, storage)
        self._unit = java.java.util.concurrent.TimeUnit.MILLISECONDS

    def take(self) -> bool:
        return bool(self._lock.tryLock(1, self._unit))

    def give_back(self) -> None:
        self._lock.unlock()


class _Write(threading.Thread):
    """A write of ours that takes its time."""

    def __init__(self, table: Path, ts: int, **options: str) -> None:
        super().__init__(daemon=True)
        self._table, self._ts, self._options = table, ts, options
        self.error: hoodoo.HudiError | None = None
        self.start()

    def run(self) -> None:
        try:
            options = {**_OPTIONS, **self._options}
            hoodoo.write(batch([row(0, self._ts, "ours")]), str(self._table), operation="upsert", options=options)
        except hoodoo.HudiError as error:
            self.error = error

    def end(self) -> None:
        self.join(60)
        assert not self.is_alive()


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table"
    hoodoo.write(batch([row(n, 1, "first") for n in range(4)]), str(path), operation="insert", options=_OPTIONS)
    return path


def test_we_wait_while_hudi_holds_the_lock(hudi: Hudi, table: Path) -> None:
    theirs = _HudisLock(hudi, table)
    assert theirs.take()
    # What our provider takes for granted of Hudi's: nothing in the file, and a checksum beside it.
    assert (table / ".hoodie/lock").read_bytes() == b""
    assert (table / ".hoodie/.lock.crc").exists()
    with pytest.raises(hoodoo.LockError, match=r"\.hoodie/lock"):
        hoodoo.Table(str(table), {**_OPTIONS, **_ONCE}).upsert(batch([row(0, 2, "hasty")]))
    write = _Write(table, 3)
    time.sleep(1.5)
    assert write.is_alive()
    theirs.give_back()
    write.end()
    assert write.error is None
    assert not list((table / ".hoodie").glob("*lock*"))
    assert [r["val"] for r in hudi.read(table) if r["ts"] == 3] == ["ours"]


def test_hudi_waits_while_we_hold_the_lock(hudi: Hudi, table: Path) -> None:
    theirs = _HudisLock(hudi, table)
    # The first time, Java loads what it needs, for longer than we hold the lock.
    assert theirs.take()
    theirs.give_back()
    # We hold it for at least as long as clocks may differ.
    write = _Write(table, 2, **{"hoodie.time.generator.max_expected_clock_skew_ms": "1500"})
    _until((table / ".hoodie/lock").exists)
    assert not theirs.take()
    _until(theirs.take)
    time.sleep(1)
    theirs.give_back()
    write.end()
    if write.error is not None:
        # Hudi looks for the file and then opens it, in two steps. We took the lock in between, and noticed.
        assert isinstance(write.error, hoodoo.LockError)
        assert "opened its file" in str(write.error)
    ours = [r["val"] for r in hudi.read(table) if r["ts"] == 2]
    assert ours == ([] if write.error else ["ours"])
    assert theirs.take(), "we left our lock behind"
    theirs.give_back()


def test_a_lock_that_hudi_took_from_us_stops_the_commit(hudi: Hudi, table: Path) -> None:
    before = hudi.read(table)
    theirs = _HudisLock(hudi, table, expire=1)
    lock, timeline = table / ".hoodie/lock", table / ".hoodie/timeline"
    write = _Write(table, 2, **{"hoodie.time.generator.max_expected_clock_skew_ms": "2000"})
    started, files = set(timeline.glob("*.inflight")), set(table.rglob("*.parquet"))
    _until(lambda: len(set(timeline.glob("*.inflight")) - started) == 1)
    # The first lock that it takes, for its instant, may still be there: data files are written without one.
    _until(lambda: len(set(table.rglob("*.parquet")) - files) == 1)
    _until(lock.exists)
    old = time.time() - 120
    os.utime(lock, (old, old))
    assert theirs.take()
    write.end()
    assert isinstance(write.error, hoodoo.LockError)
    assert "lost" in str(write.error)
    assert lock.exists(), "it is Hudi's now"
    assert hudi.read(table) == before
    theirs.give_back()
    hoodoo.write(batch([row(0, 3, "after")]), str(table), operation="upsert", options=_OPTIONS)
    ours = hoodoo.Table(str(table), options=_OPTIONS)
    assert not ours.verify().problems
    assert len(ours.timeline.instants(action="rollback")) == 1
    assert hudi.read(table) == arrow_rows(ours.to_arrow())


def test_both_write_in_turns_under_one_lock(hudi: Hudi, table: Path) -> None:
    for ts in range(2, 6, 2):
        hudi.write(batch([row(1, ts, "theirs")]), table, "upsert", **_SHARED)
        hoodoo.write(batch([row(1, ts + 1, "ours")]), str(table), operation="upsert", options=_OPTIONS)
    ours = hoodoo.Table(str(table), options=_OPTIONS)
    assert hudi.read(table) == arrow_rows(ours.to_arrow())
    times = [t for i in ours.timeline.instants() for t in (i.requested, i.completed)]
    assert len(set(times)) == len(times)
    assert not list((table / ".hoodie").glob("*lock*"))


def test_both_write_at_once_by_the_same_options(hudi: Hudi, table: Path) -> None:
    """Optimistic concurrency control of both: who was late plans again, and what was acknowledged is there."""
    options = {**_SHARED, "hoodie.write.num.retries.on.conflict.failures": "20"}
    wrong: list[BaseException] = []

    def write(rows: pa.Table, tries: int = 3) -> None:
        try:
            hoodoo.write(rows, str(table), operation="upsert", options=options)
        except hoodoo.LockError as error:
            # Hudi deletes the file of whoever holds the lock when it closes its own: nothing was published then.
            if tries == 0 or "lost" not in str(error):
                raise
            write(rows, tries - 1)

    def ours() -> None:
        try:
            for n in range(12):
                write(batch([row(0, 10 + n, f"ours {n}"), row(100 + n, 1, "ours")]))
        except BaseException as error:  # noqa: BLE001 - looked at below
            wrong.append(error)

    writer = threading.Thread(target=ours)
    writer.start()
    for n in range(5):
        hudi.write(batch([row(0, 10 + n, f"theirs {n}"), row(200 + n, 1, "theirs")]), table, "upsert", **options)
    writer.join()
    assert not wrong
    found = hudi.read(table)
    assert found == arrow_rows(hoodoo.Table(str(table), options=_OPTIONS).to_arrow())
    keys = [one["id"] for one in found]
    wanted = [row(n, 1, "")["id"] for n in [*range(4), *range(100, 112), *range(200, 205)]]
    assert sorted(keys) == sorted(wanted)
    assert max(one["ts"] for one in found) == 21
    assert not hoodoo.Table(str(table), options=options).verify().problems


def test_a_write_of_hudi_waits_for_our_lock(hudi: Hudi, table: Path) -> None:
    lock = table / ".hoodie/lock"
    lock.touch()
    threading.Timer(3, lock.unlink).start()
    begun = time.monotonic()
    hudi.write(batch([row(1, 2, "theirs")]), table, "upsert", **_SHARED)
    assert time.monotonic() - begun > 3
    assert [r["val"] for r in hudi.read(table) if r["ts"] == 2] == ["theirs"]


def test_the_file_of_a_lease_is_the_same(hudi: Hudi) -> None:
    java: Any = hudi.spark._jvm
    models = java.org.apache.hudi.client.transaction.lock.models
    theirs = bytes(models.StorageLockFile.toByteArray(models.StorageLockData(False, 1_767_225_600_123, "me")))
    assert json.loads(theirs) == {"expired": False, "validUntil": 1_767_225_600_123, "owner": "me"}
    ours = b'{"expired":true,"validUntil":1767225600123,"owner":"an owner"}'
    read = models.StorageLockFile.createFromStream(java.java.io.ByteArrayInputStream(ours), "version")
    assert (read.isExpired(), read.getValidUntilMs(), read.getOwner()) == (True, 1_767_225_600_123, "an owner")
