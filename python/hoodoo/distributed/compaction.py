"""Compactions in tasks, one for each file group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoodoo import _native
from hoodoo.distributed.task import BegunService, ServiceTask, TableRef
from hoodoo.options import Options, check_options, string_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoodoo.commit import Commit
    from hoodoo.distributed.executor import DataT, Executor

__all__ = ["CompactionTask", "begin_compaction", "execute_compaction"]


class CompactionTask(ServiceTask):
    """Executes one operation of a compaction plan: it merges the log files of a file slice."""

    def execute(self, unit: str, token: str) -> str:
        """Execute one operation. See `ServiceTask.execute`."""
        return _native.compact_operation(self.table.open(), self.instant, unit, token)


def begin_compaction(
    uri: str,
    instant: str | None = None,
    options: Options | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> BegunService | None:
    """Begin the oldest compaction plan, or a new one. Arguments and errors as those of `hoodoo.spark.compact`."""
    given = string_options(options)
    check_options(given, "write")
    table, ref = TableRef.resolve(uri, given, storage_options)
    native = _native.NativeCompaction.begin(table, instant)
    if native is None:
        return None
    return BegunService(native, native.tasks, CompactionTask(ref, native.instant))


def execute_compaction(executor: Executor[DataT], begun: BegunService | None) -> Commit | None:
    """Execute a compaction; None when there is none."""
    if begun is None:
        return None
    try:
        return begun.commit(begun.run(executor))
    finally:
        begun.release()
