"""Anything that holds rows, as one Arrow stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from hoodoo.exceptions import InvalidOptionError

__all__ = ["Rows", "record_batch_reader"]

Rows: TypeAlias = Any
"""Rows to write: anything with `__arrow_c_stream__` (pyarrow, polars, DuckDB, Arrow readers), a pandas DataFrame, a
pyarrow RecordBatch, a dictionary of columns, a list of dictionaries, or an iterable of RecordBatches."""


def record_batch_reader(data: Rows, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """Gives the rows as a stream of batches, copying nothing where the data are Arrow already.

    Args:
        data: See `Rows`.
        schema: The table's schema, by which columns of plain Python values are typed.

    Returns:
        A reader over the rows.

    Raises:
        InvalidOptionError: The object holds no rows that can be read.
    """
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if type(data).__module__.split(".", 1)[0] == "pandas":
        return pa.Table.from_pandas(data, preserve_index=False).to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if isinstance(data, Mapping):
        return _table(pa.Table.from_pydict, data, _typed(schema, data))
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        return _from_iterable(data, schema)
    message = (
        f"{type(data).__name__} holds no rows. Give Arrow data, a DataFrame, a dictionary of columns or a list of rows"
    )
    raise InvalidOptionError(message)


def _from_iterable(data: Iterable[Any], schema: pa.Schema | None) -> pa.RecordBatchReader:
    items = iter(data)
    first = next(items, None)
    if isinstance(first, pa.RecordBatch):

        def batches() -> Iterable[pa.RecordBatch]:
            yield first
            yield from items

        return pa.RecordBatchReader.from_batches(first.schema, batches())
    if isinstance(first, Mapping):
        rows = [first, *items]
        names = dict.fromkeys(name for row in rows for name in row)
        return _table(pa.Table.from_pylist, rows, _typed(schema, names))
    if first is None and schema is not None:
        return schema.empty_table().to_reader()
    message = "an empty list says nothing about columns" if first is None else f"rows of type {type(first).__name__}"
    raise InvalidOptionError(f"{message}. Give RecordBatches or dictionaries")


def _table(make: Any, data: Any, schema: pa.Schema | None) -> pa.RecordBatchReader:
    try:
        table: pa.Table = make(data, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        # The values are not of the table's types; what they are is for the writer to judge.
        table = make(data)
    return table.to_reader()


def _typed(schema: pa.Schema | None, names: Iterable[str]) -> pa.Schema | None:
    if schema is None or not set(names) <= set(schema.names):
        return None
    return pa.schema([schema.field(name) for name in names])
