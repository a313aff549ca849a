"""Filters in Spark's own forms: they give the rows that Spark gives, and skip files."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
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
from hoodoo.spark.row_filters import pruning_of

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
        ("a IS NULL AND b is not null", [("a", "is null"), ("b", "is not null")]),
        ("a BETWEEN 1 AND 2 AND b = true", [("a", ">=", 1), ("a", "<=", 2), ("b", "=", True)]),
        ("day >= DATE '2024-01-31'", [("day", ">=", dt.date(2024, 1, 31))]),
        ("a < 5D AND b = 0.1F AND c > 1e3", [("a", "<", 5.0), ("b", "=", 0.10000000149011612), ("c", ">", 1000.0)]),
        ("a = 0.10 AND b = 7BD", [("a", "=", Decimal("0.10")), ("b", "=", Decimal(7))]),
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
        ("a = 1e300F", []),
        # What looks like a condition, and is a part of a string, of a comment or of a branch.
        ("a = 'x'' AND b = 2 AND c = ''y'", []),
        ("a = 'x\\' AND b = 2 AND c = \\'y' AND d = 3", [("d", "=", 3)]),
        ("a = r'x\\' AND b = 2", [("b", "=", 2)]),
        ("a = `x`` AND b = 2 AND c = ``y`", []),
        ("a = 'x AND b = 2", []),
        ("a > 0 -- AND b = 2 AND c = 3", []),
        ("a > 0 /* AND b = 2 AND c = 3 */", []),
        ("CASE WHEN a = 1 AND b = 2 AND c = 3 THEN false ELSE true END", []),
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
        (_pushed("EqualNullSafe", value=None), [("id", "is null")]),
        (_pushed("In", value=(1, None)), [("id", "in", [1])]),
        (_pushed("StringStartsWith", value="ab"), [("id", ">=", "ab"), ("id", "<", "ac")]),
        (_pushed("StringStartsWith", value="a\ud7ff"), [("id", ">=", "a\ud7ff")]),
        (_pushed("StringStartsWith", value=""), [("id", "is not null")]),
        (_pushed("StringEndsWith", value="a"), []),
        (_pushed("EqualTo", attribute=("place", "x"), value=1), []),
        (_pushed("Not", None, child=_pushed("LessThan", value=1)), [("id", ">=", 1)]),
        (_pushed("Not", None, child=_pushed("In", value=(1, 2))), [("id", "not in", [1, 2])]),
        (_pushed("Not", None, child=_pushed("In", value=(1, None))), []),
        (_pushed("Not", None, child=_pushed("IsNull")), [("id", "is not null")]),
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


VALUES = pa.schema(
    {
        "id": pa.int64(),
        "small": pa.int32(),
        "big": pa.int64(),
        "single": pa.float32(),
        "double": pa.float64(),
        "price": pa.decimal128(10, 2),
        "day": pa.date32(),
        "at": pa.timestamp("ms", "UTC"),
        "local": pa.timestamp("us"),
        "name": pa.string(),
        "raw": pa.binary(),
    }
)


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> hoodoo.Table:
    made = hoodoo.Table.create(
        str(tmp_path_factory.mktemp("values") / "t"),
        VALUES,
        name="t",
        record_key="id",
        options={"hoodie.parquet.small.file.limit": "0"},
    )
    time = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    columns: dict[str, list[Any]] = {
        "small": [-1, 0, 1, 2, 2**31 - 1, None, 5],
        "big": [-1, 0, 2**53, 2**53 + 1, 2**63 - 1, None, 5],
        "single": [-0.0, 0.0, 0.1, 0.7, 2.0**24, None, math.nan],
        "double": [-0.0, 0.0, 0.1, 0.7, 2.0**53, None, math.nan],
        "price": [Decimal(one) for one in ("-0.01", "0.00", "0.50", "0.70", "99.99", "7.00")] + [None],
        "day": [dt.date(2023, 12, 31 - n) if n > 2 else dt.date(2024, 1, 1 + n) for n in range(6)] + [None],
        "at": [time + dt.timedelta(hours=n, milliseconds=n) for n in range(-3, 3)] + [None],
        "name": ["1", "a", "ab", "0.5", "2024-01-01", "", None],
        "raw": [b"1", b"a", b"ab", b"", b"\xff", b"x", None],
    }
    columns["local"] = [one and one.replace(tzinfo=None) for one in columns["at"]]
    rows = [{"id": n, **{name: given[n] for name, given in columns.items()}} for n in range(7)]
    for first in range(0, 7, 2):
        made.insert(pa.Table.from_pylist(rows[first : first + 2], VALUES))
    return made


TEXTS = [
    *("small < 0.5", "small > -0.5", "small < 0.5D", "small = 0.5", "small <= -0.5", "small != 0.5", "small = 1.0"),
    *("small IN (0.5, 1)", "small NOT IN (0.5, 1)", "small BETWEEN -0.5 AND 0.5", "small < 3000000000", "small < 0.5F"),
    *("small > '0.5'", "small = true", "small < 1e300", "big = 9007199254740992D", "big >= 9007199254740993D"),
    *("big IN (9007199254740993, 0.5D)", "big < 9007199254740992.5", "big = 9007199254740992F", "big < 1e19"),
    *("single < 0.7", "single <= 0.7", "single = 0.7", "single = 0.7F", "single IN (0.1F, 0.7F)", "single < 0.7D"),
    *("single >= 0.1", "single = 16777217", "single <= 16777217", "single < 1e300", "single = 0", "single <= -0.0"),
    *("double < 0.7", "double = 0.1", "double IN (0.1, 0.7BD)", "double = 9007199254740993", "double != 0.1"),
    *(
        "price < 0.505",
        "price = 0.5",
        "price = 0.5D",
        "price > 0.1F",
        "price IN (0.5, 7)",
        "price = 7",
        "price <= -0.001",
    ),
    *("day < '2024-01-01'", "day < '2024-01-01 05:00:00'", "day < TIMESTAMP '2024-01-01 05:00:00'"),
    *("day <= DATE '2024-01-01'", "day NOT IN (DATE '2024-01-01')", "at >= DATE '2024-01-01'", "at = '2024-01-01'"),
    *("at < TIMESTAMP '2024-01-01 00:00:00.0005'", "at > '2023-12-31 23:00:00'", "local < DATE '2024-01-01'"),
    *("name = 1", "name > 0", "name = 0.5", "name >= DATE '2024-01-01'", "name < 'ab'", "raw = 'a'", "raw >= X'61'"),
    *("name IS NULL", "day IS NULL AND price IS NULL", "single IS NOT NULL", "name IS NOT NULL AND small < 0.5"),
    *("small <=> NULL", "CASE WHEN small = 1 AND big = 0 AND id = 9 THEN false ELSE true END"),
    *("id >= 0 -- AND id = 1 AND id = 2", "name != 'x\\' AND id = 1 AND name = \\'y'"),
]


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
@pytest.mark.parametrize("each", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_sql_with_values_that_do_not_fit_loses_no_row(
    spark: Any, values: hoodoo.Table, zone: str, each: int, settings: Callable[[str, str], None]
):
    """Pruning by a filter keeps its rows; of every so many filters, Spark reads them too."""
    settings("spark.sql.session.timeZone", zone)
    # Not a cached one, of which Spark itself skips what has NaN.
    read = hoodoo.spark.read(spark, values.uri)
    everything = spark.createDataFrame(read.collect(), read.schema)

    def filtered(text: str) -> Any:
        return hoodoo.spark.read(spark, values.uri, columns=["id"], filters=text)

    texts = TEXTS if zone == "UTC" else [text for text in TEXTS if text.startswith(("day", "at", "local"))]
    expected = _ids_of_all(everything, texts)
    for text in texts:
        pruning = pruning_of(text, spark)
        assert pruning is not None
        kept = pa.table(values._native.read(["id"], pruning))["id"].to_pylist()
        assert expected[text] == "refused" or set(expected[text]) <= set(kept), text
    for text in texts[::each]:
        assert _ids(filtered, text) == expected[text], text


def _ids_of_all(everything: Any, texts: list[str]) -> dict[str, list[int] | str]:
    """The rows of each filter, in one job where Spark refuses none of them while it runs."""
    from pyspark.sql.functions import expr

    compared = [text for text in texts if _is_compared(everything, text)]
    try:
        rows = everything.select("id", *(expr(text).alias(f"is {at}") for at, text in enumerate(compared))).collect()
    except Exception:  # noqa: BLE001
        return {text: _ids(everything.where, text) for text in texts}
    kept = {text: sorted(row.id for row in rows if row[f"is {at}"]) for at, text in enumerate(compared)}
    return {text: kept.get(text, "refused") for text in texts}


def _is_compared(everything: Any, text: str) -> bool:
    """Whether Spark compares such values at all."""
    try:
        return everything.where(text).schema is not None
    except Exception:  # noqa: BLE001
        return False


def _ids(read: Callable[[str], Any], text: str) -> list[int] | str:
    """The rows of a filter; what Spark does not compare, it compares nowhere."""
    try:
        return sorted(row.id for row in read(text).select("id").collect())
    except Exception as error:
        if isinstance(error, hoodoo.HudiError) or "hoodoo.exceptions" in str(error):
            raise
        return "refused"


def test_pruning_by_values_that_do_not_fit(values: hoodoo.Table):
    """What is certain skips, and nothing that Spark may keep."""

    def kept(*conditions: Any) -> list[int]:
        read = values._native.read(["id"], Pruning(list(conditions)))
        return sorted(pa.table(read)["id"].to_pylist())

    assert kept(("small", "<", Decimal("0.5"))) == kept(("small", "<", 0.5)) == [0, 1]
    assert kept(("small", "in", [Decimal("0.5"), 1])) == [2]
    assert kept(("price", "<", Decimal("0.005"))) == [0, 1]
    assert kept(("day", "<=", dt.date(2024, 1, 1))) == [0, 3, 4, 5]
    assert kept(("single", "<", 0.7)) == [0, 1, 2, 3]
    assert kept(("name", "is null"), ("price", "is null")) == [6]
    for condition in (
        *(("big", "=", 2.0**53), ("big", "in", [2**53 + 1, 0.5]), ("single", "=", 2**24 + 1), ("small", "=", True)),
        *(("day", "<", dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)), ("at", ">=", dt.date(2024, 1, 1))),
        *(("at", "<", dt.datetime(2024, 1, 1)), ("price", "=", 0.5), ("small", "=", Decimal("1E-19"))),  # noqa: DTZ001
        *(("name", "=", 1), ("name", "=", b"a"), ("raw", "=", "a"), ("small", "=", 10**400), ("day", "=", 1)),
    ):
        assert len(kept(condition)) == 7, condition


@pytest.mark.parametrize("form", ["SQL", "Column", "tuple"])
def test_is_null_and_is_not_null(spark: Any, values: hoodoo.Table, form: str):
    from pyspark.sql.functions import col

    forms: dict[str, list[Any]] = {
        "SQL": ["name IS NULL", "name IS NOT NULL"],
        "Column": [col("name").isNull(), col("name").isNotNull()],
        "tuple": [[("name", "is null")], [("name", "is not null")]],
    }
    null, valid = (hoodoo.spark.read(spark, values.uri, columns=["id"], filters=one) for one in forms[form])
    assert sorted(row.id for row in null.collect()) == [6]
    assert sorted(row.id for row in valid.collect()) == list(range(6))


def test_columns_with_values_that_do_not_fit(spark: Any, values: hoodoo.Table):
    from pyspark.sql.functions import col, lit

    everything = hoodoo.spark.read(spark, values.uri)
    for column in (
        *(
            col("small") < 0.5,
            col("small") > -0.5,
            col("small").isin(0.5, 1),
            col("single") < 0.7,
            col("big") == 2.0**53,
        ),
        *(
            col("day") < lit("2024-01-01 05:00:00").cast("timestamp"),
            col("price") < Decimal("0.505"),
            col("day") == "2024-01-01",
        ),
    ):
        expected = sorted(row.id for row in everything.where(column).collect())
        read = hoodoo.spark.read(spark, values.uri, columns=["id"], filters=column)
        assert sorted(row.id for row in read.collect()) == expected, column


def test_double_quotes_may_quote_names(spark: Any, values: hoodoo.Table, settings: Callable[[str, str], None]):
    settings("spark.sql.ansi.enabled", "true")
    read = hoodoo.spark.read(spark, values.uri, columns=["id"], filters='name = "ab"')
    assert [row.id for row in read.collect()] == [2]
    settings("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    read = hoodoo.spark.read(spark, values.uri, columns=["id"], filters='name = "name"')
    assert sorted(row.id for row in read.collect()) == list(range(6))


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
