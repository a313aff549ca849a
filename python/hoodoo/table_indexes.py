"""Indexes of the metadata table: building, rebuilding and dropping them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hoodoo.arguments import names_of, text
from hoodoo.display import Displayed, View
from hoodoo.exceptions import InvalidOptionError
from hoodoo.options import split_list
from hoodoo.progress import Progress, Watch
from hoodoo.warning import warn_of_commit

if TYPE_CHECKING:
    from hoodoo import _native
    from hoodoo.options import Columns

__all__ = ["IndexCommit", "TableIndexes"]


@dataclass(frozen=True)
class IndexCommit(Displayed):
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

    @classmethod
    def from_native(cls, instant: str, completed: str, partitions: list[str], warnings: list[str]) -> IndexCommit:
        """Return the index that the native half has built, and issue its warnings."""
        for message in warnings:
            warn_of_commit(message)
        return cls(instant, completed, tuple(sorted(partitions)), tuple(warnings))

    def _view(self) -> View:
        facts: list[tuple[str, object]] = [
            ("requested", self.instant),
            ("completed", self.completed),
            ("partitions of the metadata table", self.partitions),
        ]
        return View("IndexCommit", [*facts, *(("warning", message) for message in self.warnings)])


class TableIndexes:
    """The indexes of a `Table`."""

    _native: _native.NativeTable
    _progress: Progress

    def index(
        self,
        kind: str,
        columns: Columns | None = None,
        *,
        expression: str | None = None,
        name: str | None = None,
        using: str = "column_stats",
        **options: str | int,
    ) -> IndexCommit:
        """Build an index in the metadata table, or build it anew; make a metadata table where there is none.

        Other writers go on meanwhile: the files of the table are read first, and only what changed meanwhile is looked
        at under the table lock. From then on every write keeps the index, ours and Hudi's. Like Hudi's CREATE INDEX
        this is an action of the timeline. `hoodoo.spark.index` does the same in tasks of Spark.

        Args:
            kind: `column_stats`: minimum, maximum and counts of columns in each file, by which reads with filters skip
                files. `partition_stats`: the same for partitions. `bloom_filters`: the filters of record keys of base
                files. `record_index`: the file group of each record key. `secondary_index`: the record keys of each
                value of a column; there may be several, each named by its partition (`secondary_index_…`), and the
                record index is built first if there is none. `expression_index`: minimum and maximum of a function of a
                column, in each file and partition, by which Hudi's reads with filters by that function skip files;
                there may be several, each named by its partition (`expr_index_…`). `files`: which files there are,
                without which there is no metadata table.
            columns: The columns that have statistics. Default: those that have them already; else
                `hoodie.metadata.index.column.stats.column.list`, or the first 32. The column of a secondary index, or
                of an expression index.
            expression: The function of an expression index, as Spark names it: `lower`, `upper`, `trim`, `ltrim`,
                `rtrim`, `length` or `substring` of strings; `year`, `month`, `day`, `to_date`, `date_add`, `date_sub`
                or `date_format` of dates and timestamps; `hour`, `unix_timestamp` or `to_timestamp` of timestamps;
                `from_unixtime` of integers.
            name: The name of an expression index; its partition is `expr_index_` and this. Default: column and
                function.
            using: What an expression index has: `column_stats`.
            **options: What the function takes, as Hudi names it: `format` of `date_format` and `from_unixtime`, `days`
                of `date_add` and `date_sub`, `pos` and `len` of `substring`, `trimString` of `trim`, `ltrim` and
                `rtrim`.

        Returns:
            What was built.

        Raises:
            InvalidOptionError: The table does not have such a column, or `hoodie.metadata.enable` is false; the record
                index is one of each data partition, and a secondary index needs one of the whole table; the function
                does not take these options.
            UnsupportedError: hoodoo does not build this index, or the column can have no secondary index; hoodoo does
                not compute the function, or not of such a column.
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
            >>> import warnings
            >>> with warnings.catch_warnings():
            ...     warnings.simplefilter("ignore", hoodoo.HudiWarning)
            ...     t.index("expression_index", "n", expression="from_unixtime", format="yyyy-MM-dd").partitions
            ('column_stats', 'expr_index_n_from_unixtime', 'files')
        """
        text(kind, "kind", "'record_index'")
        names = split_list(columns) if isinstance(columns, str) else names_of(columns, "columns")
        if expression is None:
            if name is not None or options or using != "column_stats":
                message = f"an index of {kind} takes no {', '.join(['name'] if name else options or ['using'])}"
                raise InvalidOptionError(f"{message}. Name the function of an expression index: expression='lower'")
            with Watch(self._progress, "indexing"):
                done = self._native.index(kind, names or None)
            return IndexCommit.from_native(*done)
        if kind != "expression_index" and not kind.startswith("expr_index_"):
            message = f"an index of {kind} is not of a function. Pass 'expression_index'"
            raise InvalidOptionError(message)
        partition = kind if name is None else f"expr_index_{name.removeprefix('expr_index_')}"
        given = [(option, str(value)) for option, value in options.items()]
        with Watch(self._progress, "indexing"):
            done = self._native.index(partition, names or None, (using, expression, given))
        return IndexCommit.from_native(*done)

    def drop_index(self, name: str) -> tuple[str, ...]:
        """Drop an index, with those that need it. Readers and writers go on without it.

        Args:
            name: See `index`. Secondary and expression indexes are named by their partition.

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
        return tuple(self._native.drop_index(text(name, "name", "'column_stats'")))

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
        with Watch(self._progress, "rebuilding the metadata table"):
            done = self._native.rebuild_metadata_table()
        return IndexCommit.from_native(*done)

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
