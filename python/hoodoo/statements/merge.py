"""MERGE: rows of a source that update, delete and insert rows of a table, in one commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.exceptions import InvalidOptionError
from hoodoo.statements.clauses import DELETE_MARK, Clause, Output, bound_clause, selected
from hoodoo.statements.evaluate import Scope, is_true
from hoodoo.statements.expressions import Call, Column, Constant
from hoodoo.statements.join import Join, Pairs, one_per_target, refuse_several
from hoodoo.statements.planned_write import Effort, RowsToWrite, write_planned
from hoodoo.statements.target import Target, columns_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hoodoo import _native
    from hoodoo.commit import Commit
    from hoodoo.statements.expressions import Expression
    from hoodoo.statements.shuffle import SpilledRows

__all__ = ["merge_rows"]

_CHUNK_ROWS = 1 << 16
_CHUNK_BYTES = 64 << 20


def merge_rows(
    native: _native.NativeTable, source: SpilledRows, on: Expression, clauses: Sequence[Clause], effort: Effort
) -> Commit:
    """Merge a source into a table. Arguments and errors as those of `MergeBuilder`."""
    return write_planned(native, lambda: _changes(native, source, on, clauses), effort)


def _changes(
    native: _native.NativeTable, source: SpilledRows, on: Expression, clauses: Sequence[Clause]
) -> RowsToWrite:
    target = Target.of(native, "a merge")
    bound = [bound_clause(clause, target, source.schema) for clause in clauses]
    _refuse_unreachable(bound)
    join = Join(on, {"target": target.schema, "source": source.schema})
    output = _output(target, bound)
    table = source.table()
    scope = Scope.of_columns(table.num_rows, dict(zip(table.column_names, table.columns, strict=True)), "source")
    merge = _Merge(target, scope, join, join.source_keys(scope), bound, output)
    operation = "upsert" if output.mark or any(c.action != "delete" for c in bound) else "delete"
    replaces = any(clause.action == "update" for clause in bound)
    return RowsToWrite(operation, target.schema, output.schema, merge.rows, replaces)


def _refuse_unreachable(clauses: Sequence[Clause]) -> None:
    full: dict[str, str] = {}
    for clause in clauses:
        if clause.group in full:
            raise InvalidOptionError(
                f"{clause.name} can never apply: {full[clause.group]} before it has no condition. Change their order, "
                "or give the first one a condition"
            )
        if is_true(clause.condition):
            full[clause.group] = clause.name


def _output(target: Target, clauses: Sequence[Clause]) -> Output:
    actions = {clause.action for clause in clauses}
    if actions == {"delete"}:
        identity = pa.schema([target.schema.field(name) for name in target.identity])
        return Output(target, identity, None)
    if "delete" not in actions:
        return Output(target, target.schema, None)
    schema = (
        target.schema if DELETE_MARK in target.schema.names else target.schema.append(pa.field(DELETE_MARK, pa.bool_()))
    )
    return Output(target, schema, DELETE_MARK)


@dataclass(frozen=True)
class _Merge:
    """A merge, ready to read the table."""

    target: Target
    source: Scope
    join: Join
    source_keys: pa.Table
    clauses: Sequence[Clause]
    output: Output

    def _of(self, group: str) -> list[Clause]:
        return [clause for clause in self.clauses if clause.group == group]

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Read the table as it is now, and return the rows to write."""
        met = [pa.array([], pa.int64())]
        for chunk in self._chunks():
            pairs = self.join.pairs(chunk, self.source_keys, self.source)
            met.append(pairs.source.unique())
            yield from self._matched(chunk, pairs)
            yield from self._left(chunk, pairs)
        yield from self._inserted(pa.concat_arrays(met).unique())

    def _chunks(self) -> Iterator[Scope]:
        """Batches of the table, together so large that building the join of each costs little."""
        conditions: list[Expression] = []
        if not self._of("not_matched_by_source"):
            if not self.source.rows:
                return
            conditions = [*self.join.on_target, *self.join.bounds(self.source_keys)]
        names = self._columns()
        waiting: list[pa.RecordBatch] = []
        rows = size = 0
        wanted = max(_CHUNK_ROWS, self.source.rows)
        for batch in self.target.batches(conditions, names):
            waiting.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= wanted or size >= _CHUNK_BYTES:
                yield _scope(waiting)
                waiting, rows, size = [], 0, 0
        if waiting:
            yield _scope(waiting)

    def _columns(self) -> list[str]:
        if self.output.mark is not None or any(clause.action == "update" for clause in self.clauses):
            return list(self.target.schema.names)
        looked_at = [*self.join.columns, *(clause.condition for clause in self.clauses)]
        return list(dict.fromkeys([*self.target.identity, *columns_in(looked_at, self.target.schema.names)]))

    def _matched(self, chunk: Scope, pairs: Pairs) -> Iterator[pa.RecordBatch]:
        clauses = self._of("matched")
        if not clauses or not len(pairs):
            return
        ordering = self._ordering(pairs)
        if ordering is not None:
            pairs = one_per_target(pairs, ordering)
        scope = chunk.take(pairs.target).with_side(self.source.take(pairs.source))
        chosen = list(selected(clauses, scope))
        if not chosen:
            return
        taken = chosen[0][1]
        for _, mask in chosen[1:]:
            taken = pc.or_(taken, mask)
        only_deletes = all(clause.action == "delete" for clause, _ in chosen)
        if ordering is None and not only_deletes:
            refuse_several(pairs.filter(taken))
        for clause, mask in chosen:
            if clause.action == "update":
                yield self.output.updates(clause, scope.filter(mask))
            else:
                yield self.output.deletes(chunk.take(pairs.target.filter(mask).unique()))

    def _ordering(self, pairs: Pairs) -> list[pa.Array] | None:
        """The ordering values of the source rows; None where the table or the source has none."""
        lower = {name.lower(): name for name in self.source.sides["source"]}
        names = [lower.get(name.lower()) for name in self.target.ordering]
        if not names or None in names:
            return None
        rows = self.source.take(pairs.source)
        return [rows.column(Column(name, "source")) for name in names if name is not None]

    def _left(self, chunk: Scope, pairs: Pairs) -> Iterator[pa.RecordBatch]:
        """Rows of the table that no row of the source matches."""
        clauses = self._of("not_matched_by_source")
        if not clauses:
            return
        numbers = pa.array(range(chunk.rows), pa.int64())
        scope = chunk.filter(pc.invert(pc.is_in(numbers, value_set=pairs.target)))
        for clause, mask in selected(clauses, scope):
            rows = scope.filter(mask)
            yield self.output.updates(clause, rows) if clause.action == "update" else self.output.deletes(rows)

    def _inserted(self, met: pa.Array) -> Iterator[pa.RecordBatch]:
        """Rows of the source that match no row of the table."""
        clauses = self._of("not_matched")
        if not clauses:
            return
        keys: list[pa.Table] = []
        for begin in range(0, self.source.rows, _CHUNK_ROWS):
            numbers = pa.array(range(begin, min(begin + _CHUNK_ROWS, self.source.rows)), pa.int64())
            scope = self.source.take(numbers.filter(pc.invert(pc.is_in(numbers, value_set=met))))
            for clause, mask in selected(clauses, scope):
                batch = self.output.inserts(clause, scope.filter(mask))
                if not self.target.ordering:
                    keys.append(pa.Table.from_batches([batch.select(self.target.identity)]))
                yield batch
        _refuse_equal_keys(keys)


