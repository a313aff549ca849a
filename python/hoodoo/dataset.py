"""Tables as `pyarrow.dataset.Dataset`, through which other engines push down columns and filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import FSSpecHandler, PyFileSystem

from hoodoo.exceptions import InvalidOptionError, SchemaError, UnsupportedError
from hoodoo.expressions import columns_of
from hoodoo.lazy_reader import lazy_reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoodoo.pruning import Pruning
    from hoodoo.snapshot import Snapshot

__all__ = ["FileSliceFragment", "TableDataset"]

Projection: TypeAlias = Sequence[str] | Mapping[str, pc.Expression]
"""The names of columns, or expressions by the name of their column in the result."""

_HINTS = frozenset({"batch_readahead", "fragment_readahead", "cache_metadata"})
"""Settings of pyarrow's readers that change no row; hoodoo's reader has its own."""


@dataclass(frozen=True)
class _Scans:
    """Scans of some file slices of a snapshot, whose rows match a filter."""

    snapshot: Snapshot
    units: tuple[str, ...] | None
    filter: pc.Expression | None

    def scanner(self, columns: Projection | None, condition: pc.Expression | None, settings: dict[str, Any]) -> Any:
        condition = _both(self.filter, condition)
        _check(self.snapshot.schema, columns, condition, settings)
        names, pruning = self._looked_at(columns, condition)
        # Of the core, and no generator: pyarrow's threads read ahead, and would need Python while it shuts down.
        reader = _in_batches(self.snapshot.stream(names, pruning, self.units), settings.get("batch_size"))
        wanted = columns if columns is not None else self.snapshot.schema.names
        kept = {name: value for name, value in settings.items() if name not in _HINTS and value is not None}
        return ds.Scanner.from_batches(reader, columns=_list(wanted), filter=condition, **kept)

    def _looked_at(
        self, columns: Projection | None, condition: pc.Expression | None
    ) -> tuple[list[str], Pruning | None]:
        """The columns that a scan reads, in the order of the table, and what it prunes by."""
        schema = self.snapshot.schema
        read: set[str] | None = set(schema.names)
        if isinstance(columns, Mapping):
            read = _union(columns_of(expression, schema)[0] for expression in columns.values())
        elif columns is not None:
            read = set(columns)
        pruning = None
        if condition is not None:
            in_condition, pruning = columns_of(condition, schema)
            read = _union([read, in_condition])
        return [name for name in schema.names if read is None or name in read], pruning


class TableDataset(ds.UnionDataset):  # type: ignore[misc]
    """One snapshot of a table as a dataset of pyarrow; see `Table.to_dataset`.

    Examples:
        >>> import hoodoo, pyarrow as pa, pyarrow.compute as pc
        >>> t = hoodoo.Table.create("memory://docs-dataset/t", {"id": pa.int64()}, name="t", record_key="id")
        >>> commit = t.insert({"id": [1, 2, 3]})
        >>> dataset = t.to_dataset()
        >>> dataset.to_table(columns=["id"], filter=pc.field("id") > 1).to_pylist()
        [{'id': 2}, {'id': 3}]
        >>> dataset.count_rows()
        3
    """

    def __init__(self, snapshot: Snapshot, condition: pc.Expression | None = None) -> None:
        """Make a dataset of a snapshot, and of a filter that all its rows match."""
        super().__init__(snapshot.schema, [_guard(snapshot.schema)])
        self._scans = _Scans(snapshot, None, condition)

    def __repr__(self) -> str:
        """Return the class, the table and the instant."""
        snapshot = self._scans.snapshot
        return f"TableDataset({snapshot.table.uri!r}, as_of={snapshot.as_of!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the snapshot; the table is opened again where it is read."""
        return TableDataset, (self._scans.snapshot, self._scans.filter)

    @property
    def schema(self) -> pa.Schema:
        """The columns, Hudi's `_hoodie_*` columns first."""
        return self._scans.snapshot.schema

    @property
    def instant(self) -> str | None:
        """Requested time of the newest commit of the snapshot; None of a table without commits."""
        return self._scans.snapshot.as_of

    @property
    def partition_expression(self) -> pc.Expression:
        """What all rows match: nothing is known."""
        return pc.scalar(True)

    @property
    def children(self) -> list[ds.Dataset]:
        """No datasets: the rows of a table are not those of its files."""
        return []

    def scanner(
        self,
        columns: Projection | None = None,
        filter: pc.Expression | None = None,  # noqa: A002
        **settings: Any,
    ) -> ds.Scanner:
        """Return a scan of the snapshot, which can be read once. It begins to read at once, a few batches ahead.

        Args:
            columns: The columns, or expressions by name. Default: all columns.
            filter: Return only rows that match. Files that cannot have such rows are not opened where the filter
                compares columns with values, is null, is one of several values, or joins such conditions.
            settings: `batch_size`, `use_threads` and `memory_pool`, as pyarrow has them. `batch_readahead`,
                `fragment_readahead` and `cache_metadata` have no effect.

        Returns:
            The scanner.

        Raises:
            SchemaError: A column does not exist, or the filter does not fit the columns.
            InvalidOptionError: An argument has the wrong type, or the cleaner removed a file of the snapshot.
            UnsupportedError: `fragment_scan_options` was given.
            CorruptFileError: A file cannot be read. From the scanner, this is an Arrow error with the same message.

        Examples:
            >>> import hoodoo, pyarrow as pa, pyarrow.compute as pc
            >>> t = hoodoo.Table.create("memory://docs-scanner/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1, 2, 3]})
            >>> t.to_dataset().scanner(columns={"twice": pc.field("id") * 2}).to_table().to_pylist()
            [{'twice': 2}, {'twice': 4}, {'twice': 6}]
        """
        return self._scans.scanner(columns, filter, settings)

    def to_table(self, *args: Any, **kwargs: Any) -> pa.Table:
        """Read rows into memory. Arguments and errors as those of `scanner`."""
        with self._scans.snapshot.errors():
            return self.scanner(*args, **kwargs).to_table()

    def to_batches(self, *args: Any, **kwargs: Any) -> Iterator[pa.RecordBatch]:
        """Stream rows. Arguments and errors as those of `scanner`."""
        return _batches(self._scans, self.scanner(*args, **kwargs))

    def head(self, num_rows: int, *args: Any, **kwargs: Any) -> pa.Table:
        """Read the first rows. Further arguments and errors as those of `scanner`."""
        with self._scans.snapshot.errors():
            return self.scanner(*args, **kwargs).head(num_rows)

    def take(self, indices: Any, *args: Any, **kwargs: Any) -> pa.Table:
        """Read rows by their numbers. Further arguments and errors as those of `scanner`."""
        with self._scans.snapshot.errors():
            return self.scanner(*args, **kwargs).take(_indices(indices))

    def count_rows(self, filter: pc.Expression | None = None, **settings: Any) -> int:  # noqa: A002
        """Count rows. Only the columns of the filter are read. Arguments and errors as those of `scanner`."""
        with self._scans.snapshot.errors():
            count: int = self.scanner([], filter, **settings).count_rows()
        return count

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[FileSliceFragment]:  # noqa: A002
        """Return the file slices that may have rows for a filter, to read them in parallel.

        Args:
            filter: See `scanner`. A fragment returns all its rows unless its own scan has a filter.

        Returns:
            One fragment for each file slice.

        Raises:
            HudiError: As `scanner`.
        """
        scans = self._scans
        condition = _both(scans.filter, filter)
        _check(scans.snapshot.schema, None, condition, {})
        pruning = None if condition is None else columns_of(condition, scans.snapshot.schema)[1]
        units = scans.snapshot.pruned(pruning)
        return iter([FileSliceFragment(_Scans(scans.snapshot, (unit,), scans.filter)) for unit in units])

    def filter(self, expression: pc.Expression) -> TableDataset:
        """Return a dataset of the same snapshot, with only the rows that match an expression."""
        _check(self.schema, None, expression, {})
        return TableDataset(self._scans.snapshot, _both(self._scans.filter, expression))

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Refuse another schema.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(
            f"a dataset of a table has the columns of the table: it cannot get those of another schema "
            f"({', '.join(schema.names)}), and be no part of another dataset. Select or cast columns with "
            "scanner(columns={name: expression}), and pass on the scanner"
        )

    def sort_by(self, sorting: str | list[tuple[str, str]], **kwargs: Any) -> ds.InMemoryDataset:
        """Sort the rows, in memory. Arguments as those of `pyarrow.dataset.Dataset.sort_by`."""
        return self._in_memory().sort_by(sorting, **kwargs)

    def join(self, right_dataset: ds.Dataset, *args: Any, **kwargs: Any) -> ds.InMemoryDataset:
        """Join with another dataset, in memory. Arguments as those of `pyarrow.dataset.Dataset.join`."""
        return self._in_memory().join(_readable(right_dataset), *args, **kwargs)

    def join_asof(self, right_dataset: ds.Dataset, *args: Any, **kwargs: Any) -> ds.InMemoryDataset:
        """Join with another dataset by time, in memory. Arguments as those of `pyarrow.dataset.Dataset.join_asof`."""
        return self._in_memory().join_asof(_readable(right_dataset), *args, **kwargs)

    def _in_memory(self) -> ds.InMemoryDataset:
        return ds.InMemoryDataset(self.to_table())


