"""A DataFrame's declared types do not widen a table; a value that does not fit does, and never silently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
import hoodoo.spark

SCHEMA = pa.schema({"id": pa.string(), "n": pa.int32(), "m": pa.int32()})


@pytest.fixture
def table(tmp_path: Path) -> hoodoo.Table:
    table = hoodoo.Table.create(str(tmp_path / "t"), SCHEMA, name="t", record_key="id")
    table.insert({"id": ["a", "b"], "n": [1, 2], "m": [1, 2]})
    return table


def test_long_values_that_fit_stay_ints(spark: Any, table: hoodoo.Table):
    rows = spark.sql("select 'a' as id, 10L as n, 10L as m")
    commit = hoodoo.spark.write(rows, table.uri, "upsert", schema_evolution="refuse")
    assert (commit.updated, commit.schema_changes) == (1, ())
    assert table.schema == SCHEMA
    assert sorted(table.to_arrow(columns=["n"])["n"].to_pylist()) == [2, 10]


def test_a_value_that_does_not_fit_widens_its_column_alone(spark: Any, table: hoodoo.Table):
    rows = spark.sql("select concat('k', id) as id, id * 1048576L as n, id as m from range(0, 4000, 1, 4)")
    with pytest.raises(hoodoo.SchemaError, match="column 'n'"):
        hoodoo.spark.write(rows, table.uri, "upsert", schema_evolution="refuse")
    assert table.to_arrow().num_rows == 2
    with pytest.warns(hoodoo.HudiWarning, match="n: int32 → int64"):
        commit = hoodoo.spark.write(rows, table.uri, "upsert")
    assert commit.schema_changes == (hoodoo.SchemaChange("n", "int32", "int64"),)
    read = table.to_arrow(columns=["n", "m"])
    assert (read.num_rows, read.schema.types) == (4002, [pa.int64(), pa.int32()])
    assert max(read["n"].to_pylist()) == 3999 << 20
    assert table.verify().ok


def test_a_new_column_is_told(spark: Any, table: hoodoo.Table):
    rows = spark.sql("select 'a' as id, 1 as n, 1 as m, nullif(1.5D, 0D) as w")
    with pytest.raises(hoodoo.SchemaError, match="'w' is new"):
        hoodoo.spark.write(rows, table.uri, "upsert", schema_evolution="refuse")
    with pytest.warns(hoodoo.HudiWarning, match="w: new → double"):
        hoodoo.spark.write(rows, table.uri, "upsert")
