"""The report of `Table.report`: sizes, file slices, overlap, and what each table service would do next."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hoodoo.display import Displayed, View, human_size

if TYPE_CHECKING:
    from hoodoo.metadata_table import MetadataPartition
    from hoodoo.timeline import Instant, Timeline

__all__ = ["ColumnOverlap", "NextService", "PartitionSize", "SizeClass", "TableReport"]


@dataclass(frozen=True)
class PartitionSize:
    """What a partition of a table has.

    Attributes:
        partition: Partition path; empty for an unpartitioned table.
        file_slices: Number of file slices.
        small_files: Number of base files below the small file limit.
        base_bytes: Total size of the base files.
        log_files: Number of log files.
        log_bytes: Total size of the log files.
    """

    partition: str
    file_slices: int
    small_files: int
    base_bytes: int
    log_files: int
    log_bytes: int


@dataclass(frozen=True)
class SizeClass:
    """The base files of one range of sizes.

    Attributes:
        since: Smallest size in bytes.
        until: Files are smaller than this; None for the largest class.
        files: Number of base files.
        bytes: Their total size.
    """

    since: int
    until: int | None
    files: int
    bytes: int


@dataclass(frozen=True)
class ColumnOverlap:
    """How the ranges of the files overlap in one column.

    Attributes:
        column: The column.
        max: How many files of one partition a query for a single value opens, at the worst value.
        mean: The mean number of files.
        files: Number of files.
        unknown: Number of files whose range is not known; a query opens all of them.
        problem: Why there are no numbers; empty when there are.
    """

    column: str
    max: int
    mean: float
    files: int
    unknown: int
    problem: str = ""


@dataclass(frozen=True)
class NextService:
    """What a table service would do if it ran now. Nothing was changed to find out.

    Attributes:
        service: `compaction`, `clustering`, `clean` or `archival`.
        due: Whether it has something to do.
        summary: What it would do, in words.
        files: Number of files that it would rewrite, delete or move; of instants for the archival.
        bytes: Bytes that it would read; 0 where they are not known.
        command: The command that runs it; empty when there is nothing to do.
        note: What is planned already, what blocks the service, or why it cannot be told.
    """

    service: str
    due: bool
    summary: str
    files: int
    bytes: int
    command: str
    note: str = ""


@dataclass(frozen=True)
class TableReport(Displayed):
    """The state of a table. `Table.report` returns it, and `hoodoo report` draws it.

    Attributes:
        uri: Location of the table.
        name: Name of the table.
        table_type: `COPY_ON_WRITE` or `MERGE_ON_READ`.
        version: Table version.
        created: When the report was made, in UTC (ISO 8601).
        record_key: The record key columns; empty when keys are generated.
        partition_by: The partition columns.
        ordering: The ordering columns.
        file_slices: Number of file slices of the newest snapshot: what a query reads.
        base_files: Number of base files in them.
        base_bytes: Their total size.
        log_files: Number of log files.
        log_bytes: Their total size.
        small_file_limit: Base files below this size are small (`hoodie.parquet.small.file.limit`).
        small_files: Number of small base files.
        partitions: The partitions by path.
        sizes: Base files by size.
        overlaps: Overlap of the files by column.
        metadata_partitions: Partitions of the metadata table; empty when there is none.
        savepoints: Number of savepoints.
        completed: Number of completed actions on the active timeline.
        pending: Actions that are planned or running.
        services: What each table service would do next.
    """

    uri: str
    name: str
    table_type: str
    version: int
    created: str
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    ordering: tuple[str, ...]
    file_slices: int
    base_files: int
    base_bytes: int
    log_files: int
    log_bytes: int
    small_file_limit: int
    small_files: int
    partitions: tuple[PartitionSize, ...]
    sizes: tuple[SizeClass, ...]
    overlaps: tuple[ColumnOverlap, ...]
    metadata_partitions: tuple[MetadataPartition, ...]
    savepoints: int
    completed: int
    pending: tuple[Instant, ...]
    services: tuple[NextService, ...]

    @property
    def log_ratio(self) -> float:
        """Bytes of log files for each byte of base files; 0 without log files, infinite without base files."""
        if not self.log_bytes:
            return 0.0
        return self.log_bytes / self.base_bytes if self.base_bytes else float("inf")

    def write_html(self, path: str | Path, timeline: Timeline | None = None) -> Path:
        """Write the report as one page that loads nothing from elsewhere.

        Args:
            path: The file; an existing one is replaced.
            timeline: The timeline of the table, to draw it too.

        Returns:
            The path.

        Raises:
            StorageError: The timeline cannot be read.

        Examples:
            >>> import hoodoo, pathlib, pyarrow as pa, tempfile
            >>> t = hoodoo.Table.create("memory://docs-report/page", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     page = t.report().write_html(pathlib.Path(folder) / "t.html", t.timeline).read_text()
            >>> commit.instant in page
            True
        """
        from hoodoo.plot.report_page import report_page  # noqa: PLC0415 - only for pages

        file = Path(path)
        file.write_text(report_page(self, None if timeline is None else timeline.chart()), encoding="utf-8")
        return file

    def __repr__(self) -> str:
        """Return the location and the counts."""
        due = [one.service for one in self.services if one.due]
        counts = f"file_slices={self.file_slices}, base_bytes={self.base_bytes}, log_bytes={self.log_bytes}"
        return f"TableReport({self.uri!r}, {counts}, small_files={self.small_files}, due={due})"

    def _view(self) -> View:
        facts: list[tuple[str, object]] = [
            ("type", f"{self.table_type}, table version {self.version}"),
            ("base files", f"{self.base_files:,} ({human_size(self.base_bytes)}), {self.small_files:,} of them small"),
            ("log files", f"{self.log_files:,} ({human_size(self.log_bytes)}), {self.log_ratio:.1%} of the base files"),
            ("partitions", len(self.partitions)),
            ("timeline", f"{self.completed:,} completed actions, {len(self.pending):,} pending"),
            ("savepoints", self.savepoints),
        ]
        facts += [
            (f"overlap of {one.column}", one.problem or f"{one.max:,} files at most, {one.mean:.1f} on average")
            for one in self.overlaps
        ]
        rows = [(one.service, one.due, one.summary, one.note) for one in self.services]
        return View(f"Report of {self.name} at {self.uri}", facts, ("service", "due", "next", "note"), rows)
