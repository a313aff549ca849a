"""Values of filters that do not fit the type of their column: the rows are those of an exact comparison."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import operator
import struct
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodoo import SchemaError, Table
from tests.pairs import others_later

UTC = dt.timezone.utc
NAN, INF = math.nan, math.inf


def local(*parts: int) -> dt.datetime:
    """A time without a zone."""
    return dt.datetime(*parts, tzinfo=UTC).replace(tzinfo=None)  # type: ignore[misc, arg-type]


DAY, TIME, EPOCH = dt.date(2024, 1, 1), local(2024, 1, 1, 5), local(1970, 1, 1)
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "small": pa.int32(),
        "big": pa.int64(),
        "single": pa.float32(),
        "double": pa.float64(),
        "price": pa.decimal128(6, 2),
        "long": pa.decimal128(38, 4),
        "day": pa.date32(),
        "millis": pa.timestamp("ms", "UTC"),
        "micros": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "flag": pa.bool_(),
        "name": pa.string(),
        "raw": pa.binary(),
        "pair": pa.binary(2),
    }
)
_LEAST = local(1969, 12, 31, 23, 59, 59, 999000)
ROWS: dict[str, list[Any]] = {
    "small": [-(2**31), -1, 0, 1, 2, 2**31 - 1],
    "big": [-(2**63), -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1],
    "single": [-INF, -1.5, -0.0, 0.0, 0.1, 2.0**24, 2.0**24 + 2, INF, NAN],
    "double": [-INF, -1.5, -0.0, 0.0, 0.1, 2.0**53, 2.0**53 + 2, 1e300, INF, NAN],
    "price": [Decimal(one) for one in ("-9999.99", "-0.01", "0.00", "0.10", "1.50", "9999.99")],
    "long": [Decimal(one) for one in ("-0.0001", "0.0000", "1234567890123456789012345678901234.5678")],
    "day": [dt.date(1, 1, 1), dt.date(1969, 12, 31), DAY, dt.date(2024, 1, 2), dt.date(9999, 12, 31)],
    "millis": [_LEAST.replace(tzinfo=UTC), TIME.replace(tzinfo=UTC), dt.datetime(1970, 1, 1, tzinfo=UTC)],
    "micros": [_LEAST.replace(tzinfo=UTC), TIME.replace(tzinfo=UTC), dt.datetime(2024, 1, 1, 5, 0, 0, 1, UTC)],
    "local": [_LEAST, TIME, local(2024, 1, 1, 5, 0, 0, 1)],
    "flag": [True, False],
    "name": ["", "a", "b", "é"],
    "raw": [b"", b"a", b"\xff"],
    "pair": [b"\0\0", b"a\0", b"ab", b"\xff\xff"],
}
_NUMBERS = [
    *(0, 1, -1, 2, 0.5, -0.5, 0.1, -0.0, 1.5, NAN, INF, -INF, 1e300, -1e300, 10**400, -(10**400)),
    *(2**24 + 1, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2.0**53, 2**63, 2.0**63, -(2.0**63), -(2**63) - 1),
    *(Decimal("0.5"), Decimal("-0.5"), Decimal("NaN"), Decimal("Infinity"), Decimal("1E+500"), np.int64(1)),
    *(np.float32(0.5), np.float64(1.5)),
]
_DECIMALS = [
    *(0, 1, -1, 10_000, -(10**50), 10**400, *(Decimal(one) for one in ("0.1", "0.005", "-0.005", "9999.995", "1E-70"))),
    *(Decimal(one) for one in ("1234567890123456789012345678901234.56781", "-1E+70", "NaN", "-Infinity", "1.50")),
    *(0.1, -0.01, 0.005, 1e300, NAN, INF, -INF, np.float32(0.1), np.float64(1.5)),
    *(pa.scalar(0.1, pa.float32()), pa.scalar(0.1), pa.scalar(1, pa.uint8())),
]
_TIMES = [
    *(TIME, TIME.replace(microsecond=1), TIME.replace(microsecond=1500), local(2024, 1, 1), _LEAST),
    *(local(1969, 12, 31, 23, 59, 59, 999500), local(9999, 12, 31, 23, 59, 59, 999999), local(1, 1, 1)),
    DAY,
    dt.date.max,
    *("2024-01-01", "2024-1-1 5", "2024-01-01T05:00:00.000001", "0001-01-01", "9999-12-31 23:59:59.999999"),
    *(pa.scalar("2024-01-01"), pa.scalar("2024-01-01 05:00", pa.large_string()), pa.scalar(DAY)),
    *(np.datetime64("2024-01-01"), np.datetime64("2024-01"), np.datetime64("2024-01-01T05:00:00.000000001")),
    pd.Timestamp(TIME),
    pd.Timestamp("2024-01-01 05:00:00.000000001"),
    pa.scalar(1_704_085_200_000_000_001, pa.timestamp("ns")),
]
TEXTS = {
    "2024-01-01": local(2024, 1, 1),
    "2024-1-1 5": TIME,
    "2024-01-01 05:00": TIME,
    "2024-01-01T05:00:00.000001": TIME.replace(microsecond=1),
    "0001-01-01": local(1, 1, 1),
    "9999-12-31 23:59:59.999999": local(9999, 12, 31, 23, 59, 59, 999999),
}
"""What strings mean beside times."""
_ZONED = [
    *(one.replace(tzinfo=UTC) for one in _TIMES if type(one) is dt.datetime),
    dt.datetime(2023, 12, 31, 22, 0, 0, 500, dt.timezone(dt.timedelta(hours=-7))),
    pd.Timestamp("2024-01-01 06:00:00.000500001+01:00"),
    pa.scalar(1_704_085_200_000_500, pa.timestamp("us", "UTC")),
]
VALUES: dict[str, list[Any]] = {
    **dict.fromkeys(("small", "big", "single", "double"), _NUMBERS),
    **dict.fromkeys(("price", "long"), _DECIMALS),
    "day": [dt.date(2024, 1, 2), *_TIMES, *_ZONED],
    **{column: [*_TIMES, *_ZONED] for column in ("millis", "micros", "local")},
    "flag": [True, False],
    "name": ["", "a", "aa", "é", "z"],
    "raw": [b"", b"a", b"\xff\xff"],
    "pair": [b"", b"a", b"ab", b"abc", b"a\0\0", b"\xff\xff\xff", bytearray(b"ab")],
}
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@pytest.fixture(scope="module", params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Every value, and null, of every column, in several files."""
    made = Table.create(
        tmp_path_factory.mktemp("values") / "t",
        SCHEMA,
        name="t",
        record_key="id",
        table_type=request.param,
        options={"hoodie.parquet.small.file.limit": "0", "hoodie.compact.inline": "false"},
    )
    longest = max(map(len, ROWS.values())) + 1
    columns = {name: [*values, *[None] * (longest - len(values))] for name, values in ROWS.items()}
    rows = [{"id": n, **{name: values[n] for name, values in columns.items()}} for n in range(longest)]
    for first in range(0, longest, 4):
        made.insert(pa.Table.from_pylist(rows[first : first + 4], SCHEMA))
    made.upsert(pa.Table.from_pylist(rows[::3], SCHEMA))
    return made


