"""Changes and time travel where files of the state asked for were compacted, clustered, cleaned, or upgraded away."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodoo import InvalidOptionError, Table
from hoodoo.distributed.read import read_table
from tests.local_executor import LocalExecutor
from tests.upgrade_fixtures import unpack

_SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), ("ts", pa.int64())])
_TYPES = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
_ONE_VERSION = {
    "hoodie.clean.automatic": "false",
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.fileversions.retained": "1",
    "hoodie.parquet.small.file.limit": "0",
}


# The tables of version 6 have a failed write.
_NEVER_MIND_HOLES = {"hoodie.read.timeline.holes.resolution.policy": "BLOCK"}


def _table(path: Path, table_type: str) -> Table:
    return Table.create(
        path, _SCHEMA, name="t", record_key="id", ordering="ts", table_type=table_type, options=_ONE_VERSION
    )


def _rows(n: int, *ids: str) -> dict[str, Any]:
    return {"id": list(ids), "n": [n] * len(ids), "ts": [n] * len(ids)}


def _numbers(found: pa.Table) -> list[tuple[str, int]]:
    return sorted(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True))


def _sorted(found: pa.Table) -> list[str]:
    # Where a row is says nothing of what it is.
    return sorted(str(row) for row in found.drop_columns(["_hoodie_file_name"]).to_pylist())


@pytest.mark.parametrize("name", ["mor", "latest"])
def test_changes_up_to_each_write_of_version_6_are_the_rows_as_of_it(tmp_path: Path, name: str) -> None:
    table = Table(unpack(name, tmp_path / "t"), options=_NEVER_MIND_HOLES)
    instants = [one.requested for one in table.timeline.instants() if one.action == "deltacommit" and one.completed]
    assert len(instants) > 2
    for until in instants:
        right = _sorted(table.to_arrow(as_of=until))
        assert _sorted(table.changes("0", until).read_all()) == right, until
        splits = read_table(
            LocalExecutor(), table.uri, query="incremental", since="0", until=until, options=_NEVER_MIND_HOLES
        )
        assert _sorted(pa.concat_tables(splits)) == right, until


@pytest.mark.parametrize("to", [8, 9])
@pytest.mark.parametrize("name", ["mor", "latest"])
def test_an_upgraded_table_gives_whole_states_or_refuses(tmp_path: Path, name: str, to: int) -> None:
    path = unpack(name, tmp_path / "t")
    before = Table(path, options=_NEVER_MIND_HOLES)
    instants = [one.requested for one in before.timeline.instants() if one.action == "deltacommit" and one.completed]
    right = {instant: _sorted(before.to_arrow(as_of=instant)) for instant in instants}
    Table(path).upgrade(to)
    table = Table(path)
    completed = {one.requested: one.completed for one in table.timeline.instants()}
    refused = 0
    for instant in instants:
        for read in (
            lambda instant=instant: table.to_arrow(as_of=instant),
            lambda instant=instant: table.changes("0", completed[instant]).read_all(),
        ):
            try:
                found = _sorted(read())
            except InvalidOptionError:
                refused += 1
                continue
            assert found == right[instant], instant
    assert refused < 2 * len(instants)
    # Compacting moved the rows, and changed none.
    assert _sorted(table.changes("0").read_all()) == _sorted(table.to_arrow())


@_TYPES
def test_changes_of_whole_file_groups_beside_cleaned_ones(tmp_path: Path, table_type: str) -> None:
    table = _table(tmp_path / "t", table_type)
    table.insert(_rows(1, "a", "b"))
    table.cluster()
    since = table.upsert(_rows(2, "a")).completed
    until = table.insert(_rows(5, "z")).completed
    for n in (3, 4):
        if table_type == "MERGE_ON_READ":
            table.compact()
        if n == 3:
            table.upsert(_rows(n, "a"))
    table.clean()
    table.upsert(_rows(4, "b"))
    assert _numbers(table.changes(since, until).read_all()) == [("z", 5)]


@_TYPES
@pytest.mark.parametrize("service", ["compact", "cluster"])
def test_changes_to_the_newest_are_in_the_files_of_a_service(tmp_path: Path, table_type: str, service: str) -> None:
    if (table_type, service) == ("COPY_ON_WRITE", "compact"):
        pytest.skip("nothing to compact")
    table = _table(tmp_path / "t", table_type)
    table.insert(_rows(1, "a", "b"))
    since = table.upsert(_rows(2, "a")).completed
    table.upsert(_rows(3, "b"))
    getattr(table, service)()
    assert table.clean() is not None
    assert _numbers(table.changes(since).read_all()) == [("b", 3)]
    table.upsert(_rows(4, "c"))
    assert _numbers(table.changes(since).read_all()) == [("b", 3), ("c", 4)]


@_TYPES
def test_columns_before_the_first_commit_are_those_of_today(tmp_path: Path, table_type: str) -> None:
    path = unpack("mor" if table_type == "MERGE_ON_READ" else "cow", tmp_path / "t")
    table = Table(path)
    names = [name for name in table.schema.names if not name.startswith("_hoodie")][:2]
    found = table.to_arrow(as_of="20000101000000000", columns=names, filters=[(names[0], "is not null")])
    assert (found.num_rows, found.schema.names) == (0, names)


def test_a_report_of_version_6_with_a_metadata_table(tmp_path: Path) -> None:
    table = Table(unpack("mor", tmp_path / "t"))
    assert "hoodie.table.metadata.partitions" in table.options
    assert table.report().version == 6


@pytest.mark.parametrize("listed", ["false", "true"])
@_TYPES
def test_a_savepoint_whose_files_were_cleaned(tmp_path: Path, table_type: str, listed: str) -> None:
    # Hudi's cleaner does that. Here the savepoint is away while the table is cleaned.
    options = {
        "hoodie.clean.commits.retained": "1",
        "hoodie.metadata.enable": listed,
        "hoodie.compact.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "1",
    }
    path, aside = tmp_path / "t", tmp_path / "aside"
    schema = {"id": pa.string(), "n": pa.int64(), "p": pa.string()}
    table = Table.create(
        path, schema, name="t", record_key="id", partition_by="p", table_type=table_type, options=options
    )
    table.insert({"id": ["a", "b"], "n": [0, 0], "p": ["x", "y"]})
    second = table.upsert({"id": ["a"], "n": [1], "p": ["x"]})
    table.savepoint(second.instant)
    assert _numbers(table.to_arrow(as_of=second.instant)) == [("a", 1), ("b", 0)]
    aside.mkdir()
    timeline = path / ".hoodie" / "timeline"
    for file in timeline.glob("*.savepoint*"):
        shutil.copy2(file, aside)
    table.delete_savepoint(second.instant)
    for n in range(2, 6):
        table.upsert({"id": ["a", "b"], "n": [n, n], "p": ["x", "y"]})
    shutil.copytree(aside, timeline, dirs_exist_ok=True)
    table = Table(path)
    for read in (table.to_arrow, table.scan):
        with pytest.raises(InvalidOptionError, match="of its files were cleaned or deleted"):
            read(as_of=second.instant)
    (problem,) = [p for p in table.verify().problems if "savepoint" in p.subject]
    assert problem.severity == "warning"
    assert "delete_savepoint" in problem.remedy
    assert _numbers(table.to_arrow()) == [("a", 5), ("b", 5)]
