"""What one action did, in a few numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["WRITES", "Figures", "summarize"]

WRITES = frozenset({"commit", "deltacommit", "replacecommit"})
"""Actions that write rows, by the names that they have when they are completed."""


@dataclass(frozen=True)
class Figures:
    """What one action did, as its metadata tells.

    Attributes:
        operation: Hudi's name of the operation, in lower case.
        files: Data files written, or removed by a clean or rollback.
        inserted: Rows that were new.
        updated: Rows that replaced older ones.
        deleted: Rows that were removed.
        size: Bytes written.
    """

    operation: str = ""
    files: int | None = None
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    size: int | None = None


def summarize(action: str, metadata: Mapping[str, Any]) -> Figures:
    """Adds up the metadata of a completed action.

    Args:
        action: The action's name on the timeline.
        metadata: Its metadata with Hudi's field names.

    Returns:
        The figures that this kind of action has.

    Examples:
        >>> stats = {"city=sf": [{"path": "city=sf/a.parquet", "numInserts": 2, "numUpdateWrites": 3, "numDeletes": 1}]}
        >>> figures = summarize("commit", {"operationType": "UPSERT", "partitionToWriteStats": stats})
        >>> (figures.operation, figures.files, figures.inserted, figures.updated, figures.deleted)
        ('upsert', 1, 2, 3, 1)
    """
    if action in {"clean", "rollback"}:
        return Figures(operation=action, files=metadata.get("totalFilesDeleted"))
    written = metadata.get("partitionToWriteStats")
    if written is None:
        return Figures(operation=action)
    stats = [stat for group in written.values() for stat in group]

    def total(name: str) -> int:
        return sum(stat.get(name) or 0 for stat in stats)

    return Figures(
        operation=str(metadata.get("operationType") or "unknown").lower(),
        files=sum(1 for stat in stats if stat.get("path")),
        inserted=total("numInserts"),
        updated=total("numUpdateWrites"),
        deleted=total("numDeletes"),
        size=total("totalWriteBytes"),
    )
