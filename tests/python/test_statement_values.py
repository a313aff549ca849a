"""Values in statements: what Spark 3.5 computes in its ANSI mode, and exact comparisons of lists of conditions."""

from __future__ import annotations

import datetime as dt
import math
import operator
import random
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hoodoo
from hoodoo.exceptions import HudiError, InvalidOptionError, SchemaError
from hoodoo.statements.coercion import as_array, cast, store
from hoodoo.statements.evaluate import Scope, evaluate, mask_of
from hoodoo.statements.forms import parse_assignments, parse_condition
from hoodoo.statements.pushdown import scan_filter
from hoodoo.statements.sql import parse_sql

NAN = math.nan
OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
UTC = dt.timezone.utc
FIVE = dt.datetime(2024, 1, 1, 5, tzinfo=UTC).replace(tzinfo=None)
ROW = {
    "f": pa.array([0.1], pa.float32()),
    "t": pa.array([3], pa.int8()),
    "i": pa.array([3], pa.int32()),
    "l": pa.array([4], pa.int64()),
    "big": pa.array([2**63 - 1], pa.int64()),
    "low": pa.array([-(2**63)], pa.int64()),
    "day": pa.array([dt.date(2024, 1, 1)]),
    "ts": pa.array([dt.datetime(2024, 1, 1, 5, tzinfo=UTC)], pa.timestamp("us", "UTC")),
    "text": pa.array(["straße"]),
    "fx": pa.array([b"ab"], pa.binary(2)),
    "bin": pa.array([b"ab"], pa.binary()),
}


def _value(sql: str) -> Any:
    return as_array(evaluate(parse_sql(sql), Scope.of_columns(1, ROW)), 1).to_pylist()[0]


def _mask(column: pa.Array, name: str, value: Any) -> list[bool]:
    found: list[bool] = mask_of(
        parse_condition([("c", name, value)]), Scope.of_batch(pa.record_batch({"c": column}))
    ).to_pylist()
    return found


DAYS = [
    "2024", "2024-1", "2024-1-1", "2024-01-01Tx", "2024-01-01 12:30:00", " 2024-01-01 ", "+2024-01-01", "02024-01-01",
]  # fmt: skip
# What Spark 3.5 gives with spark.sql.ansi.enabled, each looked up there.
SPARK: list[tuple[str, Any]] = [
    ("cast(0.0000001 as string)", "0.0000001"),
    ("cast(cast('-1E-10' as decimal(20,10)) as string)", "-0.0000000001"),
    ("cast(cast(0 as decimal(20,10)) as string)", "0.0000000000"),
    ("cast(cast('12.5' as decimal(20,10)) as string)", "12.5000000000"),
    ("'x' || cast(0.00000001 as string)", "x0.00000001"),
    ("cast(0.125D as decimal(10,2))", Decimal("0.13")),
    ("cast(0.145D as decimal(10,2))", Decimal("0.15")),
    ("cast(1.005D as decimal(10,2))", Decimal("1.01")),
    ("cast(-2.5D as decimal(10,0))", Decimal(-3)),
    ("cast(1e22D as decimal(38,0))", Decimal(10**22)),
    ("cast(1.2345e-7D as decimal(20,10))", Decimal("1.235E-7")),
    ("cast(1e-300D as decimal(20,10))", Decimal(0)),
    ("cast(f as decimal(38,20))", Decimal("0.10000000149011612")),
    ("cast('+5' as int)", 5),
    ("cast('-0' as int)", 0),
    ("cast('0000000000000000000000000005' as int)", 5),
    ("cast('\t5\n' as int)", 5),
    ("cast('1d' as double)", 1.0),
    ("cast('+1.5' as double)", 1.5),
    ("cast('+Infinity' as double)", math.inf),
    ("cast('1e400' as double)", math.inf),
    *((f"cast('{text}' as boolean)", True) for text in ("T", " yes ", "y", "1")),
    *((f"cast('{text}' as boolean)", False) for text in ("no", "F", "0")),
    *((f"cast('{text}' as decimal(2,0))", Decimal(n)) for text, n in (("1.5", 2), ("-1.5", -2), ("1.4999", 1))),
    ("cast('1e2' as decimal(5,0))", Decimal(100)),
    ("cast(' +1.5 ' as decimal(5,1))", Decimal("1.5")),
    *((f"cast('{text}' as decimal(5,1))", Decimal(n)) for text, n in ((".5", "0.5"), ("5.", 5), ("1e-50", 0))),
    *((f"day = '{text}'", True) for text in DAYS),
    ("ts = '2024-1-1 5:0:0'", True),
    ("ts = '2024-1-1 5'", True),
    ("ts = '2024-01-01T5:00'", True),
    ("ts > '2024-1'", True),
    ("ts = '2024-01-01 05:00:00.0000001'", True),
    ("ts = '2024-01-01 05:00:00.5'", False),
    *((f"f + {name}", total) for name, total in (("t", 3.100000001490116), ("l", 4.100000001490116))),
    ("cast(0.1 as bigint)", 0),
    ("cast(-0.9 as int)", 0),
    ("cast(9.99 as decimal(4,1))", Decimal("10.0")),
    ("cast(0.5 as decimal(2,0))", Decimal(1)),
    ("cast(cast(0.99999999999999999999999999999999999999 as decimal(38,38)) as decimal(2,1))", Decimal("1.0")),
    ("f / f", 1.0),
    ("f / i", 0.033333333830038704),
    ("case when true then f else i end", 0.10000000149011612),
    ("f < big", True),
    ("big > 0.5D", True),
    ("big / 2", 4.611686018427388e18),
    ("0.5D <> 9223372036854775807", True),
    ("9223372036854775807L = cast(9223372036854775807L as double)", True),
    ("16777217 = cast(16777216 as float)", False),
    ("cast(16777217 as float)", 16777216.0),
    ("low % -1", 0),
    ("upper(text)", "STRASSE"),
    ("upper('ŉ ǆ ﬁ')", "ʼN Ǆ FI"),  # noqa: RUF001 - letters of two letters
    ("lower('İ')", "i̇"),
    ("lower('ΑΣ Σ')", "ας σ"),  # noqa: RUF001 - Greek
    ("substring('abc', 0, 2)", "ab"),
    ("substring('abc', 0, 0)", ""),
    ("substring('abc', 2, -1)", ""),
    ("f in (0.1)", False),
    ("fx = bin", True),
]


