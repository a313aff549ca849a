"""Conditions and values in all their forms, without Spark. Beside Spark: tests/spark/test_expressions.py."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hoodoo.exceptions import HudiError, InvalidOptionError, SchemaError, UnsupportedError
from hoodoo.statements.coercion import store
from hoodoo.statements.evaluate import Scope, evaluate, mask_of
from hoodoo.statements.forms import parse_condition
from hoodoo.statements.pushdown import scan_filter
from hoodoo.statements.sql import parse_sql
from tests.expression_cases import CONDITIONS, REFUSED, ROWS, VALUES

TRUTH = [True, False, None]


def _batch(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(columns)


@pytest.mark.parametrize("name", ["and", "or"])
def test_three_valued_logic(name: str):
    pairs = [(x, y) for x in TRUTH for y in TRUTH]
    scope = Scope.of_batch(_batch(x=[x for x, _ in pairs], y=[y for _, y in pairs], n=[1] * 9))
    expected = {
        "and": [False if False in pair else None if None in pair else True for pair in pairs],
        "or": [True if True in pair else None if None in pair else False for pair in pairs],
    }[name]
    assert evaluate(parse_sql(f"x {name} y"), scope).to_pylist() == expected
    # The right side is not looked at where the left one decides: another way through the code, with the same result.
    assert evaluate(parse_sql(f"x {name} (y and n + 1 > 0)"), scope).to_pylist() == expected


FORMS = [
    "fare > 10 and city = 'sf'",
    (pc.field("fare") > 10) & (pc.field("city") == "sf"),
    (pl.col("fare") > 10) & (pl.col("city") == "sf"),
    [("fare", ">", 10), ("city", "=", "sf")],
    [[("fare", ">", 10), ("city", "=", "sf")], [("fare", "=", -1)]],
    [("fare", ">", 10), ("city", "in", ["sf"])],
    "FARE > 10 AND City IN ('sf')",
]


@pytest.mark.parametrize("form", FORMS, ids=range(len(FORMS)))
def test_every_form_of_a_condition(form: Any):
    scope = Scope.of_batch(_batch(fare=[5.0, 15.0, 15.0, None, 15.0], city=["sf", "sf", "la", "sf", None]))
    assert mask_of(parse_condition(form), scope).to_pylist() == [False, True, False, False, False]


def test_other_libraries_see_the_two_inputs_of_a_merge():
    scope = Scope.of_batch(_batch(id=[1, 2], n=[5, 5])).with_side(Scope.of_batch(_batch(id=[1, 1], m=[9, 1]), "source"))
    for form in (
        (pc.field("target.id") == pc.field("source.id")) & (pc.field("m") > pc.field("n")),
        (pl.col("target.id") == pl.col("source.id")) & (pl.col("m") > pl.col("n")),
    ):
        assert mask_of(parse_condition(form), scope).to_pylist() == [True, False]


@pytest.mark.parametrize(
    "form", [pl.col("n").sum() > 1, pl.col("n").shift() > 0, pl.col("n").rank() > 1, pc.field("zzz") > 1, pl.col("zzz")]
)
def test_expressions_of_several_rows_or_missing_columns_are_refused(form: Any):
    scope = Scope.of_batch(_batch(n=[3, 1, 2, 0]))
    with pytest.raises(SchemaError):
        mask_of(parse_condition(form), scope)


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_not_supported_is_refused_by_name(sql: str):
    scope = Scope.of_batch(ROWS.combine_chunks().to_batches()[0])
    with pytest.raises(UnsupportedError, match="not supported"):
        evaluate(parse_sql(sql), scope)


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("a + s > 1", "Cast one of them"),
        ("s = 1", "Cast one of them"),
        ("zzz = 1", "Columns: a, b"),
        ("a", "not a condition"),
        ("a / 0 > 1", "nullif"),
        ("cast(s as int) = 1", "does not fit"),
        ("a + 9223372036854775807 > 0", "larger type"),
        ("d = 'no date'", "does not fit"),
    ],
)
def test_what_is_wrong_is_said(sql: str, named: str):
    scope = Scope.of_batch(ROWS.combine_chunks().to_batches()[0])
    with pytest.raises(SchemaError, match=named):
        mask_of(parse_sql(sql), scope)


@pytest.mark.parametrize("sql", ["a =", "", "select", "a = 1; b = 2", "(a", "case when a then", "'open"])
def test_what_is_no_sql_is_refused(sql: str):
    with pytest.raises(HudiError):
        parse_condition(sql)


@pytest.mark.parametrize("sql", CONDITIONS)
def test_a_filter_of_a_scan_keeps_every_row_that_is_true(sql: str):
    """A filter that is pushed down may keep rows for which the condition is not true, never lose one."""
    condition = parse_sql(sql)
    batch = ROWS.combine_chunks().to_batches()[0]
    wanted = mask_of(condition, Scope.of_batch(batch)).to_pylist()
    convert = scan_filter([condition])
    kept = [True] * batch.num_rows if convert is None else _naive(convert(batch.schema), batch)
    assert all(k for k, w in zip(kept, wanted, strict=True) if w)


def test_filters_are_pushed_down():
    schema = ROWS.schema
    for sql, names in {
        "a = 1 and f < 2": ["=", "<"],
        "a in (1, 2) and s is not null": ["in", "is_not_null"],
        "2 < a": [">"],
        "f > 1": [],
        "a = 1.5": [],
        "d = '2024-01-31'": ["="],
        "a + 1 = 2": [],
        "a = 1 or b = 2": ["or"],
        "a = 1 or f > 2": [],
    }.items():
        convert = scan_filter([parse_sql(sql)])
        assert [] if convert is None else [part[0] for part in convert(schema)[1]] == names, sql


def _naive(native: Any, batch: pa.RecordBatch) -> list[bool]:
    """A filter of the core, by Arrow's comparisons: NaN compares with nothing."""
    name, first, *rest = native
    if name in {"and", "or"}:
        parts = [_naive(part, batch) for part in first]
        join = all if name == "and" else any
        return [join(row) for row in zip(*parts, strict=True)] if parts else [True] * batch.num_rows
    column = batch.column(first)
    if name in {"is_null", "is_not_null"}:
        return [v.is_valid == (name == "is_not_null") for v in column]
    functions = {"=": pc.equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
    found = pc.is_in(column, value_set=rest[0]) if name == "in" else functions[name](column, rest[0][0])
    return [bool(v) for v in pc.fill_null(found, False).to_pylist()]


@pytest.mark.parametrize(
    ("value", "field", "expected"),
    [
        (pa.scalar(1.9), pa.field("n", pa.int32()), 1),
        (pa.scalar(7), pa.field("n", pa.float64()), 7.0),
        (pa.scalar("2024-01-31"), pa.field("n", pa.date32()), dt.date(2024, 1, 31)),
        (pa.scalar(7), pa.field("n", pa.string()), "7"),
        (pa.scalar(None), pa.field("n", pa.list_(pa.int64())), None),
    ],
)
def test_values_are_stored_in_the_type_of_their_column(value: Any, field: pa.Field, expected: Any):
    assert store(value, field, 2).to_pylist() == [expected, expected]


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (pa.array(["1"]), pa.field("n", pa.int64())),
        (pa.scalar(1 << 40), pa.field("n", pa.int32())),
        (pa.scalar(None), pa.field("n", pa.int32(), nullable=False)),
        (pa.scalar(True), pa.field("n", pa.int32())),
        (pa.scalar(1.5), pa.field("n", pa.string())),
    ],
)
def test_values_that_do_not_fit_their_column_are_refused(value: Any, field: pa.Field):
    with pytest.raises(HudiError, match=r"'n'|`n`"):
        store(value, field, 1)


@pytest.mark.parametrize("sql", VALUES)
def test_no_rows_have_no_values_and_a_type(sql: str):
    value = evaluate(parse_sql(sql), Scope.of_schema(ROWS.schema))
    assert isinstance(value, pa.Scalar) or len(value) == 0


def test_an_empty_list_is_no_condition():
    with pytest.raises(InvalidOptionError, match="True"):
        parse_condition([])


def test_statements_load_no_optional_package():
    optional = ("pandas", "polars", "pyspark", "sqlglot", "duckdb")
    code = f"import sys, hoodoo; print([name for name in {optional!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
