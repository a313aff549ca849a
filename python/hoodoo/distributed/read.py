"""Reads in tasks, one for each file slice, or for the changes of a commit in a file group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hoodoo import _native
from hoodoo.distributed.executor import Attempt, DataT, Executor, strings
from hoodoo.distributed.task import TableRef
from hoodoo.filters import Filters, late_filter
from hoodoo.options import Options, check_options, string_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

__all__ = ["ReadTask", "read_table"]


@dataclass(frozen=True)
class ReadTask:
    """What the tasks of a read run. Can be pickled.

    Attributes:
        table: The table.
        columns: The columns; all columns when None.
        filters: See `hoodoo.filters.Filters`.
        as_of: The instant of the snapshot.
        written_by: Return only rows of these instants; all rows when None.
        schema: The schema of the rows, in types that the engine supports.
    """

    table: TableRef
    columns: list[str] | None
    filters: Filters | None
    as_of: str | None
    written_by: list[str] | None
    schema: pa.Schema

    def run(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Stream the rows of the units of a split."""
        units = strings(batches)
        if not units:
            return
        table = self.table.open()
        condition = late_filter(self.filters)
        for rows in _native.read_units(table, units, self.columns, condition, self.as_of, self.written_by):
            yield rows if rows.schema == self.schema else rows.cast(self.schema)


def read_table(
    executor: Executor[DataT],
    uri: str,
    *,
    columns: Sequence[str] | None = None,
    filters: Filters | None = None,
    as_of: str | None = None,
    query: str | None = None,
    since: str | None = None,
    until: str | None = None,
    options: Options | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataT:
    """Plan a read, and return a data set of the engine that executes it.

    Arguments and errors as those of `hoodoo.spark.read`. All tasks read the snapshot that is the newest now.
    """
    given = string_options(options)
    check_options(given, "read")
    table, ref = TableRef.resolve(uri, given, storage_options)
    condition = late_filter(filters)
    wanted = None if columns is None else list(columns)
    as_of, since, until = (None if time is None else str(time) for time in (as_of, since, until))
    units, schema, pinned, written_by = _native.plan_read(table, query, as_of, since, until, wanted, condition)
    task = ReadTask(ref, wanted, filters, pinned, written_by, executor.supported_schema(schema))
    return executor.map_batches(executor.from_units(units), task.run, task.schema)