@pytest.mark.parametrize(("sql", "expected"), SPARK)
def test_values_are_those_of_spark(sql: str, expected: Any):
    found = _value(sql)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    "sql",
    [
        *(f"cast('{text}' as int)" for text in ("0x10", "5.0", "5.", "+", "", "٣", "1_0", "3000000000", "\u00a05")),
        *(f"cast('{text}' as double)" for text in ("0x10", "-nan", "nan(1)", "", "1x")),
        *(f"cast('{text}' as boolean)" for text in ("on", "tru", "")),
        *(f"cast('{text}' as decimal(4,1))" for text in ("1234.5", "abc", "1d", "1e999999", "1e" + "9" * 30)),
        *(f"day = '{text}'" for text in ("2024-01-01x", "2024-02-30", "2024-001-01", "24-01-01", "2024-", "20240101")),
        *(f"ts = '{text}'" for text in ("2024-01-01 25:00:00", "2024-01-01T", "2024-01-01 5:")),
        "cast(1e300D as decimal(10,2))",
        "cast(99.999D as decimal(4,2))",
        "low div -1",
    ],
)
def test_what_spark_refuses_is_refused(sql: str):
    with pytest.raises(SchemaError, match="does not fit"):
        _value(sql)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("d in (0.0)", [True, True, False, False, None, False]),
        ("d in (0e0, 5e0)", [True, True, False, False, None, False]),
        ("d in (-0.0D, 5D)", [True, True, False, False, None, False]),
        ("d not in (0D)", [False, False, True, True, None, True]),
        ("d in (cast('NaN' as double))", [False, False, True, True, None, False]),
        ("d in (0, null)", [True, True, None, None, None, None]),
        ("cast(d as float) in (-0.0F)", [True, True, False, False, None, False]),
    ],
)
def test_members_of_a_list_are_equal_as_by_the_operator(sql: str, expected: list[bool | None]):
    batch = pa.record_batch({"d": pa.array(np.array([0.0, -0.0, NAN, OTHER_NAN, 0.0, 1.5]), mask=np.arange(6) == 4)})
    assert as_array(evaluate(parse_sql(sql), Scope.of_batch(batch)), 6).to_pylist() == expected
    assert _mask(batch["d"], "in", [NAN]) == [False, False, True, True, False, False]
    assert _mask(batch["d"], "in", [-0.0, OTHER_NAN]) == [True, True, True, True, False, False]


