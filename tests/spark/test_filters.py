"""Filters in Spark's own forms: they give the rows that Spark gives, and skip files."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
import hoodoo.spark
from hoodoo.spark.filter_text import all_conditions_of_text, conditions_of_text
from hoodoo.spark.pruning import Pruned, Pruning
from hoodoo.spark.pushed_filters import conditions_of

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "part": pa.string(), "score": pa.float64()})


@pytest.fixture
def table(tmp_path: Path) -> hoodoo.Table:
    made = hoodoo.Table.create(str(tmp_path / "t"), SCHEMA, name="t", record_key="id", partition_by="part")
    made.insert([{"id": n, "name": f"n{n}", "part": f"p{n % 3}", "score": n / 2} for n in range(30)])
    return made


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id = 5", [("id", "=", 5)]),
        ("5 < `i d`", [("i d", ">", 5)]),
        ("((a = 'x') AND (b <=> -1.5D)) and c <> 2L", [("a", "=", "x"), ("b", "=", -1.5), ("c", "!=", 2)]),
        ("a IN (1, 2) AND b NOT IN ('x')", [("a", "in", [1, 2]), ("b", "not in", ["x"])]),
        ("a IS NULL AND b is not null", [("a", "is null", None), ("b", "is not null", None)]),
        ("a BETWEEN 1 AND 2 AND b = true", [("a", ">=", 1), ("a", "<=", 2), ("b", "=", True)]),
        ("day >= DATE '2024-01-31'", [("day", ">=", dt.date(2024, 1, 31))]),
    ],
)
def test_conditions_of_text(text: str, expected: list[Any]):
    assert conditions_of_text(text) == expected
    assert all_conditions_of_text(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1 OR b = 2", []),
        ("a = 1 AND (b = 2 OR c = 3)", [("a", "=", 1)]),
        ("a = 1 AND upper(b) = 'X' AND c LIKE 'x%'", [("a", "=", 1)]),
        ("NOT a = 1", []),
        ("a = b", []),
        ("a = 'it''s' AND b = 'x\\\\'y'", []),
        ("a + 1 = 2", []),
        ("a = 1 AND b IN (1, NULL)", [("a", "=", 1)]),
        ("a BETWEEN b AND 2 AND c = 1", [("c", "=", 1)]),
        ("a = 1)", []),
        ("a = DATE 'soon'", []),
    ],
)
def test_what_is_not_understood_prunes_nothing(text: str, expected: list[Any]):
    assert conditions_of_text(text) == expected
    with pytest.raises(hoodoo.InvalidOptionError, match="has parts that hoodoo does not know"):
        all_conditions_of_text(text)


def _pushed(name: str, attribute: Any = ("id",), **fields: Any) -> Any:
    """A filter of Spark, whose classes Spark 3.5 lacks."""
    given = {"attribute": attribute} if attribute else {}
    return type(name, (SimpleNamespace,), {})(**given, **fields)


@pytest.mark.parametrize(
    ("pushed", "expected"),
    [
        (_pushed("EqualTo", value=1), [("id", "=", 1)]),
        (_pushed("EqualNullSafe", value=None), [("id", "is null", None)]),
        (_pushed("In", value=(1, None)), [("id", "in", [1])]),
        (_pushed("StringStartsWith", value="ab"), [("id", ">=", "ab"), ("id", "<", "ac")]),
        (_pushed("StringStartsWith", value="a\ud7ff"), [("id", ">=", "a\ud7ff")]),
        (_pushed("StringStartsWith", value=""), [("id", "is not null", None)]),
        (_pushed("StringEndsWith", value="a"), []),
        (_pushed("EqualTo", attribute=("place", "x"), value=1), []),
        (_pushed("Not", None, child=_pushed("LessThan", value=1)), [("id", ">=", 1)]),
        (_pushed("Not", None, child=_pushed("In", value=(1, 2))), [("id", "not in", [1, 2])]),
        (_pushed("Not", None, child=_pushed("In", value=(1, None))), []),
        (_pushed("Not", None, child=_pushed("IsNull")), [("id", "is not null", None)]),
        (_pushed("Not", None, child=_pushed("EqualNullSafe", value=1)), []),
        (_pushed("Not", None, child=_pushed("StringStartsWith", value="a")), []),
    ],
)
def test_conditions_of_pushed_filters(pushed: Any, expected: list[Any]):
    assert conditions_of([pushed]) == expected


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        (("id", "=", 3), 1),
        (("id", "=", "x"), 30),
        (("no", "=", 3), 30),
        (("score", "<", 2.0), 4),
        (("score", "=", 0.0), 30),
        (("score", ">", 2.0), 30),
        (("score", "in", [1.0, float("nan")]), 30),
    ],
)
def test_pruning_leaves_out_what_spark_sees_differently(condition: Any, kept: int, table: hoodoo.Table):
    pruning = Pruning([condition])
    read = hoodoo.Table(table.uri)._native.read(None, pruning)
    assert read.num_rows == kept
    both = Pruned([("id", "<", 10)], pruning)
    assert hoodoo.Table(table.uri)._native.read(None, both).num_rows <= min(kept, 10)


def test_sql_and_columns(spark: Any, table: hoodoo.Table):
    from pyspark.sql.functions import col

    everything = hoodoo.spark.read(spark, table.uri)
    rows = [row.asDict() for row in everything.collect()]
    text = "part = 'p1' AND id > 5 AND (score < 9.5 OR upper(name) = 'N28')"
    column = (col("part") == "p1") & (col("id") > 5)
    p1 = [row for row in rows if row["part"] == "p1" and row["id"] > 5]
    some = [row["name"] for row in p1 if row["score"] < 9.5 or row["name"] == "n28"]
    read = hoodoo.spark.read(spark, table.uri, columns=["name"], filters=text)
    assert read.columns == ["name"]
    assert sorted(row.name for row in read.collect()) == sorted(some)
    read = hoodoo.spark.read(spark, table.uri, filters=column)
    assert read.columns == everything.columns
    assert sorted(row.id for row in read.collect()) == sorted(row["id"] for row in p1)
    assert 0 < len(some) < len(p1) < len(rows)


def test_sql_skips_files(spark: Any, table: hoodoo.Table):
    for path in Path(table.uri).rglob("*.parquet"):
        if "p1" not in path.parts and ".hoodie" not in path.parts:
            path.unlink()
    assert hoodoo.spark.read(spark, table.uri, filters="part = 'p1' AND length(name) > 1").count() == 10
    with pytest.raises(Exception, match="a file of the table is missing"):
        hoodoo.spark.read(spark, table.uri, filters="length(name) > 1").collect()


def test_an_empty_filter_is_refused(spark: Any, table: hoodoo.Table):
    with pytest.raises(hoodoo.InvalidOptionError, match="filters is an empty string"):
        hoodoo.spark.read(spark, table.uri, filters=" ")
