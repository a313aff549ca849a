"""Indexes of the metadata table: building, rebuilding and dropping them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hoodoo.options import as_list, split_list
from hoodoo.warning import warn_of_commit

if TYPE_CHECKING:
    from hoodoo import _native
    from hoodoo.options import Columns

__all__ = ["IndexCommit", "TableIndexes"]


@dataclass(frozen=True)
class IndexCommit:
    """An index that was built, as an `indexing` action of the timeline.

    Attributes:
        instant: Requested time.
        completed: Completion time.
        partitions: The partitions that the metadata table has now.
        warnings: What went wrong after the index was published. It is there all the same. Each is issued as a
            `HudiWarning` too.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-index-commit/t", {"id": pa.int64()}, name="t", record_key="id")
        >>> t.index("bloom_filters").partitions
        ('bloom_filters', 'files')
    """

    instant: str
    completed: str
    partitions: tuple[str, ...]
    warnings: tuple[str, ...]


class TableIndexes:
    """The indexes of a `Table`."""

    _native: _native.NativeTable

    def index(self, name: str, columns: Columns | None = None) -> IndexCommit:
        """Build an index in the metadata table, or build it anew; make a metadata table where there is none.

        Other writers go on meanwhile: the files of the table are read first, and only what changed meanwhile is looked
        at under the table lock. From then on every write keeps the index, ours and Hudi's. Like Hudi's CREATE INDEX
        this is an action of the timeline.

        Args:
            name: `column_stats`: minimum, maximum and counts of columns in each file, by which reads with filters skip
                files. `partition_stats`: the same for partitions. `bloom_filters`: the filters of record keys of base
                files. `record_index`: the file group of each record key. `secondary_index`: the record keys of each
                value of a column; there may be several, each named by its partition (`secondary_index_…`), and the
                record index is built first if there is none. `files`: which files there are, without which there is
                no metadata table.
            columns: The columns that have statistics. Default: those that have them already; else
                `hoodie.metadata.index.column.stats.column.list`, or the first 32. The column of a secondary index.

        Returns:
            What was built.

        Raises:
            InvalidOptionError: The table does not have such a column, or `hoodie.metadata.enable` is false; the record
                index is one of each data partition, and a secondary index needs one of the whole table.
            UnsupportedError: hoodoo does not build this index, or the column can have no secondary index.
            LockError: It timed out while it waited for the table lock.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-index/t", {"id": pa.int64(), "n": pa.int64()}, name="t",
            ...                         record_key="id")
            >>> commit = t.insert({"id": [1, 2], "n": [3, 4]})
            >>> t.index("column_stats", "n").partitions
            ('column_stats', 'files')
            >>> stats = t.metadata_table.to_arrow("column_stats").to_pylist()
            >>> [(row["min"], row["max"]) for row in stats if row["column_name"] == "n"]
            [('3', '4')]
        """
        names = split_list(columns) if isinstance(columns, str) else as_list(columns)
        return _commit(*self._native.index(name, names or None))

    def drop_index(self, name: str) -> tuple[str, ...]:
        """Drop an index, with those that need it. Readers and writers go on without it.

        Args:
            name: See `index`. Secondary indexes, and those that only Hudi builds, are named by their partition.

        Returns:
            The partitions of the metadata table that are gone; none if there was no such index.

        Raises:
            InvalidOptionError: `files`, without which there is no metadata table.
            LockError: It timed out while it waited for the table lock.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-drop-index/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> t.drop_index("column_stats"), list(t.metadata_table.partitions)
            (('column_stats',), ['files'])
        """
        return tuple(self._native.drop_index(name))

    def rebuild_metadata_table(self) -> IndexCommit:
        """Make the metadata table anew from the files of the table: the remedy for one that is damaged or wrong.

        It gets the partitions that it had, but for those that hoodoo does not build, and those that the options want.

        Returns:
            What was built.

        Raises:
            InvalidOptionError: `hoodie.metadata.enable` is false.
            LockError: It timed out while it waited for the table lock.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-rebuild/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> t.rebuild_metadata_table().partitions, t.metadata_table.verify().ok
            (('column_stats', 'files'), True)
        """
        return _commit(*self._native.rebuild_metadata_table())

    def drop_metadata_table(self) -> bool:
        """Drop the metadata table. Reads list folders then; Hudi's next writer builds it again, and so does `index`.

        Returns:
            Whether there was one.

        Raises:
            LockError: It timed out while it waited for the table lock.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-drop-metadata/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> t.drop_metadata_table(), t.metadata_table is None
            (True, True)
        """
        return self._native.drop_metadata_table()


def _commit(instant: str, completed: str, partitions: list[str], warnings: list[str]) -> IndexCommit:
    for message in warnings:
        warn_of_commit(message)
    return IndexCommit(instant, completed, tuple(sorted(partitions)), tuple(warnings))
