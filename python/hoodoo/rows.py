"""Rows: what writes and merges take as input, and how it becomes one Arrow stream."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.exceptions import InvalidOptionError, SchemaError
from hoodoo.plain_values import array_of, check_dates

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


class Scannable(Protocol):
    """A pyarrow Dataset or Scanner."""

    def to_batches(self) -> Iterator[Any]:
        """Stream the rows."""


class Collectable(Protocol):
    """A polars LazyFrame."""

    def collect(self) -> Any:
        """Compute the rows."""


Rows: TypeAlias = (
    ArrowStream
    | ArrowArray
    | DataFrame
    | Scannable
    | Collectable
    | Mapping[str, Any]
    | Iterable[Mapping[str, Any] | ArrowArray | ArrowStream | DataFrame]
)
"""Rows to write or to merge, in any of these forms:

- an object with `__arrow_c_stream__`: a pyarrow Table or RecordBatchReader, a polars DataFrame, a DuckDB relation, a
  `Table`; a reader or a relation streams
- a polars LazyFrame, which is collected in batches
- a pyarrow Dataset or Scanner, which streams
- a pyarrow RecordBatch
- an iterable of record batches, tables or DataFrames with the same columns; one of them is in memory at a time
- a pandas DataFrame; its index is left out
- a dictionary of columns: a list, NumPy array or Arrow array of each column, all of the same length
- an iterable of dictionaries, one for each row; a key that a row lacks is null

