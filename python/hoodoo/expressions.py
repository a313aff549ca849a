"""Expressions of pyarrow: which columns of a table they read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hoodoo.substrait import SubstraitFilter

if TYPE_CHECKING:
    from hoodoo.pruning import Pruning

__all__ = ["columns_of"]


def columns_of(expression: pc.Expression, schema: pa.Schema) -> tuple[set[str] | None, Pruning | None]:
    """Return the columns that an expression reads, and what a scan can prune by.

    Args:
        expression: The expression. It fits the schema.
        schema: The columns of the table.

    Returns:
        The names of the columns, None if that cannot be told; and a filter in the form of the core, or None.

    Examples:
        >>> schema = pa.schema({"a": pa.int64(), "s": pa.string()})
        >>> columns_of(pc.utf8_length(pc.field("s")) > 3, schema)
        ({'s'}, None)
        >>> columns_of(pc.field("a").is_null(), schema)
        ({'a'}, ('is_null', 'a'))
    """
    behind_another = pa.schema([pa.field("", pa.int8()), *schema])
    try:
        found = SubstraitFilter(expression, schema)
        if SubstraitFilter(expression, behind_another).fields != [number + 1 for number in found.fields]:
            # It names columns by number: those of all columns.
            return None, None
        return {schema.field(number).name for number in found.fields}, found.pruning()
    except (pa.ArrowException, KeyError, IndexError, ValueError):
        # Substrait does not have all functions and casts.
        return _named_columns(expression, schema), None


def _named_columns(expression: pc.Expression, schema: pa.Schema) -> set[str] | None:
    """The columns without which an expression does not fit a schema; None if it may have columns by number."""
    if "FieldPath(" in str(expression):
        return None
    return {
        field.name
        for number, field in enumerate(schema)
        if not _fits(expression, schema.set(number, field.with_name("\0")))
    }


def _fits(expression: pc.Expression, schema: pa.Schema) -> bool:
    try:
        ds.Scanner.from_batches(iter(()), schema=schema, columns={"": expression})
    except pa.ArrowException:
        return False
    return True
