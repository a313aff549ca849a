"""The metadata table: Hudi's index of files, column statistics and record keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hoodoo.display import Displayed, View, human_size
from hoodoo.report import Report

if TYPE_CHECKING:
    import pyarrow as pa

    from hoodoo import _native

__all__ = ["MetadataPartition", "MetadataTable"]


@dataclass(frozen=True)
class MetadataPartition:
    """A partition of the metadata table.

    Attributes:
        name: Name of the partition, such as `files` or `column_stats`.
        shards: Number of file groups. A hash of the record key decides which of them has a record.
        base_size: Bytes of the base files of the newest file slices. They are HFiles.
        logs: Number of log files that have not been compacted yet.
        log_size: Bytes of these log files.
        latest_instant: The newest instant that wrote to the partition.
    """

    name: str
    shards: int
    base_size: int
    logs: int
    log_size: int
    latest_instant: str | None


class MetadataTable(Displayed):
    """The metadata table of a table, as it was when it was opened. `Table.metadata_table` opens it.

    Hudi maintains it in `.hoodie/metadata`, so that readers need not list folders or read footers.

    Examples:
        >>> import hoodoo, tempfile, zipfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     zipfile.ZipFile("tests/fixtures/metadata_table/cow.zip").extractall(folder)
        ...     metadata = hoodoo.Table(folder).metadata_table
        ...     metadata.partitions["files"].shards, metadata.to_arrow("files").column_names
        (1, ['partition', 'file_name', 'size'])
    """

    def __init__(self, native: _native.NativeMetadataTable, uri: str) -> None:
        """Wrap the snapshot that the core opened."""
        self._native = native
        self._uri = uri

    def __repr__(self) -> str:
        """Return the class, the location of the table and the names of the partitions."""
        return f"MetadataTable({self._uri!r}, partitions={self._native.names()})"

    def _view(self) -> View:
        rows = [
            (one.name, one.shards, human_size(one.base_size), one.logs, human_size(one.log_size), one.latest_instant)
            for one in self.partitions.values()
        ]
        headings = ("partition", "shards", "base files", "log files", "log bytes", "latest instant")
        return View(f"Metadata table of {self._uri}", headings=headings, rows=rows)

    @property
    def partitions(self) -> dict[str, MetadataPartition]:
        """The partitions that readers may use, by name. Partitions that are under construction are left out.

        Raises:
            CorruptFileError: A partition has no files, or a file that its timeline names is missing.
            StorageError: The storage cannot be read.
        """
        return {row[0]: MetadataPartition(*row) for row in self._native.partitions()}

    def to_arrow(self, partition: str) -> pa.Table:
        """Read a partition into memory: the records that are not deleted, log files and base files merged.

        Args:
            partition: Name of the partition.

        Returns:
            A table whose columns depend on the partition:

            | partition | columns |
            | --- | --- |
            | `files` | `partition`, `file_name`, `size` |
            | `column_stats` | `partition`, `file_name`, `column_name`, `min`, `max`, … |
            | `partition_stats` | `partition`, `column_name`, `min`, `max`, … |
            | `bloom_filters` | `key`, `type`, `timestamp`, `size` (bytes of the filter) |
            | `record_index` | `key`, `partition`, `file_id`, `instant_time` |
            | `secondary_index_…` | `value`, `record_key` |
            | `expr_index_…` | as `column_stats` or `bloom_filters`; a partition's row has its path as `file_name` |

            `min` and `max` are strings. `min_long`, `max_long`, `min_double` and `max_double` have the values of
            integers, dates, times and floating-point numbers. The other columns of statistics are `value_count`,
            `null_count`, `total_size`, `total_uncompressed_size`, `is_tight_bound` and `value_type`.

        Raises:
            InvalidOptionError: There is no such partition.
            CorruptFileError: A file of the metadata table is damaged or missing; the error names it.
            UnsupportedError: hoodoo does not know the partition.
        """
        return self._native.rows(partition)

    def verify(self) -> Report:
        """Compare the metadata table, as it is now, with the files of the table.

        `files` is compared with the files that completed instants wrote, column statistics of base files with their
        Parquet footers, and the record index with the file groups. `Table.verify` checks this too.

        Returns:
            The report.

        Raises:
            CorruptFileError: The timeline of the table cannot be read.
            StorageError: The storage cannot be read.
        """
        return Report.from_native(*self._native.verify())
