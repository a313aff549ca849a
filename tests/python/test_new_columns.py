"""Columns that a write adds to a table, in the statistics of the metadata table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodoo import Table
from hoodoo.distributed.write import write_rows
from tests.local_executor import LocalExecutor

OPTIONS = {"hoodie.parquet.small.file.limit": "0", "hoodie.compact.inline": "false"}
TYPES = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])


def _create(path: Path, table_type: str, **more: str) -> Table:
    columns = {"id": pa.string(), "ts": pa.int64(), "a": pa.int64(), "part": pa.string()}
    table = Table.create(
        path,
        columns,
        name="t",
        record_key="id",
        ordering="ts",
        partition_by="part",
        table_type=table_type,
        options={**OPTIONS, **more},
    )
    table.insert(_rows("a", "b"))
    return table


def _rows(*ids: str, **more: Any) -> pa.Table:
    count = len(ids)
    return pa.table({"id": ids, "ts": [1] * count, "a": [1] * count, "part": ["p"] * count, **more})


def _indexed(path: Path) -> list[str]:
    definitions = json.loads((path / ".hoodie" / ".index_defs" / "index.json").read_text())["indexDefinitions"]
    fields: list[str] = definitions["column_stats"]["sourceFields"]
    return fields


def _ranges(table: Table, column: str) -> list[tuple[Any, Any]]:
    found = table.metadata_table.to_arrow("column_stats").to_pylist()  # type: ignore[union-attr]
    return sorted((r["min_long"], r["max_long"]) for r in found if r["column_name"] == column)


@TYPES
@pytest.mark.parametrize("in_tasks", [False, True])
def test_it_gets_statistics(tmp_path: Path, table_type: str, in_tasks: bool) -> None:
    table = _create(tmp_path / "t", table_type)
    assert "c" not in _indexed(tmp_path / "t")
    added = _rows("c", c=pa.array([5], pa.int64()))
    if in_tasks:
        write_rows(LocalExecutor(2), [added], str(tmp_path / "t"), "insert", OPTIONS)
    else:
        table.insert(added)
    table = Table(tmp_path / "t", options=OPTIONS)
    assert _indexed(tmp_path / "t")[-1] == "c"
    assert _ranges(table, "c") == [(5, 5)]
    table.insert(_rows("d", c=pa.array([7], pa.int64())))
    table.upsert(_rows("a", c=pa.array([9], pa.int64())))
    assert {(5, 5), (7, 7)} <= set(_ranges(table, "c"))
    assert sorted(table.to_arrow(columns=["id"], filters=[("c", ">=", 7)])["id"].to_pylist()) == ["a", "d"]
    assert sorted(table.to_arrow(columns=["id"], filters=[("c", "is null")])["id"].to_pylist()) == ["b"]
    assert table.verify().ok


@TYPES
def test_one_of_update_schema_gets_statistics(tmp_path: Path, table_type: str) -> None:
    table = _create(tmp_path / "t", table_type)
    with table.update_schema() as update:
        update.add_column("c", pa.int64())
    table.insert(_rows("c", c=pa.array([5], pa.int64())))
    assert _indexed(tmp_path / "t")[-1] == "c"
    assert _ranges(table, "c") == [(5, 5)]
    # Under the new name older files have no statistics.
    with table.update_schema() as update:
        update.rename_column("c", "e")
    table.insert(_rows("d", e=pa.array([6], pa.int64())))
    assert "e" not in _indexed(tmp_path / "t")
    assert table.to_arrow(columns=["id"], filters=[("e", "=", 5)])["id"].to_pylist() == ["c"]


def test_a_list_that_somebody_chose_stays(tmp_path: Path) -> None:
    table = _create(tmp_path / "t", "COPY_ON_WRITE")
    table.index("column_stats", columns=["a"])
    chosen = _indexed(tmp_path / "t")
    assert "a" in chosen
    assert "ts" not in chosen
    table.insert(_rows("c", c=pa.array([5], pa.int64())))
    assert _indexed(tmp_path / "t") == chosen


@TYPES
def test_one_that_was_dropped_leaves_the_others_their_statistics(tmp_path: Path, table_type: str) -> None:
    table = _create(tmp_path / "t", table_type)
    with table.update_schema() as update:
        update.drop_column("a")
    table.insert(pa.table({"id": ["c"], "ts": [20], "part": ["p"]}))
    assert "a" not in _indexed(tmp_path / "t")
    assert (20, 20) in _ranges(table, "ts")
    table.index("column_stats")
    assert (20, 20) in _ranges(table, "ts")
    assert table.to_arrow(columns=["id"], filters=[("ts", "=", 20)])["id"].to_pylist() == ["c"]


def test_a_log_file_of_some_columns_may_have_any_value(tmp_path: Path) -> None:
    # Hudi makes the range of a partition of those of its files, and passes over rows of a file that has none.
    table = _create(tmp_path / "t", "MERGE_ON_READ")
    before = len(_ranges(table, "a"))
    table.upsert(pa.table({"id": ["a"], "ts": [9], "a": [100], "part": ["p"]}), partial=True)
    found = _ranges(table, "a")
    assert len(found) == before + 1
    assert (-(2**63), 2**63 - 1) in found
    assert table.to_arrow(columns=["id"], filters=[("a", "=", 100)])["id"].to_pylist() == ["a"]
