"""Hudi's options for several writers: modes, failed writes, strategies, early detection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodoo
from hoodoo import Table

_SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64())])
_LOCK = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
_OCC = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL", "hoodie.write.lock.provider": _LOCK}
_PREFER = "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy"
_EARLY = "hoodie.write.concurrency.early.conflict.detection.enable"
_TYPES = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])


def _table(path: Path, table_type: str = "COPY_ON_WRITE") -> Table:
    table = Table.create(path, _SCHEMA, name="t", record_key="id", table_type=table_type)
    table.upsert(_rows(0, "a", "b"))
    return table


def _rows(n: int, *ids: str) -> pa.Table:
    return pa.table({"id": list(ids), "n": pa.array([n] * len(ids), pa.int64())})


def _read(table: Table) -> dict[str, int]:
    return {row["id"]: row["n"] for row in table.to_arrow(columns=["id", "n"]).to_pylist()}


def _pending(table: Table) -> list[str]:
    return [one.action for one in table.timeline.instants() if one.state != "COMPLETED"]


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        (
            {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"},
            hoodoo.InvalidOptionError,
            "hoodie.write.lock.provider",
        ),
        ({"hoodie.write.concurrency.mode": "ANARCHY"}, hoodoo.InvalidOptionError, "ANARCHY"),
        (
            {**_OCC, "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"},
            hoodoo.InvalidOptionError,
            "NON_BLOCKING",
        ),
        ({"hoodie.clean.failed.writes.policy": "SOMETIMES"}, hoodoo.InvalidOptionError, "SOMETIMES"),
        ({**_OCC, "hoodie.write.lock.conflict.resolution.strategy": "my.Own"}, hoodoo.UnsupportedError, "Own"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, options: dict[str, str], error: type[Exception], named: str
) -> None:
    _table(tmp_path / "t")
    with pytest.raises(error, match=named):
        Table(tmp_path / "t", options).upsert(_rows(1, "a"))
    assert _read(Table(tmp_path / "t")) == {"a": 0, "b": 0}


@_TYPES
def test_writers_of_one_row_lose_nothing(tmp_path: Path, table_type: str) -> None:
    table = _table(tmp_path / "t", table_type)
    wrong: list[BaseException] = []

    def work(writer: int) -> None:
        mine = Table(tmp_path / "t", {**_OCC, "hoodoo.write.lease": "false", "hoodie.metadata.enable": "true"})
        try:
            for n in range(6):
                mine.upsert(_rows(n, f"w{writer}-{n}", "shared"))
        except BaseException as error:  # noqa: BLE001 - looked at below
            wrong.append(error)

    threads = [threading.Thread(target=work, args=[one]) for one in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    rows = table.to_arrow(columns=["id"]).column(0).to_pylist()
    assert sorted(rows) == sorted({"a", "b", "shared", *(f"w{w}-{n}" for w in range(3) for n in range(6))})
    assert table.verify().ok


def _failed_write(path: Path) -> str:
    """Leave a write on the timeline that has no writer."""
    table = Table(path)
    commit = table.upsert(_rows(9, "failed"))
    timeline = path / ".hoodie" / "timeline"
    for file in timeline.glob(f"{commit.instant}_*"):
        file.unlink()
    return commit.instant


@pytest.mark.parametrize(
    ("options", "after_write", "after_clean"),
    [
        ({}, [], []),
        (_OCC, ["commit"], []),
        ({**_OCC, "hoodie.clean.failed.writes.policy": "EAGER"}, [], []),
        ({"hoodie.cleaner.policy.failed.writes": "LAZY"}, ["commit"], []),
        ({"hoodie.clean.failed.writes.policy": "NEVER"}, ["commit"], ["commit"]),
    ],
)
def test_when_failed_writes_go(
    tmp_path: Path, options: dict[str, str], after_write: list[str], after_clean: list[str]
) -> None:
    path = tmp_path / "t"
    _table(path)
    failed = _failed_write(path)
    table = Table(path, {**options, "hoodie.clean.automatic": "false"})
    table.upsert(_rows(1, "a"))
    assert _pending(table) == after_write
    assert _read(table) == {"a": 1, "b": 0}
    table.clean()
    assert _pending(table) == after_clean
    if after_clean:
        table.rollback(failed)
    assert not _pending(table)
    assert _read(table) == {"a": 1, "b": 0}


@pytest.mark.parametrize(
    ("policy", "left", "after_clean"), [("EAGER", [], []), ("LAZY", ["commit"], []), ("NEVER", ["commit"], ["commit"])]
)
def test_the_own_failure_of_a_write(tmp_path: Path, policy: str, left: list[str], after_clean: list[str]) -> None:
    path = tmp_path / "t"
    _table(path)
    options = {"hoodie.clean.failed.writes.policy": policy, "hoodie.clean.automatic": "false"}
    table = Table(path, options)
    # The keys can be looked up, but the rows cannot be merged.
    (file,) = path.glob("*.parquet")
    whole = file.read_bytes()
    column = next(
        chunk
        for chunk in (pq.ParquetFile(file).metadata.row_group(0).column(n) for n in range(len(_SCHEMA) + 5))
        if chunk.path_in_schema == "n"
    )
    end = column.data_page_offset + column.total_compressed_size
    file.write_bytes(whole[: column.data_page_offset] + bytes(end - column.data_page_offset) + whole[end:])
    with pytest.raises(hoodoo.CorruptFileError):
        table.upsert(_rows(1, "a", "b"))
    file.write_bytes(whole)
    assert _pending(table) == left
    assert _read(table) == {"a": 0, "b": 0}
    table.clean()
    assert _pending(table) == after_clean
    assert _read(table) == {"a": 0, "b": 0}


def _slow(begun: threading.Event, go_on: threading.Event, n: int) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        yield _rows(n, "a").to_batches()[0]
        begun.set()
        assert go_on.wait(60)

    return pa.RecordBatchReader.from_batches(_SCHEMA, batches())


@_TYPES
def test_a_clustering_meets_a_write(tmp_path: Path, table_type: str) -> None:
    """The write had begun; the clustering completes first. By default the write is planned again; nothing is lost."""
    path = tmp_path / "t"
    table = _table(path, table_type)
    options = {**_OCC, "hoodoo.write.lease": "false", "hoodie.write.lock.conflict.resolution.strategy": _PREFER}
    begun, go_on = threading.Event(), threading.Event()
    writer = threading.Thread(target=lambda: Table(path, options).upsert(_slow(begun, go_on, 5)))
    writer.start()
    try:
        assert begun.wait(60)
        Table(path, options).cluster(sort_by="id")
    finally:
        go_on.set()
        writer.join()
    assert _read(table) == {"a": 5, "b": 0}
    assert table.verify().ok


def test_writers_go_first(tmp_path: Path) -> None:
    """A clustering of a file group in which a live write has declared to work gives way, and can be run again."""
    path = tmp_path / "t"
    table = _table(path)
    prefer = {**_OCC, "hoodie.write.lock.conflict.resolution.strategy": _PREFER}
    commit = Table(path, prefer).upsert(_rows(1, "a"))
    # As if this write were still under way.
    timeline = path / ".hoodie" / "timeline"
    (completed,) = timeline.glob(f"{commit.instant}_*")
    kept = completed.read_bytes()
    completed.unlink()
    heartbeat = path / ".hoodie" / ".heartbeat" / commit.instant
    heartbeat.parent.mkdir(exist_ok=True)
    heartbeat.write_bytes(b"")
    with pytest.raises(hoodoo.ConflictError, match="writers go first"):
        Table(path, prefer).cluster(sort_by="id")
    heartbeat.unlink()
    completed.write_bytes(kept)
    assert len(table.pending_clusterings()) == 1
    assert _read(table) == {"a": 1, "b": 0}


def test_early_detection(tmp_path: Path) -> None:
    """The younger of two writers gives way before it has written a file."""
    path = tmp_path / "t"
    table = _table(path)
    commit = table.upsert(_rows(1, "a"))
    (file,) = commit.files
    timeline = path / ".hoodie" / "timeline"
    (completed,) = timeline.glob(f"{commit.instant}_*")
    kept = completed.read_bytes()
    completed.unlink()
    marker = path / ".hoodie" / ".temp" / commit.instant / f"{file}.marker.MERGE"
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()
    heartbeat = path / ".hoodie" / ".heartbeat" / commit.instant
    heartbeat.parent.mkdir(exist_ok=True)
    heartbeat.write_bytes(b"")
    before = sorted(path.glob("*.parquet"))
    with pytest.raises(hoodoo.ConflictError, match="under way"):
        Table(path, {**_OCC, _EARLY: "true"}).upsert(_rows(2, "a"))
    assert sorted(path.glob("*.parquet")) == before
    Table(path, {**_OCC, _EARLY: "true"}).upsert(_rows(2, "new"))
    heartbeat.unlink()
    marker.unlink()
    completed.write_bytes(kept)
    assert _read(table)["new"] == 2
