"""Filters on rows, in the spelling that pyarrow, deltalake and pyiceberg users know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from hoodoo.exceptions import InvalidOptionError, SchemaError

__all__ = ["Filters", "native_filter"]

Condition: TypeAlias = tuple[str, str, Any]
Filters: TypeAlias = Sequence[Condition] | Sequence[Sequence[Condition]]
"""Conditions `(column, operator, value)` that all hold, or a list of such lists of which one holds. Operators: `=`,
`==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`, `is null`, `is not null`."""

_COMPARE = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_CONDITION_LENGTH = 3


def native_filter(filters: Filters | None, schema: pa.Schema) -> tuple[Any, ...] | None:
    """Gives the filter in the form that the core takes.

    Args:
        filters: See `Filters`. None or an empty list lets every row through.
        schema: The columns that a scan gives back; values are brought to their types.

    Returns:
        Nested tuples, or None for no filter.

    Raises:
        SchemaError: A column that is not there, or a value that is not of its type.
        InvalidOptionError: An operator that is not known, or a malformed condition.
    """
    if not filters:
        return None
    if isinstance(filters[0], tuple) and isinstance(filters[0][0], str):
        return _all_of(filters, schema)
    return ("or", [_all_of(conditions, schema) for conditions in filters])


def _all_of(conditions: Sequence[Any], schema: pa.Schema) -> tuple[Any, ...]:
    return ("and", [_condition(condition, schema) for condition in conditions])


def _condition(condition: Any, schema: pa.Schema) -> tuple[Any, ...]:
    if not isinstance(condition, tuple | list) or len(condition) not in (2, _CONDITION_LENGTH):
        message = f"{condition!r} is no condition. Write it as (column, operator, value)"
        raise InvalidOptionError(message)
    column, operator = condition[0], " ".join(str(condition[1]).lower().split())
    if column not in schema.names:
        message = f"the filter names the column {column!r}, which is not there. Columns: {', '.join(schema.names)}"
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
    message = f"unknown operator {condition[1]!r}. Use =, !=, <, <=, >, >=, in, not in, is null or is not null"
    raise InvalidOptionError(message)


def _array(values: list[Any], column: str, data_type: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, type=data_type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as error:
        message = f"the filter compares column {column!r} of type {data_type} with {values!r}"
        raise SchemaError(message) from error
