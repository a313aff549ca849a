"""Filters on rows, in the form of pyarrow, deltalake and pyiceberg."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from numbers import Integral, Rational, Real
from typing import Any, TypeAlias

import pyarrow as pa

from hoodoo.exceptions import InvalidOptionError, SchemaError

__all__ = ["Filters", "LateFilter", "checked_filters", "late_filter"]

Condition: TypeAlias = tuple[str, str, Any] | tuple[str, str]
Filters: TypeAlias = Sequence[Condition] | Sequence[Sequence[Condition]]
"""A list of conditions `(column, operator, value)` that must all hold, or a list of such lists of which one must hold.

Operators: `=`, `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`; and `is null`, `is not null`, which take no value.

A value does not need to fit the type of its column: integers compare with 0.5, days with times, and short decimals with
longer ones, by their exact values. A floating-point column takes a float or a decimal as the nearest number of its own
type. NaN equals NaN and is larger than any number."""

NativeFilter: TypeAlias = tuple[Any, ...]
"""A filter in the form of the core: nested tuples with values as Arrow arrays."""

LateFilter: TypeAlias = Callable[[pa.Schema], NativeFilter]
"""A function that returns a filter in the form of the core for the columns of a scan."""

_COMPARE = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_CONDITION_LENGTH = 3


def late_filter(filters: Filters | None) -> LateFilter | None:
    """Return a function that converts filters once a scan knows its columns, so that the table is looked at once.

    Args:
        filters: See `Filters`. None or an empty list matches every row.

    Returns:
        The function, or None for no filter. It raises a SchemaError if a column does not exist or a value does not
        have its column's type.

    Raises:
        InvalidOptionError: An operator or a condition is invalid.
    """
    if filters is None:
        return None
    groups = checked_filters(filters)
    return partial(_native_filter, groups) if groups else None


def checked_filters(filters: Any) -> list[list[Condition]]:
    """Return filters as a list of lists of conditions, each with a known operator.

    Args:
        filters: See `Filters`.

    Returns:
        Lists of which one must hold, of conditions that must all hold: `(column, operator, value)` with the operators
        `=`, `!=`, `<`, `<=`, `>`, `>=`, `in` and `not in`, or `(column, "is_null")` and `(column, "is_not_null")`.

    Raises:
        InvalidOptionError: The filters have another form.

    Examples:
        >>> checked_filters([("fare", "==", 1), ("city", "IS NULL")])
        [[('fare', '=', 1), ('city', 'is_null')]]
    """
    if isinstance(filters, str | bytes) or not isinstance(filters, Sequence):
        message = (
            f"invalid filters of type {type(filters).__name__}: expected a list of (column, operator, value), such as "
            "[('city', '=', 'sf')]"
        )
        raise InvalidOptionError(message)
    if not filters:
        return []
    if _is_condition(filters):
        message = f"invalid filters {filters!r}: this is one condition; put it into a list: [{tuple(filters)!r}]"
        raise InvalidOptionError(message)
    if all(isinstance(part, list | tuple) and part and not isinstance(part[0], str) for part in filters):
        return [[_checked(condition) for condition in group] for group in filters]
    return [[_checked(condition) for condition in filters]]


def _is_condition(filters: Sequence[Any]) -> bool:
    return len(filters) in {2, _CONDITION_LENGTH} and all(isinstance(part, str) for part in filters[:2])


def _checked(condition: Any) -> Any:
    if not isinstance(condition, tuple | list) or len(condition) not in {2, _CONDITION_LENGTH}:
        message = f"invalid condition {condition!r}: expected (column, operator, value)"
        raise InvalidOptionError(message)
    column, given, *rest = condition
    if not isinstance(column, str):
        message = f"invalid column {column!r} in the condition {condition!r}: expected the name of a column"
        raise InvalidOptionError(message)
    operator = " ".join(str(given).lower().split())
    if operator in {"is null", "is not null"}:
        if rest:
            message = f"the condition {condition!r} has a value, which {operator} does not take: leave it out"
            raise InvalidOptionError(message)
        return (column, operator.replace(" ", "_"))
    if operator not in {*_COMPARE, "in", "not in"}:
        message = f"invalid operator {given!r}: expected =, !=, <, <=, >, >=, in, not in, is null or is not null"
        raise InvalidOptionError(message)
    if not rest:
        message = f"the condition {condition!r} has no value: expected (column, operator, value)"
        raise InvalidOptionError(message)
    if operator in {"in", "not in"}:
        return (column, operator, _members(condition, rest[0]))
    if rest[0] is None:
        message = (
            f"the condition {condition!r} is never true: use ({column!r}, 'is null') or ({column!r}, 'is not null')"
        )
        raise InvalidOptionError(message)
    return (column, _COMPARE[operator], rest[0])


def _members(condition: Any, values: Any) -> list[Any]:
    if isinstance(values, str | bytes | dict) or not isinstance(values, Iterable):
        message = f"invalid value in the condition {condition!r}: {condition[1]} takes a list of values"
        raise InvalidOptionError(message)
    return values.to_pylist() if isinstance(values, pa.Array | pa.ChunkedArray) else list(values)


def _native_filter(groups: list[list[Condition]], schema: pa.Schema) -> NativeFilter:
    """Convert the values of filters to the types of a schema."""
    alternatives: list[NativeFilter] = [
        ("and", [_native(condition, schema) for condition in group]) for group in groups
    ]
    return alternatives[0] if len(alternatives) == 1 else ("or", alternatives)


def _native(condition: tuple[Any, ...], schema: pa.Schema) -> NativeFilter:
    column, operator, *rest = condition
    if column not in schema.names:
        message = f"the filter names the column {column!r}, which does not exist. Columns: {', '.join(schema.names)}"
        raise SchemaError(message)
    if not rest:
        return (operator, column)
    data_type = schema.field(column).type
    if operator == "not in":
        # Even null is in no list without values.
        return ("not", _in(column, data_type, rest[0])) if rest[0] else ("and", [])
    return _in(column, data_type, rest[0]) if operator == "in" else _compared(operator, column, data_type, rest[0])


def _in(column: str, data_type: pa.DataType, values: list[Any]) -> NativeFilter:
    array, sides = _converted(values, column, data_type)
    # No row has a value that the type does not have.
    return ("in", column, array.filter(pa.array([side == 0 for side in sides], pa.bool_())) if any(sides) else array)


def _compared(operator: str, column: str, data_type: pa.DataType, value: Any) -> NativeFilter:
    """A comparison, of a value between two of the column's type by the nearest."""
    array, (side,) = _converted([value], column, data_type)
    if side == 0:
        return (operator, column, array)
    if operator == "=":
        return ("in", column, pa.array([], data_type))
    if operator == "!=":
        return ("is_not_null", column)
    if operator in {"<", "<="}:
        return ("<=" if side < 0 else "<", column, array)
    return (">" if side < 0 else ">=", column, array)


