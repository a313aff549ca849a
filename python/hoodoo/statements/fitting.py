"""Comparisons of lists of conditions: each value becomes one of the type of its column, and nothing else is rounded."""

from __future__ import annotations

import pyarrow as pa

from hoodoo.exceptions import SchemaError
from hoodoo.statements.coercion import plain_type
from hoodoo.statements.expressions import Call, Column, Constant, text_of
from hoodoo.values.nearest import nearest, operator_beside

__all__ = ["fitted", "is_exact"]


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
        SchemaError: A string says no date or timestamp.

    Examples:
        >>> condition = Call("<", (Column("n"), Constant(pa.scalar(1.5), exact=True)))
        >>> text_of(fitted(condition, pa.int32()))
        'n <= 1'
    """
    column, *constants = call.arguments
    wanted = plain_type(data_type)
    try:
        placed = [_placed(constant.value, wanted) for constant in constants if isinstance(constant, Constant)]
    except pa.ArrowInvalid as error:
        raise SchemaError(f"a value of `{text_of(call)}` does not fit {wanted}: {error}") from error
    if call.name == "in":
        return Call("in", (column, *(Constant(value) for value, side in placed if side == 0)))
    value, side = placed[0]
    if side and call.name in {"=", "!="}:
        never = Call("in", (column,))
        return never if call.name == "=" else Call("not", (never,))
    return Call(operator_beside(call.name, side), (column, Constant(value)))


def _placed(value: pa.Scalar, wanted: pa.DataType) -> tuple[pa.Scalar, int]:
    """Return a value of the type with no other one between it and the given one, and whether it is less or greater."""
    if not value.is_valid:
        return pa.scalar(None, wanted), 0
    if value.type.equals(wanted) or not _go_together(value.type, wanted):
        return value, 0
    array, (side,) = nearest([value], wanted)
    return array[0], side


def _go_together(given: pa.DataType, wanted: pa.DataType) -> bool:
    types = pa.types
    if _is_number(wanted):
        return _is_number(given)
    if types.is_date32(wanted) or types.is_timestamp(wanted):
        return bool(types.is_string(given) or types.is_date32(given) or types.is_timestamp(given))
    return bool(types.is_binary(given) and types.is_fixed_size_binary(wanted))


def _is_number(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(data_type) or pa.types.is_floating(data_type) or pa.types.is_decimal(data_type))
