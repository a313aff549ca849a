"""Indexes of the metadata table in tasks: they are as those that `Table.index` builds, whatever happens meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Table
from hoodoo.distributed import Attempt, BatchFunction
from hoodoo.distributed.indexing import BegunIndex, begin_index, execute_index
from tests.local_executor import LocalExecutor, Splits
from tests.record_index import index_of, stored_keys
from tests.secondary_index import entries_of, stored_entries

TYPES = ["COPY_ON_WRITE", "MERGE_ON_READ"]
# Several shards, several base files in a partition, and file slices that are soon cleaned.
SHARDS = {
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "5",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "5",
}
BY_PARTITION = {
    "hoodie.metadata.record.level.index.enable": "true",
    "hoodie.metadata.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.record.level.index.max.filegroup.count": "2",
}
OPTIONS = {
    "hoodie.metadata.enable": "true",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.commits.retained": "1",
    **SHARDS,
}
SECONDARY = "secondary_index_s"
INDEXES = [("record_index", None), ("secondary_index", "s"), ("column_stats", "v,s"), ("bloom_filters", None)]


def rows(keys: Iterable[int], v: int) -> pa.Table:
    """Rows of keys; some values are odd, some are null."""
    keys = list(keys)
    odd = [None, "", "x$y", "a\\b", "ü"]
    return pa.table(
        {
            "id": [f"k{key:04}" for key in keys],
            "v": pa.array([v] * len(keys), pa.int64()),
            "part": [f"p{key % 3}" for key in keys],
            "s": pa.array([odd[key % 5] if key % 7 == 0 else f"n{key * v % 11}" for key in keys], pa.string()),
        }
    )


def make(path: Path, table_type: str = "COPY_ON_WRITE") -> str:
    """A table with several files in each partition, and log files."""
    options = {**OPTIONS, "hoodie.datasource.write.table.type": table_type}
    names: dict[str, Any] = {"name": "t", "record_key": "id", "partition_by": "part", "table_type": table_type}
    table = Table.create(str(path), rows([0], 0).schema, **names, options=options)
    for first in range(3):
        table.insert(rows(range(first, 90, 3) if first else range(0, 90, 9), 1))
    table.upsert(rows(range(0, 90, 4), 2))
    table.delete(rows([1, 2, 4], 0).select(["id", "part"]))
    return str(path)


def begin(path: str, name: str, columns: str | None = None, **more: str) -> BegunIndex:
    return begin_index(path, name, columns, {**OPTIONS, **more})


def index(path: str, name: str, columns: str | None = None, **more: str) -> hoodoo.IndexCommit:
    """Build an index in tasks."""
    return execute_index(LocalExecutor(3), begin(path, name, columns, **more))


def check(path: str, *, secondary: bool = False) -> None:
    """The indexes have what the table has, and nothing else is left."""
    table = Table(path)
    problems = table.verify().problems
    assert not problems
    assert table.metadata_table is not None
    if "record_index" in table.metadata_table.partitions:
        assert index_of(path) == stored_keys(path)
    if secondary:
        assert entries_of(path, SECONDARY) == stored_entries(path, "s")
    assert not [file for file in Path(path, ".hoodie/.temp").rglob("*") if file.is_file()]


@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize(("name", "columns"), INDEXES)
def test_it_is_the_index_that_a_process_builds(tmp_path: Path, table_type: str, name: str, columns: str | None) -> None:
    built = {}
    for kind in ("tasks", "process"):
        path = make(tmp_path / kind, table_type)
        done = index(path, name, columns) if kind == "tasks" else Table(path, OPTIONS).index(name, columns)
        check(path, secondary=name == "secondary_index")
        metadata = Table(path).metadata_table
        assert metadata is not None
        partitions = {partition: one.shards for partition, one in metadata.partitions.items()}
        built[kind] = (done.partitions, partitions)
        (instant,) = [i for i in Table(path).timeline.instants() if i.action == "indexing"]
        assert (instant.requested, instant.state) == (done.instant, "COMPLETED")
        Table(path, OPTIONS).upsert(rows(range(80, 100), 3))
        check(path, secondary=name == "secondary_index")
    assert built["tasks"] == built["process"]


def test_there_are_as_many_shards_as_data_partitions_ask_for(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    index(path, "record_index", **BY_PARTITION)
    metadata = Table(path).metadata_table
    assert metadata is not None
    assert metadata.partitions["record_index"].shards == 6
    check(path)
    # Anew, over the one that is read.
    index(path, "record_index", **BY_PARTITION)
    check(path)


def test_a_table_without_rows_gets_an_empty_index(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    Table.create(path, rows([0], 0).schema, name="t", record_key="id", partition_by="part", options=OPTIONS)
    index(path, "secondary_index", "s")
    Table(path).insert(rows(range(9), 1))
    check(path, secondary=True)


def upsert(path: str) -> None:
    Table(path, OPTIONS).upsert(rows([0, 5, 50, 200, 201], 7))


def delete(path: str) -> None:
    Table(path, OPTIONS).delete(rows([0, 3, 10, 11], 0).select(["id", "part"]))


def delete_partition(path: str) -> None:
    Table(path, OPTIONS).delete_partitions(["p1"])


def overwrite(path: str) -> None:
    Table(path, OPTIONS).insert_overwrite(rows([0, 6, 300], 9))


def cluster(path: str) -> None:
    Table(path, OPTIONS).cluster(sort_by=["v"])


def write_and_clean(path: str) -> None:
    """File slices that were planned are gone."""
    before = set(Path(path).rglob("*.parquet"))
    for v in range(3, 8):
        Table(path, OPTIONS).upsert(rows(range(v, 90, 2), v))
        if "MERGE_ON_READ" in Path(path, ".hoodie/hoodie.properties").read_text():
            Table(path, OPTIONS).compact()
    Table(path, OPTIONS).delete(rows([10, 12], 0).select(["id", "part"]))
    assert before - set(Path(path).rglob("*.parquet"))


Middle = Callable[[str], None]
MIDDLES = [upsert, delete, delete_partition, overwrite, cluster, write_and_clean]


class Interrupted(LocalExecutor):
    """Something happens to the table after so many stages, or while the tasks of the first one run."""

    def __init__(self, middle: Callable[[], None], at: str) -> None:
        super().__init__(3)
        self.middle, self.at = middle, at

    def map_batches(self, data: Splits, function: BatchFunction, schema: pa.Schema) -> Splits:
        if self.at == "before" and not self.stages:
            self.middle()
        if self.at == "during" and not self.stages and len(data) > 1:
            first = super().map_batches(data[:1], function, schema)
            self.middle()
            return first + super().map_batches(data[1:], function, schema)
        return super().map_batches(data, function, schema)

    def collect(self, data: Splits) -> list[str]:
        found = super().collect(data)
        if self.at == "after":
            self.middle()
            self.at = "done"
        return found


@pytest.mark.parametrize("at", ["before", "during", "after"])
@pytest.mark.parametrize("middle", MIDDLES)
@pytest.mark.parametrize("table_type", TYPES)
def test_others_write_meanwhile(
    tmp_path: Path, table_type: str, middle: Middle, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "t", table_type)
    one_by_one(monkeypatch)
    execute_index(Interrupted(lambda: middle(path), at), begin(path, "secondary_index", "s"))
    check(path, secondary=True)
    upsert(path)
    check(path, secondary=True)


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slice is read by a task of its own."""
    monkeypatch.setattr(LocalExecutor, "from_units", lambda _, units: [pa.table({"value": [u]}) for u in split(units)])