@pytest.mark.parametrize(("precision", "scale"), [(10, 2), (20, 5), (38, 20), (38, 0), (38, 38)])
def test_decimals_become_the_nearest_floats(precision: int, scale: int):
    dice = random.Random(precision + scale)
    sizes = [10 ** dice.randint(1, precision) - 1 for _ in range(2_000)]
    decimals = [Decimal(f"{dice.randint(-size, size)}E-{scale}") for size in sizes]
    array = pa.array([*decimals, None], pa.decimal128(precision, scale))
    assert cast(array, pa.float64(), "").to_pylist() == [*map(float, decimals), None]
    assert store(array, pa.field("d", pa.float64()), len(array)).to_pylist() == [*map(float, decimals), None]
    nearest = [float(np.float32(str(value))) for value in decimals]
    assert cast(array[:-1], pa.float32(), "").to_pylist() == nearest


def test_decimals_of_a_column_are_written_and_read_without_exponents():
    array = pa.array([Decimal("1.5"), None, Decimal("1E-10"), Decimal("-1.2E-9"), Decimal(0)], pa.decimal128(20, 10))
    strings = ["1.5000000000", None, "0.0000000001", "-0.0000000012", "0.0000000000"]
    for offset in (0, 1, 3):
        assert cast(array[offset:], pa.string(), "").to_pylist() == strings[offset:]
    assert cast(pa.array(strings), array.type, "").equals(array)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.datetime64("2024-01-01"), dt.date(2024, 1, 1)),
        (np.datetime64("2024-01"), dt.date(2024, 1, 1)),
        (np.datetime64("2024-01-01T05", "h"), FIVE),
        (np.datetime64("2024-01-01T05:00:00", "ns"), FIVE),
        (np.datetime64("NaT"), None),
        (np.timedelta64(2, "D"), dt.timedelta(days=2)),
        (np.float32(0.5), 0.5),
        (np.float16(0.5), 0.5),
        (np.int8(3), 3),
        (np.uint64(2**64 - 1), Decimal(2**64 - 1)),
        (np.str_("x"), "x"),
        (np.bool_(True), True),
        (np.array(5), 5),
        (np.array("2024-01-01", "M8[D]"), dt.date(2024, 1, 1)),
        (1 << 100, Decimal(1 << 100)),
        (pa.scalar(7, pa.uint8()), 7),
        (pa.scalar("x", pa.large_string()), "x"),
    ],
)
def test_values_of_other_libraries_are_taken(given: Any, expected: Any):
    if not isinstance(given, str):
        constant = parse_assignments({"c": given}, "set")["c"]
        found = evaluate(constant, Scope.of_columns(0, {})).as_py()
        assert (getattr(found, "to_pydatetime", lambda: found)()) == expected
    assert parse_condition([("c", "=", given)]) is not None


@pytest.mark.parametrize(
    "given", [1j, np.complex128(1), np.longdouble(1), Decimal("NaN"), 1 << 300, {1: 2}, int, np.datetime64(5, "ps")]
)
def test_values_that_arrow_has_no_type_for_are_named(given: Any):
    with pytest.raises(InvalidOptionError, match="invalid value") as caught:
        parse_condition([("c", "=", given)])
    assert repr(given) in str(caught.value)
    for other in (object(), 1 << 20_000):
        with pytest.raises(InvalidOptionError, match="invalid value of type"):
            parse_condition([("c", "=", other)])


OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
EXTREMES = [-(2**31), -1, 0, 1, 2, 2**31 - 1, None]
NUMBERS = [0, 1, 1.0, 1.5, -0.5, 2**31, -(2**40), 2**100, -(2**100), 1e300, Decimal("1.505"), math.inf, -math.inf]
COLUMNS: list[tuple[pa.Array, list[Any]]] = [
    (pa.array(EXTREMES, pa.int32()), [*NUMBERS, pa.scalar(1), np.uint64(2**64 - 1)]),
    (pa.array([2**53, 2**53 + 1, -(2**63), 2**63 - 1, None], pa.int64()), [*NUMBERS, float(2**53), 2.0**63, 2**63]),
    (
        pa.array([Decimal("1.50"), Decimal("1.51"), Decimal("-99999999.99"), None], pa.decimal128(10, 2)),
        [*NUMBERS, Decimal("1.5"), Decimal("1E-40")],
    ),
    (pa.array([float(2**53), float(2**53 + 2), -math.inf, math.inf, None]), [2**53 + 1, -(2**2000), 0, 1e300]),
    (pa.array([float(2**24), 0.5, math.inf, -math.inf, None], pa.float32()), [2**24 + 1, 1e300, -1e300, 2**200]),
]


