"""What an engine has to offer is enough: with another executor than Spark's the tables are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import InvalidOptionError, SchemaError, UnsupportedError
from hoodoo.distributed import Executor
from hoodoo.distributed.clustering import begin_clusterings, execute_clusterings
from hoodoo.distributed.compaction import begin_compaction, execute_compaction
from hoodoo.distributed.read import read_table
from hoodoo.distributed.timeline import read_timeline
from hoodoo.distributed.write import write_rows
from tests.local_executor import LocalExecutor, Splits

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("ts", pa.int64()), ("val", pa.string())])
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
}
MOR = {**OPTIONS, "hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}


def rows(numbers: range, ts: int, val: str, part: str | None = None) -> pa.Table:
    columns = [list(numbers), [part or f"p{n % 3}" for n in numbers], [ts] * len(numbers), [val] * len(numbers)]
    return pa.table(columns, schema=SCHEMA)


def splits(table: pa.Table) -> Splits:
    half = len(table) // 2
    return [table.slice(0, half), table.slice(half)]


def content(uri: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = hoodoo.Table(uri).to_arrow(columns=SCHEMA.names).sort_by("id").to_pylist()
    return found


class Both:
    """A table that is written in tasks, and its twin that one process writes."""

    def __init__(self, folder: Path, options: dict[str, str]) -> None:
        self.local = LocalExecutor(3)
        self.executor: Executor[Splits] = self.local
        self.tasks, self.alone, self.options = folder / "tasks", folder / "alone", options

    def write(self, data: pa.Table, operation: str, **options: str) -> None:
        given = {**self.options, **options}
        commit = write_rows(self.executor, splits(data), str(self.tasks), operation, given)
        expected = hoodoo.write(data, self.alone, operation, given)
        assert (commit.inserted, commit.updated, commit.deleted) == (
            expected.inserted,
            expected.updated,
            expected.deleted,
        )
        self.check()

    def check(self) -> None:
        assert content(self.tasks) == content(self.alone)
        assert hoodoo.Table(self.tasks).verify().ok


@pytest.mark.parametrize("options", [OPTIONS, MOR], ids=["cow", "mor"])
def test_writes(tmp_path: Path, options: dict[str, str]):
    both = Both(tmp_path, options)
    both.write(rows(range(60), 1, "first"), "insert")
    assert both.local.stages == ["route", "apply"]
    both.write(rows(range(40, 90), 2, "second"), "upsert")
    both.write(rows(range(20), 0, "late"), "upsert")
    both.write(rows(range(10), 3, "").select(["id", "part"]), "delete")
    both.local.stages.clear()
    both.write(rows(range(50, 55), 3, "").select(["id"]), "delete")
    assert both.local.stages == ["key", "locate", "apply"]
    both.write(rows(range(30, 40), 3, "moved", "p9"), "upsert", **{"hoodie.index.type": "GLOBAL_SIMPLE"})
    both.write(rows(range(3), 1, "", "p0").select(["part"]), "delete_partition")
    both.write(rows(range(5), 1, "again"), "insert_overwrite")


GLOBAL = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "false"}


@pytest.mark.parametrize("options", [OPTIONS, MOR], ids=["cow", "mor"])
def test_some_columns_by_a_global_index(tmp_path: Path, options: dict[str, str]):
    both = Both(tmp_path, options)
    both.write(rows(range(60), 1, "first"), "insert")
    some = pa.concat_tables(
        [rows(range(50, 70), 2, "").drop_columns(["val"]), rows(range(5), 0, "").drop_columns(["val"])]
    )
    write_rows(both.executor, splits(some), str(both.tasks), "upsert", {**options, **GLOBAL}, partial=True)
    hoodoo.Table(both.alone, {**options, **GLOBAL}).upsert(some, partial=True)
    assert both.local.stages[-3:] == ["key", "locate", "apply"]
    assert [row["val"] for row in content(both.tasks) if row["id"] in (3, 55, 65)] == ["first", "first", None]
    assert [row["ts"] for row in content(both.tasks) if row["id"] in (3, 55, 65)] == [1, 2, 2]
    both.check()


@pytest.mark.parametrize("options", [OPTIONS, MOR], ids=["cow", "mor"])
def test_records_that_are_merged_column_by_column_by_a_global_index(tmp_path: Path, options: dict[str, str]):
    both = Both(tmp_path, {**options, **GLOBAL, "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"})
    both.write(rows(range(60), 1, "first"), "insert")
    nulls = rows(range(50, 70), 2, "").set_column(3, "val", pa.nulls(20, pa.string()))
    both.write(nulls, "upsert")
    assert [row["val"] for row in content(both.tasks) if row["id"] in (55, 65)] == ["first", None]
    doubled = pa.concat_tables([nulls, nulls])
    for write in (
        lambda: both.write(doubled, "upsert"),
        lambda: hoodoo.write(doubled, both.alone, "upsert", both.options),
    ):
        with pytest.raises(UnsupportedError, match="several rows of one key"):
            write()
    both.check()


@pytest.mark.parametrize("options", [OPTIONS, MOR], ids=["cow", "mor"])
def test_inserts_that_meet_their_key(tmp_path: Path, options: dict[str, str]):
    both = Both(tmp_path, {**options, "hoodie.merge.allow.duplicate.on.inserts": "false"})
    # One file for each partition: an insert meets only the records of the small file that it goes to.
    both.executor = LocalExecutor(1)
    both.write(rows(range(60), 1, "first"), "insert")
    both.write(rows(range(40, 90), 2, "second"), "insert")
    assert len(content(both.tasks)) == 90


@pytest.mark.parametrize(
    ("options", "stages"),
    [
        ({}, ["append"]),
        ({"hoodie.bulkinsert.user.defined.partitioner.sort.columns": "ts, id"}, ["route", "apply"]),
        ({"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}, ["route", "apply"]),
        ({"hoodie.combine.before.insert": "true"}, ["route", "apply"]),
    ],
)
def test_bulk_inserts(tmp_path: Path, options: dict[str, str], stages: list[str]):
    both = Both(tmp_path, OPTIONS)
    both.write(rows(range(60, 0, -1), 1, "first"), "bulk_insert", **options)
    assert both.local.stages == stages


def test_partitions_that_an_option_names(tmp_path: Path):
    both = Both(tmp_path, OPTIONS)
    both.write(rows(range(9), 1, "first"), "insert")
    both.local.stages.clear()
    named = {**OPTIONS, "hoodie.datasource.write.partitions.to.delete": "p1, p2"}
    write_rows(both.executor, splits(rows(range(2), 1, "")), str(both.tasks), "delete_partition", named)
    assert both.local.stages == []
    assert {row["part"] for row in content(both.tasks)} == {"p0"}


def test_a_column_is_widened(tmp_path: Path):
    executor, uri = LocalExecutor(2), str(tmp_path / "t")
    narrow = pa.table({"id": [1, 2], "v": pa.array([1, 2], pa.int32())})
    wide = pa.table({"id": [1, 3], "v": [1 << 40, 3]})
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    write_rows(executor, splits(narrow), uri, "upsert", options)
    with pytest.raises(SchemaError):
        write_rows(executor, splits(wide), uri, "upsert", options, schema_evolution="refuse")
    assert hoodoo.Table(uri).to_arrow().num_rows == 2
    with pytest.warns(hoodoo.HudiWarning, match="schema"):
        commit = write_rows(executor, splits(wide), uri, "upsert", options)
    assert [str(change) for change in commit.schema_changes] == ["v: int32 → int64"]
    assert hoodoo.Table(uri).to_arrow(columns=["v"]).sort_by("v")["v"].to_pylist() == [2, 3, 1 << 40]


def test_reads(tmp_path: Path):
    both = Both(tmp_path, OPTIONS)
    both.write(rows(range(60), 1, "first"), "insert")
    since = hoodoo.Table(both.tasks).timeline.instants()[-1].completed
    both.write(rows(range(20), 2, "second"), "upsert")
    table = hoodoo.Table(both.tasks)
    found = read_table(both.executor, str(both.tasks))
    assert len(found) == len(table.file_slices())
    assert pa.concat_tables(found).sort_by("id").equals(table.to_arrow().sort_by("id"))
    some = read_table(both.executor, str(both.tasks), columns=["val", "id"], filters=[("id", "<", 30)])
    assert pa.concat_tables(some).sort_by("id")["val"].to_pylist() == ["second"] * 20 + ["first"] * 10
    assert since is not None
    changed = read_table(both.executor, str(both.tasks), query="incremental", since=since, columns=["id"])
    assert sorted(pa.concat_tables(changed)["id"].to_pylist()) == list(range(20))
    with pytest.raises(SchemaError, match="none"):
        read_table(both.executor, str(both.tasks), columns=["none"])


def test_a_compaction(tmp_path: Path):
    both = Both(tmp_path, MOR)
    both.write(rows(range(60), 1, "first"), "insert")
    both.write(rows(range(30), 2, "second"), "upsert")
    with_logs = sum(bool(s.log_files) for s in hoodoo.Table(both.tasks).file_slices())
    commit = execute_compaction(both.executor, begin_compaction(str(both.tasks)))
    assert commit is not None
    assert (commit.operation, len(commit.files)) == ("COMPACT", with_logs)
    both.check()
    assert begin_compaction(str(both.tasks)) is None


def test_a_clustering(tmp_path: Path):
    both = Both(tmp_path, {**OPTIONS, "hoodie.parquet.small.file.limit": "0"})
    for ts in range(3):
        both.write(rows(range(20 * ts, 20 * ts + 20), ts, f"val {5 - ts}"), "insert")
    plans = begin_clusterings(str(both.tasks), "val")
    commit = execute_clusterings(both.executor, plans)
    assert commit is not None
    assert (commit.operation, commit.inserted, len(commit.files)) == ("CLUSTER", 60, 3)
    both.check()
    assert all(s.base_file in commit.files for s in hoodoo.Table(both.tasks).file_slices())
    with pytest.raises(InvalidOptionError, match="instant alone"):
        next(begin_clusterings(str(both.tasks), "val", instant=commit.instant))


def test_a_plan_that_cannot_be_executed_does_not_stay(tmp_path: Path):
    both = Both(tmp_path, {**OPTIONS, "hoodie.parquet.small.file.limit": "0"})
    for ts in range(2):
        both.write(rows(range(20 * ts, 20 * ts + 20), ts, "x"), "insert")
    with pytest.raises(InvalidOptionError, match=r"val\.x"):
        execute_clusterings(both.executor, begin_clusterings(str(both.tasks), ["id", "val.x"]))
    assert not hoodoo.Table(both.tasks).pending_clusterings()
    both.check()


def test_a_timeline(tmp_path: Path):
    both = Both(tmp_path, OPTIONS)
    both.write(rows(range(6), 1, "first"), "insert")
    both.write(rows(range(6), 2, "second"), "upsert")
    timeline = hoodoo.Table(both.tasks).timeline
    found = pa.concat_tables(read_timeline(both.executor, str(both.tasks), columns="full"))
    assert found.select(["requested", "completed", "action", "state"]).equals(timeline.to_arrow())
    assert all(body.startswith(b"Obj") for body in found["metadata"].to_pylist())
