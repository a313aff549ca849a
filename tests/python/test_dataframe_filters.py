"""Filters of other libraries on a table match the rows that they match in memory, and skip files that have none."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodoo import CorruptFileError, Table
from hoodoo.expressions import columns_of
from hoodoo.polars_filter import pruning_of
from hoodoo.substrait import SubstraitFilter
from tests.dataframes import KINDS, SCHEMA, make_table

f, c = pc.field, pl.col
DAY, AT = dt.date(2024, 1, 20), dt.datetime(2024, 1, 5, 3, tzinfo=dt.timezone.utc)
PRICE, NAN = decimal.Decimal("12.50"), math.nan


@pytest.fixture(scope="module", params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    return make_table(tmp_path_factory.mktemp("tables"), request.param)


@cache
def in_memory(uri: str) -> pa.Table:
    return Table(uri).to_arrow()


LEAVES: dict[str, pc.Expression] = {
    "integer": f("id") > 100,
    "equal": f("small") == 7,
    "not equal": f("small") != 7,
    "literal first": pc.scalar(20) >= f("small"),
    "partition": f("part") == "p1",
    "string": f("name") < "name 05",
    "strings": f("name").isin(["name 03", "name 04", "nobody"]),
    "not one of strings": ~f("name").isin(["name 03", "name 04", "nobody"]),
    "neither": ~(f("name").isin(["name 03"]) | f("id").isin([3])),
    "with null": f("name").isin(["name 03", None]),
    "none of": ~f("name").isin(["name 03", None]),
    "one of integers": f("id").isin([3, 50, 10_000]),
    "nothing": f("id").isin([]),
    "double": f("score") > 1.5,
    "at most": f("score") <= 1.5,
    "not more": ~(f("score") > 1.5),
    "zero": f("score") == 0.0,
    "negative zero": f("score") >= -0.0,
    "NaN": f("score") != NAN,
    "is NaN": pc.is_nan(f("score")),
    "null or NaN": f("score").is_null(nan_is_null=True),
    "date": f("day") >= DAY,
    "timestamp": f("at") < AT,
    "timestamp of seconds": f("at") >= pa.scalar(AT, pa.timestamp("s", "UTC")),
    "decimal": f("price") > PRICE,
    "decimal of a shorter scale": f("price") == pa.scalar(decimal.Decimal(5), pa.decimal128(12, 2)),
    "boolean": f("flag"),
    "not a boolean": ~f("flag"),
    "boolean equal": f("flag") == False,  # noqa: E712
    "binary": f("raw") >= b"2",
    "null": f("day").is_null(),
    "valid": f("inner").is_valid(),
    "null field": f("inner", "x").is_null(),
    "nested": f("inner", "x") > 50,
    "starts with": pc.starts_with(f("name"), "name 1"),
    "two columns": f("small") < f("id"),
    "arithmetic": (f("id") + 1) > 100,
    "cast": f("small") > 2.5,
    "never null": f("small") == pa.scalar(None, pa.int32()),
    "if": pc.if_else(f("name").is_valid(), f("name").isin(["name 03"]), pa.scalar(None, pa.bool_())),
    "if not": ~pc.if_else(f("small").is_valid(), f("small") > 3, pa.scalar(None, pa.bool_())),
    "otherwise": pc.if_else(f("small") > 3, f("flag"), f("day").is_valid()),
    "a list": pc.list_value_length(f("tags")) > 0,
    "always": pc.scalar(True),
    "by number": pc.field(5) > 100,
}
# What only pyarrow applies. Everything else prunes.
NOT_PRUNED = {
    *("with null", "none of", "nothing", "NaN", "is NaN", "null or NaN", "not more", "valid", "null field", "nested"),
    *("starts with", "two columns", "arithmetic", "cast", "never null", "otherwise", "a list", "always", "by number"),
}


def check(table: Table, expression: pc.Expression) -> None:
    """The rows of a filter, in columns that the filter does not name."""
    read = table.to_dataset().to_table(columns=["id", "raw", "tags"], filter=expression)
    assert read == ds.dataset(in_memory(table.uri)).to_table(columns=["id", "raw", "tags"], filter=expression), (
        expression
    )


def test_filters_of_pyarrow(table: Table):
    dataset, full = table.to_dataset(), ds.dataset(in_memory(table.uri))
    for name, expression in LEAVES.items():
        check(table, expression)
        assert (columns_of(expression, dataset.schema)[1] is None) == (name in NOT_PRUNED), name
        count = full.count_rows(filter=expression)
        assert dataset.count_rows(expression) == count, name
        assert sum(part.count_rows(filter=expression) for part in dataset.get_fragments(expression)) == count, name


def trees(leaves: list[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.sampled_from(leaves),
        lambda parts: st.one_of(
            st.tuples(parts, parts).map(lambda pair: pair[0] & pair[1]),
            st.tuples(parts, parts).map(lambda pair: pair[0] | pair[1]),
            parts.map(lambda part: ~part),
        ),
        max_leaves=6,
    )


@settings(max_examples=12)
@given(trees(list(LEAVES.values())))
def test_any_filter_of_pyarrow(table: Table, expression: pc.Expression):
    check(table, expression)


@pytest.mark.slow
@settings(max_examples=400)
@given(trees(list(LEAVES.values())))
def test_many_filters_of_pyarrow(table: Table, expression: pc.Expression):
    check(table, expression)


def test_the_columns_of_an_expression():
    def columns(expression: pc.Expression) -> set[str] | None:
        return columns_of(expression, SCHEMA)[0]

    assert columns((f("id") > 1) & f("inner", "x").is_null()) == {"id", "inner"}
    assert columns(pc.if_else(f("flag"), f("small"), f("id").cast("int32")) > 3) == {"flag", "small", "id"}
    # No function of Substrait, and a cast that it does not have.
    assert columns(pc.utf8_swapcase(f("name")) == "x") == {"name"}
    assert columns(f("small") > 2.5) == {"small"}
    assert columns(pc.scalar(True)) == set()
    # By number, also where there is a name or no function of Substrait: any column may be meant.
    assert columns(pc.field(0) > 1) is None
    assert columns((f("id") > 1) & (pc.field(2) > 1)) is None
    assert columns((f("id") > 1) & (pc.field(2) > 2.5)) is None


def test_a_literal_that_no_type_of_the_core_has_prunes_nothing():
    schema = pa.schema({"u": pa.uint8(), "n": pa.int64()})
    assert SubstraitFilter(f("u") == pa.scalar(200, pa.uint8()), schema).pruning() is None
    condition = (f("u") == pa.scalar(200, pa.uint8())) & (f("n") > 3)
    found = SubstraitFilter(condition, schema).pruning()
    assert found is not None
    assert [part[:2] for part in found[1]] == [(">", "n")]


POLARS: dict[str, pl.Expr] = {
    "integer": c("id") > 100,
    "not equal": c("small") != 7,
    "or": (c("small") == 7) | (c("name") == "name 03"),
    "xor": (c("small") > 7) ^ (c("name") > "name 03"),
    "strings": c("name").is_in(["name 03", "name 04"]),
    "with null": c("name").is_in(["name 03", None]),
    "with null, equal": c("name").is_in(["name 03", None], nulls_equal=True),
    "none of": ~c("name").is_in(["name 03", "name 04"]),
    "double": c("score") > 1.5,
    "less": c("score") < 1.5,
    "zero": c("score") == 0.0,
    "NaN": c("score") == NAN,
    "infinite": c("score") > math.inf,
    "between": c("small").is_between(3, 9, closed="left"),
    "date": c("day") >= DAY,
    "timestamp": c("at") < AT,
    "decimal": c("price") > PRICE,
    "boolean": c("flag"),
    "not a boolean": ~c("flag"),
    "binary": c("raw") >= b"2",
    "null": c("day").is_null(),
    "not null": c("day").is_not_null(),
    "missing": c("small").eq_missing(None),
    "starts with": c("name").str.starts_with("name 1"),
    "nested": c("inner").struct.field("x") > 50,
    "two columns": c("small") < c("id"),
    "cast": c("small") > 2.5,
}


def check_polars(table: Table, expression: pl.Expr, engine: str = "in-memory") -> None:
    read = table.to_polars().filter(expression).select("id", "day").collect(engine=engine)
    assert read.equals(pl.DataFrame(in_memory(table.uri)).filter(expression).select("id", "day")), expression


@pytest.mark.filterwarnings("ignore::polars.exceptions.PolarsInefficientMapWarning")
def test_filters_of_polars(table: Table):
    everything = [*POLARS.values(), c("id").map_elements(lambda n: n % 2 == 0, return_dtype=pl.Boolean)]
    for number, expression in enumerate(everything):
        check_polars(table, expression, ("in-memory", "streaming")[number % 2])


@settings(max_examples=12)
@given(trees(list(POLARS.values())))
def test_any_filter_of_polars(table: Table, expression: pl.Expr):
    check_polars(table, expression)


@pytest.mark.slow
@settings(max_examples=400)
@given(trees(list(POLARS.values())))
def test_many_filters_of_polars(table: Table, expression: pl.Expr):
    check_polars(table, expression)


def test_what_polars_prunes_by():
    pruned = {name for name, expression in POLARS.items() if pruning_of(expression, SCHEMA) is not None}
    left = {"xor", "with null", "with null, equal", "none of", "NaN", "missing", "starts with", "nested", "two columns"}
    assert pruned == set(POLARS) - left - {"infinite", "cast"}


def test_polars_reads_as_many_rows_as_it_needs(table: Table):
    full = pl.DataFrame(in_memory(table.uri))
    assert table.to_polars().head(7).collect().equals(full.head(7))
    few = table.to_polars().filter(c("small") > 3).select("id").head(7)
    assert few.collect().equals(full.filter(c("small") > 3).select("id").head(7))
    assert table.to_polars().select(pl.len()).collect().item() == full.height
    assert (
        table.to_polars().filter(c("small") > 3).select(pl.len()).collect().item() == full.filter(c("small") > 3).height
    )


SQL = [
    "id > 100",
    "small = 7 or name = 'name 03'",
    "name in ('name 03', 'name 04')",
    "name not in ('name 03', 'name 04')",
    "name like 'name 1%'",
    "day >= date '2024-01-20' and day < date '2024-02-20'",
    "price > 12.50",
    "score <= 1.5",
    "day is null or flag",
    "small is not null and not flag",
    "part = 'p1' and id between 50 and 150",
]


def test_filters_of_sql(table: Table):
    dataset, memory, context = table.to_dataset(), in_memory(table.uri), datafusion.SessionContext()
    context.register_dataset("dataset", dataset)
    for condition in SQL:
        query = f"select id, raw from dataset where {condition} order by id"
        expected = duckdb.sql(query.replace("dataset", "memory")).fetchall()
        assert memory.num_rows > len(expected) > 0, condition
        assert duckdb.sql(query).fetchall() == expected, condition
        assert [tuple(row.values()) for row in context.sql(query).to_pylist()] == expected, condition


def sql(dataset: ds.Dataset, condition: str) -> int:  # noqa: ARG001 - DuckDB finds it by its name
    (count,) = duckdb.sql(f"select count(*) from dataset where {condition}").fetchall()[0]
    return int(count)


def datafusion_sql(dataset: ds.Dataset, condition: str) -> int:
    context = datafusion.SessionContext()
    context.register_dataset("dataset", dataset)
    return len(context.sql(f"select id from dataset where {condition}").to_pylist())


READERS: dict[str, Callable[[Table], int]] = {
    "dataset": lambda t: int(t.to_dataset().count_rows((f("part") == "p1") & (f("id") < 80))),
    "filtered dataset": lambda t: int(t.to_dataset().filter(f("part") == "p1").count_rows(f("id") < 80)),
    "fragments": lambda t: sum(
        fragment.count_rows(filter=f("id") < 80)
        for fragment in t.to_dataset().get_fragments((f("part") == "p1") & (f("id") < 80))
    ),
    "polars": lambda t: t.to_polars().filter(c("part") == "p1", c("id") < 80).collect().height,
    "polars by the dataset": lambda t: (
        pl.scan_pyarrow_dataset(t.to_dataset()).filter((c("part") == "p1") & (c("id") < 80)).collect().height
    ),
    "DuckDB": lambda t: sql(t.to_dataset(), "part = 'p1' and id < 80"),
    "DataFusion": lambda t: datafusion_sql(t.to_dataset(), "part = 'p1' and id < 80"),
}


@pytest.mark.parametrize("kind", ["copy-on-write", "merge-on-read"])
def test_files_without_matching_rows_are_not_opened(tmp_path: Path, kind: str):
    table = make_table(tmp_path, kind)
    expected = table.to_arrow(filters=[("part", "=", "p1"), ("id", "<", 80)]).num_rows
    needed = [s for s in table.file_slices("p1") if s.base_file is not None]
    read = next(s for s in needed if 1 in table_ids(table, str(s.base_file)))
    for file in Path(table.uri).glob("p*/*.parquet"):
        # Of the partition, only the file whose ids are below 80; log files of a slice that is not read stay unread too.
        if file.relative_to(table.uri).as_posix() != read.base_file:
            file.unlink()
    for name, reader in READERS.items():
        assert reader(table) == expected > 0, name
    with pytest.raises(CorruptFileError):
        table.to_dataset().count_rows(f("inner", "x") > 3)


def table_ids(table: Table, file: str) -> list[int]:
    ids: list[int] = ds.dataset(Path(table.uri) / file).to_table(columns=["id"])["id"].to_pylist()
    return ids
