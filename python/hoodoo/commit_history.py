"""The commits of a table as records, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, overload

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["CommitHistory", "CommitRecord", "PartitionFigures"]


@dataclass(frozen=True)
class CommitRecord:
    """A completed commit of a table.

    Attributes:
        instant: Requested time, 17 digits.
        completed: Completion time.
        action: `commit`, `deltacommit` or `replacecommit`.
        operation: Hudi's name of the operation, in lower case.
        inserted: New rows.
        updated: Rows that replaced stored rows.
        deleted: Rows that were deleted.
        files: Data files that it wrote.
        partitions: Partitions that it wrote to.
        bytes_written: Bytes that it wrote.
    """

    instant: str
    completed: str
    action: str
    operation: str
    inserted: int
    updated: int
    deleted: int
    files: int
    partitions: int
    bytes_written: int

    @classmethod
    def of(cls, instant: str, completed: str, action: str, metadata: Mapping[str, Any]) -> CommitRecord:
        """Make a record of the metadata of a commit, with Hudi's field names."""
        written = metadata.get("partitionToWriteStats") or {}
        stats = [stat for group in written.values() for stat in group]

        def total(name: str) -> int:
            return sum(stat.get(name) or 0 for stat in stats)

        return cls(
            instant,
            completed,
            action,
            str(metadata.get("operationType") or "unknown").lower(),
            total("numInserts"),
            total("numUpdateWrites"),
            total("numDeletes"),
            sum(1 for stat in stats if stat.get("path")),
            len(written),
            total("totalWriteBytes"),
        )


class CommitHistory(Sequence[CommitRecord]):
    """Commits, newest first: a sequence of `CommitRecord`, which becomes an Arrow table.

    Args:
        records: The commits.
    """

    def __init__(self, records: Sequence[CommitRecord]) -> None:
        """Take the commits."""
        self._records = tuple(records)

    @overload
    def __getitem__(self, index: int) -> CommitRecord: ...
    @overload
    def __getitem__(self, index: slice) -> CommitHistory: ...
    def __getitem__(self, index: int | slice) -> CommitRecord | CommitHistory:
        """Return a commit, or some of them."""
        return CommitHistory(self._records[index]) if isinstance(index, slice) else self._records[index]

    def __len__(self) -> int:
        """Return the number of commits."""
        return len(self._records)

    def __eq__(self, other: object) -> bool:
        """Return whether these are the same commits."""
        return isinstance(other, CommitHistory) and self._records == other._records

    def __hash__(self) -> int:
        """Return a hash of the commits."""
        return hash(self._records)

    def __repr__(self) -> str:
        """Return the commits."""
        return f"CommitHistory({list(self._records)!r})"

    def to_arrow(self) -> pa.Table:
        """Return the commits as an Arrow table with a column for each attribute.

        Examples:
            >>> record = CommitRecord.of("1", "2", "commit", {"operationType": "UPSERT"})
            >>> CommitHistory([record]).to_arrow().select(["instant", "operation", "inserted"]).to_pylist()
            [{'instant': '1', 'operation': 'upsert', 'inserted': 0}]
        """
        types = {field.name: pa.string() if field.type == "str" else pa.int64() for field in fields(CommitRecord)}
        return pa.table(
            {name: pa.array([getattr(r, name) for r in self._records], data_type) for name, data_type in types.items()}
        )


@dataclass(frozen=True)
class PartitionFigures:
    """A partition as the newest snapshot has it.

    Attributes:
        path: The partition path, such as `city=sf`; empty for a table without partitions.
        file_groups: File groups with rows.
        base_files: Base files.
        log_files: Log files.
        size: Bytes of these files.
        rows: Rows, where the commits on the active timeline tell them and there are no log files; else None.
    """

    path: str
    file_groups: int
    base_files: int
    log_files: int
    size: int
    rows: int | None
