"""Rows: what writes and merges take as input, and how it becomes one Arrow stream."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from hoodoo.exceptions import InvalidOptionError, SchemaError

__all__ = [
    "ArrowArray",
    "ArrowStream",
    "DataFrame",
    "Keys",
    "Rows",
    "SchemaLike",
    "arrow_schema_of",
    "record_batch_reader",
    "rows_of_keys",
]


@runtime_checkable
class ArrowStream(Protocol):
    """An object with the PyCapsule interface of Arrow streams: pyarrow, polars, DuckDB, pandas from version 2.2."""

    def __arrow_c_stream__(self, requested_schema: Any = None, /) -> Any:
        """Export the object as an `ArrowArrayStream`."""


@runtime_checkable
class ArrowArray(Protocol):
    """An object with the PyCapsule interface of Arrow arrays: a record batch."""

    def __arrow_c_array__(self, requested_schema: Any = None, /) -> Any:
        """Export the object as an `ArrowArray`."""


@runtime_checkable
class DataFrame(Protocol):
    """An object with the DataFrame interchange protocol: a pandas DataFrame of any version."""

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        """Export the object for the DataFrame interchange protocol."""


Rows: TypeAlias = ArrowStream | ArrowArray | DataFrame | Mapping[str, Any] | Iterable[Mapping[str, Any] | ArrowArray]
"""Rows to write or to merge, in any of these forms:

- an object with `__arrow_c_stream__`: a pyarrow Table or RecordBatchReader, a polars DataFrame, a DuckDB relation
- a pyarrow RecordBatch, or an iterable of them; the batches stream, and only one is in memory at a time
- a pandas DataFrame; its index is left out
- a dictionary of columns: a list, NumPy array or Arrow array of each column, all of the same length
- an iterable of dictionaries, one for each row; a key that a row lacks is null

