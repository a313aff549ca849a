"""Expressions of pyarrow and polars: these libraries evaluate them over our columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hoodoo.exceptions import SchemaError
from hoodoo.extras import import_extra
from hoodoo.statements.coercion import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoodoo.statements.expressions import Foreign, Side

__all__ = ["evaluate_foreign", "is_polars"]


def is_polars(value: object) -> bool:
    """Return whether a value is an expression of polars, without importing polars."""
    return type(value).__module__.startswith("polars.") and type(value).__name__ == "Expr"


def evaluate_foreign(foreign: Foreign, sides: Mapping[Side, Mapping[str, pa.Array]], rows: int) -> pa.Array:
    """Return the values of an expression of another library.

    Args:
        foreign: The expression. It names columns of one input by their names, and of the two inputs of a merge as
            `target.id` and `source.id`; a name that only one of them has needs no prefix.
        sides: The columns of each input.
        rows: Number of rows.

    Returns:
        A value for each row.

    Raises:
        SchemaError: The library refuses the expression, or it does not give one value for each row.
    """
    table = pa.table(_named(sides))
    evaluate = _in_pyarrow if foreign.library == "pyarrow" else _in_polars
    try:
        values = evaluate(foreign, table)
    except Exception as error:
        known = ", ".join(table.column_names)
        message = f"{foreign.library} cannot evaluate {foreign.expression}: {error}. Columns: {known}"
        raise SchemaError(message) from error
    if len(values) != rows:
        raise SchemaError(f"{foreign.expression} gives {len(values)} values for {rows} rows: expected one for each row")
    return plain(values)


def _named(sides: Mapping[Side, Mapping[str, pa.Array]]) -> dict[str, pa.Array]:
    if len(sides) == 1:
        return dict(*sides.values())
    qualified = {f"{side}.{name}": array for side, columns in sides.items() for name, array in columns.items()}
    names = [name for columns in sides.values() for name in columns]
    bare = {name: array for columns in sides.values() for name, array in columns.items() if names.count(name) == 1}
    return {**bare, **qualified}


def _in_pyarrow(foreign: Foreign, table: pa.Table) -> pa.ChunkedArray:
    from pyarrow import acero  # noqa: PLC0415 - only who uses such expressions needs it

    read = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    compute = acero.Declaration("project", acero.ProjectNodeOptions([foreign.expression], ["value"]), [read])
    return compute.to_table(use_threads=False)["value"]


def _in_polars(foreign: Foreign, table: pa.Table) -> pa.ChunkedArray:
    import_extra("polars", "polars", "a polars expression")
    import polars as pl  # noqa: PLC0415 - an optional package

    def values_of(frame: Any) -> Any:
        result = frame.lazy().select(foreign.expression.alias("value")).collect()["value"]
        is_literal = not foreign.expression.meta.root_names()
        return result.new_from_index(0, frame.height) if is_literal and len(result) == 1 else result

    frame = pl.from_arrow(table)
    result = values_of(frame)
    half = frame.height // 2
    if half and len(result) == frame.height:
        # Batches are no unit of the user's: what looks at other rows of a batch gives arbitrary values.
        halves = pl.concat([values_of(frame.slice(0, half)), values_of(frame.slice(half))])
        if not halves.equals(result):
            raise ValueError("it looks at other rows: only expressions of one row are supported")
    return result.to_arrow()
