"""Writes and reads that are cut into tasks of several processes.

Everything here is plain Python and Arrow: `hoodoo.spark` runs these functions in Spark's tasks, and another engine
could run them in its own. A task gets text and Arrow batches and gives back text or Arrow batches; only the process
that began a write commits it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hoodoo import _native
from hoodoo.commit import Commit
from hoodoo.exceptions import SchemaError
from hoodoo.filters import Filters, native_filter
from hoodoo.options import SchemaEvolution, check_options, string_options, write_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = [
    "KEY_COLUMNS",
    "PLACE_COLUMNS",
    "ROUTE_COLUMNS",
    "DistributedRead",
    "DistributedWrite",
    "ReadTask",
    "TableTask",
    "WriteTask",
    "misfit_column",
    "prepare_write",
]

_MISFIT = re.compile(r"column '([^']+)'(?:: .* does not fit the table's type| is required and holds a null)", re.DOTALL)

ROUTE_COLUMNS = ("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_route", "_hoodie_row")
"""Columns that routing adds: text, but for the last, which is the number of the row. Rows have to meet by partition
path and route, sorted by the number, before they are applied."""

KEY_COLUMNS = ("_hoodie_record_key", "_hoodie_row")
"""Columns that keying adds. Rows have to meet by key, sorted by the number, before they are located."""

PLACE_COLUMNS = ("_hoodie_position", "_hoodie_moved")
"""Columns that locating adds after those of routes: the number of the stored row that the row meets, and whether that
row moves away."""


@dataclass(frozen=True)
class TableTask:
    """A table, as a task can carry it.

    Attributes:
        uri: Where it is.
        options: Hudi's options.
        storage: Settings of the storage.
    """

    uri: str
    options: tuple[tuple[str, str], ...]
    storage: tuple[tuple[str, str], ...]

    def table(self) -> _native.NativeTable:
        """Opens the table."""
        # Opened anew for each task: a worker lives on, and there may be another table at the same place by then.
        return _native.NativeTable.open(self.uri, dict(self.options), dict(self.storage))


def _reader(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader | None:
    """The batches of a task as a stream; None when it has no rows."""
    iterator = iter(batches)
    first = next(iterator, None)
    if first is None:
        return None

    def all_batches() -> Iterator[pa.RecordBatch]:
        yield first
        yield from iterator

    return pa.RecordBatchReader.from_batches(first.schema, all_batches())


@dataclass(frozen=True)
class WriteTask(TableTask):
    """What the tasks of one write do. Can be pickled.

    Attributes:
        plan: The plan of the write, as text.
    """

    plan: str

    def route(self, batches: Iterable[pa.RecordBatch], task: int) -> Iterator[pa.RecordBatch]:
        """Adds record key, partition path, route and number to each row (`ROUTE_COLUMNS`).

        Args:
            batches: Rows.
            task: Number of the task. Of equal keys, those of higher tasks count as later ones.
        """
        router = None
        for batch in batches:
            if router is None:
                router = _native.NativeRouter.open(self.table(), self.plan, batch.schema, task)
            yield router.route(batch)

    def key(self, batches: Iterable[pa.RecordBatch], task: int) -> Iterator[pa.RecordBatch]:
        """Adds record key and number to each row (`KEY_COLUMNS`), for a write over the whole table.

        Args:
            batches: Rows.
            task: Number of the task. Of equal keys, those of higher tasks count as later ones.
        """
        keyer = None
        for batch in batches:
            if keyer is None:
                keyer = _native.NativeRowKeyer.open(self.table(), self.plan, batch.schema, task)
            yield keyer.key(batch)

    def locate(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Finds out where in the whole table keyed rows belong (`ROUTE_COLUMNS`, `PLACE_COLUMNS`).

        Args:
            batches: Keyed rows, sorted by number; all rows of a key that occurs are there.

        Yields:
            One row of each key that changes something: two of a key that moves to another partition.
        """
        rows = _reader(batches)
        if rows is not None:
            yield from _native.locate_rows(self.table(), self.plan, rows)

    def partitions(self, batches: Iterable[pa.RecordBatch]) -> list[str]:
        """Reports the partitions of rows, for `delete_partition`. See `apply`."""
        rows = _reader(batches)
        return [] if rows is None else _native.report_partitions(self.table(), rows)

    def apply(self, batches: Iterable[pa.RecordBatch], task: int, token: str) -> list[str]:
        """Merges rows that come sorted by partition path, route and number.

        Args:
            batches: Routed rows; all rows of a route that occurs are there.
            task: Number of the task, for sequence numbers.
            token: Write token of this attempt: `<task>-<stage>-<attempt>`.

        Returns:
            What the driver has to know, as text: a report for each file, or partition that is overwritten.
        """
        rows = _reader(batches)
        return [] if rows is None else _native.apply_routes(self.table(), self.plan, rows, task, token)

    def append(self, batches: Iterable[pa.RecordBatch], task: int, token: str) -> list[str]:
        """Writes rows into new files as they come. See `apply`."""
        rows = _reader(batches)
        return [] if rows is None else _native.write_rows(self.table(), self.plan, rows, task, token)


