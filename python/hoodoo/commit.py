"""What a write did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hoodoo.warning import warn_of_commit

__all__ = ["Commit", "SchemaChange"]


@dataclass(frozen=True)
class SchemaChange:
    """A column that a commit added to the schema of a table, or changed there.

    Attributes:
        column: The column.
        old: Its type before, by pyarrow's name; None of a new column.
        new: Its type now.
    """

    column: str
    old: str | None
    new: str

    def __str__(self) -> str:
        """Names column and types."""
        return f"{self.column}: {self.old or 'new'} → {self.new}"


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
            write, markers that could not be removed. Also values that are stored as another type than they came in.
            Each is issued as a `HudiWarning` too.
        schema_changes: Columns that the commit added to the table's schema, or changed there: new ones, and those of
            which a value did not fit the table's type. A `HudiWarning` names them, too.
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
    schema_changes: tuple[SchemaChange, ...] = ()

    @classmethod
    def from_native(cls, value: dict[str, Any]) -> Commit:
        """Makes a commit of what the core gives, and issues its warnings."""
        changes = tuple(SchemaChange(*change) for change in value["schema_changes"])
        warnings = tuple(value["warnings"])
        commit = cls(**{**value, "files": tuple(value["files"]), "warnings": warnings, "schema_changes": changes})
        if changes:
            named = ", ".join(str(change) for change in changes)
            warn_of_commit(f"the write changed the table's schema ({named}). schema_evolution='refuse' refuses that")
        for message in commit.warnings:
            warn_of_commit(message)
        return commit
