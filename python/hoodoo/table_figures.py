"""Figures of a table: its number of rows, its partitions, its commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from hoodoo.commit_history import CommitHistory, CommitRecord, PartitionFigures
from hoodoo.commit_stats import WRITE_ACTIONS
from hoodoo.exceptions import InvalidOptionError
from hoodoo.options import AS_OF
from hoodoo.statements.evaluate import Scope, mask_of
from hoodoo.statements.forms import parse_condition
from hoodoo.statements.target import columns_in, scanned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hoodoo import _native
    from hoodoo.file_slice import FileSlice
    from hoodoo.statements.forms import Predicate
    from hoodoo.table_ref import TableRef
    from hoodoo.timeline import Instant, Timeline

__all__ = ["TableFigures"]

# Reading the metadata of a commit costs as much as the footers of about two files.
_FILES_PER_COMMIT = 2


class TableFigures:
    """The figures of `hoodoo.Table`."""

    _native: _native.NativeTable
    _ref: TableRef

    @property
    def timeline(self) -> Timeline:
        """The actions on the table."""
        raise NotImplementedError

    def file_slices(self, partition: str | None = None) -> list[FileSlice]:
        """Return the file slices of the newest snapshot."""
        raise NotImplementedError

    def count(self, filters: Predicate | None = None) -> int:
        """Return the number of rows of the newest snapshot, or of that of `as.of.instant` in the options.

        Without a condition and without log files, the commits tell it, or the footers of the base files. Otherwise the
        columns of the condition are read, and log files are merged.

        Args:
            filters: Count only rows for which this is true; see `hoodoo.statements.forms.Predicate`.

        Returns:
            The number.

        Raises:
            SchemaError: A column does not exist, or types do not go together.
            InvalidOptionError: The condition is malformed.
            UnsupportedError: The condition has something that is not supported.
            CorruptFileError: A file cannot be read.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-count/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1, 2, 3]})
            >>> t.count(), t.count([("id", ">", 1)]), t.count("id % 2 = 0")
            (3, 2, 1)
        """
        # Expressions of pyarrow and polars cannot be compared with an empty list.
        if filters is None or (isinstance(filters, list | tuple) and not filters):
            if self._ref.options.get(AS_OF):
                return sum(batch.num_rows for batch in scanned(self._native, []))
            slices = self.file_slices()
            known = self._rows_of(slices)
            rows = [known.get(s.base_file or "") for s in slices if not s.log_files]
            if len(rows) == len(slices) and all(n is not None for n in rows):
                return sum(n for n in rows if n is not None)
            return sum(batch.num_rows for batch in scanned(self._native, []))
        condition = parse_condition(filters)
        schema = self._native.schema()
        mask_of(condition, Scope.of_schema(schema))
        if condition is None:
            return 0
        columns = columns_in([condition], schema.names) or [schema.names[0]]
        found = 0
        for batch in scanned(self._native, columns, [condition]):
            found += pc.sum(mask_of(condition, Scope.of_batch(batch))).as_py() or 0
        return found

    def partitions(self) -> list[PartitionFigures]:
        """Return the partitions of the newest snapshot.

        Returns:
            The partitions with their files, sorted by path.

        Raises:
            CorruptFileError: A file of the timeline cannot be read.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> schema = {"id": pa.int64(), "p": pa.string()}
            >>> t = hoodoo.Table.create("memory://docs-table-partitions/t", schema, name="t", record_key="id",
            ...                         partition_by="p")
            >>> commit = t.insert({"id": [1, 2, 3], "p": ["a", "b", "b"]})
            >>> [(p.path, p.base_files, p.rows) for p in t.partitions()]
            [('a', 1, 1), ('b', 1, 2)]
        """
        slices = self.file_slices()
        known = self._rows_of(slices, always=True)
        by_path: dict[str, list[FileSlice]] = {}
        for file_slice in slices:
            by_path.setdefault(file_slice.partition, []).append(file_slice)
        return [_figures(path, found, known) for path, found in sorted(by_path.items())]

    def history(self, limit: int | None = None) -> CommitHistory:
        """Return the commits, newest first, those of the archived timeline too.

        Args:
            limit: Return at most this many. Default: all.

        Returns:
            The commits; `to_arrow()` makes a table of them.

        Raises:
            InvalidOptionError: The limit is no number of commits.
            CorruptFileError: A commit cannot be read.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-history/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commits = t.insert({"id": [1]}), t.upsert({"id": [1, 2]})
            >>> [(c.operation, c.inserted, c.updated) for c in t.history()]
            [('upsert', 1, 1), ('insert', 1, 0)]
            >>> t.history(limit=1).to_arrow().column("operation").to_pylist()
            ['upsert']
        """
        check_limit(limit)
        records: list[CommitRecord] = []
        for instant in self._writes():
            if limit is not None and len(records) >= limit:
                break
            metadata = self.timeline.metadata(instant)
            records.append(CommitRecord.of(instant.requested, instant.completed or "", instant.action, metadata))
        return CommitHistory(records)

    def _writes(self) -> Iterable[Instant]:
        active = self.timeline.instants(state="completed")
        yield from (i for i in reversed(active) if i.action in WRITE_ACTIONS)
        seen = {(i.requested, i.action) for i in active}
        archived = self.timeline.instants(state="completed", history=True)
        yield from (i for i in reversed(archived) if i.action in WRITE_ACTIONS and (i.requested, i.action) not in seen)

    def _rows_of(self, slices: list[FileSlice], *, always: bool = False) -> Mapping[str, int]:
        """Rows of base files by path, from commits of the active timeline, if these are few enough."""
        wanted = {s.base_instant for s in slices if s.base_file is not None}
        files = sum(1 for s in slices if s.base_file is not None)
        if not always and (len(wanted) * _FILES_PER_COMMIT > files or any(s.log_files for s in slices)):
            return {}
        found: dict[str, int] = {}
        for instant in self.timeline.instants(state="completed"):
            if instant.requested not in wanted or instant.action not in WRITE_ACTIONS:
                continue
            written = self.timeline.metadata(instant).get("partitionToWriteStats") or {}
            for stats in written.values():
                found |= {s["path"]: s["numWrites"] for s in stats if s.get("path") and s.get("numWrites") is not None}
        return found


def _figures(path: str, slices: list[FileSlice], rows: Mapping[str, int]) -> PartitionFigures:
    logs = sum(len(s.log_files) for s in slices)
    known = [rows.get(s.base_file or "") for s in slices]
    return PartitionFigures(
        path,
        len(slices),
        sum(1 for s in slices if s.base_file is not None),
        logs,
        sum(s.size + s.log_size for s in slices),
        None if logs or any(n is None for n in known) else sum(n for n in known if n is not None),
    )


def check_limit(limit: Any) -> None:
    """Refuse a limit that is no number.

    Raises:
        InvalidOptionError: It is none.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InvalidOptionError(f"invalid limit {limit!r}: expected 0 or a larger number, or None for all")
