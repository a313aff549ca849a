"""What of a condition a scan can use to leave out files, row groups and pages."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hoodoo.exceptions import HudiError
from hoodoo.statements.coercion import cast, common_type, decimal_of, plain_type
from hoodoo.statements.expressions import Call, Column, Constant, Expression, conjuncts
from hoodoo.statements.fitting import fitted, is_exact

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["scan_filter"]

_SWAPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
# NaN is larger than any number to SQL, and compares with nothing in a scan.
_WITHOUT_NAN = {"=", "<", "<="}
# Doubles tell numbers of so many digits apart, and integers below this one.
_DOUBLE_DIGITS = 15
_WHOLE_DOUBLES = 1 << 53


def scan_filter(conditions: Sequence[Expression]) -> Callable[[pa.Schema], tuple[Any, ...]] | None:
    """Return a filter of a scan that keeps every row for which conditions are true, and maybe others.

    Args:
        conditions: Conditions that must all be true, on columns of the table.

    Returns:
        A function that a scan calls with the columns of the table; None where nothing is known of the rows.
    """
    parts = [part for condition in conditions for part in conjuncts(condition)]
    useful = [part for part in parts if _may_help(part)]
    if not useful:
        return None

    def convert(schema: pa.Schema) -> tuple[Any, ...]:
        known = (_native(part, schema) for part in useful)
        return ("and", [part for part in known if part is not None])

    return convert


def _may_help(part: Expression) -> bool:
    if not isinstance(part, Call):
        return False
    if part.name in {"or", "and"}:
        helpful = [_may_help(argument) for argument in part.arguments]
        return all(helpful) if part.name == "or" else any(helpful)
    return part.name in {*_SWAPPED, "in", "is_null", "not"}


def _native(part: Expression, schema: pa.Schema) -> tuple[Any, ...] | None:
    if not isinstance(part, Call):
        return None
    if part.name in {"or", "and"}:
        sides = [_native(argument, schema) for argument in part.arguments]
        known = [side for side in sides if side is not None]
        enough = len(known) == len(sides) if part.name == "or" else known
        return (part.name, known) if enough else None
    if part.name == "not":
        inner = part.arguments[0]
        column = _column(inner.arguments[0], schema) if isinstance(inner, Call) and inner.name == "is_null" else None
        return None if column is None else ("is_not_null", column)
    if part.name == "is_null":
        column = _column(part.arguments[0], schema)
        return None if column is None else ("is_null", column)
    part = _fitted(part, schema)
    if part.name == "in":
        return _in(part, schema)
    return _comparison(part, schema) if part.name in _SWAPPED else None


def _fitted(part: Call, schema: pa.Schema) -> Call:
    column = _column(part.arguments[0], schema) if is_exact(part) else None
    return part if column is None else fitted(part, schema.field(column).type)


def _column(expression: Expression, schema: pa.Schema) -> str | None:
    if not isinstance(expression, Column) or expression.side == "source":
        return None
    name = expression.name
    if name in schema.names:
        return name
    same = [known for known in schema.names if known.lower() == name.lower()]
    return same[0] if len(same) == 1 else None


def _comparison(part: Call, schema: pa.Schema) -> tuple[Any, ...] | None:
    (left, right), name = part.arguments, part.name
    if isinstance(left, Constant):
        left, right, name = right, left, _SWAPPED[name]
    column = _column(left, schema)
    if column is None or not isinstance(right, Constant):
        return None
    data_type = schema.field(column).type
    value = _literal(right, data_type)
    if value is None or (pa.types.is_floating(data_type) and name not in _WITHOUT_NAN):
        return None
    return (name, column, pa.repeat(value, 1)) if _meets_exactly(data_type, {right.value.type}, [value]) else None


def _in(part: Call, schema: pa.Schema) -> tuple[Any, ...] | None:
    column = _column(part.arguments[0], schema)
    members = [m for m in part.arguments[1:] if not isinstance(m, Constant) or m.value.is_valid]
    if column is None or not members:
        return None
    data_type = schema.field(column).type
    values = [_literal(m, data_type) if isinstance(m, Constant) else None for m in members]
    known = [value for value in values if value is not None]
    types = {m.value.type for m in members if isinstance(m, Constant)}
    if len(known) < len(values) or not _meets_exactly(data_type, types, known):
        return None
    return ("in", column, pa.concat_arrays([pa.repeat(value, 1) for value in known]))


def _meets_exactly(column: pa.DataType, literals: set[pa.DataType], values: Sequence[pa.Scalar]) -> bool:
    """Whether SQL compares no two values of a column alike, as it does where both become doubles."""
    given = plain_type(column)
    if not (pa.types.is_integer(given) or pa.types.is_decimal(given)) or decimal_of(given).precision <= _DOUBLE_DIGITS:
        return True
    if not any(pa.types.is_floating(common_type(given, literal, "a literal")) for literal in literals):
        return True
    return bool(pa.types.is_integer(given)) and all(abs(value.as_py()) < _WHOLE_DOUBLES for value in values)


def _literal(constant: Constant, wanted: pa.DataType) -> pa.Scalar | None:
    """The literal in the type of a column; None where it has no equal there."""
    value = constant.value
    if not value.is_valid or pa.types.is_nested(wanted) or pa.types.is_dictionary(wanted):
        return None
    same_kind = value.type.equals(wanted) or (pa.types.is_string(value.type) and pa.types.is_temporal(wanted))
    if pa.types.is_integer(value.type) or pa.types.is_decimal(value.type) or pa.types.is_floating(value.type):
        same_kind = bool(pa.types.is_integer(wanted) or pa.types.is_floating(wanted) or pa.types.is_decimal(wanted))
    if not same_kind:
        return None
    try:
        found = cast(value, wanted, "a literal")
    except HudiError:
        return None
    if pa.types.is_temporal(wanted) or value.type.equals(wanted):
        return None if pa.types.is_floating(wanted) and math.isnan(found.as_py()) else found
    return found if found.as_py() == value.as_py() else None
