"""Building, rebuilding and dropping the metadata table and its partitions."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import hoodoo
from hoodoo import Table, _native
from hoodoo.cli.commands import app
from tests.pairs import others_later

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("v", pa.int64()), ("s", pa.string())])
OFF = {"hoodie.metadata.enable": "false"}
FILTERS: list[list[tuple[str, str, Any]]] = [
    [("v", ">", 20)],
    [("s", "=", "s7")],
    [("id", "<", 3)],
    [("part", "=", "p1"), ("v", "<", 5)],
]


def _rows(keys: range, v: int) -> pa.Table:
    data = {"id": list(keys), "part": [f"p{k % 3}" for k in keys], "v": [v + k for k in keys]}
    return pa.table({**data, "s": [f"s{k}" for k in keys]}, schema=SCHEMA)


def _make(
    path: Path, table_type: str = "MERGE_ON_READ", options: dict[str, str] | None = None, *, partitioned: bool = True
) -> Table:
    return Table.create(
        str(path),
        SCHEMA,
        name="t",
        record_key="id",
        partition_by="part" if partitioned else None,
        table_type=table_type,
        options={"hoodie.compact.inline": "false", **(options or {})},
    )


def _check(path: Path, partitions: set[str]) -> None:
    """The metadata table has these partitions, nothing is wrong with it, and reads by it give the same rows."""
    table = Table(str(path))
    assert table.metadata_table is not None
    assert set(table.metadata_table.partitions) == partitions
    assert not table.verify().problems
    for filters in (None, *FILTERS):
        one, other = (t.to_arrow(filters=filters).sort_by("id") for t in (table, Table(str(path), OFF)))
        assert one.equals(other), filters


ALL = {"files", "column_stats", "partition_stats"}


def _damage(path: Path) -> None:
    for file in (path / ".hoodie/metadata/files").glob(".files*log*"):
        file.write_bytes(file.read_bytes()[:-20])


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_new_table_has_one(tmp_path: Path, table_type: str) -> None:
    table = _make(tmp_path / "t", table_type)
    assert table.metadata_table is None
    table.insert(_rows(range(20), 0))
    _check(tmp_path / "t", ALL)
    table.upsert(_rows(range(10, 30), 100))
    table.delete([1, 2])
    table.delete_partitions(["p2"])
    _check(tmp_path / "t", ALL)
    flat = _make(tmp_path / "flat", table_type, partitioned=False)
    flat.insert(_rows(range(5), 0))
    _check(tmp_path / "flat", {"files", "column_stats"})


def test_options_say_what_a_new_one_has(tmp_path: Path) -> None:
    _make(tmp_path / "off", options=OFF).insert(_rows(range(5), 0))
    assert Table(str(tmp_path / "off")).metadata_table is None
    options = {f"hoodie.metadata.index.{one}.enable": "false" for one in ("column.stats", "partition.stats")}
    _make(tmp_path / "files", options=options).insert(_rows(range(5), 0))
    _check(tmp_path / "files", {"files"})
    more = {
        "hoodie.metadata.index.bloom.filter.enable": "true",
        "hoodie.metadata.index.column.stats.column.list": "v",
        "hoodie.metadata.index.column.stats.file.group.count": "3",
    }
    table = _make(tmp_path / "more", options=more)
    table.insert(_rows(range(5), 0))
    _check(tmp_path / "more", {*ALL, "bloom_filters"})
    metadata = Table(table.uri).metadata_table
    assert metadata is not None
    assert (metadata.partitions["column_stats"].shards, metadata.partitions["bloom_filters"].shards) == (3, 4)
    stats = metadata.to_arrow("column_stats")
    assert {name for name in stats["column_name"].to_pylist() if not name.startswith("_hoodie_")} == {"v"}


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_an_index_is_built_from_the_files_that_there_are(tmp_path: Path, table_type: str) -> None:
    path = tmp_path / "t"
    table = _make(path, table_type, OFF)
    table.insert(_rows(range(30), 0))
    table.upsert(_rows(range(5, 15), 50))
    table.delete([7, 8])
    done = Table(str(path)).index("column_stats", ["v", "s"])
    assert done.partitions == ("column_stats", "files")
    _check(path, {"files", "column_stats"})
    (instant,) = [i for i in Table(str(path)).timeline.instants() if i.action == "indexing"]
    assert (instant.requested, instant.state) == (done.instant, "COMPLETED")
    assert Table(str(path)).index("partition_stats").partitions == tuple(sorted(ALL))
    Table(str(path)).index("bloom_filters")
    Table(str(path)).upsert(_rows(range(10, 40), 70))
    _check(path, {*ALL, "bloom_filters"})
    # With other columns, those of partitions follow.
    Table(str(path)).index("column_stats", "id")
    _check(path, {*ALL, "bloom_filters"})
    metadata = Table(str(path)).metadata_table
    assert metadata is not None
    for name in ("column_stats", "partition_stats"):
        columns = metadata.to_arrow(name)["column_name"].to_pylist()
        assert {column for column in columns if not column.startswith("_hoodie_")} == {"id"}, name
    assert Table(str(path)).drop_index("column_stats") == ("column_stats", "partition_stats")
    Table(str(path)).upsert(_rows(range(3), 90))
    _check(path, {"files", "bloom_filters"})
    assert Table(str(path)).drop_index("column_stats") == ()
    assert Table(str(path)).drop_metadata_table()
    assert not Table(str(path)).drop_metadata_table()
    # Its owner turned it off.
    Table(str(path)).upsert(_rows(range(3), 95))
    assert Table(str(path)).metadata_table is None
    Table(str(path), {"hoodie.metadata.enable": "true"}).upsert(_rows(range(3), 99))
    _check(path, ALL)


def test_what_cannot_be_built_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    _make(tmp_path / "t").insert(_rows(range(5), 0))
    with pytest.raises(hoodoo.UnsupportedError, match="other"):
        Table(path).index("other")
    with pytest.raises(hoodoo.InvalidOptionError, match="'nothing'"):
        Table(path).index("column_stats", "nothing")
    with pytest.raises(hoodoo.InvalidOptionError, match="is false"):
        Table(path, OFF).index("column_stats")
    with pytest.raises(hoodoo.InvalidOptionError, match="drop_metadata_table"):
        Table(path).drop_index("files")
    # Nothing is left of them on the timeline.
    assert [i.action for i in Table(path).timeline.instants()] == ["deltacommit"]
    _make(tmp_path / "flat", partitioned=False).insert(_rows(range(5), 0))
    with pytest.raises(hoodoo.InvalidOptionError, match="without partitions"):
        Table(str(tmp_path / "flat")).index("partition_stats")


def test_a_damaged_one_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = _make(path)
    table.insert(_rows(range(20), 0))
    table.upsert(_rows(range(10), 40))
    _damage(path)
    problems = Table(str(path)).verify().problems
    assert any("rebuild_metadata_table" in problem.remedy for problem in problems)
    assert set(Table(str(path)).rebuild_metadata_table().partitions) == ALL
    _check(path, ALL)
    (path / ".hoodie/metadata/.hoodie/hoodie.properties").write_text("nothing")
    with pytest.raises(hoodoo.CorruptFileError, match="rebuild"):
        Table(str(path)).upsert(_rows(range(10), 50))
    Table(str(path)).rebuild_metadata_table()
    Table(str(path)).upsert(_rows(range(10), 60))
    _check(path, ALL)


def test_writers_go_on_while_an_index_is_built(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    _make(tmp_path / "t", options=OFF).insert(_rows(range(300), 0))
    stop = threading.Event()
    written: list[hoodoo.Commit] = []

    def write() -> None:
        while not stop.is_set():
            written.append(Table(path).upsert(_rows(range(len(written), len(written) + 20), 500)))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for name in ("column_stats", "partition_stats", "bloom_filters", "column_stats"):
            Table(path).index(name)
        Table(path).rebuild_metadata_table()
    finally:
        stop.set()
        writer.join()
    assert written
    _check(tmp_path / "t", {*ALL, "bloom_filters"})


def test_statistics_that_came_while_a_compaction_was_carried_out(tmp_path: Path) -> None:
    path = tmp_path / "t"
    without = {"hoodie.metadata.index.column.stats.enable": "false", "hoodie.compact.inline": "false"}
    _make(path, "MERGE_ON_READ", without).insert(_rows(range(9), 0))
    Table(path, without).upsert(_rows(range(9), 100))
    assert Table(path, without).schedule_compaction()
    table = Table(path, without)
    job = _native.NativeCompaction.begin(table._native, None)
    assert job is not None
    assert job.tasks
    tasks = enumerate(job.tasks)
    stats = [_native.compact_operation(table._native, job.instant, task, f"{n}-0-0") for n, task in tasks]
    Table(path).index("column_stats")
    job.commit(stats)
    metadata = Table(path).metadata_table
    assert metadata is not None
    known = {row["file_name"] for row in metadata.to_arrow("column_stats").to_pylist()}
    assert {Path(json.loads(one)["path"]).name for one in stats} <= known
    assert not Table(path).verify().problems


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_statistics_that_came_while_a_write_streamed(tmp_path: Path, table_type: str) -> None:
    """The write has collected none, and yet its files have them: Hudi may leave out files without."""
    path = tmp_path / "t"
    without = {"hoodie.metadata.index.column.stats.enable": "false"}
    _make(path, table_type, without).insert(_rows(range(9), 0))
    metadata = Table(path).metadata_table
    assert metadata is not None
    assert "column_stats" not in metadata.partitions

    def batches() -> Iterator[pa.RecordBatch]:
        yield _rows(range(3), 100).to_batches()[0]
        Table(path).index("column_stats")
        yield _rows(range(9, 12), 100).to_batches()[0]

    commit = Table(path, without).upsert(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    metadata = Table(path).metadata_table
    assert metadata is not None
    stats = metadata.to_arrow("column_stats").to_pylist()
    assert {Path(file).name for file in commit.files} <= {row["file_name"] for row in stats}
    assert not Table(path).verify().problems


def test_what_another_process_builds_stays_under_construction(tmp_path: Path) -> None:
    """It is written to, and nobody reads it yet."""
    path = tmp_path / "t"
    _make(path).insert(_rows(range(5), 0))
    Table(str(path)).index("bloom_filters")
    properties = path / ".hoodie" / "hoodie.properties"
    pending = properties.read_text().replace("bloom_filters,", "", 1)
    properties.write_text(pending.replace("partitions.inflight=", "partitions.inflight=bloom_filters", 1))
    assert "bloom_filters" not in Table(str(path)).index("column_stats", "v").partitions
    assert "partitions.inflight=bloom_filters" in properties.read_text()


def test_options_that_ask_for_something_else_are_told(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    _make(tmp_path / "t").insert(_rows(range(5), 0))
    options = {
        "hoodie.metadata.index.bloom.filter.enable": "true",
        "hoodie.metadata.index.partition.stats.enable": "false",
        "hoodie.metadata.index.column.stats.column.list": "v,_hoodie_record_key",
    }
    with pytest.warns(hoodoo.HudiWarning) as told:
        commit = Table(path, options).upsert(_rows(range(3), 1))
    assert [str(one.message) for one in told] == list(commit.warnings)
    bloom, partitions = commit.warnings
    assert 'Table.index("bloom_filters")' in bloom
    assert 'Table.drop_index("partition_stats")' in partitions
    _check(tmp_path / "t", ALL)
    Table(path).index("column_stats", "v")
    with pytest.warns(hoodoo.HudiWarning, match="no statistics of s"):
        Table(path, {"hoodie.metadata.index.column.stats.column.list": "v,s"}).upsert(_rows(range(3), 2))


def test_what_a_killed_index_left_is_taken_off(tmp_path: Path) -> None:
    path = tmp_path / "t"
    _make(path).insert(_rows(range(5), 0))
    done = Table(str(path)).index("bloom_filters")
    (completed,) = (path / ".hoodie/timeline").glob(f"{done.instant}_*.indexing")
    completed.unlink()
    Table(str(path)).index("bloom_filters")
    assert not list((path / ".hoodie/timeline").glob(f"{done.instant}*"))
    _check(path, {*ALL, "bloom_filters"})


def test_the_next_write_takes_off_what_a_killed_index_left(tmp_path: Path) -> None:
    path = tmp_path / "t"
    _make(path).insert(_rows(range(5), 0))
    done = Table(str(path)).index("bloom_filters")
    (completed,) = (path / ".hoodie/timeline").glob(f"{done.instant}_*.indexing")
    completed.unlink()
    staged = path / f".hoodie/.temp/{done.instant}/index/shard"
    heartbeat = path / ".hoodie/.heartbeat" / done.instant
    # One without a heartbeat may be Hudi's, which begins later.
    Table(str(path)).upsert(_rows(range(3), 1))
    assert list((path / ".hoodie/timeline").glob(f"{done.instant}*"))
    for file in (staged, heartbeat):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    os.utime(heartbeat, (time.time() - 300,) * 2)
    (problem,) = Table(str(path)).verify().problems
    assert "an index is pending" in problem.message
    Table(str(path)).upsert(_rows(range(3), 2))
    assert not list((path / ".hoodie/timeline").glob(f"{done.instant}*"))
    assert not staged.exists()
    assert not heartbeat.exists()
    _check(path, {*ALL, "bloom_filters"})


def test_the_command_line(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    _make(tmp_path / "t").insert(_rows(range(5), 0))

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["metadata", *arguments])
        assert done.exit_code == 0, done.output
        return " ".join(done.output.split())

    assert "bloom_filters" in run("index", path, "bloom_filters")
    assert "column_stats" in run("index", path, "column_stats", "--columns", "v,s")
    assert "dropped bloom_filters" in run("drop", path, "bloom_filters")
    assert "partition_stats" in run("rebuild", path)
    assert "dropped the metadata table" in run("drop", path)
    assert "nothing to drop" in run("drop", path)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("deltas", others_later(range(3, 9), "3", "6"))
def test_a_partition_that_is_filled_again_has_only_its_new_files(tmp_path: Path, table_type: str, deltas: int) -> None:
    """Wherever the base file of `files` comes among the drop, the clean and the new rows."""
    options = {
        "hoodie.metadata.compact.max.delta.commits": str(deltas),
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
    }
    table = _make(tmp_path / "t", table_type, options)
    table = Table(str(tmp_path / "t"), {"hoodie.compact.inline": "false", **options})
    table.insert(_rows(range(9), 1))
    table.delete_partitions(["p1", "p2"])
    elsewhere = _rows(range(0, 9, 3), 2)
    for _ in range(3):
        table.upsert(elsewhere)
    assert not (tmp_path / "t" / "p1").exists()
    assert not (tmp_path / "t" / "p2").exists()
    table.upsert(_rows(range(9), 3))
    _check(tmp_path / "t", ALL)
    for _ in range(6):
        table.upsert(elsewhere)
        _check(tmp_path / "t", ALL)
    assert table.to_arrow().num_rows == 9
