"""Types of values in expressions, by the rules of Spark's ANSI mode: common types, casts, what a column can store."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.exceptions import SchemaError, UnsupportedError
from hoodoo.values.strings import decimals_of, text_of_decimals, values_of

__all__ = ["Value", "aligned", "as_array", "cast", "common_type", "decimal_of", "plain", "plain_type", "store"]

Value: TypeAlias = pa.Array | pa.Scalar
"""A value for each row, or one for all rows."""

_SIGNED = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_UNITS = ("s", "ms", "us", "ns")
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_MOST_DIGITS = 38
_LONG = 64
_FAILURES = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OverflowError)


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type without encodings: of a dictionary that of its values, of large strings that of strings."""
    types = pa.types
    if types.is_dictionary(data_type):
        return plain_type(data_type.value_type)
    if types.is_large_string(data_type) or str(data_type) == "string_view":
        return pa.string()
    if types.is_large_binary(data_type) or str(data_type) == "binary_view":
        return pa.binary()
    if types.is_date64(data_type):
        return pa.date32()
    if types.is_unsigned_integer(data_type):
        return pa.decimal128(20, 0) if data_type.bit_width == _LONG else _SIGNED[data_type.bit_width * 2]
    return pa.float32() if types.is_float16(data_type) else data_type


def plain(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return one array without encodings."""
    wanted = plain_type(array.type)
    decoded = array if array.type.equals(wanted) else array.cast(wanted)
    if not isinstance(decoded, pa.ChunkedArray):
        return decoded
    chunks = decoded.chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.array([], wanted)


def as_array(value: Value, rows: int) -> pa.Array:
    """Return a value for each of a number of rows."""
    if isinstance(value, pa.Array):
        return value
    if not value.is_valid:
        return pa.nulls(rows, value.type)
    # Of a nested value, pyarrow repeats no rows at all not.
    return pa.repeat(value, rows) if rows else pa.array([], value.type)


def _is_number(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(data_type) or pa.types.is_floating(data_type) or pa.types.is_decimal(data_type))


def decimal_of(data_type: pa.DataType) -> pa.DataType:
    """Return the decimals that hold every number of a type of integers."""
    return data_type if pa.types.is_decimal(data_type) else pa.decimal128(_DIGITS[data_type.bit_width], 0)


def _number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(left) or pa.types.is_floating(right):
        # As in Spark's ANSI mode: a float has too few digits for integers and decimals.
        return pa.float32() if left.equals(right) else pa.float64()
    if pa.types.is_integer(left) and pa.types.is_integer(right):
        return left if left.bit_width >= right.bit_width else right
    left, right = decimal_of(left), decimal_of(right)
    scale = max(left.scale, right.scale)
    digits = max(left.precision - left.scale, right.precision - right.scale) + scale
    return pa.decimal128(digits, scale) if digits <= _MOST_DIGITS else pa.float64()


def _time(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if not pa.types.is_timestamp(left):
        left, right = right, left
    if pa.types.is_date(right):
        return left
    unit = max(left.unit, right.unit, key=_UNITS.index)
    return pa.timestamp(unit, left.tz or right.tz)


def common_type(left: pa.DataType, right: pa.DataType, what: str) -> pa.DataType:
    """Return the type in which values of two types meet.

    Args:
        left: A type.
        right: Another one.
        what: The expression, for the message.

    Returns:
        The type.

    Raises:
        SchemaError: There is none.

    Examples:
        >>> common_type(pa.int32(), pa.decimal128(2, 1), "a + 1.5")
        Decimal128Type(decimal128(11, 1))
    """
    if left.equals(right) or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if _is_number(left) and _is_number(right):
        return _number(left, right)
    if all(pa.types.is_timestamp(t) or pa.types.is_date(t) for t in (left, right)):
        return _time(left, right)
    if all(pa.types.is_binary(t) or pa.types.is_fixed_size_binary(t) for t in (left, right)):
        return pa.binary()
    raise SchemaError(f"the types {left} and {right} do not go together in `{what}`. Cast one of them")


def aligned(values: list[Value], what: str) -> list[Value]:
    """Return values in their common type. A string literal becomes a date or a timestamp beside one."""
    times = [v.type for v in values if pa.types.is_temporal(v.type)]
    if times:
        is_text = [isinstance(v, pa.Scalar) and pa.types.is_string(v.type) for v in values]
        values = [cast(v, times[0], what) if text else v for v, text in zip(values, is_text, strict=True)]
    wanted = values[0].type
    for value in values[1:]:
        wanted = common_type(wanted, value.type, what)
    return [value if value.type.equals(wanted) else cast(value, wanted, what) for value in values]


def cast(value: Value, wanted: pa.DataType, what: str) -> Value:
    """Return values in another type, as SQL's CAST of Spark's ANSI mode does: what does not fit is an error.

    Args:
        value: The values.
        wanted: The type.
        what: The expression, for the message.

    Returns:
        The values.

    Raises:
        SchemaError: A value does not fit the type.
        UnsupportedError: There is no such cast.

    Examples:
        >>> cast(pa.array([1.7, -1.7]), pa.int64(), "cast(a as bigint)").to_pylist()
        [1, -1]
    """
    given = value.type
    if given.equals(wanted):
        return value
    try:
        return _cast(value, wanted)
    except UnsupportedError as error:
        raise UnsupportedError(f"the cast of {given} to {wanted} in `{what}` is not supported") from error
    except _FAILURES as error:
        raise SchemaError(f"a value of `{what}` of type {given} does not fit {wanted}: {error}") from error


def _cast(  # noqa: PLR0911 - one for each kind of cast
    value: Value, wanted: pa.DataType
) -> Value:
    given, types = value.type, pa.types
    if types.is_null(given):
        return pa.scalar(None, wanted) if isinstance(value, pa.Scalar) else pa.nulls(len(value), wanted)
    if isinstance(value, pa.Scalar):
        return _cast(as_array(value, 1), wanted)[0]
    if types.is_string(given):
        return values_of(value, wanted)
    if types.is_timestamp(wanted) or types.is_date(wanted):
        return _cast_time(value, wanted)
    if types.is_string(wanted) and (types.is_floating(given) or types.is_timestamp(given)):
        # Arrow writes 1 and 2024-01-01 00:00:00.000000 where Spark writes 1.0 and 2024-01-01 00:00:00.
        raise UnsupportedError
    if _is_number(wanted) and types.is_temporal(given):
        raise UnsupportedError
    if types.is_boolean(wanted) and _is_number(given):
        return pc.not_equal(value, pc.cast(pa.scalar(0), given))
    if types.is_decimal(given):
        return _cast_decimal(value, wanted)
    if types.is_decimal(wanted):
        return _as_decimal(value, wanted)
    if types.is_floating(given) and types.is_integer(wanted):
        return pc.cast(pc.trunc(value), wanted)
    # An integer of more digits than a float has is rounded, as in Spark.
    return pc.cast(value, wanted, safe=not (types.is_integer(given) and types.is_floating(wanted)))


def _cast_decimal(value: pa.Array, wanted: pa.DataType) -> pa.Array:
    given, types = value.type, pa.types
    if types.is_integer(wanted):
        return pc.cast(pc.round(_with_room(value), ndigits=0, round_mode="towards_zero"), wanted)
    if types.is_floating(wanted):
        # Arrow's own cast of decimals is not always the nearest number, and that of their text is.
        return pc.cast(pc.cast(value, pa.string()), wanted)
    if types.is_string(wanted):
        return text_of_decimals(value)
    if types.is_decimal(wanted) and wanted.scale < given.scale:
        return pc.cast(pc.round(_with_room(value), ndigits=wanted.scale, round_mode="half_towards_infinity"), wanted)
    return pc.cast(value, wanted)


def _with_room(decimals: pa.Array) -> pa.Array:
    """Decimals with room for the digit that rounding may add before the point."""
    return pc.cast(decimals, pa.decimal256(decimals.type.precision + 1, decimals.type.scale))


def _as_decimal(value: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_integer(value.type):
        # Arrow asks for the digits of the type, not of the values.
        return pc.cast(pc.cast(value, decimal_of(value.type)), wanted)
    if pa.types.is_floating(value.type):
        # Spark takes the shortest text that means the double.
        return decimals_of(pc.cast(pc.cast(value, pa.float64()), pa.string()), wanted)
    return pc.cast(value, wanted)


def _cast_time(value: Value, wanted: pa.DataType) -> Value:
    given, types = value.type, pa.types
    if types.is_timestamp(given) and types.is_date(wanted):
        return pc.cast(pc.floor_temporal(value, unit="day"), wanted)
    if types.is_timestamp(wanted) and wanted.tz and not getattr(given, "tz", None):
        naive = pc.cast(value, pa.timestamp(wanted.unit))
        return pc.cast(pc.assume_timezone(naive, "UTC"), wanted)
    if not types.is_timestamp(given) and not types.is_date(given):
        raise UnsupportedError
    return pc.cast(value, wanted)


def _is_storable(given: pa.DataType, wanted: pa.DataType) -> bool:
    types = pa.types
    if types.is_null(given) or given.equals(wanted):
        return True
    if types.is_string(wanted):
        return bool(
            types.is_integer(given) or types.is_boolean(given) or types.is_date(given) or types.is_decimal(given)
        )
    if all(types.is_date(t) or types.is_timestamp(t) for t in (given, wanted)):
        return True
    if types.is_nested(given) and types.is_nested(wanted):
        return True
    is_bytes = types.is_binary(given) and types.is_fixed_size_binary(wanted)
    return bool(is_bytes or (_is_number(given) and _is_number(wanted)))


def store(value: Value, field: pa.Field, rows: int) -> pa.Array:
    """Return values as a column of a table stores them: numbers fit or fail, and strings are not parsed.

    Args:
        value: The values.
        field: The column.
        rows: Number of rows.

    Returns:
        The values in the type of the column.

    Raises:
        SchemaError: The types do not go together, a number does not fit, or a required column would be null.

    Examples:
        >>> store(pa.scalar(7), pa.field("fare", pa.float64()), 2).to_pylist()
        [7.0, 7.0]
    """
    given, wanted = value.type, plain_type(field.type)
    is_time = isinstance(value, pa.Scalar) and pa.types.is_string(given) and pa.types.is_temporal(wanted)
    if not is_time and not _is_storable(given, wanted):
        raise SchemaError(
            f"column {field.name!r} of type {field.type} cannot take a value of type {given}. "
            f"Cast it, such as cast(… as {_sql_name(wanted)})"
        )
    array = as_array(cast(value, wanted, field.name), rows)
    if not field.nullable and array.null_count:
        raise SchemaError(
            f"column {field.name!r} is required, and a row would get null. Give a value that is never null"
        )
    return array if array.type.equals(field.type) else array.cast(field.type)


def _sql_name(data_type: pa.DataType) -> str:
    names = {"int64": "bigint", "int32": "int", "int16": "smallint", "int8": "tinyint", "bool": "boolean"}
    return names.get(str(data_type), str(data_type).replace("128", "").split("[", maxsplit=1)[0])
