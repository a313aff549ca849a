"""Savepoints beside actions that complete after them, and plans whose input a clean would delete."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Table
from hoodoo.distributed import Attempt
from hoodoo.distributed.write import prepare_write

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
ALONE = {
    "hoodie.clean.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodoo.write.lease": "false",
}
BY_VERSIONS = {**ALONE, "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}


def _rows(ids: str, partition: str, value: int) -> pa.Table:
    return pa.table({"id": list(ids), "p": [partition] * len(ids), "v": [value] * len(ids)}, schema=SCHEMA)


def _make(path: Path, table_type: str, options: dict[str, str]) -> Table:
    uri = str(path / "t")
    Table.create(uri, SCHEMA, name="t", record_key="id", partition_by=["p"], ordering=["v"], table_type=table_type)
    return Table(uri, options=options)


def _read(table: Table, **query: Any) -> list[tuple[Any, ...]]:
    rows = Table(table.uri).to_arrow(columns=["id", "p", "v"], **query).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def _begin(table: Table, operation: str, rows: pa.Table, **options: str) -> Callable[[], Any]:
    """Begins a write whose rows are there already; the result completes it."""
    given = {**BY_VERSIONS, **{key.replace("__", "."): value for key, value in options.items()}}
    write = prepare_write(SCHEMA, table.uri, operation, given, {}).begin(SCHEMA, 1)
    packed = list(write.task.route(rows.to_batches(), Attempt(0, "0-0-0")))
    written = write.task.apply(packed, Attempt(0, "0-0-0"))
    reports = [report for batch in written for report in batch.column(0).to_pylist()]
    return lambda: write.commit(reports)


@pytest.mark.parametrize("metadata", ["true", "false"])
@pytest.mark.parametrize("late", ["insert", "insert_overwrite", "clustering", "compaction"])
def test_a_restore_undoes_what_completed_after_the_savepoint(tmp_path: Path, late: str, metadata: str) -> None:
    kind = "MERGE_ON_READ" if late == "compaction" else "COPY_ON_WRITE"
    table = _make(tmp_path, kind, {**BY_VERSIONS, "hoodie.metadata.enable": metadata})
    table.insert(_rows("ab", "p", 0))
    if late == "compaction":
        table.upsert(_rows("ab", "p", 1))
        plan = table.schedule_compaction()
        complete: Callable[[], Any] = lambda: table.compact(plan)  # noqa: E731
    elif late == "clustering":
        table.insert(_rows("c", "p", 0))
        planned = table.schedule_clustering(sort_by=["id"])
        complete = lambda: table.cluster(instant=planned)  # noqa: E731
    else:
        complete = _begin(table, late, _rows("d", "p", 2))
    table.insert(_rows("x", "q", 0))
    saved = table.savepoint()
    then = _read(table)
    completed = complete()
    for n in range(3):
        table.upsert(_rows("ab", "p", 10 + n))
        if late == "compaction":
            table.compact()
    table.clean()
    done = table.restore(saved.instant)
    assert completed.instant in done.undone
    assert _read(table) == then
    assert not Table(table.uri).verify().problems
    table.upsert(_rows("abx", "p", 20))
    assert [row for row in _read(table) if row[1] == "p" and row[2] == 20] == [(n, "p", 20) for n in "abx"]


def test_what_another_savepoint_holds_is_not_undone(tmp_path: Path) -> None:
    table = _make(tmp_path, "COPY_ON_WRITE", BY_VERSIONS)
    table.insert(_rows("a", "p", 0))
    complete = _begin(table, "insert", _rows("d", "p", 2))
    earlier = table.insert(_rows("b", "p", 0))
    table.insert(_rows("x", "q", 0))
    saved = table.savepoint()
    complete()
    other = table.savepoint(earlier.instant)
    with pytest.raises(hoodoo.InvalidOptionError, match="savepoint holds commits") as refused:
        table.restore(saved.instant)
    assert refused.value.context["later savepoint"] == other.instant
    table.delete_savepoint(other.instant)
    table.restore(saved.instant)
    assert _read(table) == [("a", "p", 0), ("b", "p", 0), ("x", "q", 0)]


@pytest.mark.parametrize("replace", ["delete_partitions", "insert_overwrite", "insert_overwrite_table"])
def test_the_input_of_a_planned_compaction_stays(tmp_path: Path, replace: str) -> None:
    table = _make(tmp_path, "MERGE_ON_READ", BY_VERSIONS)
    for partition in "pq":
        table.insert(_rows("a" + partition, partition, 0))
        table.upsert(_rows("a" + partition, partition, 1))
    plan = table.schedule_compaction()
    before = set(Path(table.uri).glob("[pq]/*"))
    if replace == "delete_partitions":
        table.delete_partitions(["p"])
    else:
        getattr(table, replace)(_rows("z", "p", 5))
    table.clean()
    assert before <= set(Path(table.uri).glob("[pq]/*")) | set(Path(table.uri).glob("[pq]/.*"))
    rows = _read(table)
    done = table.compact(plan)
    assert done is not None
    assert _read(table) == rows
    assert not table.verify().problems
    assert table.clean().files
    assert _read(table) == rows


def test_a_compaction_whose_input_was_cleaned_can_be_carried_out(tmp_path: Path) -> None:
    """Hudi's cleaner by file versions deletes it."""
    table = _make(tmp_path, "MERGE_ON_READ", {**BY_VERSIONS, "hoodie.metadata.enable": "false"})
    for partition in "pq":
        table.insert(_rows("a" + partition, partition, 0))
        table.upsert(_rows("a" + partition, partition, 1))
    plan = table.schedule_compaction()
    table.delete_partitions(["p"])
    for file in Path(table.uri, "p").iterdir():
        if ".log." in file.name or file.suffix == ".parquet":
            file.unlink()
    rows = _read(table)
    done = table.compact(plan)
    assert done is not None
    assert [file.split("/")[0] for file in done.files] == ["q"]
    assert _read(table) == rows == [("a", "q", 1), ("q", "q", 1)]