class DistributedWrite:
    """A write that was begun, on the side that commits it."""

    def __init__(self, native: _native.NativeWrite, task: WriteTask) -> None:
        """Made by `prepare_write`."""
        self._native = native
        self.task = task

    @property
    def whole_table(self) -> bool:
        """Whether keys are looked for in all partitions: rows are keyed and located then, and not routed."""
        return self._native.whole_table

    def commit(self, reports: Sequence[str]) -> Commit:
        """Publishes the files that the tasks report, removes those of failed attempts, and runs inline services."""
        return Commit.from_native(self._native.commit(list(reports)))

    def abort(self) -> None:
        """Gives the write up: what its tasks wrote is removed."""
        self._native.abort()


def misfit_column(error: BaseException | None) -> str | None:
    """The column of which a task found a value that does not fit the table's type, if that is why it failed."""
    found = _MISFIT.search(str(error)) if isinstance(error, SchemaError) else None
    return None if found is None else found[1].split(".", 1)[0]


@dataclass(frozen=True)
class PreparedWrite:
    """A table to write to, and the operation."""

    table: _native.NativeTable
    operation: str
    options: dict[str, str]
    storage: dict[str, str]

    def begin(
        self, schema: pa.Schema, buckets: int, partial: bool = False, widened: Sequence[str] = ()
    ) -> DistributedWrite:
        """Takes an instant.

        Args:
            schema: The columns of the rows.
            buckets: Into how many parts the new rows of a partition may be cut.
            partial: See `hoodoo.Table.upsert`.
            widened: Columns that take the types of the rows, for a value did not fit the table's.
        """
        write = _native.NativeWrite.begin(self.table, self.operation, schema, buckets, partial, list(widened))
        task = WriteTask(
            self.table.uri, tuple(sorted(self.options.items())), tuple(sorted(self.storage.items())), write.plan
        )
        return DistributedWrite(write, task)

    @property
    def refuses_schema_changes(self) -> bool:
        """Whether a value that does not fit the table's type fails the write."""
        return self.options.get("hoodoo.schema.evolution", "").lower() == "refuse"

    def delete_partitions(self, partitions: Sequence[str]) -> Commit:
        """Deletes partitions that are named; there are no rows to distribute."""
        return Commit.from_native(self.table.write("delete_partition", None, list(partitions)))


def prepare_write(
    schema: pa.Schema,
    uri: str,
    operation: str | None,
    options: Mapping[str, Any] | None,
    storage_options: Mapping[str, str] | None,
    *,
    partial: bool = False,
    schema_evolution: SchemaEvolution | None = None,
) -> PreparedWrite:
    """Opens the table, or creates it unless the rows are `partial`, and settles the operation.

    Arguments as those of `hoodoo.write` and `hoodoo.Table.upsert`.
    """
    given = string_options(options) | write_options(schema_evolution)
    check_options(given, "write")
    storage = dict(storage_options or {})
    chosen = (operation or _native.default_operation(given)).lower()
    if partial or chosen in ("delete", "delete_partition"):
        table = _native.NativeTable.open(uri, given, storage)
    else:
        table = _native.NativeTable.open_or_create(uri, schema, given, storage)
    return PreparedWrite(table, chosen, given, storage)


@dataclass(frozen=True)
class ReadTask(TableTask):
    """What the tasks of one read do. Can be pickled.

    Attributes:
        columns: Columns wanted, or None for all.
        filters: See `hoodoo.filters.Filters`.
        as_of: The instant that is read.
        written_by: Only rows of these instants; all rows when None.
    """

    columns: tuple[str, ...] | None
    filters: Filters | None
    as_of: str | None
    written_by: tuple[str, ...] | None

    def read(self, slices: list[str]) -> pa.RecordBatchReader:
        """Streams the rows of some file slices."""
        table = self.table()
        condition = native_filter(self.filters, table.scan_schema()) if self.filters else None
        columns = None if self.columns is None else list(self.columns)
        written_by = None if self.written_by is None else list(self.written_by)
        return _native.read_slices(table, slices, columns, condition, self.as_of, written_by)


class DistributedRead:
    """A query, cut into file slices."""

    def __init__(
        self,
        uri: str,
        *,
        columns: Sequence[str] | None = None,
        filters: Filters | None = None,
        as_of: str | None = None,
        query: str | None = None,
        since: str | None = None,
        until: str | None = None,
        options: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Plans the read. Arguments as those of `Table`, `Table.scan` and `Table.changes`."""
        given, storage = string_options(options), dict(storage_options or {})
        check_options(given, "read")
        table = _native.NativeTable.open(uri, given, storage)
        condition = native_filter(filters, table.scan_schema()) if filters else None
        wanted = None if columns is None else list(columns)
        as_of, since, until = (None if time is None else str(time) for time in (as_of, since, until))
        # All tasks see the same state, whatever is committed while they run.
        self.slices, self.schema, pinned, written_by = _native.plan_read(
            table, query, as_of, since, until, wanted, condition
        )
        self.task = ReadTask(
            table.uri,
            tuple(sorted(given.items())),
            tuple(sorted(storage.items())),
            None if wanted is None else tuple(wanted),
            filters,
            pinned,
            None if written_by is None else tuple(written_by),
        )
