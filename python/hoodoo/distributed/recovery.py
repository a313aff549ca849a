"""Cleans, rollbacks and restores that list folders and delete files in tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from hoodoo import _native
from hoodoo.distributed.executor import STRINGS, Attempt, DataT, Executor, string_batch, strings
from hoodoo.options import Options, check_options, string_options
from hoodoo.recovery import CleanReport, Restore, Rollback
from hoodoo.table_ref import TableRef

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

__all__ = ["FileTask", "FileTasks"]


@dataclass(frozen=True)
class FileTask:
    """What the tasks run. Can be pickled. A task that is repeated lists or deletes the same files again.

    Attributes:
        table: The table.
        kind: What is done with the paths of a unit, as the core names it.
    """

    table: TableRef
    kind: str

    def run(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Carry out the units of a split."""
        table = self.table.open()
        for batch in batches:
            yield string_batch([_native.run_file_task(table, self.kind, unit) for unit in strings([batch])])


@dataclass(frozen=True)
class FileTasks(Generic[DataT]):
    """A table whose files an engine lists and deletes, where there are more of them than one task takes.

    The driver plans, takes the locks and completes the action, as without an engine.

    Attributes:
        executor: The engine.
        native: The table on the driver.
        table: The table for tasks.
    """

    executor: Executor[DataT]
    native: _native.NativeTable
    table: TableRef

    @classmethod
    def open(
        cls,
        executor: Executor[DataT],
        uri: str,
        options: Options | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> FileTasks[DataT]:
        """Open a table. Arguments and errors as those of `hoodoo.spark.clean`."""
        given = string_options(options)
        check_options(given, "write")
        return cls(executor, *TableRef.resolve(uri, given, storage_options))

    def run(self, kind: str, units: list[str]) -> list[str]:
        """Run a task for each unit, and return their reports. The core calls this."""
        task = FileTask(self.table, kind)
        return self.executor.collect(self.executor.map_batches(self.executor.from_units(units), task.run, STRINGS))

    def clean(self, *, dry_run: bool = False) -> CleanReport:
        """Clean the table. See `hoodoo.Table.clean`."""
        return CleanReport.of(self.native, self.run, dry_run=dry_run)

    def rollback(self, instant: str) -> Rollback:
        """Take back one write. See `hoodoo.Table.rollback`."""
        return Rollback.of(self.native, instant, self.run)

    def restore(self, savepoint: str) -> Restore:
        """Restore the table to a savepoint. See `hoodoo.Table.restore`."""
        return Restore.of(self.native, savepoint, self.run)
