"""The clauses of a merge: what becomes of rows that match, and of those that do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.exceptions import InvalidOptionError, SchemaError
from hoodoo.statements.coercion import as_array, store
from hoodoo.statements.evaluate import Scope, evaluate, mask_of
from hoodoo.statements.expressions import Call, Column
from hoodoo.statements.target import qualified

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hoodoo.statements.expressions import Expression, Side
    from hoodoo.statements.target import Target

__all__ = ["DELETE_MARK", "Clause", "Group", "Output", "bound_clause", "selected"]

Group: TypeAlias = Literal["matched", "not_matched", "not_matched_by_source"]

DELETE_MARK = "_hoodie_is_deleted"
"""Hudi's column that is true in rows of an upsert that delete."""

_SIDES: dict[Group, tuple[Side, ...]] = {
    "matched": ("target", "source"),
    "not_matched": ("source",),
    "not_matched_by_source": ("target",),
}


@dataclass(frozen=True)
class Clause:
    """One clause.

    Attributes:
        group: The rows that it is for.
        name: The method that added it, for messages.
        condition: Which of these rows; None for all.
        action: What becomes of them.
        values: New values by column; None for `*`: each column gets that of the source with the same name.
    """

    group: Group
    name: str
    condition: Expression | None
    action: Literal["update", "delete", "insert"]
    values: Mapping[str, Expression] | None = None


@dataclass(frozen=True)
class Output:
    """The rows that a merge writes.

    Attributes:
        target: The table.
        schema: Their columns.
        mark: The column that is true for deletes; None where all rows are deletes, or none is.
    """

    target: Target
    schema: pa.Schema
    mark: str | None

    def deletes(self, scope: Scope) -> pa.RecordBatch:
        """Return rows of the table as deletes."""
        return self._batch(
            {name: scope.sides["target"][name] for name in self.schema.names if name != self.mark}, scope, True
        )

    def updates(self, clause: Clause, scope: Scope) -> pa.RecordBatch:
        """Return rows of the table with new values."""
        values = {} if clause.values is None else clause.values
        self._check_same(values, scope, clause)
        columns = {
            field.name: store(evaluate(values[field.name], scope), field, scope.rows)
            if field.name in values and field.name not in self.target.identity
            else scope.sides["target"][field.name]
            for field in self.target.schema
        }
        return self._batch(columns, scope, False)

    def inserts(self, clause: Clause, scope: Scope) -> pa.RecordBatch:
        """Return rows of the source as new rows."""
        values = {} if clause.values is None else clause.values
        columns = {}
        for field in self.target.schema:
            value = evaluate(values[field.name], scope) if field.name in values else pa.scalar(None, pa.null())
            columns[field.name] = store(value, field, scope.rows)
        return self._batch(columns, scope, False)

    def _batch(self, columns: dict[str, pa.Array], scope: Scope, is_delete: bool) -> pa.RecordBatch:
        if self.mark is not None and (is_delete or self.mark not in columns):
            columns[self.mark] = pa.repeat(pa.scalar(is_delete), scope.rows)
        arrays = [columns[field.name] for field in self.schema]
        typed = [a if a.type.equals(f.type) else a.cast(f.type) for a, f in zip(arrays, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(typed, schema=self.schema)

    def _check_same(self, values: Mapping[str, Expression], scope: Scope, clause: Clause) -> None:
        """`*` names the columns of keys and partitions too, whose values have to be those of the row."""
        for name in self.target.identity:
            if name not in values:
                continue
            same = Call("<=>", (Column(name, "target"), values[name]))
            if pc.any(pc.invert(as_array(evaluate(same, scope), scope.rows))).as_py():
                kind = "record key" if name in self.target.keys else "partition"
                raise InvalidOptionError(
                    f"{clause.name} would change the {kind} column {name!r} of a row, which Hudi does not allow "
                    "either. Name the columns that change, or make the condition of the merge compare this column"
                )


def bound_clause(clause: Clause, target: Target, source: pa.Schema) -> Clause:
    """Return a clause whose expressions name the columns that exist, with `*` written out.

    Raises:
        SchemaError: A column does not exist, or types do not go together.
        InvalidOptionError: A column cannot change.
    """
    all_schemas: dict[Side, pa.Schema] = {"target": target.schema, "source": source}
    schemas = {side: all_schemas[side] for side in _SIDES[clause.group]}
    condition = None if clause.condition is None else qualified(clause.condition, schemas)
    values = clause.values
    if clause.action != "delete":
        values = _star(clause, target, source) if values is None else _named(clause, target, values)
        values = {name: qualified(value, schemas) for name, value in values.items()}
    bound = Clause(clause.group, clause.name, condition, clause.action, values)
    _check_types(bound, target, schemas)
    return bound


def _named(clause: Clause, target: Target, values: Mapping[str, Expression]) -> dict[str, Expression]:
    if clause.action == "update":
        return target.assigned(values, clause.name)
    found = target.named(values, clause.name)
    missing = [n for n in target.identity if n not in found]
    missing += [f.name for f in target.schema if not f.nullable and f.name not in found and f.name not in missing]
    if missing:
        raise SchemaError(f"{clause.name} has no value for {', '.join(missing)}, which every row needs")
    return found


def _star(clause: Clause, target: Target, source: pa.Schema) -> dict[str, Expression]:
    lower = {name.lower(): name for name in source.names}
    found: dict[str, Expression] = {}
    for name in target.schema.names:
        known = name if name in source.names else lower.get(name.lower())
        if known is None and name == DELETE_MARK:
            # A merge before this one may have added it: rows that stay are not marked.
            continue
        if known is None:
            raise SchemaError(
                f"{clause.name} needs every column of the table, and the source has no column {name!r}. Name "
                f"the columns with their values instead. Columns of the source: {', '.join(source.names)}"
            )
        found[name] = Column(known, "source")
    return found


def _check_types(clause: Clause, target: Target, schemas: Mapping[Side, pa.Schema]) -> None:
    """Evaluate a clause without rows, so that what is wrong with it shows before anything is written."""
    scope = Scope(0, {})
    for side, schema in schemas.items():
        scope = scope.with_side(Scope.of_schema(schema, side))
    mask_of(clause.condition, scope)
    for name, value in (clause.values or {}).items():
        # Required columns of a table take nulls of a type here: there are no rows yet.
        store(evaluate(value, scope), target.schema.field(name), 0)


def selected(clauses: Sequence[Clause], scope: Scope) -> Iterator[tuple[Clause, pa.Array]]:
    """Return for each clause a mask of the rows that it is for: those that no clause before it takes."""
    open_ = pa.repeat(pa.scalar(True), scope.rows)
    for clause in clauses:
        met = pc.and_(mask_of(clause.condition, scope), open_)
        open_ = pc.and_not(open_, met)
        if pc.any(met).as_py():
            yield clause, met