def _scope(batches: Iterable[pa.RecordBatch]) -> Scope:
    table = pa.Table.from_batches(list(batches))
    return Scope.of_columns(table.num_rows, dict(zip(table.column_names, table.columns, strict=True)))


def _refuse_equal_keys(keys: list[pa.Table]) -> None:
    """Without ordering columns nothing says which of two new rows of a key is the newer one."""
    if not keys:
        return
    together = pa.concat_tables(keys)
    counts = together.group_by(together.column_names).aggregate([([], "count_all")])
    repeated = counts.filter(pc.greater(counts["count_all"], 1))
    if repeated.num_rows:
        row = repeated.drop_columns(["count_all"]).slice(0, 1).to_pylist()[0]
        named = ", ".join(f"{name}={value!r}" for name, value in row.items())
        raise InvalidOptionError(
            f"several rows of the source would be inserted with the same key ({named}). Nothing was written. Leave one "
            "row for each key in the source"
        )


def condition_of_columns(columns: Sequence[str]) -> Expression:
    """Return the condition that columns of the table and of the source are equal."""
    parts: list[Expression] = [Call("=", (Column(name, "target"), Column(name, "source"))) for name in columns]
    joined: Expression = parts[0] if parts else Constant(pa.scalar(False))
    for part in parts[1:]:
        joined = Call("and", (joined, part))
    return joined