Columns of plain Python values get the types that pyarrow infers; a write casts them to the types of the table."""

Keys: TypeAlias = list[Any] | tuple[Any, ...] | set[Any]
"""Values of the record key, for a table with one key column."""

SchemaLike: TypeAlias = pa.Schema | Mapping[str, Any] | Iterable[Any]
"""A pyarrow schema, or what `pyarrow.schema` makes one of: a dictionary of types by column name, fields, or
`(name, type)` pairs."""


def record_batch_reader(  # noqa: PLR0911 - one for each form
    data: Rows, schema: pa.Schema | None = None
) -> pa.RecordBatchReader:
    """Return rows as a stream of batches. Arrow data are not copied.

    Args:
        data: The rows.
        schema: The schema of the table; it gives the types of columns of plain Python values.

    Returns:
        A reader over the rows.

    Raises:
        InvalidOptionError: The object has none of the forms of `Rows`.

    Examples:
        >>> record_batch_reader([{"id": 1}, {"id": 2, "name": "b"}]).read_all().to_pylist()
        [{'id': 1, 'name': None}, {'id': 2, 'name': 'b'}]
    """
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    # Before the protocols: pandas exports its index as a column.
    if type(data).__module__.split(".", 1)[0] == "pandas":
        return pa.Table.from_pandas(data, preserve_index=False).to_reader()
    if isinstance(data, ArrowStream):
        return pa.RecordBatchReader.from_stream(data)
    if isinstance(data, ArrowArray):
        return record_batch_reader(pa.record_batch(data))
    if isinstance(data, DataFrame):
        from pyarrow.interchange import from_dataframe  # noqa: PLC0415 - slow to import, and rarely needed

        return from_dataframe(data).to_reader()
    if isinstance(data, Mapping):
        return _columns(data, schema).to_reader()
    other: Any = data
    if isinstance(other, Iterable) and not isinstance(other, str | bytes):
        return _from_iterable(other, schema)
    if type(data).__name__ == "LazyFrame":
        raise InvalidOptionError("a LazyFrame of polars has no rows yet: call collect() first")
    raise InvalidOptionError(
        f"invalid rows of type {type(data).__name__}: expected Arrow data, a DataFrame, a dictionary of columns or a "
        "list of dictionaries"
    )


def arrow_schema_of(schema: Any) -> pa.Schema:
    """Return a schema.

    Args:
        schema: See `SchemaLike`.

    Returns:
        The schema, with at least one column.

    Raises:
        InvalidOptionError: It is none, a type is none of Arrow's, or it has no columns.

    Examples:
        >>> arrow_schema_of({"id": "int64"}).names
        ['id']
    """
    try:
        found = schema if isinstance(schema, pa.Schema) else pa.schema(schema)
    except (TypeError, ValueError, KeyError, pa.ArrowException) as error:
        raise InvalidOptionError(
            f"invalid schema of type {type(schema).__name__}: expected a pyarrow schema, or types of Arrow by column, "
            "such as {'id': pa.int64()}"
        ) from error
    if not len(found):
        raise InvalidOptionError("the schema has no columns: give at least one")
    return found


def has_types(data: Rows) -> bool:
    """Return whether rows come with the types of their columns, as Arrow data and DataFrames do.

    Args:
        data: The rows.

    Returns:
        Whether they do.

    Examples:
        >>> has_types(pa.table({"id": [1]})), has_types({"id": [1]}), has_types([{"id": 1}])
        (True, False, False)
    """
    if isinstance(data, (pa.RecordBatchReader, pa.RecordBatch, ArrowStream, ArrowArray, DataFrame)):
        return True
    return type(data).__module__.split(".", 1)[0] == "pandas"


def rows_of_keys(data: Rows | Keys, columns: Sequence[str]) -> Rows:
    """Return rows that have record keys.

    Args:
        data: Rows, or values of the record key.
        columns: The key columns of the table.

    Returns:
        The rows as they are, or one row for each value.

    Raises:
        InvalidOptionError: Values were given, and the key has several columns.

    Examples:
        >>> rows_of_keys(["a", "b"], ["id"])
        {'id': ['a', 'b']}
    """
    if not isinstance(data, list | tuple | set) or not data:
        return data
    if isinstance(next(iter(data)), Mapping | ArrowArray):
        return data
    if len(columns) != 1:
        raise InvalidOptionError(
            f"the record key has {len(columns)} columns: give rows with the columns {', '.join(columns)}"
        )
    return {columns[0]: list(data)}


def _from_iterable(data: Iterable[Any], schema: pa.Schema | None) -> pa.RecordBatchReader:
    items = iter(data)
    first = next(items, None)
    if isinstance(first, ArrowArray):
        batches = (pa.record_batch(batch) for batch in itertools.chain([first], items))
        head = next(batches)
        return pa.RecordBatchReader.from_batches(head.schema, itertools.chain([head], batches))
    if isinstance(first, Mapping):
        rows = [first, *items]
        for row in rows:
            if not isinstance(row, Mapping):
                raise InvalidOptionError(
                    f"invalid row of type {type(row).__name__}: expected a dictionary, as the first row"
                )
        names = dict.fromkeys(name for row in rows for name in row)
        return _columns({name: [row.get(name) for row in rows] for name in names}, schema).to_reader()
    if first is None and schema is not None:
        return schema.empty_table().to_reader()
    if first is None:
        raise InvalidOptionError("no rows, and no schema: give a table with columns and no rows")
    raise InvalidOptionError(f"invalid row of type {type(first).__name__}: expected dictionaries or record batches")


def _columns(data: Mapping[str, Any], schema: pa.Schema | None) -> pa.Table:
    known = {} if schema is None else {field.name: field for field in schema}
    arrays, fields = [], []
    for name, values in data.items():
        like = known.get(str(name))
        array = _checked_column(str(name), values, None if like is None else like.type)
        arrays.append(array)
        # Plain values have no nullability of their own: a required column stays required.
        fields.append(pa.field(str(name), array.type, like is None or like.nullable))
    if len({len(array) for array in arrays}) > 1:
        lengths = ", ".join(f"{field.name}: {len(array)}" for field, array in zip(fields, arrays, strict=True))
        raise InvalidOptionError(f"the columns have different lengths ({lengths}): give a value for each row")
    return pa.table(arrays, schema=pa.schema(fields))


def _checked_column(name: str, values: Any, data_type: pa.DataType | None) -> pa.Array | pa.ChunkedArray:
    if values is None or isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        raise InvalidOptionError(
            f"invalid values of type {type(values).__name__} for column {name!r}: expected a list, or an array of "
            "NumPy or Arrow, with a value for each row"
        )
    try:
        return _column(values, data_type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        reason = re.sub(r" at 0x[0-9a-f]+", "", str(error))
        raise SchemaError(
            f"the values of column {name!r} have no common Arrow type ({reason}): give values of one type"
        ) from error


def _column(values: Any, data_type: pa.DataType | None) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    # With a type, pyarrow truncates values silently (1.5 to 1). The writer checks which values fit.
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
