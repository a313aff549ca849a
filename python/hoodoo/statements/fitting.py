"""Comparisons of lists of conditions: each value becomes one of the type of its column, and nothing else is rounded."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.statements.coercion import cast, plain_type
from hoodoo.statements.expressions import Call, Column, Constant, text_of

__all__ = ["fitted", "is_exact"]

# The comparison with a value of the column that is the neighbour of the one that was given, by where it is.
_BELOW = {"<": "<=", "<=": "<=", ">": ">", ">=": ">"}
_ABOVE = {"<": "<", "<=": "<", ">": ">=", ">=": ">="}
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY = 86_400
_LARGEST_FLOAT = {32: float.fromhex("0x1.fffffep127"), 64: float.fromhex("0x1.fffffffffffffp1023")}


def is_exact(call: Call) -> bool:
    """Return whether this is a comparison of a list of conditions."""
    column, *others = call.arguments or (None,)
    return isinstance(column, Column) and any(isinstance(other, Constant) and other.exact for other in others)


def fitted(call: Call, data_type: pa.DataType) -> Call:
    """Return a comparison of a list of conditions as one with values of the type of its column.

    SQL compares numbers of two types in a third one, which may round both. Here an integer column is never equal to
    1.5 or to 1 << 40, but it is less. A float alone is rounded, as what is written to the column is: to a column of
    floats, 0.1 is the float next to it, and to one of decimals it is the decimal 0.1.

    Args:
        call: The comparison; see `is_exact`.
        data_type: The type of the column.

    Returns:
        The comparison; values that do not go together with the column stay as they are.

    Raises:
        SchemaError: A text says no date or timestamp.

    Examples:
        >>> condition = Call("<", (Column("n"), Constant(pa.scalar(1.5), exact=True)))
        >>> text_of(fitted(condition, pa.int32()))
        'n <= 1'
    """
    column, *constants = call.arguments
    wanted, what = plain_type(data_type), text_of(call)
    placed = [_placed(constant.value, wanted, what) for constant in constants if isinstance(constant, Constant)]
    if call.name == "in":
        return Call("in", (column, *(Constant(value) for value, side in placed if side == 0)))
    value, side = placed[0]
    if side and call.name in {"=", "!="}:
        never = Call("in", (column,))
        return never if call.name == "=" else Call("not", (never,))
    name = call.name if side == 0 else (_BELOW if side < 0 else _ABOVE)[call.name]
    return Call(name, (column, Constant(value)))


def _placed(value: pa.Scalar, wanted: pa.DataType, what: str) -> tuple[pa.Scalar, int]:
    """Return a value of the type with no other one between it and the given one, and whether it is less or greater."""
    given, types = value.type, pa.types
    if given.equals(wanted):
        return value, 0
    if not value.is_valid:
        return pa.scalar(None, wanted), 0
    if _is_number(given) and _is_number(wanted):
        return _placed_number(value, wanted)
    if types.is_date32(wanted) or types.is_timestamp(wanted):
        if types.is_string(given):
            value = cast(value, pa.timestamp("us"), what)
        if types.is_date32(value.type) or types.is_timestamp(value.type):
            return _placed_integer(Fraction(value.value) / _ticks(value.type) * _ticks(wanted), wanted)
    if types.is_binary(given) and types.is_fixed_size_binary(wanted):
        return _placed_bytes(value.as_py(), wanted)
    return value, 0


def _is_number(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(data_type) or pa.types.is_floating(data_type) or pa.types.is_decimal(data_type))


def _ticks(data_type: pa.DataType) -> Fraction:
    """How many of the units of a date or a timestamp a second has."""
    return Fraction(1, _DAY) if pa.types.is_date32(data_type) else Fraction(_PER_SECOND[data_type.unit])


def _placed_number(value: pa.Scalar, wanted: pa.DataType) -> tuple[pa.Scalar, int]:
    types, number = pa.types, value.as_py()
    if types.is_floating(wanted):
        return _placed_float(value, wanted)
    if isinstance(number, float) and not math.isfinite(number):
        # To SQL, NaN is larger than any number.
        return _placed_integer(-math.inf if number < 0 else math.inf, wanted)
    if isinstance(number, float) and types.is_decimal(wanted):
        number = Decimal(pc.cast(value, pa.string()).as_py())
    if types.is_decimal(wanted):
        number = Fraction(number) * 10**wanted.scale
    return _placed_integer(number, wanted)


def _placed_float(value: pa.Scalar, wanted: pa.DataType) -> tuple[pa.Scalar, int]:
    number, largest = value.as_py(), _LARGEST_FLOAT[wanted.bit_width]
    if math.isfinite(number) and abs(number) > largest:
        return pa.scalar(math.copysign(largest, number), wanted), -1 if number > 0 else 1
    found = cast(value, wanted, "a value")
    if not isinstance(number, int):
        # Floats, and decimals as the literals of SQL are, mean the nearest value of the column.
        return found, 0
    return found, _order(int(found.as_py()), number)


def _order(found: int, number: Fraction | float) -> int:
    return (found > number) - (found < number)


def _placed_integer(number: Fraction | float, wanted: pa.DataType) -> tuple[pa.Scalar, int]:
    """As `_placed`, for a number in the units that the type counts: those of its scale, or of its time."""
    if pa.types.is_decimal(wanted):
        smallest, largest = 1 - 10**wanted.precision, 10**wanted.precision - 1
    else:
        smallest, largest = -(1 << wanted.bit_width - 1), (1 << wanted.bit_width - 1) - 1
    units = largest if number > largest else smallest if number < smallest else math.floor(number)
    found = Decimal(f"{units}E-{wanted.scale}") if pa.types.is_decimal(wanted) else units
    return pa.scalar(found, wanted), _order(units, number)


def _placed_bytes(value: bytes, wanted: pa.DataType) -> tuple[pa.Scalar, int]:
    width = wanted.byte_width
    found = value[:width].ljust(width, b"\0")
    return pa.scalar(found, wanted), (found > value) - (found < value)