def exact(value: Any, column: str) -> Any:
    """What compares with others of its kind as the documentation says: a pair that puts NaN behind all numbers."""
    if column in {"day", "millis", "micros", "local"}:
        return _since_1970(value)
    if isinstance(value, pa.Scalar):
        value = np.float32(value.as_py()) if value.type == pa.float32() else value.as_py()
    if isinstance(value, bool | str | bytes | bytearray):
        return bytes(value) if isinstance(value, bytearray) else value
    if isinstance(value, int | np.integer):
        return (0, Fraction(int(value)))
    if column in {"single", "double"}:
        value = _rounded(value, column)
    # A float beside decimals means what it is written as.
    value = (
        Decimal(str(value)) if column in {"price", "long"} else value if isinstance(value, Decimal) else float(value)
    )
    is_finite = value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)
    if not is_finite:
        return (2, 0) if math.isnan(value) else (1 if value > 0 else -1, 0)
    return (0, Fraction(value))


def _since_1970(value: Any) -> int:
    """The nanoseconds between the start of 1970 and a day or a time."""
    if isinstance(value, pa.TimestampScalar):
        value = pd.Timestamp(value.value, unit=value.type.unit, tz=value.type.tz)
    elif isinstance(value, pa.Scalar):
        value = value.as_py()
    value = TEXTS[value] if isinstance(value, str) else value
    value = pd.Timestamp(value) if isinstance(value, np.datetime64) else value
    if not isinstance(value, dt.datetime):
        return int((value - dt.date(1970, 1, 1)).days * 86_400 * 10**9)
    naive = value.replace(tzinfo=None) if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    since = naive - EPOCH
    micros = since.days * 86_400 * 10**6 + since.seconds * 10**6 + since.microseconds
    return int(micros * 1000 + getattr(since, "nanoseconds", 0))


