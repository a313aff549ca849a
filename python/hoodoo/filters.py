"""Filters on rows, in the form of pyarrow, deltalake and pyiceberg."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from hoodoo.exceptions import InvalidOptionError, SchemaError
from hoodoo.values.nearest import nearest, operator_beside

__all__ = ["Filters", "LateFilter", "checked_filters", "late_filter"]

Condition: TypeAlias = tuple[str, str, Any] | tuple[str, str]
Filters: TypeAlias = Sequence[Condition] | Sequence[Sequence[Condition]]
"""A list of conditions `(column, operator, value)` that must all hold, or a list of such lists of which one must hold.

Operators: `=`, `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`; and `is null`, `is not null`, which take no value.

A value does not need to fit the type of its column: integers compare with 0.5, days with times, and short decimals with
longer ones, by their exact values. A string beside dates or timestamps is read as one, in UTC; integers are neither.
A float means the nearest value of a floating-point column, as a decimal does, and beside decimals what it is written
as. NaN equals NaN and is larger than any number."""

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
    if side and operator == "=":
        return ("in", column, pa.array([], data_type))
    if side and operator == "!=":
        return ("is_not_null", column)
    return (operator_beside(operator, side), column, array)


def _converted(values: list[Any], column: str, data_type: pa.DataType) -> tuple[pa.Array, list[int]]:
    """Values in the type of a column, and on which side of the given ones they are."""
    try:
        return nearest(values, data_type)
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
