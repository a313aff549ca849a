"""Indexes of the metadata table in tasks: they read file slices, and write whole shards of the index."""

from __future__ import annotations

import itertools
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from hoodoo import _native
from hoodoo.distributed.executor import STRINGS, Attempt, DataT, Executor, string_batch, strings
from hoodoo.distributed.task import TableRef
from hoodoo.options import Columns, Options, as_list, check_options, split_list, string_options
from hoodoo.table_indexes import IndexCommit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["KEYS", "BegunIndex", "IndexTask", "begin_index", "execute_index"]

_log = logging.getLogger(__name__)

KEYS = pa.schema([("shard", pa.int32()), ("key", pa.string()), ("slice", pa.int32())])
"""Keys on their way through a shuffle, each with its shard of the index and the number of its file slice."""


@dataclass(frozen=True)
class IndexTask:
    """What the tasks of an index run. Can be pickled.

    Attributes:
        table: The table.
        plan: What is read: the plan of an index of keys, or what is wanted of files, as a string.
    """

    table: TableRef
    plan: str

    def read_files(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Read the statistics and bloom filters of the files of a split, and report each file."""
        for unit in (unit for batch in batches for unit in strings([batch])):
            yield string_batch(_native.index_files(self.table.open(), self.plan, unit))

    def read_keys(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Stream the keys of the file slices of a split (`KEYS`)."""
        units = strings(batches)
        if units:
            keys = _native.index_keys(self.table.open(), self.plan, units)
            while (batch := keys.next()) is not None:
                yield batch

    def write_shards(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:
        """Write the shards of a split, and report each for `BegunIndex.commit`.

        The rows are sorted by the columns of `KEYS`, and all rows of a shard are in this split.
        """
        iterator = iter(batches)
        first = next(iterator, None)
        if first is not None:
            rows = pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], iterator))
            yield string_batch(_native.write_index_shards(self.table.open(), self.plan, rows, attempt.token))


@dataclass(frozen=True)
class BegunIndex:
    """An index that is on the timeline, on the driver.

    Attributes:
        native: The index.
        table: The table for tasks.
    """

    native: _native.NativeIndexing
    table: TableRef

    def run(self, executor: Executor[DataT]) -> list[str]:
        """Run the tasks, and return their reports for `commit`."""
        wanted, files = self.native.files
        reports: list[str] = []
        if files:
            task = IndexTask(self.table, wanted)
            reports += executor.collect(executor.map_batches(executor.from_units(files), task.read_files, STRINGS))
        for plan, units in self.native.indexes:
            if units:
                task = IndexTask(self.table, plan)
                keys = executor.map_batches(executor.from_units(units), task.read_keys, KEYS)
                together = executor.shuffle(keys, KEYS.names[:1], KEYS.names)
                reports += executor.collect(executor.map_batches(together, task.write_shards, STRINGS))
        return reports

    def commit(self, reports: Sequence[str]) -> IndexCommit:
        """Commit what tasks report, with what other writers have changed since the index was begun."""
        return IndexCommit.from_native(*self.native.commit(list(reports)))

    def abort(self) -> None:
        """Remove everything that tasks wrote, and the index from the timeline."""
        self.native.abort()


def begin_index(
    uri: str,
    kind: str,
    columns: Columns | None = None,
    options: Options | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> BegunIndex:
    """Begin to build an index. Arguments and errors as those of `hoodoo.spark.index`."""
    given = string_options(options)
    check_options(given, "write")
    table, ref = TableRef.resolve(uri, given, storage_options)
    names = split_list(columns) if isinstance(columns, str) else as_list(columns)
    return BegunIndex(_native.NativeIndexing.begin(table, kind, names or None), ref)


def execute_index(executor: Executor[DataT], begun: BegunIndex) -> IndexCommit:
    """Run the tasks of an index, and commit it."""
    instant, uri, began = begun.native.instant, begun.table.uri, time.monotonic()
    _log.info("index %s of %s begins", instant, uri)
    try:
        reports = begun.run(executor)
    except BaseException:
        begun.abort()
        raise
    commit = begun.commit(reports)
    _log.info("index %s is done in %.1f s", instant, time.monotonic() - began)
    return commit