class FileSliceFragment:
    """A file slice of a `TableDataset`. It has the methods of `pyarrow.dataset.Fragment` that engines call."""

    def __init__(self, scans: _Scans) -> None:
        """Make a fragment of the scans of one file slice."""
        self._scans = scans

    @property
    def physical_schema(self) -> pa.Schema:
        """The columns: those of the table, whatever the files have."""
        return self._scans.snapshot.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """What all rows match: nothing is known."""
        return pc.scalar(True)

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Projection | None = None,
        filter: pc.Expression | None = None,  # noqa: A002
        **settings: Any,
    ) -> ds.Scanner:
        """Return a scan of the file slice. Arguments and errors as those of `TableDataset.scanner`.

        Args:
            schema: The columns of the table; others are refused.
            columns: See `TableDataset.scanner`.
            filter: See `TableDataset.scanner`.
            settings: See `TableDataset.scanner`.

        Returns:
            The scanner.

        Raises:
            SchemaError: The schema is not that of the table.
        """
        if schema is not None and not schema.equals(self.physical_schema):
            raise SchemaError("a fragment of a table has the columns of the table: leave the schema out")
        return self._scans.scanner(columns, filter, settings)

    def to_table(self, **arguments: Any) -> pa.Table:
        """Read the rows into memory. Arguments as those of `scanner`."""
        with self._scans.snapshot.errors():
            return self.scanner(**arguments).to_table()

    def to_batches(self, **arguments: Any) -> Iterator[pa.RecordBatch]:
        """Stream the rows. Arguments as those of `scanner`."""
        return _batches(self._scans, self.scanner(**arguments))

    def head(self, num_rows: int, **arguments: Any) -> pa.Table:
        """Read the first rows. Arguments as those of `scanner`."""
        with self._scans.snapshot.errors():
            return self.scanner(**arguments).head(num_rows)

    def count_rows(self, **arguments: Any) -> int:
        """Count rows. Arguments as those of `scanner`."""
        with self._scans.snapshot.errors():
            count: int = self.scanner(columns=[], **arguments).count_rows()
        return count


