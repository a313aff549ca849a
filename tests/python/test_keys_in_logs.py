"""Record keys that only log files hold: writes find them there, and no key is stored twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Table
from hoodoo.distributed.write import write_rows
from tests.local_executor import LocalExecutor

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("v", pa.int64())])
INDEXES = ["BLOOM", "SIMPLE", "GLOBAL_BLOOM", "GLOBAL_SIMPLE"]
WAYS = ["process", "tasks"]


def _options(index: str) -> dict[str, str]:
    # Files are removed from the folders here, which a metadata table would go on naming.
    return {"hoodie.compact.inline": "false", "hoodie.index.type": index, "hoodie.metadata.enable": "false"}


def _data(*rows: tuple[int, str, int]) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    return pa.table({"id": columns[0], "part": columns[1], "v": columns[2]}, schema=SCHEMA)


def _in_tasks(uri: str, operation: str, data: pa.Table, options: dict[str, str]) -> hoodoo.Commit:
    """Writes as Spark's tasks do, two of them at each step."""
    halves = [data.slice(0, len(data) // 2), data.slice(len(data) // 2)]
    return write_rows(LocalExecutor(), halves, uri, operation, options)


def _write(way: str, uri: str, operation: str, data: pa.Table, index: str) -> hoodoo.Commit:
    if way == "tasks":
        return _in_tasks(uri, operation, data, _options(index))
    table = Table(uri, options=_options(index))
    return table.upsert(data) if operation == "upsert" else table.delete(data)


def _rows(uri: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in Table(uri).to_arrow(columns=["id", "part", "v"]).to_pylist())


def _key_of_a_late_log(uri: str, ordering: list[str] | None = None) -> None:
    """Key 1 is deleted, and written again while the compaction waits that carries the delete out."""
    table = Table.create(
        uri,
        SCHEMA,
        name="t",
        record_key="id",
        partition_by=["part"],
        table_type="MERGE_ON_READ",
        ordering=ordering,
        options=_options("SIMPLE"),
    )
    table.insert(_data((1, "a", 0), (2, "a", 0)))
    table.delete(_data((1, "a", 0)))
    table.schedule_compaction()
    table.upsert(_data((1, "a", 1)))
    table.compact()
    assert _rows(uri) == [(1, "a", 1), (2, "a", 0)]


def _logs_alone(uri: str) -> None:
    """A file group without base file, as writers make it whose index looks into logs."""
    # Log files that name no base file.
    options = _options("SIMPLE") | {"hoodie.write.record.positions": "false"}
    table = Table.create(
        uri,
        SCHEMA,
        name="t",
        record_key="id",
        partition_by=["part"],
        table_type="MERGE_ON_READ",
        options=options,
    )
    first = table.insert(_data((1, "a", 0), (2, "a", 0)))
    table.upsert(_data((1, "a", 1), (2, "a", 1)))
    for file in [*Path(uri, ".hoodie/timeline").glob(f"{first.instant}*"), *Path(uri, "a").glob("*.parquet")]:
        file.unlink()
    assert _rows(uri) == [(1, "a", 1), (2, "a", 1)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("index", INDEXES)
def test_a_key_of_a_late_log_is_updated_there(tmp_path: Path, index: str, way: str) -> None:
    for ordering in (None, ["v"]):
        uri = str(tmp_path / f"{ordering}")
        _key_of_a_late_log(uri, ordering)
        commit = _write(way, uri, "upsert", _data((1, "a", 2), (3, "a", 2)), index)
        assert (commit.updated, commit.inserted) == (1, 1)
        assert _rows(uri) == [(1, "a", 2), (2, "a", 0), (3, "a", 2)]
        assert not Table(uri).verify().problems
        Table(uri).compact()
        Table(uri, options=_options(index)).upsert(_data((1, "a", 3)))
        assert _rows(uri) == [(1, "a", 3), (2, "a", 0), (3, "a", 2)]
        assert not Table(uri).verify().problems


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("index", INDEXES)
def test_a_key_of_a_late_log_is_deleted(tmp_path: Path, index: str, way: str) -> None:
    uri = str(tmp_path / "t")
    _key_of_a_late_log(uri)
    assert _write(way, uri, "delete", _data((1, "a", 0)), index).deleted == 1
    assert _rows(uri) == [(2, "a", 0)]
    # It is in the log file as a delete now, and comes back once.
    _write(way, uri, "upsert", _data((1, "a", 5)), index)
    assert _rows(uri) == [(1, "a", 5), (2, "a", 0)]
    assert not Table(uri).verify().problems


def test_a_delete_that_names_no_partition_finds_it(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    _key_of_a_late_log(uri)
    Table(uri).delete([1])
    assert _rows(uri) == [(2, "a", 0)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [_key_of_a_late_log, _logs_alone])
def test_it_moves_to_another_partition(tmp_path: Path, way: str, make: Any) -> None:
    uri = str(tmp_path / "t")
    make(uri)
    _write(way, uri, "upsert", _data((1, "b", 7)), "GLOBAL_SIMPLE")
    assert [row for row in _rows(uri) if row[0] == 1] == [(1, "b", 7)]
    Table(uri).compact()
    assert [row for row in _rows(uri) if row[0] == 1] == [(1, "b", 7)]
    assert not Table(uri).verify().problems


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("index", INDEXES)
def test_a_file_group_of_logs_alone_is_written_to(tmp_path: Path, index: str, way: str) -> None:
    uri = str(tmp_path / "t")
    _logs_alone(uri)
    commit = _write(way, uri, "upsert", _data((1, "a", 2), (3, "a", 2)), index)
    assert (commit.updated, commit.inserted) == (1, 1)
    assert _rows(uri) == [(1, "a", 2), (2, "a", 1), (3, "a", 2)]
    assert _write(way, uri, "delete", _data((2, "a", 0)), index).deleted == 1
    assert _rows(uri) == [(1, "a", 2), (3, "a", 2)]
    Table(uri).compact()
    assert _rows(uri) == [(1, "a", 2), (3, "a", 2)]
    _write(way, uri, "upsert", _data((1, "a", 4)), index)
    assert _rows(uri) == [(1, "a", 4), (3, "a", 2)]
    assert not Table(uri).verify().problems


def test_ordinary_logs_are_not_read_by_an_upsert(tmp_path: Path) -> None:
    """An upsert into a file group whose log files were all written to its base file does not open them."""
    uri = str(tmp_path / "t")
    table = Table.create(
        uri,
        SCHEMA,
        name="t",
        record_key="id",
        partition_by=["part"],
        table_type="MERGE_ON_READ",
        options=_options("SIMPLE"),
    )
    table.insert(_data((1, "a", 0), (2, "a", 0)))
    table.upsert(_data((1, "a", 1)))
    [log] = Path(uri, "a").glob(".*.log.*")
    with log.open("r+b") as file:
        file.write(b"damaged")
    commit = table.upsert(_data((1, "a", 2), (3, "a", 2)))
    assert (commit.updated, commit.inserted) == (1, 1)


def test_verify_calls_a_key_in_two_rows_an_error(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    _logs_alone(uri)
    Table(uri).insert(_data((2, "a", 9)))
    report = Table(uri).verify()
    assert not report.ok
    assert [(p.severity, p.subject) for p in report.problems] == [("error", "partition 'a'")]
    assert "'2' in" in report.problems[0].message
