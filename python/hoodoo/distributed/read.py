"""Reads in tasks, one for each file slice, or for the changes of a commit in a file group."""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING

from hoodoo import _native
from hoodoo.distributed.executor import Attempt, DataT, Executor, strings
from hoodoo.distributed.task import TableRef
from hoodoo.filters import Filters, LateFilter, late_filter
from hoodoo.options import Options, check_options, string_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

__all__ = ["PlannedRead", "ReadTask", "plan_table_read", "read_table", "unit_bytes"]

# What it costs to open a file slice, in bytes of reading.
_SMALLEST_UNIT = 4 << 20


@dataclass(frozen=True)
class ReadTask:
    """What the tasks of a read run. Can be pickled.

    Attributes:
        table: The table.
        columns: The columns; all columns when None.
        filters: See `hoodoo.filters.Filters` and `hoodoo.filters.LateFilter`.
        as_of: The instant of the snapshot.
        written_by: Return only rows of these instants; all rows when None.
        schema: The schema of the rows, in types that the engine supports.
    """

    table: TableRef
    columns: list[str] | None
    filters: Filters | LateFilter | None
    as_of: str | None
    written_by: list[str] | None
    schema: pa.Schema

    def run(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Stream the rows of the units of a split."""
        yield from self.read(strings(batches))

    def read(self, units: list[str]) -> Iterator[pa.RecordBatch]:
        """Stream the rows of units."""
        if not units:
            return
        table = self.table.open()
        condition = _late(self.filters)
        for rows in _native.read_units(table, units, self.columns, condition, self.as_of, self.written_by):
            yield rows if rows.schema == self.schema else rows.cast(self.schema)


@dataclass(frozen=True)
class PlannedRead:
    """A read that knows its snapshot.

    Attributes:
        task: What the tasks run.
        units: What they read: file slices, or changes of a commit in a file group, each as JSON.
    """

    task: ReadTask
    units: list[str]

    def balanced(self, split_bytes: int, splits: int) -> list[list[str]]:
        """Return the units in groups of about the same number of bytes.

        Args:
            split_bytes: Bytes of a group, unless one unit has more.
            splits: Number of groups to aim for when the units are small.
        """
        sizes = [_SMALLEST_UNIT + unit_bytes(unit) for unit in self.units]
        wanted = max(1, min(split_bytes, max(_SMALLEST_UNIT, sum(sizes) // max(1, splits))))
        count = min(len(sizes), -(-sum(sizes) // wanted))
        groups: list[list[str]] = [[] for _ in range(count)]
        # The largest first, each into the group with the fewest bytes.
        loads = [(0, number) for number in range(count)]
        for size, unit in sorted(zip(sizes, self.units, strict=True), key=itemgetter(0), reverse=True):
            load, number = heapq.heappop(loads)
            groups[number].append(unit)
            heapq.heappush(loads, (load + size, number))
        return groups


def unit_bytes(unit: str) -> int:
    """Return the bytes of the files of a unit.

    Examples:
        >>> unit_bytes('{"Slice": {"base": {"size": 40}, "logs": [{"size": 2}, {"size": 3}]}}')
        45
    """
    return _sizes(json.loads(unit))


def _sizes(value: object) -> int:
    if isinstance(value, dict):
        own = value.get("size")
        return (own if isinstance(own, int) else 0) + sum(map(_sizes, value.values()))
    return sum(map(_sizes, value)) if isinstance(value, list) else 0


def _late(filters: Filters | LateFilter | None) -> LateFilter | None:
    return filters if callable(filters) else late_filter(filters)


def plan_table_read(  # noqa: PLR0917 - those of `read_table`
    uri: str,
    columns: Sequence[str] | None = None,
    filters: Filters | LateFilter | None = None,
    as_of: str | None = None,
    query: str | None = None,
    since: str | None = None,
    until: str | None = None,
    options: Options | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> PlannedRead:
    """Plan a read of the snapshot that is the newest now. Arguments and errors as those of `hoodoo.spark.read`.

    The schema of the task is that of the table.
    """
    given = string_options(options)
    check_options(given, "read")
    table, ref = TableRef.resolve(uri, given, storage_options)
    wanted = None if columns is None else list(columns)
    as_of, since, until = (None if time is None else str(time) for time in (as_of, since, until))
    units, schema, pinned, written_by = _native.plan_read(table, query, as_of, since, until, wanted, _late(filters))
    return PlannedRead(ReadTask(ref, wanted, filters, pinned, written_by, schema), units)


def read_table(
    executor: Executor[DataT],
    uri: str,
    *,
    columns: Sequence[str] | None = None,
    filters: Filters | LateFilter | None = None,
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
    planned = plan_table_read(uri, columns, filters, as_of, query, since, until, options, storage_options)
    task = replace(planned.task, schema=executor.supported_schema(planned.task.schema))
    return executor.map_batches(executor.from_units(planned.units), task.run, task.schema)