def test_several_retentions_imply_no_policy(tmp_path: Path) -> None:
    table = _make(tmp_path, "COPY_ON_WRITE", ALONE)
    table.insert(_rows("a", "p", 0))
    for n in range(5):
        table.upsert(_rows("a", "p", n))
    both = {"hoodie.clean.fileversions.retained": "1", "hoodie.clean.hours.retained": "24"}
    assert Table(table.uri, {**ALONE, **both}).clean(dry_run=True).files == ()
    one = {"hoodie.clean.fileversions.retained": "1"}
    assert Table(table.uri, {**ALONE, **one}).clean(dry_run=True).files


def test_a_rollback_that_was_killed_leaves_a_metadata_table_that_the_next_write_makes_anew(tmp_path: Path) -> None:
    options = {
        **ALONE,
        "hoodie.metadata.compact.max.delta.commits": "1",
        "hoodie.metadata.global.record.level.index.enable": "true",
        "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
    }
    table = _make(tmp_path, "COPY_ON_WRITE", options)
    table.insert(_rows("ab", "p", 0))
    newest = [table.upsert(_rows("a" + str(n), "p", n + 1)).instant for n in range(3)][-1]
    properties = Path(table.uri, ".hoodie", "hoodie.properties")
    before = Table(table.uri).metadata_table
    assert before is not None
    partitions = sorted(before.partitions)
    rows = _read(table)
    # What it has done when it is killed: it asks for the rollback, and nobody reads the metadata table from then on.
    lines = properties.read_text().splitlines()
    marked = [
        "hoodie.table.metadata.partitions="
        if line.startswith("hoodie.table.metadata.partitions=")
        else "hoodie.table.metadata.partitions.inflight=" + ",".join(partitions)
        if line.startswith("hoodie.table.metadata.partitions.inflight=")
        else line
        for line in lines
    ]
    properties.write_text("\n".join(marked) + "\n")
    assert Table(table.uri).metadata_table is None
    assert _read(table) == rows
    commit = Table(table.uri, options).upsert(_rows("an", "p", 50))
    assert not commit.warnings
    again = Table(table.uri).metadata_table
    assert again is not None
    assert sorted(again.partitions) == partitions
    assert (commit.updated, commit.inserted) == (1, 1)
    assert not Table(table.uri).verify().problems
    assert newest in {i.requested for i in table.timeline.instants()}


def test_a_writer_that_waits_long_for_the_lock(tmp_path: Path) -> None:
    """Others take the file that it has written before for what a killed process left, and remove it."""
    table = _make(tmp_path, "COPY_ON_WRITE", BY_VERSIONS)
    table.insert(_rows("ab", "p", 0))
    provider = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
    commit = _begin(table, "upsert", _rows("a", "p", 1), hoodie__write__lock__provider=provider)
    lock, timeline = tmp_path / "t/.hoodie/lock", tmp_path / "t/.hoodie/timeline"
    lock.touch()
    with ThreadPoolExecutor(1) as pool:
        completed = pool.submit(commit)
        end = time.monotonic() + 60
        while not (written := list(timeline.glob("*#*"))):
            assert time.monotonic() < end
            time.sleep(0.01)
        for file in written:
            file.unlink()
        time.sleep(5.5)
        lock.unlink()
        completed.result(60)
    assert _read(table) == [("a", "p", 1), ("b", "p", 0)]
    assert not list(timeline.glob("*#*"))
    assert table.verify().problems == ()
