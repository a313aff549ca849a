"""`Table.merge`: a builder in the style of MERGE INTO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hoodoo.exceptions import InvalidOptionError
from hoodoo.rows import has_types, record_batch_reader
from hoodoo.statements.clauses import Clause
from hoodoo.statements.forms import Assignments, Predicate, parse_assignments, parse_condition
from hoodoo.statements.merge import condition_of_columns, merge_rows
from hoodoo.statements.shuffle import SpilledRows

if TYPE_CHECKING:
    from typing import Any, Literal

    from hoodoo import _native
    from hoodoo.commit import Commit
    from hoodoo.rows import Rows
    from hoodoo.statements.clauses import Group
    from hoodoo.statements.expressions import Expression, Side
    from hoodoo.statements.planned_write import Effort

__all__ = ["MergeBuilder"]


class MergeBuilder:
    """A merge in the making: `Table.merge` begins it, clauses say what happens, and `execute` writes one commit.

    Of the clauses of one kind, the first whose condition is true applies to a row. Conditions and values name
    columns as `target.fare` and `source.fare`, or by the aliases of the merge; a name that only one of them has needs
    no prefix.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> schema = {"id": pa.int64(), "fare": pa.float64()}
        >>> t = hoodoo.Table.create("memory://docs-merge-builder/t", schema, name="t", record_key="id")
        >>> commit = t.insert({"id": [1, 2, 3], "fare": [1.0, 2.0, 3.0]})
        >>> source = pa.table({"id": [1, 2, 4], "fare": [10.0, None, 40.0]})
        >>> commit = (
        ...     t.merge(source, on=["id"])
        ...     .when_matched_update({"fare": pa.scalar(0.0)}, condition=[("target.fare", "=", 2.0)])
        ...     .when_matched_update_all()
        ...     .when_not_matched_insert_all()
        ...     .execute()
        ... )
        >>> commit.updated, commit.inserted, sorted(t.to_arrow(columns=["fare"])["fare"].to_pylist())
        (2, 1, [0.0, 3.0, 10.0, 40.0])
    """

    def __init__(
        self,
        table: _native.NativeTable,
        source: Rows,
        on: Predicate | Sequence[str],
        aliases: tuple[str, str],
        effort: Effort,
    ) -> None:
        """Take what `Table.merge` is given."""
        self._table = table
        self._source = source
        self._effort = effort
        self._clauses: list[Clause] = []
        self._names = _names(*aliases)
        self._on = self._condition_of(on)
        self._is_done = False

    def _condition_of(self, on: Any) -> Expression:
        is_columns = isinstance(on, Sequence) and not isinstance(on, str) and all(isinstance(c, str) for c in on)
        if is_columns and on:
            return condition_of_columns([str(column) for column in on])
        found = None if isinstance(on, bool) else parse_condition(on, self._names)
        if found is None:
            raise InvalidOptionError("a merge needs a condition: write on='target.id = source.id', or on=['id']")
        return found

    def when_matched_update(self, set: Assignments, condition: Predicate | None = None) -> MergeBuilder:  # noqa: A002
        """Update rows that match.

        Args:
            set: New values by column; see `hoodoo.statements.forms.Assignments`. Columns that are not named stay.
            condition: Only those for which this is true; see `hoodoo.statements.forms.Predicate`.

        Returns:
            The builder.

        Raises:
            InvalidOptionError: The values or the condition are malformed.
            UnsupportedError: SQL that is not supported.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-merge-update/t", {"id": pa.int64(), "n": pa.int64()}, name="t",
            ...                         record_key="id")
            >>> commit = t.insert({"id": [1, 2], "n": [1, 1]})
            >>> merge = t.merge({"id": [1, 2], "n": [5, 0]}, on="target.id = source.id")
            >>> merge.when_matched_update({"n": "target.n + source.n"}, condition="source.n > 0").execute().updated
            1
        """
        return self._add("matched", "when_matched_update", condition, "update", set)

    def when_matched_update_all(self, condition: Predicate | None = None) -> MergeBuilder:
        """Update all columns of rows that match from columns of the source with the same names (`UPDATE SET *`).

        Args:
            condition: See `when_matched_update`.

        Returns:
            The builder.

        Raises:
            InvalidOptionError: The condition is malformed.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-merge-update-all/t", {"id": pa.int64(), "n": pa.int64()},
            ...                         name="t", record_key="id")
            >>> commit = t.insert({"id": [1], "n": [1]})
            >>> t.merge({"id": [1, 2], "n": [5, 6]}, on=["id"]).when_matched_update_all().execute().updated
            1
        """
        return self._add("matched", "when_matched_update_all", condition, "update")

    def when_matched_delete(self, condition: Predicate | None = None) -> MergeBuilder:
        """Delete rows that match.

        In a merge that also updates or inserts rows, deletes are rows with a true `_hoodie_is_deleted`, as Hudi's own
        upserts delete. A table without this column gets it by the commit, which `Commit.schema_changes` names.

        Args:
            condition: See `when_matched_update`.

        Returns:
            The builder.

        Raises:
            InvalidOptionError: The condition is malformed.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-merge-delete/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1, 2]})
            >>> t.merge({"id": [1, 3]}, on=["id"]).when_matched_delete().execute().deleted
            1
        """
        return self._add("matched", "when_matched_delete", condition, "delete")

    def when_not_matched_insert(self, values: Assignments, condition: Predicate | None = None) -> MergeBuilder:
        """Insert rows of the source that match no row of the table.

        Args:
            values: Values by column, from columns of the source; columns that are not named are null.
            condition: See `when_matched_update`.

        Returns:
            The builder.

        Raises:
            InvalidOptionError: The values or the condition are malformed.
            UnsupportedError: SQL that is not supported.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-merge-insert/t", {"id": pa.int64(), "n": pa.int64()}, name="t",
            ...                         record_key="id")
            >>> merge = t.merge({"key": [1, 2]}, on="target.id = source.key")
            >>> merge.when_not_matched_insert({"id": "key", "n": 0}, condition="key > 1").execute().inserted
            1
        """
        return self._add("not_matched", "when_not_matched_insert", condition, "insert", values)

    def when_not_matched_insert_all(self, condition: Predicate | None = None) -> MergeBuilder:
        """Insert rows of the source that match no row, from columns with the same names (`INSERT *`).

        Args:
            condition: See `when_matched_update`.

        Returns:
            The builder.

        Raises:
            InvalidOptionError: The condition is malformed.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-merge-insert-all/t", {"id": pa.int64()}, name="t",
            ...                         record_key="id")
            >>> t.merge({"id": [1, 2]}, on=["id"]).when_not_matched_insert_all().execute().inserted
            2
        """
        return self._add("not_matched", "when_not_matched_insert_all", condition, "insert")

    def when_not_matched_by_source_update(
        self,
        set: Assignments,  # noqa: A002 - as SQL
        condition: Predicate | None = None,
    ) -> MergeBuilder:
        """Update rows of the table that no row of the source matches. The whole table is read.

        Args:
            set: New values by column, from columns of the table.
            condition: See `when_matched_update`.

        Returns:
            The builder.

        Raises:
            InvalidOptionError: The values or the condition are malformed.
            UnsupportedError: SQL that is not supported.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-merge-left/t", {"id": pa.int64(), "n": pa.int64()}, name="t",
            ...                         record_key="id")
            >>> commit = t.insert({"id": [1, 2], "n": [1, 1]})
            >>> t.merge({"id": [1]}, on=["id"]).when_not_matched_by_source_update({"n": "n + 1"}).execute().updated
            1
        """
        return self._add("not_matched_by_source", "when_not_matched_by_source_update", condition, "update", set)

    def when_not_matched_by_source_delete(self, condition: Predicate | None = None) -> MergeBuilder:
        """Delete rows of the table that no row of the source matches. See `when_matched_delete` on deletes.

        Args:
            condition: See `when_matched_update`.

        Returns:
            The builder.

        Raises:
            InvalidOptionError: The condition is malformed.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-merge-left-delete/t", {"id": pa.int64()}, name="t",
            ...                         record_key="id")
            >>> commit = t.insert({"id": [1, 2]})
            >>> t.merge({"id": [1]}, on=["id"]).when_not_matched_by_source_delete().execute().deleted
            1
        """
        return self._add("not_matched_by_source", "when_not_matched_by_source_delete", condition, "delete")

    def execute(self) -> Commit:
        """Write the merge as one commit.

        When another writer changes the same rows meanwhile, the table is read again and the merge is done anew
        (`hoodie.write.num.retries.on.conflict.failures`, 5 times by default).

        Returns:
            The commit.

        Raises:
            InvalidOptionError: There are no clauses, several rows of the source change one row, or a clause changes a
                column of the key or of partitions.
            SchemaError: A column does not exist, or types do not go together.
            UnsupportedError: The table has no key columns, or the condition compares no columns by `=`.
            ConflictError: Other writers changed the same rows each time.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-merge-execute/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> t.merge({"id": [1]}, on=["id"]).when_not_matched_insert_all().execute().operation
            'UPSERT'
        """
        if not self._clauses:
            raise InvalidOptionError("the merge has no clauses: add when_matched_update_all() or another one")
        if self._is_done:
            raise InvalidOptionError("this merge was executed before: begin another one with Table.merge")
        self._is_done = True
        schema = None if has_types(self._source) else self._table.schema()
        reader = record_batch_reader(self._source, schema)
        with SpilledRows(reader.schema) as source:
            for batch in reader:
                source.add(batch)
            source.finish()
            return merge_rows(self._table, source, self._on, self._clauses, self._effort)

    def _add(
        self,
        group: Group,
        name: str,
        condition: Predicate | None,
        action: Literal["update", "delete", "insert"],
        values: Assignments | None = None,
    ) -> MergeBuilder:
        parsed = parse_condition(condition, self._names)
        is_star = name.endswith("_all") or action == "delete"
        assigned = None if is_star else parse_assignments(values or {}, name, self._names)
        self._clauses.append(Clause(group, name, parsed, action, assigned))
        return self


def _names(target: Any, source: Any) -> dict[str, Side]:
    for alias in (target, source):
        if not isinstance(alias, str) or not alias:
            raise InvalidOptionError(f"invalid alias {alias!r}: expected a name, such as 't'")
    if target.lower() == source.lower():
        raise InvalidOptionError(f"target and source have the same alias {target!r}: give them different ones")
    known: dict[str, Side] = {target.lower(): "target", source.lower(): "source"}
    defaults: dict[str, Side] = {"target": "target", "source": "source"}
    return defaults | known
