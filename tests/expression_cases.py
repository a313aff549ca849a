"""Expressions in SQL, and rows to evaluate them on: nulls, NaN, both zeros, dates, decimals."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa

NAN = float("nan")
UTC = dt.timezone.utc

ROWS = pa.table(
    {
        "a": pa.array([1, 2, None, 4, -7, 0], pa.int64()),
        "b": pa.array([0, 1, 2, None, 2, 0], pa.int32()),
        "f": pa.array([1.5, NAN, None, -0.0, 0.0, -2.5], pa.float64()),
        "s": pa.array(["x", "Yy", None, " z ", "%", ""], pa.string()),
        "d": pa.array([dt.date(2024, 1, 31), None, *[dt.date(2023, 12, 31)] * 4], pa.date32()),
        "t": pa.array([dt.datetime(2024, 1, 31, 5, tzinfo=UTC), None, *[dt.datetime(2023, 12, 31, tzinfo=UTC)] * 4],
                      pa.timestamp("us", "UTC")),
        "m": pa.array([Decimal("1.25"), None, Decimal("-0.05"), *[Decimal("3.10")] * 3], pa.decimal128(10, 2)),
        "k": pa.array([True, False, None, True, None, False], pa.bool_()),
    }
)  # fmt: skip

CONDITIONS = [
    # Three-valued logic.
    "k and a > 1", "k or a > 1", "not k", "k and null", "k or null", "not (a > 1 and k)", "not (a > 1 or b > 1)",
    "a in (1, null)", "a not in (1, null)", "a not in (1, 2)", "a in (b, 2)", "null in (1)", "a <=> null", "a <=> b",
    "k is true", "k is not true", "k is false", "a is null", "a is not null", "isnull(s)", "isnotnull(s)",
    "a between 1 and 3", "a not between b and 3", "null = null", "a = null", "k = true",
    # Comparisons.
    "a = b", "a != b", "a <> b", "a == b", "a < 1.5", "a >= 0", "f = f", "f > 1", "f < 1", "f >= f", "f != f", "f = 0",
    "f <= cast('NaN' as double)", "f = cast('NaN' as double)", "m = 1.25", "m > 1", "m < f", "s = 'x'", "s < 'Y'",
    "d = '2024-01-31'", "d > date '2023-12-31'", "t >= '2024-01-01'", "t = timestamp '2024-01-31 05:00:00'", "d = t",
    "t > d", "A = 1", "`a` = 1", "s like 'Y%'", "s like '_'", "s not like '%z%'", "s like '\\\\%'",
    # What a condition keeps out must not fail.
    "b <> 0 and a / b > 1", "b = 0 or a / b > 1", "case when b = 0 then false else a / b > 1 end",
]  # fmt: skip

VALUES = [
    "a + b", "a - 1", "a * 2", "a * 1.5", "a / 2", "a div 2", "a % 2", "-a", "-(a + 1)", "f * 2", "f + a", "m * 1.1",
    "m + 1", "m - f", "b + 1", "abs(a)", "case when f < 5 then ceil(f) end",
    "case when f < 5 then floor(f) end", "coalesce(a, b, 7)", "nvl(s, 'none')",
    "ifnull(a, 0)", "nullif(b, 0)", "case when a > 1 then 'big' when a = 1 then 'one' end",
    "case a when 1 then 1.5 else 2 end", "if(k, a, b)", "if(k, 'yes', null)", "upper(s)", "lower(s)", "trim(s)",
    "ltrim(s)", "rtrim(s)", "length(s)", "s || '!'", "concat(s, 'a', s)", "substring(s, 1, 1)", "substr(s, 2)",
    "greatest(a, b)", "least(a, b, 1)", "cast(a as string)", "case when f < 5 then cast(f as int) end",
    "cast(m as int)", "cast(m as double)",
    "cast(m as decimal(10, 1))", "cast(a as decimal(12, 2))", "cast(d as string)",
    "cast(k as int)", "cast(a as boolean)",
    "cast(t as date)", "cast(d as timestamp)", "cast(' 12 ' as int)", "cast('2024-02-29' as date)", "1e3", "1L + a",
    "cast(a as double)", "null", r"'it\'s'", "true", "2.50",
]  # fmt: skip

REFUSED = [
    "round(f, 1)", "foo(a)", "a in (select 1)", "s rlike 'x'", "try_cast(a as int)", "sum(a)", "a & 1",
    "s like 'x' escape '/'", "s = 'it''s'",
    "a.b.c = 1", "m / 2", "cast(f as string)", "exists(select 1)", "current_timestamp()", "cast(a as interval)",
    "row_number() over (order by a)", "array(1, 2)[0]", "f % 2", "s ilike 'x'", "greatest(f, 1)", "substring(s, -1)",
]  # fmt: skip
