"""The forms of conditions and values: SQL text, pyarrow, polars, filters as lists, and Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.exceptions import InvalidOptionError
from hoodoo.filters import Filters, checked_filters
from hoodoo.statements.coercion import plain_type
from hoodoo.statements.expressions import Call, Case, Cast, Column, Constant, Expression, Foreign
from hoodoo.statements.foreign import is_polars
from hoodoo.statements.sql import parse_sql
from hoodoo.values.nearest import plain_value

if TYPE_CHECKING:
    from hoodoo.statements.expressions import Side

__all__ = ["Assignments", "Predicate", "parse_assignments", "parse_condition"]

Predicate: TypeAlias = str | bool | Filters | Any
"""A condition on rows, in one of these forms:

- SQL text in the dialect of Spark, such as `city = 'sf' and fare > 10` (`pip install 'hoodoo[sql]'`)
- a `pyarrow.compute.Expression`, such as `pc.field("fare") > 10`
- an expression of polars that looks at one row at a time, such as `pl.col("fare") > 10`
- a list of conditions; see `hoodoo.filters.Filters`
- `True`, for every row"""

Assignments: TypeAlias = Mapping[str, Any]
"""New values by column: SQL text such as `fare * 1.1`, an expression of pyarrow or polars, or a Python value or
`pyarrow.scalar` that is taken as it is. A string is SQL: write `"'sf'"` or `pa.scalar("sf")` for a string."""

_LONG_BITS = 64
_SQL = (Call, Case, Cast, Column, Constant, Foreign)


def parse_condition(form: Predicate | None, names: Mapping[str, Side] | None = None) -> Expression | None:
    """Return a condition as an expression.

    Args:
        form: The condition; None is none.
        names: The inputs of a merge by the names that qualify columns in SQL.

    Returns:
        The expression.

    Raises:
        InvalidOptionError: The condition has none of the forms of `Predicate`, or is malformed.
        UnsupportedError: SQL that is not supported.

    Examples:
        >>> from hoodoo.statements.expressions import text_of
        >>> text_of(parse_condition([("city", "in", ["sf", "la"]), ("fare", ">", 0)]))
        "in(city, 'sf', 'la') and (fare > 0)"
    """
    if form is None:
        return None
    if isinstance(form, bool):
        return Constant(pa.scalar(form))
    foreign = _foreign(form)
    if foreign is not None:
        return foreign
    if isinstance(form, str):
        return _text(form, names, "a condition")
    if isinstance(form, _SQL):
        return form
    if isinstance(form, Sequence):
        return _of_filters(form, names or {})
    raise InvalidOptionError(
        f"invalid condition of type {type(form).__name__}: expected SQL text, an expression of pyarrow or polars, or a "
        "list of (column, operator, value)"
    )


def parse_assignments(values: Any, what: str, names: Mapping[str, Side] | None = None) -> dict[str, Expression]:
    """Return values by column as expressions.

    Args:
        values: See `Assignments`.
        what: The argument, for messages.
        names: See `parse_condition`.

    Returns:
        The expressions by column, unqualified.

    Raises:
        InvalidOptionError: It is no dictionary with columns, or is empty.
        UnsupportedError: SQL that is not supported.
    """
    if not isinstance(values, Mapping) or not values:
        raise InvalidOptionError(
            f"invalid {what} {values!r}: expected a dictionary of values by column, such as {{'fare': 'fare * 1.1'}}"
        )
    found: dict[str, Expression] = {}
    for column, value in values.items():
        if not isinstance(column, str) or not column:
            raise InvalidOptionError(f"invalid column {column!r} in {what}: expected the name of a column")
        prefix, _, bare = column.partition(".")
        name = bare if bare and (names or {}).get(prefix.lower()) == "target" else column
        if name in found:
            raise InvalidOptionError(f"the column {name!r} comes twice in {what}: give it once")
        found[name] = _value(value, names)
    return found


def _value(value: Any, names: Mapping[str, Side] | None) -> Expression:
    foreign = _foreign(value)
    if foreign is not None:
        return foreign
    if isinstance(value, str):
        return _text(value, names, "a value")
    if isinstance(value, _SQL):
        return value
    return _constant(value)


def _constant(value: Any, *, exact: bool = False) -> Constant:
    try:
        return Constant(_scalar(value), exact)
    except (pa.ArrowException, TypeError, OverflowError, ValueError) as error:
        raise InvalidOptionError(
            f"invalid value {_shown(value)}of type {type(value).__name__}: expected SQL text, an expression, or a "
            "value that Arrow has a type for"
        ) from error


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:
        # Python writes no integers of more than 4300 digits.
        return ""
    return "" if " at 0x" in text else f"{text} "


def _scalar(value: Any) -> pa.Scalar:
    scalar = value if isinstance(value, pa.Scalar) else _converted(value)
    wanted = plain_type(scalar.type)
    return scalar if scalar.type.equals(wanted) else scalar.cast(wanted)


def _converted(value: Any) -> pa.Scalar:
    if isinstance(value, int) and value.bit_length() >= _LONG_BITS:
        return pa.scalar(Decimal(value))
    return pa.scalar(plain_value(value))


def _text(text: str, names: Mapping[str, Side] | None, what: str) -> Expression:
    if not text.strip():
        raise InvalidOptionError(f"the SQL of {what} is empty: write an expression, such as fare > 10")
    return parse_sql(text, names)


def _foreign(value: Any) -> Foreign | None:
    if isinstance(value, pc.Expression):
        return Foreign("pyarrow", value)
    return Foreign("polars", value) if is_polars(value) else None


def _of_filters(filters: Sequence[Any], names: Mapping[str, Side]) -> Expression:
    if not filters:
        raise InvalidOptionError("an empty list is no condition: pass True for every row")
    alternatives = [_joined("and", [_condition(c, names) for c in group]) for group in checked_filters(filters)]
    return _joined("or", alternatives)


def _joined(name: str, parts: list[Expression]) -> Expression:
    joined = parts[0]
    for part in parts[1:]:
        joined = Call(name, (joined, part))
    return joined


def _condition(condition: tuple[Any, ...], names: Mapping[str, Side]) -> Expression:
    name, operator, *rest = condition
    prefix, _, bare = name.partition(".")
    side = names.get(prefix.lower()) if bare else None
    column = Column(name) if side is None else Column(bare, side)
    if operator == "is_null":
        return Call("is_null", (column,))
    if operator == "is_not_null":
        return Call("not", (Call("is_null", (column,)),))
    if operator in {"in", "not in"}:
        found: Expression = Call("in", (column, *(_constant(value, exact=True) for value in rest[0])))
        if not rest[0]:
            # Even null is in no list without values.
            found = Constant(pa.scalar(False))
        return found if operator == "in" else Call("not", (found,))
    return Call(operator, (column, _constant(rest[0], exact=True)))