@pytest.mark.parametrize("name", OPERATORS)
def test_lists_of_conditions_compare_numbers_exactly(name: str):
    for column, constants in COLUMNS:
        batch = pa.record_batch({"c": column})
        for constant in constants:
            given = constant.as_py() if isinstance(constant, pa.Scalar) else constant
            number = int(given) if isinstance(given, np.integer) else given
            if number not in {math.inf, -math.inf}:
                number = Fraction(number)
            expected = [value is not None and OPERATORS[name](value, number) for value in column.to_pylist()]
            if isinstance(given, int) and given.bit_length() > 250:
                with pytest.raises(InvalidOptionError):
                    parse_condition([("c", name, constant)])
                continue
            condition = parse_condition([("c", name, constant)])
            assert mask_of(condition, Scope.of_batch(batch)).to_pylist() == expected, (column.type, constant)


def test_a_float_means_the_nearest_value_of_its_column():
    floats = pa.array([0.1, 0.2, None], pa.float32())
    for given in (0.1, np.float32(0.1), pa.scalar(0.1), Decimal("0.1")):
        assert _mask(floats, "=", given) == [True, False, False]
        assert _mask(floats, ">", given) == [False, True, False]
        assert _mask(floats, "in", [given]) == [True, False, False]
    decimals = pa.array([Decimal("0.10"), Decimal("0.20"), None])
    assert _mask(decimals, "=", 0.1) == _mask(decimals, "in", [0.1, 0.105]) == [True, False, False]
    assert _mask(decimals, "not in", [0.1, 0.105]) == [False, True, False]
    assert _mask(pa.array([1, None]), "<", NAN) == [True, False]
    assert _mask(pa.array([NAN, 1.0, None]), "=", NAN) == [True, False, False]


def test_dates_and_times_compare_exactly():
    days = pa.array([dt.date(2023, 12, 31), dt.date(2024, 1, 1), dt.date(2024, 1, 2), None])
    for given in (FIVE, FIVE.replace(tzinfo=UTC), "2024-01-01 05:00", np.datetime64(FIVE, "ns")):
        assert _mask(days, "=", given) == [False] * 4
        assert _mask(days, "<", given) == [True, True, False, False]
        assert _mask(days, ">=", given) == [False, False, True, False]
    for same in ("2024-01-01", "2024-1-1", dt.date(2024, 1, 1), FIVE.replace(hour=0), np.datetime64("2024-01-01")):
        assert _mask(days, "=", same) == [False, True, False, False]
        assert _mask(days, "in", [same]) == [False, True, False, False]
    milliseconds = pa.array([0, 1000, 2000, None], pa.timestamp("ms", "UTC"))
    between = dt.datetime(1970, 1, 1, 0, 0, 1, 500, tzinfo=UTC)
    assert _mask(milliseconds, "=", between) == [False] * 4
    assert _mask(milliseconds, "<=", between) == [True, True, False, False]
    assert _mask(milliseconds, ">", "1970-01-01") == [False, True, True, False]
    # Nanoseconds end in 2262.
    assert _mask(pa.array([0, None], pa.timestamp("ns")), "<", dt.date(9999, 12, 31)) == [True, False]
    with pytest.raises(SchemaError, match="no day"):
        _mask(days, "=", "no day")


def test_bytes_of_a_fixed_size_compare_with_bytes_of_any():
    column = pa.array([b"aa", b"ab", b"b\0", None], pa.binary(2))
    for given in (b"aa", b"a", b"b", b"aaa", b"", b"ab\0"):
        for name, function in OPERATORS.items():
            expected = [value is not None and function(value, given) for value in column.to_pylist()]
            assert _mask(column, name, given) == expected, (name, given)
    assert _mask(column, "in", [b"ab", b"abc"]) == [False, True, False, False]


@pytest.mark.parametrize(("column", "value"), [("i", "1"), ("i", True), ("text", 1), ("day", 1), ("text", b"a")])
def test_values_of_another_kind_are_refused(column: str, value: Any):
    with pytest.raises(SchemaError, match="Cast one of them"):
        mask_of(parse_condition([(column, "=", value)]), Scope.of_columns(1, ROW))


