"""Commits: the result of a write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hoodoo.display import Displayed, View, human_size
from hoodoo.warning import warn_of_commit

__all__ = ["Commit", "SchemaChange"]


@dataclass(frozen=True)
class SchemaChange:
    """A column that a commit added to the schema of the table, or whose type it changed.

    Attributes:
        column: The column.
        old: Its type before, by pyarrow's name; None for a new column.
        new: Its type now.
    """

    column: str
    old: str | None
    new: str

    def __str__(self) -> str:
        """Return the column with its types."""
        return f"{self.column}: {self.old or 'new'} → {self.new}"


@dataclass(frozen=True)
class Commit(Displayed):
    """A completed write.

    Attributes:
        instant: Requested time, 17 digits: the value of `_hoodie_commit_time` in the rows it wrote.
        completed: Completion time, 17 digits: the time that `Table.changes` compares.
        operation: Hudi's name of the operation, such as `UPSERT`.
        inserted: Number of new rows; for a clustering, of rows in the files it wrote.
        updated: Number of stored rows that got new values. Rows that lost against a newer stored row do not count.
        deleted: Number of rows that were deleted.
        files: Paths of the base files it wrote, relative to the table.
        bytes_written: Total size of these files in bytes.
        replaced: Ids of the file groups that it replaced, by partition.
        warnings: Problems after the commit, which is valid: a table service that failed or is left to the next write,
            markers that could not be removed. Also values that are stored in another type than the data had. Each is
            issued as a `HudiWarning` too.
        schema_changes: Columns that the commit added to the schema of the table, and columns that it widened because a
            value did not fit. A `HudiWarning` names them too.
        timings: Seconds of each stage of the write, in their order: `lease` (waiting for other writers of this machine,
            rolling back what others left), `rows` (reading them, keys), `locate` (looking keys up), `begin` (the
            instant), `files` (merging, encoding, writing), `publish` (comparison with other writers, the commit),
            `services` (inline services behind it). Stages that were repeated after a conflict add up. Empty for table
            services, and for writes in tasks of Spark.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> schema = pa.schema([("id", pa.int64())])
        >>> table = hoodoo.Table.create("memory://timings/t", schema, name="t", record_key="id")
        >>> commit = table.upsert(pa.table({"id": [1]}))
        >>> list(commit.timings)
        ['lease', 'rows', 'locate', 'begin', 'files', 'publish', 'services']
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
    timings: dict[str, float] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        """Return the instant, the operation and the counts."""
        counts = f"inserted={self.inserted}, updated={self.updated}, deleted={self.deleted}, files={len(self.files)}"
        return f"Commit({self.instant!r}, {self.operation!r}, {counts})"

    def _view(self) -> View:
        facts: list[tuple[str, object]] = [
            ("operation", self.operation),
            ("requested", self.instant),
            ("completed", self.completed),
            ("inserted", self.inserted),
            ("updated", self.updated),
            ("deleted", self.deleted),
            ("files", f"{len(self.files):,} ({human_size(self.bytes_written)})"),
        ]
        if replaced := sum(map(len, self.replaced.values())):
            facts.append(("replaced file groups", replaced))
        if self.timings:
            facts.append(("seconds", ", ".join(f"{stage} {time:.2f}" for stage, time in self.timings.items())))
        facts += [("schema change", str(change)) for change in self.schema_changes]
        facts += [("warning", message) for message in self.warnings]
        return View("Commit", facts)

    @classmethod
    def from_native(cls, value: dict[str, Any]) -> Commit:
        """Make a commit of what the core returns, and issue its warnings."""
        changes = tuple(SchemaChange(*change) for change in value["schema_changes"])
        warnings = tuple(value["warnings"])
        commit = cls(**{**value, "files": tuple(value["files"]), "warnings": warnings, "schema_changes": changes})
        if changes:
            named = ", ".join(str(change) for change in changes)
            warn_of_commit(
                f"the write changed the table's schema ({named}); with schema_evolution='refuse' it fails instead"
            )
        for message in commit.warnings:
            warn_of_commit(message)
        return commit
