"""The join of a merge: which rows of the table and of the source match, a batch of the table at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.exceptions import InvalidOptionError, UnsupportedError
from hoodoo.statements.coercion import as_array, cast, common_type
from hoodoo.statements.evaluate import Scope, evaluate, mask_of
from hoodoo.statements.expressions import Call, Column, Constant, Foreign, conjuncts, nodes, text_of
from hoodoo.statements.functions import equal_key
from hoodoo.statements.target import qualified

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hoodoo.statements.expressions import Expression, Side

__all__ = ["Join", "Pairs"]

_TARGET_ROW, _SOURCE_ROW = "_target", "_source"
_FEW = 1_000


@dataclass(frozen=True)
class Pairs:
    """Rows that match: the numbers of the rows of the table, ascending, and those of the source beside them."""

    target: pa.Array
    source: pa.Array

    def filter(self, mask: pa.Array) -> Pairs:
        """Return the pairs of a mask."""
        return Pairs(self.target.filter(mask), self.source.filter(mask))

    def take(self, rows: pa.Array) -> Pairs:
        """Return pairs by number."""
        return Pairs(self.target.take(rows), self.source.take(rows))

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.target)


class Join:
    """A condition of a merge, made ready for joining.

    Args:
        condition: The condition; it has to compare a column of the table with one of the source by `=`.
        schemas: The columns of both.

    Raises:
        SchemaError: A column does not exist, or types do not go together.
        UnsupportedError: The condition has no such comparison.
    """

    def __init__(self, condition: Expression, schemas: Mapping[Side, pa.Schema]) -> None:
        """Take the condition apart."""
        self.on_target: list[Expression] = []
        self._keys: list[tuple[Expression, Expression, pa.DataType]] = []
        self._rest: list[Expression] = []
        scope = Scope.of_schema(schemas["target"]).with_side(Scope.of_schema(schemas["source"], "source"))
        for part in conjuncts(qualified(condition, schemas)):
            if any(isinstance(node, Foreign) for node in nodes(part)):
                raise UnsupportedError(
                    "a condition of pyarrow or polars cannot join: write on= as SQL, such as 'target.id = source.id', "
                    "or as a list of columns"
                )
            mask_of(part, scope)
            sides = (
                [_sides(argument) for argument in part.arguments] if isinstance(part, Call) and part.name == "=" else []
            )
            if isinstance(part, Call) and sides in ([{"target"}, {"source"}], [{"source"}, {"target"}]):
                left, right = part.arguments if sides[0] == {"target"} else part.arguments[::-1]
                types = [as_array(evaluate(side, scope), 0).type for side in (left, right)]
                self._keys.append((left, right, common_type(types[0], types[1], text_of(part))))
            else:
                self._rest.append(part)
                if _sides(part) == {"target"}:
                    self.on_target.append(part)
        if not self._keys:
            raise UnsupportedError(
                f"the condition `{text_of(condition)}` of the merge compares no column of the table with one of the "
                "source by =, such as target.id = source.id"
            )

    @property
    def columns(self) -> list[Expression]:
        """What has to be read of the table."""
        return [*(left for left, _, _ in self._keys), *self._rest]

    def source_keys(self, source: Scope) -> pa.Table:
        """Return the keys of the source with their row numbers."""
        return self._table(source, [(right, data_type) for _, right, data_type in self._keys], _SOURCE_ROW)

    def bounds(self, source_keys: pa.Table) -> list[Expression]:
        """Return conditions that rows of the table fulfil if they match any row of the source."""
        found: list[Expression] = []
        for n, (left, _, data_type) in enumerate(self._keys):
            if not isinstance(left, Column) or pa.types.is_floating(data_type) or pa.types.is_nested(data_type):
                continue
            values = source_keys[f"k{n}"].unique().drop_null()
            if len(values) <= _FEW:
                found.append(Call("in", (left, *(Constant(values[i]) for i in range(len(values))))))
                continue
            ends = pc.min_max(values)
            found += [Call(">=", (left, Constant(ends["min"]))), Call("<=", (left, Constant(ends["max"])))]
        return found

    def pairs(self, target: Scope, source_keys: pa.Table, source: Scope) -> Pairs:
        """Return the rows that match."""
        keys = [(left, data_type) for left, _, data_type in self._keys]
        left = self._table(target, keys, _TARGET_ROW)
        names = [f"k{n}" for n in range(len(keys))]
        joined = left.join(source_keys, names, join_type="inner", use_threads=False).combine_chunks()
        joined = joined.sort_by([(_TARGET_ROW, "ascending"), (_SOURCE_ROW, "ascending")])
        found = Pairs(*(joined[name].combine_chunks() for name in (_TARGET_ROW, _SOURCE_ROW)))
        found = Pairs(*(c.chunk(0) if isinstance(c, pa.ChunkedArray) else c for c in (found.target, found.source)))
        for part in self._rest:
            scope = target.take(found.target).with_side(source.take(found.source))
            found = found.filter(mask_of(part, scope))
        return found

    def _table(self, scope: Scope, keys: Sequence[tuple[Expression, pa.DataType]], number: str) -> pa.Table:
        columns = {}
        for n, (key, data_type) in enumerate(keys):
            values = cast(as_array(evaluate(key, scope), scope.rows), data_type, text_of(key))
            columns[f"k{n}"] = equal_key(values)
        return pa.table({**columns, number: pa.array(range(scope.rows), pa.int64())})


def _sides(expression: Expression) -> set[Side]:
    return {node.side for node in nodes(expression) if isinstance(node, Column) and node.side}


def one_per_target(pairs: Pairs, ordering: list[pa.Array]) -> Pairs:
    """Return the pair with the largest ordering values for each row of the table.

    Args:
        pairs: The pairs.
        ordering: The ordering values of the source, for each pair.

    Raises:
        InvalidOptionError: Two rows of the source match a row of the table, and have equal ordering values.
    """
    if not has_repeats(pairs.target):
        return pairs
    columns = {f"o{n}": values for n, values in enumerate(ordering)}
    order = pa.table({"t": pairs.target, **columns})
    keys = [("t", "ascending"), *((name, "descending") for name in columns)]
    at = pc.sort_indices(order, sort_keys=keys)
    ordered = order.take(at)
    is_next = _same_as_before(ordered["t"])
    tied = is_next
    for name in columns:
        tied = pc.and_(tied, _same_as_before(ordered[name]))
    # Of three rows that match, only a tie of the largest two matters.
    first_of_target = pc.invert(is_next)
    after_first = pa.concat_arrays([pa.array([False]), first_of_target[:-1]])
    if pc.any(pc.and_(tied, after_first)).as_py():
        raise _several("have equal ordering values, so that none of them is the newer one")
    return pairs.take(at.filter(first_of_target))


def refuse_several(pairs: Pairs) -> None:
    """Fail when two rows of the source change one row of the table.

    Raises:
        InvalidOptionError: They do.
    """
    if has_repeats(pairs.target):
        raise _several("would change it; the table has no ordering columns that tell the newer one")


def _several(what: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"several rows of the source match one row of the table and {what}. Nothing was written. Leave one row for "
        "each key in the source, or make the conditions of the clauses choose one"
    )


def has_repeats(ascending: pa.Array) -> bool:
    """Return whether a value comes twice in sorted values."""
    return bool(len(ascending) > 1 and pc.any(pc.equal(ascending[1:], ascending[:-1])).as_py())


def _same_as_before(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    later, earlier = array[1:], array[:-1]
    both = pc.and_(pc.is_null(later), pc.is_null(earlier))
    return pa.concat_arrays([pa.array([False]), pc.or_(both, pc.fill_null(pc.equal(later, earlier), False))])