def test_a_scan_is_not_told_what_sql_rounds():
    """Both sides become doubles, of which one may stand for several integers or decimals of the column."""
    schema = pa.schema({"l": pa.int64(), "i": pa.int32(), "wide": pa.decimal128(30, 20), "small": pa.decimal128(10, 2)})
    for sql, is_pushed in {
        "l = 9007199254740992e0": False,
        "l < 9007199254740994e0": False,
        "l in (9007199254740992, 1e0)": False,
        "l = 5e0": True,
        "l in (5e0, 7)": True,
        "i = 5e0": True,
        "wide = 1.5e0": False,
        "wide = 1.5": True,
        "small = 1.5e0": True,
    }.items():
        convert = scan_filter([parse_sql(sql)])
        assert bool(convert is not None and convert(schema)[1]) == is_pushed, sql
    condition = parse_condition([("i", "<", 1.5), ("l", "in", [1.0, 2.5])])
    exact = None if condition is None else scan_filter([condition])
    assert exact is not None
    assert [(name, values.to_pylist()) for name, _, values in exact(schema)[1]] == [("<=", [1]), ("in", [1])]


@pytest.fixture
def table(request: pytest.FixtureRequest) -> hoodoo.Table:
    schema = {
        "id": pa.int64(), "d": pa.float64(), "f": pa.float32(), "i": pa.int32(), "l": pa.int64(), "day": pa.date32(),
        "m": pa.decimal128(10, 2), "fx": pa.binary(2), "s": pa.string(),
    }  # fmt: skip
    uri = f"memory://statement-values/{abs(hash(request.node.nodeid))}"
    t = hoodoo.Table.create(uri, schema, name="t", record_key="id")
    t.insert(
        {
            "id": [1, 2, 3],
            "d": [0.0, -0.0, None],
            "f": [0.1, 0.2, None],
            "i": [1, 2**31 - 1, None],
            "l": [2**53, 2**53 + 1, None],
            "day": [dt.date(2024, 1, 1), dt.date(2024, 1, 2), None],
            "m": [Decimal("0.10"), Decimal("1.50"), None],
            "fx": [b"aa", b"bb", None],
            "s": ["x", "y", None],
        }
    )
    return t


def test_counts_of_a_table(table: hoodoo.Table):
    assert table.count("d in (0.0)") == 2
    assert table.count("l = 9007199254740992e0") == 2
    assert table.count("f < i") == 2
    for condition, expected in [
        (("l", "=", float(2**53)), 1),
        (("f", "=", 0.1), 1),
        (("i", "<", 1 << 40), 2),
        (("i", "=", 1.5), 0),
        (("i", "not in", [1.5]), 2),
        (("i", "in", [1.0, 1.5]), 1),
        (("day", "=", "2024-01-01"), 1),
        (("day", ">=", np.datetime64("2024-01-01")), 2),
        (("m", ">", Decimal("0.105")), 1),
        (("m", "=", 0.1), 1),
        (("fx", "=", b"aa"), 1),
        (("fx", ">", b"a"), 2),
        (("i", "=", pa.scalar(1)), 1),
        (("_hoodie_record_key", "=", "2"), 1),
        (("d", "not in", []), 3),
        (("d", "in", []), 0),
    ]:
        assert table.count([condition]) == expected, condition


def test_statements_read_the_columns_of_hudi(table: hoodoo.Table):
    assert table.count("_hoodie_record_key = '2' and i > 5") == 1
    update = table.update({"s": "concat(s, _hoodie_record_key)"}, where=[("_hoodie_record_key", "in", ["1", "2"])])
    assert update.updated == 2
    assert table.delete(where=[("_hoodie_record_key", "=", "2")]).deleted == 1
    rows = sorted(table.to_arrow(columns=["id", "s"]).to_pylist(), key=lambda row: row["id"])
    assert rows == [{"id": 1, "s": "x1"}, {"id": 3, "s": None}]
    with pytest.raises(SchemaError, match=r"Columns: id, d, f, i, l, day, m, fx, s$"):
        table.count("_hoodie_other = 1")
    with pytest.raises(HudiError):
        table.update({"_hoodie_record_key": "'9'"})


def test_both_zeros_are_deleted(table: hoodoo.Table):
    assert table.delete(where="d in (0.0)").deleted == 2
    assert table.to_arrow(columns=["id"])["id"].to_pylist() == [3]