def split(units: Iterable[str]) -> Iterator[str]:
    for unit in units:
        for one in json.loads(unit):
            yield json.dumps([one])


class Twice(LocalExecutor):
    """Each task has a first attempt whose result is lost."""

    def map_batches(self, data: Splits, function: BatchFunction, schema: pa.Schema) -> Splits:
        for number, part in enumerate(data):
            list(function(part.combine_chunks().to_batches(), Attempt(number, f"{number}-lost-{number}")))
        return super().map_batches(data, function, schema)


@pytest.mark.parametrize(("name", "columns"), INDEXES)
def test_attempts_that_are_repeated_leave_nothing(tmp_path: Path, name: str, columns: str | None) -> None:
    path = make(tmp_path / "t")
    execute_index(Twice(2), begin(path, name, columns))
    check(path, secondary=name == "secondary_index")


class Failing(LocalExecutor):
    """The last stage fails after its tasks have run."""

    def collect(self, data: Splits) -> list[str]:
        if super().collect(data):
            raise OSError("the engine is gone")
        return []


@pytest.mark.parametrize(("name", "columns"), INDEXES)
def test_an_index_that_fails_leaves_nothing(tmp_path: Path, name: str, columns: str | None) -> None:
    path = make(tmp_path / "t")
    before = sorted(str(file) for file in Path(path).rglob("*"))
    with pytest.raises(OSError, match="the engine is gone"):
        execute_index(Failing(2), begin(path, name, columns))
    assert {str(file) for file in Path(path).rglob("*") if file.is_file()} <= set(before)
    index(path, name, columns)
    check(path, secondary=name == "secondary_index")


