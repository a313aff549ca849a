"""Conditions that people type: `city=sf`, `fare>=10`, `note is null`."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hoodoo import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoodoo.filters import Filters

__all__ = ["conditions"]

_COMPARISON = re.compile(r"\s*([\w.]+)\s*(<=|>=|!=|<>|==|=|<|>)(?![<>=])\s*(.*?)\s*", re.DOTALL)
_NULL = re.compile(r"\s*([\w.]+)\s+(is\s+null|is\s+not\s+null)\s*", re.IGNORECASE)
# Values between commas, which may be in quotes.
_ITEM = re.compile(r"""\s*('[^']*'|"[^"]*"|[^,'"][^,]*|)\s*(?:,|\Z)""")
_IN = re.compile(r"\s*([\w.]+)\s+((?:not\s+)?in)\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?")


def conditions(texts: Sequence[str] | None, schema: pa.Schema) -> Filters | None:
    """Return conditions as filters that must all hold.

    Args:
        texts: `COLUMN OPERATOR VALUE` with `=`, `!=`, `<`, `<=`, `>` or `>=`; `COLUMN in (A, B)`,
            `COLUMN not in (A, B)`, `COLUMN is null`, `COLUMN is not null`. Values may be in quotes.
        schema: The columns of the table. Other columns are taken as strings, as Hudi's `_hoodie_*` columns are.

    Returns:
        The filters; None without conditions.

    Raises:
        InvalidOptionError: A condition has another form, or its value does not have the type of the column.

    Examples:
        >>> schema = pa.schema({"city": pa.string(), "fare": pa.float64()})
        >>> conditions(["city=sf", "fare >= 10", "city in ('a', 'b')", "fare is not null"], schema)
        [('city', '=', 'sf'), ('fare', '>=', 10.0), ('city', 'in', ['a', 'b']), ('fare', 'is not null')]
    """
    found: list[Any] = [_condition(text, schema) for text in texts or []]
    return found or None


def _condition(text: str, schema: pa.Schema) -> tuple[Any, ...]:
    if null := _NULL.fullmatch(text):
        return (null[1], " ".join(null[2].lower().split()))
    if among := _IN.fullmatch(text):
        values = [_value(item, among[1], schema) for item in _items(among[3], text)]
        return (among[1], " ".join(among[2].lower().split()), values)
    if comparison := _COMPARISON.fullmatch(text):
        column, operator, value = comparison.groups()
        return (column, operator, _value(value, column, schema))
    raise InvalidOptionError(
        f"invalid condition {text!r}: expected COLUMN OPERATOR VALUE, such as city=sf, 'fare>=10', 'city in (sf, la)' "
        "or 'note is null'"
    )


def _items(text: str, condition: str) -> list[str]:
    items: list[str] = []
    at = 0
    if not text.strip():
        return items
    while True:
        found = _ITEM.match(text, at)
        if found is None:
            raise InvalidOptionError(f"invalid condition {condition!r}: the quotes of a value do not end where it does")
        items.append(found[1])
        if found.end() >= len(text) and not found[0].endswith(","):
            return items
        at = found.end()


def _value(text: str, column: str, schema: pa.Schema) -> Any:
    text = text.strip()
    if text[:1] in ("'", '"'):
        if len(text) < len("''") or text.find(text[0], 1) != len(text) - 1:
            raise InvalidOptionError(
                f"invalid value {text!r}: its quotes do not end where it does. Give each condition on its own: "
                "--where city=sf --where 'fare>=10'"
            )
        text = text[1:-1]
    kind = schema.field(column).type if column in schema.names else pa.string()
    try:
        # A scalar keeps the precision that a Python value may lose.
        scalar = pa.scalar(text).cast(kind)
    except (pa.ArrowException, ValueError) as error:
        if pa.types.is_temporal(kind) and _DATE.match(text):
            # Filters read dates, and times without a zone, for columns of any time.
            return text
        if pa.types.is_decimal(kind) and _NUMBER.fullmatch(text):
            return Decimal(text)
        raise InvalidOptionError(f"the value {text!r} is no {kind}, which is the type of column {column!r}") from error
    return scalar if pa.types.is_timestamp(kind) or pa.types.is_time(kind) else scalar.as_py()