Columns of plain Python values get the types that pyarrow infers; a write casts them to the types of the table."""

Keys: TypeAlias = list[Any] | tuple[Any, ...] | set[Any]
"""Values of the record key, for a table with one key column."""

SchemaLike: TypeAlias = pa.Schema | Mapping[str, Any] | Iterable[Any]
"""A pyarrow schema, or what `pyarrow.schema` makes one of: a dictionary of types by column name, fields, or
`(name, type)` pairs."""


def record_batch_reader(data: Rows, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
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
    typed = _typed_reader(data)
    if typed is not None:
        return typed
    if isinstance(data, Mapping):
        return _columns(data, schema).to_reader()
    other: Any = data
    if isinstance(other, Iterable) and not isinstance(other, str | bytes | os.PathLike) and _remedy(other) is None:
        return _from_iterable(other, schema)
    raise InvalidOptionError(
        f"invalid rows of type {type(data).__name__}: expected Arrow data, a DataFrame, a dictionary of columns or a "
        f"list of dictionaries.{_remedy(data) or ''}"
    )


def _typed_reader(data: Any) -> pa.RecordBatchReader | None:  # noqa: PLR0911 - one for each form
    """A reader over rows that have types of their own; None for others."""
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    # Before the protocols: pandas exports its index as a column.
    if _is_of(data, "pandas", "DataFrame"):
        return _from_pandas(data)
    if _is_of(data, "polars", "LazyFrame"):
        from hoodoo.polars_frames import lazy_batches  # noqa: PLC0415 - imports polars

        return lazy_batches(data)
    if _is_of_dataset(data):
        return (data if hasattr(data, "to_reader") else data.scanner()).to_reader()
    if isinstance(data, ArrowStream | ArrowArray):
        return _from_capsule(data)
    if isinstance(data, DataFrame):
        from pyarrow.interchange import from_dataframe  # noqa: PLC0415 - slow to import, and rarely needed

        return from_dataframe(data).to_reader()
    return None


def _is_of(data: Any, package: str, name: str) -> bool:
    """Whether an object is of a class of a package, or of a subclass, without importing the package."""
    return any(one.__name__ == name and one.__module__.split(".", 1)[0] == package for one in type(data).__mro__)


def _is_of_dataset(data: Any) -> bool:
    return any(_is_of(data, "pyarrow", name) for name in ("Dataset", "Scanner"))


def _from_pandas(data: Any) -> pa.RecordBatchReader:
    try:
        table = pa.Table.from_pandas(data, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SchemaError(
            f"a column of the pandas DataFrame has no type of Arrow: {error}. Convert it with DataFrame.astype"
        ) from error
    for number, field in enumerate(table.schema):
        # By number: labels of pandas need not be strings.
        if pa.types.is_date(field.type) and str(data.dtypes.iloc[number]) == "object":
            check_dates(data.iloc[:, number])
        # They are numbers of periods since 1970 to who does not know the type.
        if getattr(field.type, "extension_name", "") == "pandas.period":
            message = f"column {field.name!r} has periods of pandas, which Hudi has no type for: convert it with"
            raise SchemaError(f"{message} Series.dt.to_timestamp() or Series.astype(str)")
    return table.to_reader()


def _from_capsule(data: ArrowStream | ArrowArray) -> pa.RecordBatchReader:
    if _is_of(data, "polars", "DataFrame"):
        _refuse_objects(data)
    try:
        if isinstance(data, ArrowStream):
            return pa.RecordBatchReader.from_stream(data)
        batch = pa.record_batch(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidOptionError(
            f"invalid rows of type {type(data).__name__}, which have no columns: {error}. Give a table or a dictionary "
            "of columns"
        ) from error
    return pa.RecordBatchReader.from_batches(batch.schema, [batch])


def _refuse_objects(data: Any) -> None:
    """Refuse Python objects in a DataFrame of polars, which come as the addresses that they have in memory."""
    for name, kind in data.schema.items():
        if str(kind) == "Object":
            raise SchemaError(
                f"column {name!r} of the polars DataFrame has Python objects: convert it to a type of Arrow"
            )


_REMEDIES = {
    ("pyspark", "DataFrame"): " hoodoo.spark.write writes DataFrames of Spark",
    ("dask", "DataFrame"): " Give its partitions: (part.compute() for part in data.partitions)",
    ("ray", "Dataset"): " Give its batches: data.iter_batches(batch_format='pyarrow')",
}


def _remedy(data: Any) -> str | None:
    """What to do about rows of an engine that have no form of `Rows`, or of a file."""
    if isinstance(data, str | bytes | os.PathLike):
        return " Read the file, as with pyarrow.dataset.dataset(path)"
    for (package, name), remedy in _REMEDIES.items():
        if _is_of(data, package, name):
            return remedy
    return " Convert them with to_arrow()" if hasattr(data, "to_arrow") else None


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
    return _is_of(data, "pandas", "DataFrame") or _is_of(data, "polars", "LazyFrame") or _is_of_dataset(data)


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
    first = next(iter(data))
    if isinstance(first, Mapping | ArrowArray) or has_types(first):
        return data
    if len(columns) != 1:
        raise InvalidOptionError(
            f"the record key has {len(columns)} columns: give rows with the columns {', '.join(columns)}"
        )
    return {columns[0]: list(data)}


def _from_iterable(data: Iterable[Any], schema: pa.Schema | None) -> pa.RecordBatchReader:
    items = iter(data)
    first = next(items, None)
    if first is not None and has_types(first):
        readers = (_reader_of(item) for item in itertools.chain([first], items))
        head = next(readers)
        batches = itertools.chain.from_iterable(itertools.chain([head], readers))
        alike = itertools.chain.from_iterable(_alike(batch, head.schema) for batch in batches)
        return pa.RecordBatchReader.from_batches(head.schema, alike)
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


def _reader_of(item: Any) -> pa.RecordBatchReader:
    reader = _typed_reader(item)
    if reader is None:
        raise InvalidOptionError(
            f"invalid rows of type {type(item).__name__} behind record batches or DataFrames: expected more of them"
        )
    return reader


def _alike(batch: pa.RecordBatch, schema: pa.Schema) -> list[pa.RecordBatch]:
    """A batch in the types of the first one."""
    if batch.schema.equals(schema):
        return [batch]
    if set(batch.schema.names) != set(schema.names):
        raise SchemaError(
            f"record batches have different columns: {', '.join(schema.names)} and then {', '.join(batch.schema.names)}"
        )
    columns = [_in_type(batch.column(field.name), field) for field in schema]
    return [pa.RecordBatch.from_arrays(columns, schema=schema)]


def _in_type(column: pa.Array, field: pa.Field) -> pa.Array:
    """A column in the type of the first batch, if every value comes back from it as it was."""
    given, wanted = column.type, field.type
    if given == wanted:
        return column
    if column.null_count == len(column):
        return pa.nulls(len(column), wanted)
    differs = SchemaError(
        f"record batches have columns of different types: {field.name!r} is {wanted} and then {given}. Cast batches "
        "to one type"
    )
    if _family(given) != _family(wanted):
        raise differs
    try:
        out = column.cast(wanted)
        back = out.cast(given)
        same = back.equals(column)
        if not same and pa.types.is_floating(given):
            same = (
                back.fill_null(0).equals(column.fill_null(0))
                or pc.all(pc.or_(pc.equal(back, column), pc.and_(pc.is_nan(back), pc.is_nan(column)))).as_py()
            )
    except pa.ArrowException as error:
        raise differs from error
    if not same:
        raise differs
    return out


def _family(kind: pa.DataType) -> str:
    """What a type is of, so that a cast between two of them changes no meaning."""
    if pa.types.is_dictionary(kind):
        return _family(kind.value_type)
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamp with time zone"
    families: dict[str, tuple[Callable[[pa.DataType], bool], ...]] = {
        "number": (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
        "string": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
        "binary": (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
            pa.types.is_binary_view,
        ),
        "date": (pa.types.is_date,),
        "time": (pa.types.is_time,),
        "duration": (pa.types.is_duration,),
        "list": (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
        "struct": (pa.types.is_struct,),
        "map": (pa.types.is_map,),
    }
    return next((name for name, kinds in families.items() if any(one(kind) for one in kinds)), str(kind))


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
        return array_of(values, data_type)
    except SchemaError as error:
        raise SchemaError(f"column {name!r}: {error}") from error
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        reason = re.sub(r" at 0x[0-9a-f]+", "", str(error))
        raise SchemaError(
            f"the values of column {name!r} have no common Arrow type ({reason}): give values of one type"
        ) from error