def test_a_file_that_is_damaged_is_an_error_of_its_kind(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    begun = begin(path, "record_index")
    (base, *_) = (one.base_file for one in Table(path).file_slices())
    Path(path, str(base)).write_bytes(b"PAR1 no more PAR1")
    with pytest.raises(hoodoo.CorruptFileError, match="Parquet"):
        execute_index(LocalExecutor(2), begun)
    assert not [i for i in Table(path).timeline.instants() if i.action == "indexing"]


def test_what_a_killed_driver_left_is_taken_off(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    begun = begin(path, "record_index")
    instant = begun.native.instant
    begun.run(LocalExecutor(2))
    del begun
    assert list(Path(path, ".hoodie/.temp").rglob("record-index-*.hfile"))
    # Writers leave it alone, and do not know of it.
    upsert(path)
    done = index(path, "record_index")
    assert not list(Path(path, ".hoodie/timeline").glob(f"{instant}*"))
    assert done.instant != instant
    check(path)


def test_an_attempt_that_comes_late_leaves_nothing(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    late = []

    class Late(LocalExecutor):
        def map_batches(self, data: Splits, function: BatchFunction, schema: pa.Schema) -> Splits:
            late.append((data, function))
            return super().map_batches(data, function, schema)

    execute_index(Late(1), begin(path, "record_index"))
    (split, function) = late[-1]
    with pytest.raises(hoodoo.ConflictError, match="while one of its tasks was still running"):
        list(function(split[0].combine_chunks().to_batches(), Attempt(0, "0-9-9")))
    check(path)


def test_reports_are_those_of_all_tasks_once(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    begun = begin(path, "record_index")
    reports = begun.run(LocalExecutor(2))
    with pytest.raises(hoodoo.InvalidOptionError, match="two tasks report one shard"):
        begun.commit([*reports, reports[-1]])
    with pytest.raises(hoodoo.InvalidOptionError, match="is over"):
        begun.commit(reports)
    assert not [i for i in Table(path).timeline.instants() if i.action == "indexing"]
    index(path, "record_index")
    check(path)


def test_what_cannot_be_built_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    with pytest.raises(hoodoo.UnsupportedError, match="mystery"):
        begin(path, "mystery")
    with pytest.raises(hoodoo.InvalidOptionError, match="expression index"):
        begin(path, "expr_index_v")
    with pytest.raises(hoodoo.InvalidOptionError, match="'nothing'"):
        begin(path, "secondary_index", "nothing")
    assert not [i for i in Table(path).timeline.instants() if i.action == "indexing"]
