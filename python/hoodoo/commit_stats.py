"""Commit stats: rows, files and bytes of one action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["WRITE_ACTIONS", "CommitStats", "commit_stats"]

WRITE_ACTIONS = frozenset({"commit", "deltacommit", "replacecommit"})
"""Actions that write rows, by their names in the completed state."""


@dataclass(frozen=True)
class CommitStats:
    """The stats of one action, from its metadata.

    Attributes:
        operation: Hudi's name of the operation, in lower case.
        files: Data files that it wrote; for a clean or rollback, files that it removed.
        inserted: New rows.
        updated: Rows that replaced stored rows.
        deleted: Rows that were deleted.
        size: Bytes written.
    """

    operation: str = ""
    files: int | None = None
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    size: int | None = None


def commit_stats(action: str, metadata: Mapping[str, Any]) -> CommitStats:
    """Return the stats of a completed action.

    Args:
        action: The action's name on the timeline.
        metadata: Its metadata with Hudi's field names.

    Returns:
        The stats; None where this kind of action has none.

    Examples:
        >>> written = {"p": [{"path": "p/a.parquet", "numInserts": 2, "numUpdateWrites": 3, "numDeletes": 1}]}
        >>> metadata = {"operationType": "UPSERT", "partitionToWriteStats": written}
        >>> stats = commit_stats("commit", metadata)
        >>> (stats.operation, stats.files, stats.inserted, stats.updated, stats.deleted)
        ('upsert', 1, 2, 3, 1)
    """
    if action in {"clean", "rollback"}:
        return CommitStats(operation=action, files=metadata.get("totalFilesDeleted"))
    written = metadata.get("partitionToWriteStats")
    if written is None:
        return CommitStats(operation=action)
    stats = [stat for group in written.values() for stat in group]

    def total(name: str) -> int:
        return sum(stat.get(name) or 0 for stat in stats)

    return CommitStats(
        operation=str(metadata.get("operationType") or "unknown").lower(),
        files=sum(1 for stat in stats if stat.get("path")),
        inserted=total("numInserts"),
        updated=total("numUpdateWrites"),
        deleted=total("numDeletes"),
        size=total("totalWriteBytes"),
    )