def _rounded(value: Any, column: str) -> Any:
    """The nearest number of a type; what is too large for it is compared as it is."""
    number = float(value)
    if column == "single" and not math.isinf(number):
        try:
            (number,) = struct.unpack("<f", struct.pack("<f", number))
        except OverflowError:
            return value
    return value if math.isinf(number) else number


def expected(full: list[dict[str, Any]], column: str, sign: str, value: Any) -> list[int]:
    rows = [(row["id"], exact(row[column], column)) for row in full if row[column] is not None]
    if sign in COMPARE:
        given = exact(value, column)
        return sorted(number for number, row in rows if COMPARE[sign](row, given))
    members = [exact(one, column) for one in value]
    return sorted(number for number, row in rows if (row in members) == (sign == "in"))


def ids(table: Table, *conditions: Any) -> list[int]:
    found: list[int] = sorted(table.to_arrow(columns=["id"], filters=list(conditions))["id"].to_pylist())
    return found


def check(table: Table, full: list[dict[str, Any]], condition: tuple[str, str, Any]) -> None:
    assert ids(table, condition) == expected(full, *condition), condition


@pytest.mark.parametrize("operators", others_later(["half", "all"], "half"))
@pytest.mark.parametrize("column", VALUES)
def test_every_value_beside_every_operator(table: Table, column: str, operators: str):
    full = table.to_arrow().to_pylist()
    # Log files change nothing about values: they are looked at with fewer operators.
    is_merged = table.options["hoodie.table.type"] == "MERGE_ON_READ"
    signs = ["=", "<"] if is_merged else list(COMPARE)
    for number, value in enumerate(VALUES[column]):
        # Neighbours have the other half.
        for sign in signs if is_merged or operators == "all" else signs[number % 2 :: 2]:
            check(table, full, (column, sign, value))
    for pair in itertools.pairwise(VALUES[column]):
        check(table, full, (column, "in", list(pair)))
        check(table, full, (column, "not in", list(pair)))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_value(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject):
    """Random rows and values."""
    kinds = {
        "small": st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1),
        "big": st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
        "single": st.floats(width=32),
        "double": st.floats(),
        "price": st.integers(-999_999, 999_999).map(lambda n: Decimal(n).scaleb(-2)),
        "day": st.dates(),
        "millis": st.datetimes(timezones=st.just(UTC)).map(
            lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)
        ),
        "local": st.datetimes(),
    }
    numbers = st.integers() | st.integers(-4, 4).map(lambda n: n / 2) | st.floats()
    times = st.datetimes() | st.datetimes(timezones=st.just(UTC))
    near = {
        **dict.fromkeys(("small", "big", "single", "double"), numbers | st.decimals(allow_nan=False)),
        "price": st.integers() | st.decimals(allow_nan=False, places=3, min_value=-20_000, max_value=20_000),
        **dict.fromkeys(("day", "millis", "local"), st.dates() | times),
    }
    column = data.draw(st.sampled_from(list(kinds)))
    rows = data.draw(st.lists(kinds[column] | st.none(), min_size=1, max_size=8))
    made = Table.create(
        tmp_path_factory.mktemp("any") / "t",
        {"id": pa.int64(), column: SCHEMA.field(column).type},
        name="t",
        record_key="id",
    )
    made.insert(pa.table({"id": range(len(rows)), column: pa.array(rows, SCHEMA.field(column).type)}))
    full = [{"id": n, column: value} for n, value in enumerate(rows)]
    beside = [row for row in rows if row is not None] or [data.draw(kinds[column])]
    values = data.draw(st.lists(near[column] | st.sampled_from(beside), min_size=1, max_size=4))
    for sign in COMPARE:
        check(made, full, (column, sign, values[0]))
    for sign in ("in", "not in"):
        check(made, full, (column, sign, values))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(
            ("small", "1"),
            ("small", True),
            ("small", TIME),
            ("small", Fraction(1, 2)),
            ("double", "1"),
            ("double", True),
        ),
        *(("price", True), ("price", "1"), ("day", "no day"), ("day", pd.NaT), ("day", dt.time(5)), ("flag", 1)),
        *(("day", 19_723), ("micros", 0), ("micros", np.int64(0)), ("micros", "2024-01-01 5:"), ("micros", pd.NaT)),
        *(("micros", pa.scalar(dt.time(5))), ("micros", 0.5), ("pair", "ab"), ("pair", 1), ("price", Decimal("sNaN"))),
        *(("micros", Decimal("sNaN")), ("micros", pa.scalar(dt.timedelta(1))), ("name", 1), ("raw", 1)),
    ],
)
def test_a_value_of_another_kind_is_refused(table: Table, column: str, value: Any):
    for condition in ((column, "=", value), (column, "<", value), (column, "in", [value])):
        with pytest.raises(SchemaError, match="give values of its type"):
            ids(table, condition)