def _batches(scans: _Scans, scanner: ds.Scanner) -> Iterator[pa.RecordBatch]:
    with scans.snapshot.errors():
        yield from scanner.to_batches()


def _indices(indices: Any) -> pa.Array:
    return indices if isinstance(indices, (pa.Array, pa.ChunkedArray)) else pa.array(indices)


class _NoDirectReads:
    """The file system of the files that pyarrow itself would read, as far as pyarrow asks it."""

    protocol = "hudi"

    def isfile(self, path: str) -> NoReturn:  # noqa: ARG002
        raise UnsupportedError(
            "pyarrow cannot read a table within another dataset: read it with the methods of its own dataset (scanner, "
            "to_table, to_batches), or pass a Scanner"
        )


def _guard(schema: pa.Schema) -> ds.Dataset:
    """A dataset that cannot be read. It is what C++ code of pyarrow sees, which knows nothing of log files."""
    files, parquet = PyFileSystem(FSSpecHandler(_NoDirectReads())), ds.ParquetFileFormat()
    return ds.FileSystemDataset([parquet.make_fragment("table", files)], schema, parquet, files)


def _readable(dataset: ds.Dataset) -> ds.Dataset:
    return dataset._in_memory() if isinstance(dataset, TableDataset) else dataset  # noqa: SLF001 - of this class


