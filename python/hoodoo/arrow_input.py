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
        return _columns(data, schema).to_reader()
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
        return _columns({name: [row.get(name) for row in rows] for name in names}, schema).to_reader()
    if first is None and schema is not None:
        return schema.empty_table().to_reader()
    message = "an empty list says nothing about columns" if first is None else f"rows of type {type(first).__name__}"
    raise InvalidOptionError(f"{message}. Give RecordBatches or dictionaries")


def _columns(data: Mapping[str, Any], schema: pa.Schema | None) -> pa.Table:
    known = {} if schema is None else {field.name: field for field in schema}
    arrays, fields = [], []
    for name, values in data.items():
        like = known.get(str(name))
        array = _column(values, None if like is None else like.type)
        arrays.append(array)
        # Plain values declare nothing: what is required stays so.
        fields.append(pa.field(str(name), array.type, like is None or like.nullable))
    return pa.table(arrays, schema=pa.schema(fields))


def _column(values: Any, data_type: pa.DataType | None) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    # Told a type, pyarrow cuts values to it without a word: 1.5 to 1. What fits is for the writer to judge.
    if data_type is not None and _cannot_be_inferred(data_type):
        return pa.array(values, type=data_type)
    inferred = pa.array(values)
    if data_type is not None and pa.types.is_temporal(data_type) and pa.types.is_integer(inferred.type):
        return pa.array(values, type=data_type)
    return inferred


def _cannot_be_inferred(data_type: pa.DataType) -> bool:
    if pa.types.is_map(data_type) or pa.types.is_fixed_size_binary(data_type):
        return True
    inner = [data_type.field(n).type for n in range(data_type.num_fields)]
    return any(_cannot_be_inferred(one) for one in inner)
