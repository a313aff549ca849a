"""Writes whose rows are read after they were planned: what another writer changes meanwhile is a conflict.

A write is planned from a snapshot, and then the rows that it changes are read. What others committed before the plan
is in these rows. When they commit to a file group that the write changes, or where it found keys to be new, after the
plan, the commit of the write fails, whether the rows were read before or after that; then all of it is done again. So
no update is lost, and nobody waits for a table lock while rows are read.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from hoodoo import _native
from hoodoo.commit import Commit
from hoodoo.exceptions import ConflictError, HudiError, SchemaError, UnsupportedError
from hoodoo.record_merger import load_mergers
from hoodoo.statements.shuffle import Shuffle
from hoodoo.sync.after_commit import sync_after_commit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

__all__ = ["Effort", "Producer", "RowsToWrite", "write_planned"]

Producer: TypeAlias = Callable[[], "Iterable[pa.RecordBatch]"]
"""Reads the table as it is when it is called, and returns the rows to write."""


@dataclass(frozen=True)
class Effort:
    """What a statement may cost.

    Attributes:
        retries: How often it is run again when another writer committed first.
        threads: How many threads merge rows into files.
        options: The options of the table, which may ask for a sync with a catalog after the commit.
    """

    retries: int
    threads: int
    options: Mapping[str, str]


@dataclass(frozen=True)
class RowsToWrite:
    """What a statement writes.

    Attributes:
        operation: `upsert` or `delete`.
        table: The columns of the table that the statement was prepared for.
        schema: The columns of the rows.
        produce: Makes the rows.
        replaces: Whether a row stands in place of a stored one.
    """

    operation: str
    table: pa.Schema
    schema: pa.Schema
    produce: Producer
    replaces: bool = False


_LOG = logging.getLogger(__name__)
_MODE, _NON_BLOCKING = "hoodie.write.concurrency.mode", "NON_BLOCKING_CONCURRENCY_CONTROL"
_MERGERS, _STRATEGY = "hoodie.write.record.merge.custom.implementation.classes", "hoodie.record.merge.strategy.id"
_PARTITION, _ROUTE, _ROW = "_hoodie_partition_path", "_hoodie_route", "_hoodie_row"


def write_planned(table: _native.NativeTable, prepare: Callable[[], RowsToWrite], effort: Effort) -> Commit:
    """Write rows in one commit that holds only if nobody changed what they were made of.

    Args:
        table: The table.
        prepare: Looks at the columns of the table, and checks the statement. It is called again when another writer
            committed first.
        effort: How often it is called again, and how many threads merge rows.

    Returns:
        The commit.

    Raises:
        ConflictError: Other writers changed the same rows each time. Nothing was written.
        UnsupportedError: The options ask for `NON_BLOCKING_CONCURRENCY_CONTROL`; or rows would be replaced whose record
            merger adds up what is stored and what is written.
        HudiError: That of the write, or of the function.
    """
    _refuse_non_blocking(table, effort.options)
    retries = effort.retries
    while True:
        rows = prepare()
        if rows.replaces:
            _refuse_adding_merger(table, effort.options)
        try:
            done = _attempt(table, rows, effort.threads)
        except (ConflictError, SchemaError) as error:
            may_succeed = isinstance(error, ConflictError) and error.outdated_plan
            if retries <= 0 or not (may_succeed or table.schema() != rows.table):
                raise
            _LOG.info("the statement is run again: %s", error)
            retries -= 1
        else:
            return sync_after_commit(done, table, effort.options)


def _refuse_adding_merger(table: _native.NativeTable, options: Mapping[str, str]) -> None:
    """The rows of a statement have all columns, and the values that it leaves as they are would be added once more."""
    classes = options.get(_MERGERS)
    if not classes:
        return
    for merger in load_mergers(classes, table.properties().get(_STRATEGY, "")):
        if merger.adds:
            raise UnsupportedError(
                f"updates by statements are not supported with the record merger {type(merger).__name__}: it would add "
                "the stored values to those that it is given. Upsert rows with the columns that change (partial=True)"
            )


def _refuse_non_blocking(table: _native.NativeTable, options: Mapping[str, str]) -> None:
    """What others append meanwhile would be no conflict there, and the statement would write over it unseen."""
    mode = options.get(_MODE, "")
    if mode.upper() == _NON_BLOCKING:
        raise UnsupportedError(
            f"statements are not supported with {_MODE}={mode}: a change of another writer to the rows that were read "
            "could be lost. Set OPTIMISTIC_CONCURRENCY_CONTROL for the statement; the other writers may keep their "
            f"mode [table={table.uri}]"
        )


def _attempt(table: _native.NativeTable, rows: RowsToWrite, threads: int) -> Commit:
    # One bucket of new rows for each partition: as few files as a write in one process makes.
    write = _native.NativeWrite.begin(table, rows.operation, rows.schema, 1, 0)
    try:
        _refuse_other_columns(table, rows)
        reports = _run(table, write, rows, threads)
    except BaseException:
        # Otherwise the next writer rolls it back; the error that matters is the first one.
        with contextlib.suppress(HudiError):
            write.abort()
        raise
    return Commit.from_native(write.commit(reports))


def _refuse_other_columns(table: _native.NativeTable, rows: RowsToWrite) -> None:
    if table.schema() != rows.table:
        raise ConflictError("another writer changed the columns of the table. Nothing was written; write again")


def _run(table: _native.NativeTable, write: _native.NativeWrite, rows: RowsToWrite, threads: int) -> list[str]:
    """Route the rows and merge them into their file groups; return the reports for the commit."""
    together = Shuffle([_PARTITION, _ROUTE], [_PARTITION, _ROUTE, _ROW], threads)
    try:
        if write.whole_table:
            _locate(table, write, rows, together, threads)
        else:
            packer = _native.NativePacker.by_route(table, write.plan, rows.schema, 0)
            for batch in rows.produce():
                together.add(packer.add(batch))
            together.add(packer.finish())
        splits = together.finish()

        def apply(task: int) -> list[str]:
            return _native.apply_routes(table, write.plan, splits[task]().to_reader(), task, f"{task}-0-0")

        if len(splits) <= 1:
            return [report for task in range(len(splits)) for report in apply(task)]
        with ThreadPoolExecutor(min(threads, len(splits))) as pool:
            return [report for reports in pool.map(apply, range(len(splits))) for report in reports]
    finally:
        together.close()


def _locate(
    table: _native.NativeTable, write: _native.NativeWrite, rows: RowsToWrite, together: Shuffle, threads: int
) -> None:
    """Look up keys in all partitions; the rows of a key have to meet for that."""
    by_key = Shuffle([_ROUTE], [_ROW], threads)
    try:
        packer = _native.NativePacker.by_key(table, write.plan, rows.schema, 0)
        for batch in rows.produce():
            by_key.add(packer.add(batch))
        by_key.add(packer.finish())
        for load in by_key.finish():
            for located in _native.locate_rows(table, write.plan, load().to_reader()):
                together.add(located)
    finally:
        by_key.close()