def _converted(values: list[Any], column: str, data_type: pa.DataType) -> tuple[pa.Array, Sequence[int]]:
    """Values in the type of a column, and whether each is less than the given one (-1), equal (0) or larger (1)."""
    try:
        if _fits(values, data_type):
            return pa.array(values, type=data_type), [0] * len(values)
        pairs = [_nearest(value, data_type) for value in values]
        stored = [value for value, _ in pairs]
        if pa.types.is_temporal(data_type):
            array = pa.array(stored, type=pa.int32() if data_type.bit_width == _SHORT else pa.int64()).cast(data_type)
        else:
            array = pa.array(stored, type=data_type)
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
        pa.ArrowNotImplementedError,
        TypeError,
        OverflowError,
        ValueError,
    ) as error:
        shown = ", ".join(type(value).__name__ if " at 0x" in repr(value) else repr(value) for value in values)
        message = f"the filter compares column {column!r} of type {data_type} with [{shown}]: give values of its type"
        raise SchemaError(message) from error
    return array, [side for _, side in pairs]


_SHORT = 32
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
_DAY = 86_400 * 10**9


def _fits(values: list[Any], data_type: pa.DataType) -> bool:
    """Whether Arrow converts values without a loss, or not at all. Long lists of integers are not taken one by one."""
    types = pa.types
    if types.is_integer(data_type):
        minimum, maximum = _range(data_type)
        numbers = set(map(type, values)) == {int}
        return numbers and minimum <= min(values) and max(values) <= maximum
    if types.is_float64(data_type):
        return set(map(type, values)) <= {float}
    is_time = types.is_date32(data_type) or types.is_timestamp(data_type) or types.is_time(data_type)
    return not (is_time or types.is_floating(data_type) or types.is_decimal(data_type))


