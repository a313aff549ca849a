"""Statements of a table: update, merge, and delete by condition."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hoodoo.exceptions import InvalidOptionError
from hoodoo.options import AS_OF, whole_number
from hoodoo.statements.change import delete_rows, update_rows
from hoodoo.statements.forms import parse_assignments, parse_condition
from hoodoo.statements.planned_write import Effort
from hoodoo.table_merge import MergeBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoodoo import _native
    from hoodoo.commit import Commit
    from hoodoo.rows import Keys, Rows
    from hoodoo.statements.forms import Assignments, Predicate
    from hoodoo.table_ref import TableRef

__all__ = ["TableStatements"]

_THREADS = "hoodoo.threads"
_RETRIES = "hoodie.write.num.retries.on.conflict.failures"


class TableStatements:
    """The statements of `hoodoo.Table`."""

    _native: _native.NativeTable
    _ref: TableRef

    def update(self, set: Assignments, where: Predicate | None = None) -> Commit:  # noqa: A002 - as SQL
        """Change columns of the rows for which a condition is true, in one commit.

        The changed rows are upserted, so the merge mode of the table applies, as it does to Hudi's UPDATE: a statement
        that makes the value of an ordering column smaller than the stored one changes nothing, and one that leaves it
        as it is wins. The table is read after the write has been planned. When another writer changes the same file
        groups meanwhile, the update is done again on what it wrote.

        Args:
            set: New values by column; see `hoodoo.statements.forms.Assignments`. A string is SQL.
            where: The condition; see `hoodoo.statements.forms.Predicate`. Default: every row.

        Returns:
            The commit.

        Raises:
            SchemaError: A column does not exist, or a value does not fit its column.
            InvalidOptionError: A column of the record key or of partitions would change, or an argument is malformed.
            UnsupportedError: The table has no key columns, or SQL has something that is not supported.
            MissingDependencyError: SQL text needs sqlglot (`pip install 'hoodoo[sql]'`).
            ConflictError: Other writers changed the same rows each time.

        Examples:
            >>> import hoodoo, pyarrow as pa, pyarrow.compute as pc
            >>> schema = {"id": pa.int64(), "city": pa.string(), "fare": pa.float64()}
            >>> t = hoodoo.Table.create("memory://docs-update/t", schema, name="t", record_key="id")
            >>> commit = t.insert({"id": [1, 2], "city": ["sf", "la"], "fare": [10.0, 20.0]})
            >>> t.update({"fare": "fare * 1.1", "city": "upper(city)"}, where="city = 'sf'").updated
            1
            >>> t.update({"fare": 0}, where=pc.field("id") == 2).updated
            1
            >>> t.to_arrow(columns=["city", "fare"]).to_pylist()
            [{'city': 'SF', 'fare': 11.0}, {'city': 'la', 'fare': 0.0}]
        """
        assignments = parse_assignments(set, "set")
        return update_rows(self._native, assignments, parse_condition(where), self._effort())

    def merge(
        self,
        source: Rows,
        on: Predicate | Sequence[str],
        *,
        source_alias: str = "source",
        target_alias: str = "target",
    ) -> MergeBuilder:
        """Begin a merge: rows of a source update, delete and insert rows of the table, in one commit.

        The rows that change are upserted, so the merge mode of the table applies, as it does to Hudi's MERGE INTO. Of
        several rows of the source that match one row of the table, the one with the largest ordering values counts when
        the table has ordering columns and the source has columns of the same names, as in Hudi. Equal ordering values,
        or a table without ordering columns, are an error, where Hudi takes whichever row comes last.

        The keys of the source are in memory, its rows in a temporary file beyond 64 MB; the table streams.

        Args:
            source: The rows; see `hoodoo.rows.Rows`.
            on: Which rows match: SQL such as `target.id = source.id and source.ts > target.ts`, which compares columns
                of both by `=`; or a list of columns that both have.
            source_alias: Another name for the source in SQL.
            target_alias: Another name for the table in SQL.

        Returns:
            The builder; add clauses, and call `execute`.

        Raises:
            InvalidOptionError: The condition or an alias is malformed.
            UnsupportedError: SQL that is not supported.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> schema = {"id": pa.int64(), "n": pa.int64()}
            >>> t = hoodoo.Table.create("memory://docs-merge-into/t", schema, name="t", record_key="id")
            >>> commit = t.insert({"id": [1, 2], "n": [1, 2]})
            >>> merge = t.merge({"id": [2, 3], "n": [10, 10]}, "t.id = s.id", source_alias="s", target_alias="t")
            >>> commit = merge.when_matched_update({"n": "t.n + s.n"}).when_not_matched_insert_all().execute()
            >>> sorted(t.to_arrow(columns=["n"])["n"].to_pylist())
            [1, 10, 12]
        """
        return MergeBuilder(self._native, source, on, (target_alias, source_alias), self._effort())

    def _delete_where(self, data: Rows | Keys | None, where: Predicate) -> Commit:
        if data is not None:
            raise InvalidOptionError("both keys and where= say which rows to delete: give one of them")
        condition = parse_condition(where)
        if condition is None:
            raise InvalidOptionError("nothing says which rows to delete: give keys or where=")
        return delete_rows(self._native, condition, self._effort())

    def _effort(self) -> Effort:
        options = self._ref.options
        if options.get(AS_OF):
            raise InvalidOptionError(
                f"a statement changes the newest rows, and {AS_OF}={options[AS_OF]} asks for those of an instant: what "
                f"was written since would be undone. Open the table without it: hoodoo.Table({self._ref.uri!r})"
            )
        threads = whole_number(options, _THREADS, os.cpu_count() or 1)
        return Effort(whole_number(options, _RETRIES, 5), max(1, threads), options)
