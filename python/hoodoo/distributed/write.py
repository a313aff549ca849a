"""Writes in tasks: each takes a split of the rows, and one shuffle brings the rows of a file group together."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from hoodoo import _native
from hoodoo.arguments import location, optional_text, storage_settings
from hoodoo.commit import Commit
from hoodoo.distributed.executor import STRINGS, Attempt, DataT, Executor, string_batch, strings
from hoodoo.distributed.task import TableRef
from hoodoo.exceptions import ConflictError, HudiError, SchemaError, UnsupportedError
from hoodoo.options import (
    Options,
    SchemaEvolution,
    check_options,
    split_list,
    string_options,
    whole_number,
    write_options,
)
from hoodoo.sync.after_commit import sync_after_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

__all__ = ["PACKED_ROWS", "BegunWrite", "PreparedWrite", "WriteTask", "prepare_write", "refuse_to_append", "write_rows"]


PACKED_ROWS = pa.schema(
    [
        ("_hoodie_partition_path", pa.string()),
        ("_hoodie_route", pa.string()),
        ("_hoodie_row", pa.int64()),
        ("_hoodie_rows", pa.binary()),
    ]
)
"""Rows on their way through a shuffle, several in a value: where they go, the number of the first row, and the rows."""

# Operations that can write the rows of a task to new files as they come.
_APPENDED = ("insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table")
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
        """Pack rows by the file groups that they go to (`PACKED_ROWS`)."""
        return self._pack(_native.NativePacker.by_route, batches, attempt)

    def key(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:
        """Pack rows by their keys (`PACKED_ROWS`), for a write that looks up keys in all partitions."""
        return self._pack(_native.NativePacker.by_key, batches, attempt)

    def _pack(
        self,
        make: Callable[[_native.NativeTable, str, pa.Schema, int], _native.NativePacker],
        batches: Iterable[pa.RecordBatch],
        attempt: Attempt,
    ) -> Iterator[pa.RecordBatch]:
        packer = None
        for batch in batches:
            if packer is None:
                packer = make(self.table.open(), self.plan, batch.schema, attempt.number)
            packed = packer.add(batch)
            if packed is not None:
                yield packed
        packed = None if packer is None else packer.finish()
        if packed is not None:
            yield packed

    def locate(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Look up the keys of packed rows in all partitions, and pack the rows by the file groups that they go to.

        The values are sorted by number, and all rows of a key are in this split. One row comes out for each key that
        changes something, and two for a key that moves to another partition.
        """
        rows = _reader(batches)
        if rows is not None:
            yield from _native.locate_rows(self.table.open(), self.plan, rows)

    def report_partitions(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Report the partitions that rows are in."""
        rows = _reader(batches)
        if rows is not None:
            yield string_batch(_native.report_partitions(self.table.open(), self.plan, rows))

    def apply(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:
        """Merge packed rows into their file groups, and report each file for `BegunWrite.commit`.

        The values are sorted by partition path, route and number, and all rows of a route are in this split.
        """
        rows = _reader(batches)
        if rows is not None:
            yield string_batch(_native.apply_routes(self.table.open(), self.plan, rows, attempt.number, attempt.token))

    def append(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:
        """Write rows to new files in the order they come, and report each file."""
        rows = _reader(batches)
        if rows is not None:
            yield string_batch(_native.write_rows(self.table.open(), self.plan, rows, attempt.number, attempt.token))

    def append_to_replaced(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:
        """Write rows like `append`, and report their partitions too: for operations that replace partitions."""
        table, partitions, failures = self.table.open(), dict[str, None](), list[HudiError]()

        def noted() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                rows = pa.RecordBatchReader.from_batches(batch.schema, [batch])
                try:
                    partitions.update(dict.fromkeys(_native.report_partitions(table, self.plan, rows)))
                except HudiError as error:
                    # An error loses its kind on its way through a stream.
                    failures.append(error)
                    raise
                yield batch

        try:
            yield from self.append(noted(), attempt)
        except HudiError as error:
            raise (failures or [error])[0] from error
        yield string_batch(list(partitions))


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

    def commit(self, reports: Sequence[str], extra_metadata: Mapping[str, str] | None = None) -> Commit:
        """Commit the files that tasks report, remove files of failed attempts, and run inline services.

        Args:
            reports: What the tasks reported.
            extra_metadata: What the commit stores in its metadata (`extraMetadata`), beside the schema.
        """
        return Commit.from_native(self.native.commit(list(reports), dict(extra_metadata or {})))

    def abort(self) -> None:
        """Remove everything that tasks wrote."""
        self.native.abort()

    def execute(self, executor: Executor[DataT], data: DataT, operation: str, options: Mapping[str, str]) -> list[str]:
        """Run the tasks, and return their reports for `commit`."""
        if operation == "delete_partition":
            found = executor.map_batches(data, self.task.report_partitions, STRINGS)
            # Otherwise the driver gets every partition from every task.
            done = executor.map_batches(executor.shuffle(found, STRINGS.names, []), _distinct, STRINGS)
        elif operation == "bulk_insert" and not self._needs_shuffle(options):
            done = executor.map_batches(data, self.task.append, STRINGS)
        else:
            partition, route, row, _ = PACKED_ROWS.names
            if self.native.whole_table:
                keyed = executor.map_batches(data, self.task.key, PACKED_ROWS)
                data, function = executor.shuffle(keyed, [route], [row]), self.task.locate
            else:
                function = self.task.route
            routed = executor.map_batches(data, function, PACKED_ROWS)
            together = executor.shuffle(routed, [partition, route], [partition, route, row])
            done = executor.map_batches(together, self.task.apply, STRINGS)
        return executor.collect(done)

    def _needs_shuffle(self, options: Mapping[str, str]) -> bool:
        return self.native.by_bucket or self.native.combines or _is_sorted(options)


def refuse_to_append(begun: BegunWrite, operation: str, options: Mapping[str, str]) -> None:
    """Refuse a write that needs a shuffle, for an engine that has none for it.

    Raises:
        UnsupportedError: Rows have to be brought together by file group, combined or sorted; the error says why.
    """
    reason = None
    if operation not in _APPENDED:
        reason = f"the operation {operation} looks up keys"
    elif begun.native.by_bucket:
        reason = "a bucket index puts the rows of a bucket into one file group"
    elif begun.native.combines:
        one = "hoodie.combine.before.insert=true, or hoodie.merge.allow.duplicate.on.inserts=false"
        reason = f"the rows of a key become one ({one})"
    elif operation == "bulk_insert" and _is_sorted(options):
        reason = "the options sort the rows of a bulk_insert"
    if reason is not None:
        raise UnsupportedError(
            f"the data source hoodoo cannot shuffle rows, and {reason}: call hoodoo.spark.write, which takes the same "
            "options"
        )


def _is_sorted(options: Mapping[str, str]) -> bool:
    mode = options.get("hoodie.bulkinsert.sort.mode", "NONE").upper()
    return _SORT_COLUMNS in options or mode not in ("NONE", "PARTITION_PATH_REPARTITION")


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

    def begin(
        self,
        schema: pa.Schema,
        buckets: int,
        *,
        batch_rows: int = 10_000,
        partial: bool = False,
        widened: Sequence[str] = (),
    ) -> BegunWrite:
        """Plan the write, and put its instant on the timeline.

        Args:
            schema: The schema of the rows.
            buckets: Maximum number of tasks that write new rows of one partition.
            batch_rows: See `Executor.batch_rows`.
            partial: See `hoodoo.Table.upsert`.
            widened: Columns that take the type of the rows, because a value did not fit the type of the table.
        """
        write = _native.NativeWrite.begin(
            self.native, self.operation, schema, buckets, batch_rows, partial, list(widened)
        )
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
    storage, uri = storage_settings(storage_options), location(uri)
    asked = optional_text(operation, "operation", "'upsert'")
    stated = asked or _native.stated_operation(given) or ""
    chosen = stated.lower()
    if partial or chosen in ("delete", "delete_partition"):
        native = _native.NativeTable.open(uri, given, storage)
    else:
        native = _native.NativeTable.open_or_create(uri, schema, given, storage)
    # What is there decides, not what the options repeat of it.
    chosen = chosen or native.default_operation.lower()
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
    extra_metadata: Mapping[str, str] | None = None,
) -> Commit:
    """Write a data set of an engine; create the table when there is none.

    Arguments, result and errors as those of `hoodoo.spark.write`; for `extra_metadata`, see `BegunWrite.commit`.
    """
    schema = executor.schema(data)
    prepared = prepare_write(
        schema, uri, operation, options, storage_options, partial=partial, schema_evolution=schema_evolution
    )
    given = prepared.table.options
    partitions = split_list(given.get("hoodie.datasource.write.partitions.to.delete"))
    if prepared.operation == "delete_partition" and partitions:
        done = Commit.from_native(prepared.native.write("delete_partition", None, partitions))
        return sync_after_commit(done, prepared.native, given)
    may_widen = given.get("hoodoo.schema.evolution", "").lower() != "refuse"
    widened: list[str] = []
    retries = whole_number(given, _RETRIES, 5)
    while True:
        begun = prepared.begin(
            schema, executor.shuffle_partitions, batch_rows=executor.batch_rows, partial=partial, widened=widened
        )
        try:
            reports = begun.execute(executor, data, prepared.operation, given)
        except BaseException as error:
            begun.abort()
            if isinstance(error, ConflictError) and error.outdated_plan and retries > 0:
                # Another writer changed and cleaned what a task was to look at.
                retries -= 1
                continue
            column = _mismatched_column(error)
            if column is None or column in widened or not may_widen:
                raise
            # Start again: other tasks have written this column with the type of the table.
            widened.append(column)
            continue
        try:
            done = begun.commit(reports, extra_metadata)
        except ConflictError as error:
            # Another writer committed first. Run the tasks again, on the table as it is now.
            if not error.outdated_plan or retries <= 0:
                raise
            retries -= 1
            continue
        return sync_after_commit(done, prepared.native, given)


def _mismatched_column(error: BaseException) -> str | None:
    """The column with a value that does not fit the type of the table, if that is why a task failed."""
    found = _MISMATCH.search(str(error)) if isinstance(error, SchemaError) else None
    return None if found is None else found[1].split(".", 1)[0]
