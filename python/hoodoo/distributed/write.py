"""Writes in tasks: each takes a split of the rows, and one shuffle brings the rows of a file group together."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from hoodoo import _native
from hoodoo.commit import Commit
from hoodoo.distributed.executor import STRINGS, Attempt, DataT, Executor, string_batch, strings
from hoodoo.distributed.task import TableRef
from hoodoo.exceptions import ConflictError, SchemaError
from hoodoo.options import Options, SchemaEvolution, check_options, split_list, string_options, write_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

__all__ = ["KEY_COLUMNS", "ROUTE_COLUMNS", "BegunWrite", "PreparedWrite", "WriteTask", "prepare_write", "write_rows"]


ROUTE_COLUMNS = pa.schema(
    [
        ("_hoodie_record_key", pa.string()),
        ("_hoodie_partition_path", pa.string()),
        ("_hoodie_route", pa.string()),
        ("_hoodie_row", pa.int64()),
    ]
)
"""Columns that `WriteTask.route` adds. The route names the file group; the last column is the number of the row."""

KEY_COLUMNS = pa.schema([ROUTE_COLUMNS.field("_hoodie_record_key"), ROUTE_COLUMNS.field("_hoodie_row")])
"""Columns that `WriteTask.key` adds."""

_LOCATION_COLUMNS = pa.schema([*ROUTE_COLUMNS, ("_hoodie_position", pa.int64()), ("_hoodie_moved", pa.bool_())])
# `WriteTask.locate` adds these: the position is that of the stored row with the same key; a stored row is moved when
# its new version belongs to another partition.

_RETRIES = "hoodie.write.num.retries.on.conflict.failures"
_SORT_COLUMNS = "hoodie.bulkinsert.user.defined.partitioner.sort.columns"
_MISMATCH = re.compile(
    r"column '([^']+)'(?:: .* does not fit the table's type| is required and holds a null)", re.DOTALL
)


@dataclass(frozen=True)
class WriteTask:
    """What the tasks of a write run. Can be pickled.

    Attributes:
        table: The table.
        plan: The plan of the write, as a string.
    """

    table: TableRef
    plan: str

    def route(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:
        """Add key, partition path, route and number to each row (`ROUTE_COLUMNS`)."""
        return self._add(_native.NativeKeyer.router, batches, attempt)

    def key(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:
        """Add key and number to each row (`KEY_COLUMNS`), for a write that looks up keys in all partitions."""
        return self._add(_native.NativeKeyer.keyer, batches, attempt)

    def _add(
        self,
        make: Callable[[_native.NativeTable, str, pa.Schema, int], _native.NativeKeyer],
        batches: Iterable[pa.RecordBatch],
        attempt: Attempt,
    ) -> Iterator[pa.RecordBatch]:
        keyer = None
        for batch in batches:
            if keyer is None:
                keyer = make(self.table.open(), self.plan, batch.schema, attempt.number)
            yield keyer.add(batch)

    def locate(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Look up the keys of rows with `KEY_COLUMNS` in all partitions, and add route and location.

        The rows are sorted by number, and all rows of a key are in this split. One row comes out for each key that
        changes something, and two for a key that moves to another partition.
        """
        rows = _reader(batches)
        if rows is not None:
            yield from _native.locate_rows(self.table.open(), self.plan, rows)

    def report_partitions(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Report the partitions that rows are in."""
        rows = _reader(batches)
        if rows is not None:
            yield string_batch(_native.report_partitions(self.table.open(), rows))

    def apply(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:
        """Merge rows with `ROUTE_COLUMNS` into their file groups, and report each file for `BegunWrite.commit`.

        The rows are sorted by partition path, route and number, and all rows of a route are in this split.
        """
        rows = _reader(batches)
        if rows is not None:
            yield string_batch(_native.apply_routes(self.table.open(), self.plan, rows, attempt.number, attempt.token))

    def append(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:
        """Write rows to new files in the order they come, and report each file."""
        rows = _reader(batches)
        if rows is not None:
            yield string_batch(_native.write_rows(self.table.open(), self.plan, rows, attempt.number, attempt.token))


def _reader(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader | None:
    """The batches of a split as a reader; None when there are none."""
    iterator = iter(batches)
    first = next(iterator, None)
    if first is None:
        return None
    return pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], iterator))


def _distinct(batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:  # noqa: ARG001
    yield string_batch(list(dict.fromkeys(strings(batches))))


@dataclass(frozen=True)
class BegunWrite:
    """A write that has an instant, on the driver.

    Attributes:
        native: The write.
        task: What the tasks run.
    """

    native: _native.NativeWrite
    task: WriteTask

    def commit(self, reports: Sequence[str]) -> Commit:
        """Commit the files that tasks report, remove files of failed attempts, and run inline services."""
        return Commit.from_native(self.native.commit(list(reports)))

    def abort(self) -> None:
        """Remove everything that tasks wrote."""
        self.native.abort()

    def execute(
        self, executor: Executor[DataT], data: DataT, schema: pa.Schema, operation: str, options: Mapping[str, str]
    ) -> list[str]:
        """Run the tasks, and return their reports for `commit`."""
        if operation == "delete_partition":
            found = executor.map_batches(data, self.task.report_partitions, STRINGS)
            # Otherwise the driver gets every partition from every task.
            done = executor.map_batches(executor.shuffle(found, STRINGS.names, []), _distinct, STRINGS)
        elif operation == "bulk_insert" and not _needs_shuffle(options):
            done = executor.map_batches(data, self.task.append, STRINGS)
        else:
            if self.native.whole_table:
                keyed = executor.map_batches(data, self.task.key, _with_columns(schema, KEY_COLUMNS))
                key, row = KEY_COLUMNS.names
                data, function, added = executor.shuffle(keyed, [key], [row]), self.task.locate, _LOCATION_COLUMNS
            else:
                function, added = self.task.route, ROUTE_COLUMNS
            routed = executor.map_batches(data, function, _with_columns(schema, added))
            _, partition, route, row = ROUTE_COLUMNS.names
            sort_by = [partition, route, *_sort_columns(operation, options), row]
            done = executor.map_batches(executor.shuffle(routed, [partition, route], sort_by), self.task.apply, STRINGS)
        return executor.collect(done)


def _with_columns(schema: pa.Schema, added: pa.Schema) -> pa.Schema:
    # Rows that were read from a Hudi table have columns of these names already.
    return pa.schema([*(field for field in schema if field.name not in _LOCATION_COLUMNS.names), *added])


def _needs_shuffle(options: Mapping[str, str]) -> bool:
    return options.get("hoodie.combine.before.insert", "false").lower() == "true" or _is_sorted(options)


def _is_sorted(options: Mapping[str, str]) -> bool:
    mode = options.get("hoodie.bulkinsert.sort.mode", "NONE").upper()
    return _SORT_COLUMNS in options or mode not in ("NONE", "PARTITION_PATH_REPARTITION")


def _sort_columns(operation: str, options: Mapping[str, str]) -> list[str]:
    if operation != "bulk_insert" or not _is_sorted(options):
        return []
    return split_list(options.get(_SORT_COLUMNS)) or [ROUTE_COLUMNS.names[0]]


@dataclass(frozen=True)
class PreparedWrite:
    """An open table, and what to do with it.

    Attributes:
        native: The table.
        table: The table for tasks.
        operation: The operation, in lower case.
    """

    native: _native.NativeTable
    table: TableRef
    operation: str

    def begin(self, schema: pa.Schema, buckets: int, partial: bool = False, widened: Sequence[str] = ()) -> BegunWrite:
        """Plan the write, and put its instant on the timeline.

        Args:
            schema: The schema of the rows.
            buckets: Maximum number of tasks that write new rows of one partition.
            partial: See `hoodoo.Table.upsert`.
            widened: Columns that take the type of the rows, because a value did not fit the type of the table.
        """
        write = _native.NativeWrite.begin(self.native, self.operation, schema, buckets, partial, list(widened))
        return BegunWrite(write, WriteTask(self.table, write.plan))


def prepare_write(
    schema: pa.Schema,
    uri: str,
    operation: str | None,
    options: Options | None,
    storage_options: Mapping[str, str] | None,
    *,
    partial: bool = False,
    schema_evolution: SchemaEvolution | None = None,
) -> PreparedWrite:
    """Open the table, or create it unless the rows are partial. Arguments as those of `write_rows`."""
    given = string_options(options) | write_options(schema_evolution)
    check_options(given, "write")
    storage = dict(storage_options or {})
    chosen = (operation or _native.default_operation(given)).lower()
    if partial or chosen in ("delete", "delete_partition"):
        native = _native.NativeTable.open(uri, given, storage)
    else:
        native = _native.NativeTable.open_or_create(uri, schema, given, storage)
    return PreparedWrite(native, TableRef(native.uri, given, storage), chosen)


def write_rows(  # noqa: PLR0917 - those of `hoodoo.spark.write`
    executor: Executor[DataT],
    data: DataT,
    uri: str,
    operation: str | None = None,
    options: Options | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    partial: bool = False,
    schema_evolution: SchemaEvolution | None = None,
) -> Commit:
    """Write a data set of an engine; create the table when there is none.

    Arguments, result and errors as those of `hoodoo.spark.write`.
    """
    schema = executor.schema(data)
    prepared = prepare_write(
        schema, uri, operation, options, storage_options, partial=partial, schema_evolution=schema_evolution
    )
    given = prepared.table.options
    partitions = split_list(given.get("hoodie.datasource.write.partitions.to.delete"))
    if prepared.operation == "delete_partition" and partitions:
        return Commit.from_native(prepared.native.write("delete_partition", None, partitions))
    may_widen = given.get("hoodoo.schema.evolution", "").lower() != "refuse"
    widened: list[str] = []
    retries = int(given.get(_RETRIES, "5"))
    while True:
        begun = prepared.begin(schema, executor.shuffle_partitions, partial, widened)
        try:
            reports = begun.execute(executor, data, schema, prepared.operation, given)
        except BaseException as error:
            begun.abort()
            column = _mismatched_column(error)
            if column is None or column in widened or not may_widen:
                raise
            # Start again: other tasks have written this column with the type of the table.
            widened.append(column)
            continue
        try:
            return begun.commit(reports)
        except ConflictError as error:
            # Another writer committed first. Run the tasks again, on the table as it is now.
            if not error.outdated_plan or retries <= 0:
                raise
            retries -= 1


def _mismatched_column(error: BaseException) -> str | None:
    """The column with a value that does not fit the type of the table, if that is why a task failed."""
    found = _MISMATCH.search(str(error)) if isinstance(error, SchemaError) else None
    return None if found is None else found[1].split(".", 1)[0]
