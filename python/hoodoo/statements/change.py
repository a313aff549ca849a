"""UPDATE and DELETE: rows for which a condition is true, in one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.statements.coercion import store
from hoodoo.statements.evaluate import Scope, evaluate, mask_of
from hoodoo.statements.planned_write import Effort, RowsToWrite, write_planned
from hoodoo.statements.target import Target, columns_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hoodoo import _native
    from hoodoo.commit import Commit
    from hoodoo.statements.expressions import Expression

__all__ = ["delete_rows", "update_rows"]


def delete_rows(native: _native.NativeTable, where: Expression, effort: Effort) -> Commit:
    """Delete rows. Arguments and errors as those of `Table.delete`."""
    return write_planned(native, lambda: _deletes(native, where), effort)


def _deletes(native: _native.NativeTable, where: Expression) -> RowsToWrite:
    target = Target.of(native, "a delete by condition")
    mask_of(where, Scope.of_schema(target.schema))
    names = columns_in([where], target.schema.names)
    columns = list(dict.fromkeys([*target.identity, *names]))
    identity = pa.schema([target.field(name, "the record key") for name in target.identity])

    def produce() -> Iterator[pa.RecordBatch]:
        for batch in target.batches([where], columns):
            mask = mask_of(where, Scope.of_batch(batch))
            if pc.any(mask).as_py():
                yield batch.select(identity.names).filter(mask)

    return RowsToWrite("delete", target.schema, identity, produce)


def update_rows(
    native: _native.NativeTable, assignments: Mapping[str, Expression], where: Expression | None, effort: Effort
) -> Commit:
    """Update rows. Arguments and errors as those of `Table.update`."""
    return write_planned(native, lambda: _updates(native, assignments, where), effort)


def _updates(
    native: _native.NativeTable, assignments: Mapping[str, Expression], where: Expression | None
) -> RowsToWrite:
    target = Target.of(native, "an update")
    values = target.assigned(assignments, "set")
    empty = Scope.of_schema(target.schema)
    mask_of(where, empty)
    for name, value in values.items():
        store(evaluate(value, empty), target.schema.field(name), 0)

    names = target.schema.names
    looked_at = [name for name in columns_in([where, *values.values()], names) if name not in names]

    def produce() -> Iterator[pa.RecordBatch]:
        for batch in target.batches([] if where is None else [where], [*names, *looked_at]):
            mask = mask_of(where, Scope.of_batch(batch))
            if not pc.any(mask).as_py():
                continue
            rows = batch.filter(mask)
            scope = Scope.of_batch(rows)
            columns = [
                store(evaluate(values[field.name], scope), field, rows.num_rows) if field.name in values else column
                for field, column in zip(target.schema, rows.columns[: len(names)], strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=target.schema)

    return RowsToWrite("upsert", target.schema, target.schema, produce, replaces=True)
