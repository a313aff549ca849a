"""Values of conditions in the type of a column: a value that the type does not have becomes one next to it.

Arrow rounds towards zero what lies between two integers, days or milliseconds, and a comparison with what is left would
miss rows. Here each value comes with the side on which it lies, so that the comparison stays exact.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.values.strings import values_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["nearest", "operator_beside", "plain_value"]

# The comparison with a value of the column that is next to the one that was given, by the side on which it lies.
_BELOW = {"<": "<=", "<=": "<=", ">": ">", ">=": ">"}
_ABOVE = {"<": "<", "<=": "<", ">": ">=", ">=": ">="}
_SHORT = 32
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
_DAY = 86_400 * 10**9


def nearest(values: Sequence[Any], data_type: pa.DataType) -> tuple[pa.Array, list[int]]:
    """Return values of a type, each with no other one between it and the given value.

    A string is read as a date or a timestamp where the column has those. A float, or a decimal for floats, means the
    nearest value of the column, as what is written to it does; all other values mean exactly themselves. NaN is larger
    than any number.

    Args:
        values: Values of Python, numpy or pandas, or scalars of Arrow; None and null scalars are null.
        data_type: The type of the column.

    Returns:
        The values, and for each whether it is less than the given one (-1), equal (0) or larger (1).

    Raises:
        TypeError: A value is of a kind that does not go together with the type; or ValueError, OverflowError or an
            error of pyarrow.

    Examples:
        >>> nearest([1, 1.5, 1 << 40], pa.int32())[1]
        [0, -1, -1]
        >>> nearest(["2024-01-01 05:00"], pa.date32())[0].to_pylist()
        [datetime.date(2024, 1, 1)]
    """
    if _is_plain(values, data_type):
        return pa.array(values, type=data_type), [0] * len(values)
    pairs = [_placed(plain_value(value), data_type) for value in values]
    stored = [value for value, _ in pairs]
    if pa.types.is_temporal(data_type):
        array = pa.array(stored, type=pa.int32() if data_type.bit_width == _SHORT else pa.int64()).cast(data_type)
    else:
        array = pa.array(stored, type=data_type)
    return array, [side for _, side in pairs]


def operator_beside(operator: str, side: int) -> str:
    """Return the comparison with the nearest value that holds for the same rows as one with the given value.

    Args:
        operator: `<`, `<=`, `>` or `>=`, as it was given.
        side: Whether the nearest value is less than the given one (-1), equal (0) or larger (1).

    Returns:
        The operator.

    Examples:
        >>> operator_beside("<", -1)
        '<='
    """
    return operator if side == 0 else (_BELOW if side < 0 else _ABOVE)[operator]


def plain_value(value: Any) -> Any:
    """Return a value of numpy that Arrow does not take, or not as what it is, as one of Python.

    Examples:
        >>> import numpy as np
        >>> plain_value(np.datetime64("2024-01-01"))
        datetime.date(2024, 1, 1)
    """
    if type(value).__module__ != "numpy" or getattr(value, "ndim", None) != 0:
        return value
    value = value[()] if type(value).__name__ == "ndarray" else value
    if value.dtype.kind not in "mM":
        return value
    # Arrow does not take days, and numpy makes mere numbers of nanoseconds and less.
    item = value.item()
    return pa.scalar(value) if isinstance(item, int) else item


def _is_plain(values: Sequence[Any], data_type: pa.DataType) -> bool:
    """Whether Arrow converts values without a loss, or not at all. Long lists of integers are not taken one by one."""
    types = pa.types
    if types.is_integer(data_type):
        minimum, maximum = _range(data_type)
        numbers = set(map(type, values)) == {int}
        return numbers and minimum <= min(values) and max(values) <= maximum
    if types.is_float64(data_type):
        return set(map(type, values)) <= {float}
    is_time = types.is_date32(data_type) or types.is_timestamp(data_type) or types.is_time(data_type)
    is_number = types.is_floating(data_type) or types.is_decimal(data_type)
    return not (is_time or is_number or types.is_fixed_size_binary(data_type))


def _placed(value: Any, data_type: pa.DataType) -> tuple[Any, int]:
    """As `nearest`, for one value; a date or a time comes as the number that Arrow stores."""
    types = pa.types
    if value is None or (isinstance(value, pa.Scalar) and not value.is_valid):
        return None, 0
    if types.is_temporal(data_type):
        return _placed_integer(_ticks(value, data_type), data_type)
    if types.is_decimal(data_type):
        return _placed_integer(_shifted(value, data_type.scale), data_type)
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if types.is_fixed_size_binary(data_type):
        return _placed_bytes(value, data_type.byte_width)
    if types.is_floating(data_type):
        return _placed_float(_number(value), data_type)
    return _placed_integer(_number(value), data_type)


def _placed_integer(ticks: float | Decimal | Fraction, data_type: pa.DataType) -> tuple[Any, int]:
    """As `_placed`, for a number in the units that the type counts: those of its scale, or of its time."""
    minimum, maximum = _range(data_type)
    if (isinstance(ticks, float | Decimal) and math.isnan(ticks)) or ticks > maximum:
        found, side = maximum, -1
    elif ticks < minimum:
        found, side = minimum, 1
    else:
        found = math.floor(ticks)
        side = 0 if found == ticks else -1
    # By a string: other ways to make a decimal of Python round to the digits of its context.
    return (Decimal(f"{found}E{-data_type.scale}") if pa.types.is_decimal(data_type) else found), side


def _placed_float(value: float | Decimal, data_type: pa.DataType) -> tuple[float, int]:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    stored: float = pa.scalar(number, data_type).as_py()
    # An integer stands for itself, and so does what is too large for the type.
    is_exact = isinstance(value, int) or math.isinf(stored)
    return stored, (stored > value) - (stored < value) if is_exact else 0


def _placed_bytes(value: Any, width: int) -> tuple[bytes, int]:
    if not isinstance(value, bytes | bytearray):
        raise TypeError(f"{value!r} is no bytes")
    given = bytes(value)
    found = given[:width].ljust(width, b"\0")
    return found, (found > given) - (found < given)


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


def _shifted(value: Any, scale: int) -> float | Decimal:
    """A number times a power of ten. A float means the decimal that it is written as."""
    text = pc.cast(value, pa.string()).as_py() if _is_float_scalar(value) else str(value)
    number = _number(value.as_py() if isinstance(value, pa.Scalar) else value)
    if isinstance(number, float):
        if not math.isfinite(number):
            return number
        number = Decimal(text)
    sign, digits, exponent = Decimal(number).as_tuple()
    return Decimal((sign, digits, exponent + scale)) if isinstance(exponent, int) else Decimal(number)


def _is_float_scalar(value: Any) -> bool:
    return isinstance(value, pa.Scalar) and bool(pa.types.is_floating(value.type))


def _ticks(value: Any, data_type: pa.DataType) -> Fraction:
    """A date or a time in the unit of a type. Without a time zone, UTC is meant."""
    types = pa.types
    unit = _DAY if types.is_date(data_type) else _NANOSECONDS[data_type.unit]
    if isinstance(value, pa.Scalar) and not types.is_temporal(value.type):
        value = value.as_py()
    if types.is_time(data_type):
        return Fraction(_since_midnight(value), unit)
    if isinstance(value, str):
        value = values_of(pa.array([str(value)]), pa.timestamp("us"))[0]
    return Fraction(_since_1970(value), unit)


def _since_1970(value: Any) -> int:
    """The nanoseconds between the start of 1970 and a day or a timestamp."""
    if isinstance(value, pa.Scalar):
        if pa.types.is_timestamp(value.type):
            return int(value.value) * _NANOSECONDS[value.type.unit]
        if pa.types.is_date32(value.type):
            return int(value.value) * _DAY
        value = value.as_py()
    if isinstance(value, dt.datetime):
        # pandas has nanoseconds, and a time that is none, whose parts are no integers.
        since = value - dt.datetime(1970, 1, 1, tzinfo=None if value.tzinfo is None else dt.timezone.utc)
        whole = (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
        return int(whole * 1000 + getattr(since, "nanoseconds", 0))
    if isinstance(value, dt.date):
        return (value.toordinal() - dt.date(1970, 1, 1).toordinal()) * _DAY
    raise TypeError(f"{value!r} is no date and no timestamp")


def _since_midnight(value: Any) -> int:
    """The nanoseconds between midnight and a time of the day."""
    if isinstance(value, pa.Scalar):
        if pa.types.is_time(value.type):
            return int(value.value) * _NANOSECONDS[value.type.unit]
        value = value.as_py()
    if isinstance(value, dt.time):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return (seconds * 10**6 + value.microsecond) * 1000
    raise TypeError(f"{value!r} is no time of the day")