def _both(one: pc.Expression | None, other: pc.Expression | None) -> pc.Expression | None:
    return other if one is None else one if other is None else one & other


def _list(columns: Projection) -> list[str] | dict[str, pc.Expression]:
    return dict(columns) if isinstance(columns, Mapping) else list(columns)


def _union(parts: Any) -> set[str] | None:
    """All names of some sets; None, for all columns, if one of them is."""
    sets = list(parts)
    return None if any(one is None for one in sets) else set().union(*sets)


def _check(
    schema: pa.Schema, columns: Projection | None, condition: pc.Expression | None, settings: dict[str, Any]
) -> None:
    """Refuse what cannot be scanned, before anything is read."""
    if settings.get("fragment_scan_options") is not None:
        raise UnsupportedError("fragment_scan_options are settings of a file format: hoodoo reads the files itself")
    unknown = set(settings) - _HINTS - {"batch_size", "use_threads", "memory_pool", "fragment_scan_options"}
    if unknown:
        raise InvalidOptionError(
            f"a scan has no settings {', '.join(sorted(unknown))}: expected batch_size or use_threads"
        )
    if condition is not None and not isinstance(condition, pc.Expression):
        raise InvalidOptionError(
            f"invalid filter of type {type(condition).__name__}: expected an expression such as pc.field('id') > 1. "
            "Lists of conditions go into Table.scan(filters=…)"
        )
    if isinstance(columns, str) or not isinstance(columns, Mapping | Sequence | None):
        raise InvalidOptionError(f"invalid columns {columns!r}: expected a list of names, or expressions by name")
    names = [] if columns is None or isinstance(columns, Mapping) else columns
    missing = [name for name in names if name not in schema.names]
    if missing:
        raise SchemaError(
            f"the table has no columns {', '.join(map(repr, missing))}. Columns: {', '.join(schema.names)}"
        )
    try:
        _empty(schema, None if columns is None else _list(columns))
        is_condition = condition is None or pa.types.is_boolean(_empty(schema, {"": condition}).field(0).type)
    except (pa.ArrowException, TypeError) as error:
        raise SchemaError(
            f"the filter or the columns do not fit the table: {error}. Columns: {', '.join(schema.names)}"
        ) from error
    if not is_condition:
        raise SchemaError(
            f"the filter {condition} is no condition: it is neither true nor false. Compare it with a value"
        )


def _empty(schema: pa.Schema, columns: list[str] | dict[str, pc.Expression] | None) -> pa.Schema:
    """The columns of a scan of nothing."""
    return ds.Scanner.from_batches(iter(()), schema=schema, columns=columns).projected_schema


def _in_batches(reader: pa.RecordBatchReader, batch_size: int | None) -> pa.RecordBatchReader:
    """The same rows in batches of at most some rows: pyarrow leaves the batches of a reader as they are."""
    if batch_size is None or batch_size >= _BATCH_ROWS:
        return reader
    if batch_size < 1:
        raise InvalidOptionError(f"invalid batch_size {batch_size}: expected at least 1")
    return lazy_reader(
        reader.schema,
        lambda: (batch.slice(first, batch_size) for batch in reader for first in range(0, batch.num_rows, batch_size)),
    )


_BATCH_ROWS = 65_536
"""Rows of a batch of the core, at most."""
