"""Compactions that are cut into tasks of several processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hoodoo import _native
from hoodoo.commit import Commit
from hoodoo.distributed import TableTask
from hoodoo.options import check_options, string_options

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CompactionTask", "DistributedCompaction"]


@dataclass(frozen=True)
class CompactionTask(TableTask):
    """What the tasks of one compaction do. Can be pickled.

    Attributes:
        instant: Requested time of the compaction.
    """

    instant: str

    def compact(self, operation: str, token: str) -> str:
        """Carries out one operation.

        Args:
            operation: The operation, as text.
            token: Tells this attempt from others.

        Returns:
            What the driver has to know.
        """
        return _native.compact_operation(self.table(), self.instant, operation, token)


class DistributedCompaction:
    """The driver's side of a compaction."""

    def __init__(self, native: _native.NativeCompaction, task: CompactionTask) -> None:
        """Takes a compaction that was begun."""
        self._native = native
        self.operations = native.operations
        self.task = task

    @classmethod
    def begin(
        cls,
        uri: str,
        instant: str | None,
        options: Mapping[str, Any] | None,
        storage_options: Mapping[str, str] | None,
    ) -> DistributedCompaction | None:
        """Begins a planned compaction, or one that is planned now; None when there is nothing to compact."""
        given, storage = string_options(options), dict(storage_options or {})
        check_options(given, "write")
        table = _native.NativeTable.open(uri, given, storage)
        native = _native.NativeCompaction.begin(table, instant)
        if native is None:
            return None
        pairs = tuple(sorted(given.items())), tuple(sorted(storage.items()))
        return cls(native, CompactionTask(table.uri, *pairs, native.instant))

    def commit(self, stats: list[str]) -> Commit:
        """Publishes what the tasks wrote."""
        return Commit.from_native(self._native.commit(stats))
