"""Evaluation of expressions over columns, never row by row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.exceptions import InvalidOptionError, SchemaError, UnsupportedError
from hoodoo.statements.coercion import Value, aligned, as_array, plain
from hoodoo.statements.coercion import cast as cast_value
from hoodoo.statements.expressions import Call, Case, Cast, Column, Constant, Foreign, nodes, text_of
from hoodoo.statements.fitting import fitted, is_exact
from hoodoo.statements.foreign import evaluate_foreign
from hoodoo.statements.functions import FUNCTIONS, is_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hoodoo.statements.expressions import Expression, Side

__all__ = ["HUDI_COLUMNS", "Lazy", "Scope", "evaluate", "is_true", "mask_of"]

HUDI_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
"""Hudi's own columns of a table, which are no part of its schema. They are strings."""

# What may fail for a row that a condition keeps out: SQL must not look at such rows.
_CAN_FAIL = {"+", "-", "*", "/", "%", "div", "neg", "abs"}


@dataclass(frozen=True)
class Scope:
    """The columns that expressions see.

    Attributes:
        rows: Number of rows.
        sides: The columns of each input by name; a statement without a source has the side `target` only.
    """

    rows: int
    sides: Mapping[Side, Mapping[str, pa.Array]]

    @classmethod
    def of_columns(cls, rows: int, columns: Mapping[str, pa.Array | pa.ChunkedArray], side: Side = "target") -> Scope:
        """Return the scope of one input, whose columns are decoded when they are asked for."""
        return cls(rows, {side: Lazy(columns, plain)})

    @classmethod
    def of_schema(cls, schema: pa.Schema, side: Side = "target") -> Scope:
        """Return the scope of one input without rows: what is wrong with an expression shows there."""
        hudi = {name: pa.array([], pa.string()) for name in HUDI_COLUMNS} if side == "target" else {}
        return cls.of_columns(0, hudi | {field.name: pa.array([], field.type) for field in schema}, side)

    @classmethod
    def of_batch(cls, batch: pa.RecordBatch, side: Side = "target") -> Scope:
        """Return the scope of one input."""
        return cls.of_columns(batch.num_rows, dict(zip(batch.schema.names, batch.columns, strict=True)), side)

    def with_side(self, other: Scope) -> Scope:
        """Return a scope with the columns of both."""
        return Scope(self.rows, {**self.sides, **other.sides})

    def take(self, rows: pa.Array) -> Scope:
        """Return rows by number."""
        return self._each(lambda array: plain(array.take(rows)), len(rows))

    def column(self, wanted: Column) -> pa.Array:
        """Return a column; an exact name wins over one in another case."""
        found = [
            (side, name)
            for side, columns in self.sides.items()
            if wanted.side in (None, side) and (name := _find(wanted.name, columns)) is not None
        ]
        if len(found) > 1:
            options = " or ".join(f"{side}.{name}" for side, name in found)
            raise SchemaError(f"the column {wanted.name!r} is ambiguous: write {options}")
        if not found:
            known = ", ".join(
                f"{side}.{name}" if len(self.sides) > 1 else name
                for side, columns in self.sides.items()
                for name in columns
                if name not in HUDI_COLUMNS
            )
            raise SchemaError(f"the column {text_of(wanted)!r} does not exist here. Columns: {known}")
        side, name = found[0]
        return self.sides[side][name]

    def filter(self, mask: pa.Array) -> Scope:
        """Return the rows of a mask."""
        return self._each(lambda array: plain(array.filter(mask)), pc.sum(mask).as_py() or 0)

    def _each(self, function: Callable[[pa.Array], pa.Array], rows: int) -> Scope:
        return Scope(rows, {side: Lazy(columns, function) for side, columns in self.sides.items()})


