"""What a write did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hoodoo.warning import warn_of_commit

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
        warnings: What went wrong behind the commit, which stands: a table service that failed or is left for the next
            write, markers that could not be removed. Each is issued as a `HudiWarning` too.
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
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_native(cls, value: dict[str, Any]) -> Commit:
        """Makes a commit of what the core gives, and issues its warnings."""
        commit = cls(**{**value, "files": tuple(value["files"]), "warnings": tuple(value["warnings"])})
        for message in commit.warnings:
            warn_of_commit(message)
        return commit
