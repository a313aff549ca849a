"""What a write did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Commit"]


@dataclass(frozen=True)
class Commit:
    """A completed write.

    Attributes:
        instant: Requested time, 17 digits: the value of `_hoodie_commit_time` in the rows it wrote.
        completed: Completion time, 17 digits: what `Table.changes` counts by.
        operation: Hudi's name, such as `UPSERT`.
        inserted: Rows that are new; of a clustering: rows in the files it wrote.
        updated: Rows that were there and got new values. Rows that lost to newer ones are not counted.
        deleted: Rows that are gone.
        files: Paths of the base files it wrote, relative to the table.
        bytes_written: Size of these files together, in bytes.
        replaced: File groups that it replaced, by partition.
    """

    instant: str
    completed: str
    operation: str
    inserted: int
    updated: int
    deleted: int
    files: tuple[str, ...]
    bytes_written: int
    replaced: dict[str, list[str]]

    @classmethod
    def from_native(cls, value: dict[str, Any]) -> Commit:
        """Makes a commit of what the core gives."""
        return cls(**{**value, "files": tuple(value["files"])})
