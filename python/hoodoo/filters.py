"""Filters on rows, in the form of pyarrow, deltalake and pyiceberg."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from hoodoo.exceptions import InvalidOptionError, SchemaError

__all__ = ["Filters", "LateFilter", "late_filter"]

Condition: TypeAlias = tuple[str, str, Any]
Filters: TypeAlias = Sequence[Condition] | Sequence[Sequence[Condition]]
"""A list of conditions `(column, operator, value)` that must all hold, or a list of such lists of which one must hold.

Operators: `=`, `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`; and `is null`, `is not null`, which take no value."""

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
        have its column's type, and an InvalidOptionError if an operator or a condition is invalid.
    """
    return partial(_native_filter, filters) if filters else None


def _native_filter(filters: Filters, schema: pa.Schema) -> NativeFilter:
    """Convert the values of filters to the types of a schema."""
    if isinstance(filters[0], tuple) and isinstance(filters[0][0], str):
        return _all_of(filters, schema)
    return ("or", [_all_of(conditions, schema) for conditions in filters])


def _all_of(conditions: Sequence[Any], schema: pa.Schema) -> NativeFilter:
    return ("and", [_condition(condition, schema) for condition in conditions])


def _condition(condition: Any, schema: pa.Schema) -> NativeFilter:
    if not isinstance(condition, tuple | list) or len(condition) not in (2, _CONDITION_LENGTH):
        message = f"invalid condition {condition!r}: expected (column, operator, value)"
        raise InvalidOptionError(message)
    column, operator = condition[0], " ".join(str(condition[1]).lower().split())
    if column not in schema.names:
        message = f"the filter names the column {column!r}, which does not exist. Columns: {', '.join(schema.names)}"
        raise SchemaError(message)
    if operator in ("is null", "is not null"):
        return (operator.replace(" ", "_"), column)
    if len(condition) != _CONDITION_LENGTH:
        message = f"the condition {condition!r} has no value"
        raise InvalidOptionError(message)
    value, data_type = condition[2], schema.field(column).type
    if operator in _COMPARE:
        return (_COMPARE[operator], column, _array([value], column, data_type))
    if operator == "in":
        return ("in", column, _array(list(value), column, data_type))
    if operator == "not in":
        return ("not", ("in", column, _array(list(value), column, data_type)))
    message = f"invalid operator {condition[1]!r}: expected =, !=, <, <=, >, >=, in, not in, is null or is not null"
    raise InvalidOptionError(message)


def _array(values: list[Any], column: str, data_type: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, type=data_type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as error:
        message = f"the filter compares column {column!r} of type {data_type} with {values!r}"
        raise SchemaError(message) from error
