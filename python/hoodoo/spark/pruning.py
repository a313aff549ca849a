"""Conditions that skip what cannot have rows for a filter which Spark applies itself."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from hoodoo.exceptions import SchemaError
from hoodoo.filters import late_filter

if TYPE_CHECKING:
    from hoodoo.filters import NativeFilter

__all__ = ["Condition", "Conditions", "Pruned", "Pruning"]

Condition: TypeAlias = tuple[str, str, Any] | tuple[str, str]
Conditions: TypeAlias = list[Condition]

# Spark takes NaN for the largest value, so a row with NaN passes these.
_NAN_PASSES = (">", ">=", "!=", "not in")


@dataclass(frozen=True)
class Pruning:
    """Conditions that hold for every row that is wanted. Can be pickled.

    They may let other rows through, and drop none that Spark keeps: a condition whose column or value does not fit the
    columns of the scan is left out.

    Attributes:
        conditions: The conditions, in the form of `hoodoo.filters.Filters`.
    """

    conditions: Conditions

    def __call__(self, schema: pa.Schema) -> NativeFilter:
        """Return the conditions that are safe for the columns of a scan, in the form of the core."""
        convert = late_filter([safe for one in self.conditions if (safe := _safe(one, schema)) is not None])
        return ("and", []) if convert is None else convert(schema)


@dataclass(frozen=True)
class Pruned:
    """Conditions that hoodoo applies, and others that only skip. Can be pickled.

    Attributes:
        applied: Conditions that every row of the result meets.
        skipping: What filters that Spark applies say.
    """

    applied: Conditions
    skipping: Pruning

    def __call__(self, schema: pa.Schema) -> NativeFilter:
        """Return both, in the form of the core."""
        convert = late_filter(self.applied)
        skipping = self.skipping(schema)
        return skipping if convert is None else ("and", [convert(schema), skipping])


def _safe(condition: Condition, schema: pa.Schema) -> Condition | None:
    """A condition that every row meets which Spark keeps; None where that is not certain."""
    column, operator, *rest = condition
    if schema.names.count(column) != 1 or pa.types.is_nested(schema.field(column).type):
        return None
    if not rest:
        return condition
    data_type = schema.field(column).type
    values = rest[0] if isinstance(rest[0], list) else [rest[0]]
    if not _compare_alike(values, data_type):
        return None
    if pa.types.is_floating(data_type):
        # 0.0 and -0.0 are one value for Spark, and two in an order of bits.
        if operator in _NAN_PASSES or any(math.isnan(one) or one == 0 for one in values):
            return None
        if operator == "<" and pa.types.is_float32(data_type):
            # Spark compares with a double, of which hoodoo makes a float: it may be the next below.
            condition = (column, "<=", rest[0])
    try:
        convert = late_filter([condition])
        if convert is not None:
            convert(schema)
    except SchemaError:
        return None
    return condition


def _compare_alike(values: list[Any], data_type: pa.DataType) -> bool:
    """Whether Spark compares a column with values as they are, or at least in the same order as hoodoo.

    Spark casts both sides to a common type, which depends on all values of a list, and often on the session's settings.
    """
    types = pa.types
    if any(types.is_time(data_type) or not isinstance(one, _KINDS) for one in values):
        return False
    if types.is_integer(data_type) or types.is_floating(data_type) or types.is_decimal(data_type):
        return _numbers_compare_alike(values, data_type)
    if types.is_date(data_type):
        return all(isinstance(one, dt.date) and not isinstance(one, dt.datetime) for one in values)
    if types.is_timestamp(data_type):
        # Of a date, or a time without a zone, the session's time zone makes an instant.
        return all(isinstance(one, dt.datetime) and (one.tzinfo is None) == (data_type.tz is None) for one in values)
    if types.is_boolean(data_type):
        return all(isinstance(one, bool) for one in values)
    is_text = types.is_string(data_type) or types.is_large_string(data_type)
    return all(isinstance(one, str if is_text else bytes | bytearray) for one in values)


_KINDS = (bool, int, float, Decimal, str, bytes, bytearray, dt.date)
# An integer beside a float may become a float of 32 bits, which has all integers up to here.
_MOST_EXACT = 1 << 24
_DIGITS_OF_INTEGERS, _MOST_DIGITS = 20, 38


def _numbers_compare_alike(values: list[Any], data_type: pa.DataType) -> bool:
    if any(isinstance(one, bool) or not isinstance(one, int | float | Decimal) for one in values):
        return False
    if not all(isinstance(one, int) or math.isfinite(one) for one in values):
        return False
    if pa.types.is_floating(data_type):
        return all(abs(one) <= _MOST_EXACT for one in values if isinstance(one, int))
    if any(isinstance(one, float) for one in values):
        return bool(pa.types.is_integer(data_type)) and all(abs(one) < _MOST_EXACT for one in values)
    # Decimals with more digits than Spark has are rounded.
    sizes = [_digits(one) for one in values]
    sizes.append(
        (data_type.precision - data_type.scale, data_type.scale) if pa.types.is_decimal(data_type) else (20, 0)
    )
    return max(whole for whole, _ in sizes) + max(behind for _, behind in sizes) <= _MOST_DIGITS


def _digits(number: int | Decimal) -> tuple[int, int]:
    """The most digits before the point, and those behind it, of the type that Spark gives a number."""
    if isinstance(number, int):
        return max(_DIGITS_OF_INTEGERS, len(str(abs(number)))), 0
    _, digits, exponent = number.as_tuple()
    behind = -int(exponent)
    return max(0, len(digits) - behind), max(0, behind)
