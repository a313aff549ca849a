"""Filters of other libraries in the form of the core: what a scan leaves out files, row groups and pages by.

Such a filter may match more rows than the filter that it is made of, and never fewer: the library's own filter is
applied behind the scan. A condition that has no such form becomes None.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NEGATED", "SWAPPED", "Pruning", "all_of", "any_of", "compare", "decimal_scalar", "is_in", "is_null"]

Pruning: TypeAlias = tuple[Any, ...]
"""A filter in the form of the core; see `hoodoo.filters.NativeFilter`."""

NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""The operator that holds where another does not, of values that are not null."""

SWAPPED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""The operator for the same comparison with its sides swapped."""


def all_of(parts: Sequence[Pruning | None]) -> Pruning | None:
    """Return a filter for rows that match all of some filters. A part that is None matches every row.

    Args:
        parts: The filters.

    Returns:
        The filter, or None if no part is left.

    Examples:
        >>> all_of([("is_null", "a"), None])
        ('and', [('is_null', 'a')])
    """
    known = [part for part in parts if part is not None]
    return ("and", known) if known else None


def any_of(parts: Sequence[Pruning | None]) -> Pruning | None:
    """Return a filter for rows that match one of some filters. A part that is None matches every row.

    Args:
        parts: The filters.

    Returns:
        The filter, or None if a part is None.

    Examples:
        >>> any_of([("is_null", "a"), ("is_null", "b")])
        ('or', [('is_null', 'a'), ('is_null', 'b')])
        >>> any_of([("is_null", "a"), None])
    """
    known = [part for part in parts if part is not None]
    return ("or", known) if len(known) == len(parts) else None


def compare(operator: str, field: pa.Field, value: pa.Scalar) -> Pruning | None:
    """Return a comparison of a column with a value.

    Args:
        operator: `=`, `!=`, `<`, `<=`, `>` or `>=`.
        field: The column.
        value: The value.

    Returns:
        The filter, or None if the value has no equal of the column's type, or the core does not compare this type.

    Examples:
        >>> compare(">", pa.field("a", pa.int32()), pa.scalar(3))[:2]
        ('>', 'a')
        >>> compare(">", pa.field("a", pa.int32()), pa.scalar(2.5))
    """
    literal = _literal(value, field.type)
    return None if literal is None else (operator, field.name, literal)


def is_in(field: pa.Field, values: Sequence[pa.Scalar]) -> Pruning | None:
    """Return the condition that a column has one of some values; None as for `compare`.

    Examples:
        >>> is_in(pa.field("a", pa.int32()), [pa.scalar(3), pa.scalar(4)])[2].to_pylist()
        [3, 4]
    """
    literals = [_literal(value, field.type) for value in values]
    known = [literal for literal in literals if literal is not None]
    if not known or len(known) < len(literals):
        return None
    return ("in", field.name, pa.concat_arrays(known))


def is_null(field: pa.Field, *, negated: bool) -> Pruning | None:
    """Return the condition that a column is null, or is not null; None if the core does not compare its type.

    Examples:
        >>> is_null(pa.field("a", pa.int32()), negated=True)
        ('is_not_null', 'a')
    """
    if _family(field.type) is None:
        return None
    return ("is_not_null" if negated else "is_null", field.name)


def decimal_scalar(digits: int, scale: int) -> pa.Scalar:
    """Return a decimal of its digits and of how many of them are behind the point.

    Examples:
        >>> decimal_scalar(-105, 2).as_py()
        Decimal('-1.05')
    """
    # Through a string: a decimal of Python rounds to its context.
    text = str(abs(digits)).rjust(scale + 1, "0")
    text = f"{text[:-scale]}.{text[-scale:]}" if scale else text
    return pa.scalar(f"-{text}" if digits < 0 else text).cast(pa.decimal128(38, scale))


def _family(data_type: pa.DataType) -> str | None:
    """Which types compare with each other; None for a type that the core is not asked about."""
    families = {
        "boolean": pa.types.is_boolean,
        "integer": pa.types.is_integer,
        "float": lambda t: pa.types.is_float32(t) or pa.types.is_float64(t),
        "decimal": pa.types.is_decimal128,
        "string": lambda t: str(t) in {"string", "large_string", "string_view"},
        "binary": lambda t: str(t) in {"binary", "large_binary", "binary_view"},
        "date": pa.types.is_date32,
        "instant": lambda t: pa.types.is_timestamp(t) and t.tz is not None,
        "timestamp": lambda t: pa.types.is_timestamp(t) and t.tz is None,
    }
    return next((name for name, is_one in families.items() if is_one(data_type)), None)


_WIDER = {("integer", "float"), ("integer", "decimal")}


def _literal(value: pa.Scalar, data_type: pa.DataType) -> pa.Array | None:
    """The value as an array of the column's type; None unless both are equal."""
    of_value, of_column = _family(value.type), _family(data_type)
    if not value.is_valid or of_column is None or (of_value != of_column and (of_value, of_column) not in _WIDER):
        return None
    if of_value == "float" and math.isnan(value.as_py()):
        # Libraries differ on what equals NaN.
        return None
    try:
        literal = value.cast(data_type)
        return pa.repeat(literal, 1) if literal.cast(value.type).equals(value) else None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