def _nearest(value: Any, data_type: pa.DataType) -> tuple[Any, int]:
    """A value next to the given one among those of a type, and on which side of it.

    Arrow rounds towards zero what lies between two integers, days or milliseconds, and a comparison with what is left
    would miss rows. Dates and times come as the numbers that Arrow stores.
    """
    is_time = pa.types.is_temporal(data_type)
    if isinstance(value, pa.Scalar) and not (is_time and hasattr(value, "value")):
        value = value.as_py()
    if value is None or (isinstance(value, pa.Scalar) and not value.is_valid):
        return None, 0
    if pa.types.is_floating(data_type):
        return _nearest_float(_number(value), data_type)
    minimum, maximum = _range(data_type)
    ticks = _ticks(value, data_type) if is_time else _number(value)
    if pa.types.is_decimal(data_type):
        ticks = _shifted(ticks, data_type.scale)
    if (isinstance(ticks, float | Decimal) and math.isnan(ticks)) or ticks > maximum:
        found, side = maximum, -1
    elif ticks < minimum:
        found, side = minimum, 1
    else:
        found = math.floor(ticks)
        side = 0 if found == ticks else -1
    # By a string: other ways to make a decimal of Python round to the digits of its context.
    return (Decimal(f"{found}E{-data_type.scale}") if pa.types.is_decimal(data_type) else found), side


def _nearest_float(value: float | Decimal, data_type: pa.DataType) -> tuple[float, int]:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    stored: float = pa.scalar(number, data_type).as_py()
    # A float stands for the nearest number of the type; an integer for itself, and so does what is too large.
    is_exact = isinstance(value, int) or math.isinf(stored)
    return stored, (stored > value) - (stored < value) if is_exact else 0


def _range(data_type: pa.DataType) -> tuple[int, int]:
    """The minimum and the maximum number that a type stores."""
    if pa.types.is_decimal(data_type):
        return 1 - 10**data_type.precision, 10**data_type.precision - 1
    if pa.types.is_unsigned_integer(data_type):
        return 0, 2**data_type.bit_width - 1
    return -(2 ** (data_type.bit_width - 1)), 2 ** (data_type.bit_width - 1) - 1


def _number(value: Any) -> float | Decimal:
    """A number as one of Python, for numpy has its own. A truth value is none."""
    if isinstance(value, bool) or (isinstance(value, Rational) and not isinstance(value, Integral)):
        raise TypeError(f"{value!r} is no number that a column can have")
    if isinstance(value, Decimal):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"{value!r} is no number")


def _shifted(value: Any, scale: int) -> Decimal:
    """A number times a power of ten."""
    if isinstance(value, float):
        raise TypeError(f"{value!r} is no decimal")
    sign, digits, exponent = Decimal(value).as_tuple()
    return Decimal((sign, digits, exponent + scale)) if isinstance(exponent, int) else Decimal(value)


def _ticks(value: Any, data_type: pa.DataType) -> float | Decimal | Fraction:
    """A date or a time in the unit of a type; a number is one already. Without a time zone, UTC is meant."""
    types = pa.types
    is_day = types.is_date(data_type)
    unit = _DAY if is_day else _NANOSECONDS[data_type.unit]
    if isinstance(value, pa.Scalar):
        alike = types.is_time(value.type) if types.is_time(data_type) else types.is_timestamp(value.type)
        if alike:
            return Fraction(value.value * _NANOSECONDS[value.type.unit], unit)
        value = value.as_py()
    if isinstance(value, dt.datetime) and not types.is_time(data_type):
        # pandas has nanoseconds, and a time that is none, whose parts are no integers.
        since = value - dt.datetime(1970, 1, 1, tzinfo=None if value.tzinfo is None else dt.timezone.utc)
        whole = (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
        return Fraction(whole * 1000 + getattr(since, "nanoseconds", 0), unit)
    if isinstance(value, dt.date) and is_day and not isinstance(value, dt.datetime):
        return value.toordinal() - dt.date(1970, 1, 1).toordinal()
    if isinstance(value, dt.time) and types.is_time(data_type):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return Fraction((seconds * 10**6 + value.microsecond) * 1000, unit)
    return _number(value)