class Lazy(Mapping[str, pa.Array]):
    """Columns that a function makes of others when they are asked for.

    Args:
        columns: The others.
        function: The function.
    """

    def __init__(self, columns: Mapping[str, pa.Array], function: Callable[[pa.Array], pa.Array]) -> None:
        """Take the columns."""
        self._columns = columns
        self._function = function
        self._made: dict[str, pa.Array] = {}

    def __getitem__(self, name: str) -> pa.Array:
        """Return a column."""
        if name not in self._made:
            self._made[name] = self._function(self._columns[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        """Return whether there is a column of this name."""
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        """Return the names."""
        return iter(self._columns)

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self._columns)


def _find(name: str, columns: Mapping[str, pa.Array]) -> str | None:
    if name in columns:
        return name
    same = [known for known in columns if known.lower() == name.lower()]
    if len(same) > 1:
        raise SchemaError(f"the column {name!r} is ambiguous: there are {' and '.join(same)}. Write it as it is stored")
    return same[0] if same else None


def mask_of(condition: Expression | None, scope: Scope) -> pa.Array:
    """Return for each row whether a condition is true: neither false nor null.

    Args:
        condition: The condition; None is always true.
        scope: The columns.

    Returns:
        A boolean array without nulls.

    Raises:
        SchemaError: A column does not exist, types do not go together, or the condition is not boolean.
        UnsupportedError: A function is not supported.

    Examples:
        >>> scope = Scope.of_batch(pa.record_batch({"n": [1, None, 3]}))
        >>> mask_of(Call(">", (Column("n"), Constant(pa.scalar(2)))), scope).to_pylist()
        [False, False, True]
    """
    if condition is None:
        return _every(scope.rows)
    return pc.fill_null(as_array(_boolean(condition, scope), scope.rows), False)


def _every(rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(True), rows)


def is_true(condition: Expression | None) -> bool:
    """Return whether a condition is none, or the literal TRUE."""
    return condition is None or (isinstance(condition, Constant) and condition.value.as_py() is True)


def _boolean(expression: Expression, scope: Scope) -> Value:
    value = evaluate(expression, scope)
    if pa.types.is_null(value.type):
        return pa.scalar(None, pa.bool_())
    if not pa.types.is_boolean(value.type):
        raise SchemaError(f"`{text_of(expression)}` is {value.type} and not a condition. Compare it with something")
    return value


def evaluate(expression: Expression, scope: Scope) -> Value:
    """Return the values of an expression. Arguments and errors as those of `mask_of`."""
    if isinstance(expression, Constant):
        return expression.value
    if isinstance(expression, Column):
        return scope.column(expression)
    if isinstance(expression, Cast):
        return cast_value(evaluate(expression.value, scope), expression.data_type, text_of(expression))
    if isinstance(expression, Case):
        return _case(expression, scope)
    if isinstance(expression, Foreign):
        return evaluate_foreign(expression, scope.sides, scope.rows)
    return _call(expression, scope)


def _call(call: Call, scope: Scope) -> Value:
    if is_exact(call):
        call = fitted(call, evaluate(call.arguments[0], scope).type)
    what = text_of(call)
    if call.name in {"and", "or"}:
        return _connect(call, scope)
    if call.name == "not":
        return pc.invert(_boolean(call.arguments[0], scope))
    if call.name == "coalesce":
        return _coalesce(call, scope)
    values = [evaluate(argument, scope) for argument in call.arguments]
    if call.name == "in":
        if all(isinstance(argument, Constant) for argument in call.arguments[1:]):
            return is_in(values[0], values[1:], what)
        return evaluate(_any_of(call), scope)
    if call.name not in FUNCTIONS:
        raise UnsupportedError(f"the function {call.name!r} in `{what}` is not supported")
    function, smallest, largest = FUNCTIONS[call.name]
    if not smallest <= len(values) <= largest:
        raise InvalidOptionError(f"`{what}` has {len(values)} arguments: expected {smallest} to {largest}")
    return function(values, what)


def _any_of(call: Call) -> Expression:
    first, *others = (Call("=", (call.arguments[0], other)) for other in call.arguments[1:])
    combined: Expression = first
    for other in others:
        combined = Call("or", (combined, other))
    return combined


def _can_fail(expression: Expression) -> bool:
    return any(isinstance(n, Cast) or (isinstance(n, Call) and n.name in _CAN_FAIL) for n in nodes(expression))


def _connect(call: Call, scope: Scope) -> Value:
    """AND and OR. The right side is not looked at where the left one decides and it could fail."""
    left, right = call.arguments
    decides, connect = pa.scalar(call.name == "or"), pc.and_kleene if call.name == "and" else pc.or_kleene
    first = _boolean(left, scope)
    if not _can_fail(right):
        return connect(first, _boolean(right, scope))
    first = as_array(first, scope.rows)
    open_ = pc.fill_null(pc.not_equal(first, decides), True)
    inner = scope.filter(open_)
    second = as_array(_boolean(right, inner), inner.rows)
    return connect(first, pc.if_else(open_, scattered(second, open_), decides))


def scattered(values: pa.Array, mask: pa.Array) -> pa.Array:
    """Return values at the rows of a mask, and null at the others."""
    at = pc.subtract(pc.cumulative_sum(mask.cast(pa.int64())), 1)
    return values.take(pc.if_else(mask, at, pa.scalar(None, pa.int64())))


def _coalesce(call: Call, scope: Scope) -> Value:
    branches = tuple((Call("not", (Call("is_null", (a,)),)), a) for a in call.arguments[:-1])
    return _case(Case(branches, call.arguments[-1]), scope)


def _case(case: Case, scope: Scope) -> Value:
    """Evaluate each branch for its own rows only: another one's may fail there."""
    open_ = _every(scope.rows)
    chosen: list[pa.Array] = []
    parts: list[Value] = []
    for condition, value in case.branches:
        candidates = scope.filter(open_)
        met = mask_of(condition, candidates)
        here = pc.fill_null(scattered(met, open_), False)
        parts.append(evaluate(value, candidates.filter(met)))
        chosen.append(here)
        open_ = pc.and_not(open_, here)
    rest = scope.filter(open_)
    parts.append(evaluate(case.otherwise, rest))
    chosen.append(open_)
    values = aligned(parts, text_of(case))
    sizes = [pc.sum(mask).as_py() or 0 for mask in chosen]
    together = pa.concat_arrays([as_array(v, n) for v, n in zip(values, sizes, strict=True)])
    order = pa.concat_arrays([pc.indices_nonzero(mask).cast(pa.int64()) for mask in chosen])
    return together.take(pc.sort_indices(order)) if scope.rows else together