def test_lists_with_null_and_without_values(table: Table):
    every = table.to_arrow(columns=["id", "small"]).to_pylist()
    assert ids(table, ("small", "not in", [])) == sorted(row["id"] for row in every)
    assert ids(table, ("small", "in", [])) == []
    # Null is in no such list, and it is not known that it is in none.
    valid = sorted(row["id"] for row in every if row["small"] is not None)
    assert ids(table, ("small", "not in", [0.5, 2**40])) == valid
    assert len(valid) < len(every)
    assert ids(table, ("small", "not in", [0.5, None])) == []
    assert ids(table, ("small", "in", [1, 0.5, None])) == expected(every, "small", "=", 1)
    for values in ([], [0, 1], [0, None]):
        assert table.count([("small", "not in", values)]) == len(ids(table, ("small", "not in", values)))
    assert ids(table, ("small", "=", pa.scalar(None, pa.int32()))) == []


def test_other_reads_with_values_that_do_not_fit(table: Table):
    wanted = expected(table.to_arrow().to_pylist(), "small", "<", 0.5)
    condition = [("small", "<", 0.5)]
    assert sorted(table.to_pandas(columns=["id"], filters=condition)["id"]) == wanted
    assert sorted(table.changes("0", columns=["id"], filters=condition).read_all()["id"].to_pylist()) == wanted
    assert table.count(condition) == len(wanted)
    assert ids(table, [("small", "<", 0.5), ("small", ">", -0.5)], [("small", "=", 0.5)]) == expected(
        table.to_arrow().to_pylist(), "small", "=", 0
    )


def test_a_long_list_of_integers(table: Table):
    assert ids(table, ("id", "in", list(range(3, 200_000)))) == list(range(3, len(ids(table))))


def test_a_count_by_expressions(table: Table):
    full = table.to_arrow()
    assert table.count(pc.field("double") > 0) == full.filter(pc.field("double") > 0).num_rows > 0
    assert table.count(pl.col("double") > 0) == pl.DataFrame(full).filter(pl.col("double") > 0).height > 0
    without: list[Any] = [None, [], ()]
    for nothing in without:
        assert table.count(nothing) == full.num_rows


@pytest.mark.parametrize("column", ["single", "double"])
@pytest.mark.parametrize("members", [[0.0], [-0.0], [0.0, 1.5], [NAN], [NAN, 0.0], [-1.5], [0.0, -0.0], [INF]])
def test_zeros_in_a_list_of_pyarrow(table: Table, column: str, members: list[float]):
    """pyarrow takes 0.0 and -0.0 for different members, and the core for the same."""
    full = table.to_arrow(columns=["id", column])
    for values in (members, pa.array(members, SCHEMA.field(column).type), *([[0]] if members == [0.0] else [])):
        found = pc.field(column).isin(values)
        for expression in (found, ~found, ~found & (pc.field("id") >= 0), ~(found | (pc.field("id") < 0))):
            read = table.to_dataset().to_table(columns=["id"], filter=expression)
            wanted = full.filter(expression)["id"].to_pylist()
            assert sorted(read["id"].to_pylist()) == sorted(wanted), expression
