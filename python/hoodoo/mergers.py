"""Record mergers that many tables need. Use them as they are, or subclass them for a custom merger.

| class | what it does |
|---|---|
| `KeepNonNull` | the later record, with its nulls filled from the other one |
| `PerColumn` | a rule for each column: latest, non-null, sum, max, min, append |
| `ColumnGroups` | groups of columns, each with its own ordering column |

All of them treat deletes in the same way: the later of two records wins, also when it is a delete. A record after a
delete does not keep values from before it, unless both are in log files of one file slice: those are merged with each
other before the base file, and of a delete and a record only the record is left (as where Hudi fills columns).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.exceptions import InvalidOptionError
from hoodoo.record_merger import MergeContext, RecordMerger, Records, newer_wins, pick
from hoodoo.warning import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["ColumnGroups", "KeepNonNull", "PerColumn"]


class KeepNonNull(RecordMerger):
    """Keeps the later record, and fills its nulls from the other record.

    Examples:
        >>> import hoodoo
        >>> from hoodoo.mergers import KeepNonNull
        >>> older = {"id": ["a"], "name": ["Ann"], "city": [None]}
        >>> newer = {"id": ["a"], "name": [None], "city": ["Rome"]}
        >>> hoodoo.merge(older, newer, key="id", merger=KeepNonNull()).read_all().to_pylist()
        [{'id': 'a', 'name': 'Ann', 'city': 'Rome'}]
    """

    strategy_id = "7b9f4c1e-2d63-4b8a-9a57-0f4f2a6de001"

    def merge(self, older: Records, newer: Records, context: MergeContext) -> Records:  # noqa: ARG002
        """Merge pairs of records. See `RecordMerger.merge`."""
        wins = newer_wins(older, newer)
        later = pick(wins, older, newer)
        both = pc.and_(pc.invert(older.deleted), pc.invert(newer.deleted))
        columns = []
        for value, a, b in zip(later.data.columns, older.data.columns, newer.data.columns, strict=True):
            if value.null_count:
                other = pick_values(wins, a, b)
                columns.append(pick_values(pc.and_(both, pc.is_null(value)), other, value))
            else:
                columns.append(value)
        return Records(pa.RecordBatch.from_arrays(columns, schema=later.data.schema), later.keys, later.deleted)


class PerColumn(RecordMerger):
    """Merges each column by its own rule.

    Subclasses set `strategy_id` and `rules`: a rule for each column name. A column without a rule comes from the later
    record. Nulls do not count: a sum, max or min with null is the other value.

    | rule | result |
    |---|---|
    | `latest` | the value of the later record |
    | `non_null` | the value of the later record, or of the other record when that is null |
    | `sum` | the sum of both |
    | `max`, `min` | the larger or the smaller value |
    | `append` | both lists or strings, the earlier one first |

    Attributes:
        rules: The rules by column name. One whose column the records do not have gives a `HudiWarning`.

    Examples:
        >>> import hoodoo
        >>> class Totals(hoodoo.mergers.PerColumn):
        ...     strategy_id = "a4c3d1f0-7e0e-4d55-8f0a-5b8f5a0c9e02"
        ...     rules = {"clicks": "sum", "seen": "max", "pages": "append"}
        >>> older = {"id": [1], "clicks": [2], "seen": [10], "pages": [["a"]], "name": ["old"]}
        >>> newer = {"id": [1], "clicks": [3], "seen": [7], "pages": [["b"]], "name": ["new"]}
        >>> hoodoo.merge(older, newer, key="id", merger=Totals()).read_all().to_pylist()
        [{'id': 1, 'clicks': 5, 'seen': 10, 'pages': ['a', 'b'], 'name': 'new'}]
    """

    rules: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Find out whether a rule adds up."""
        super().__init_subclass__(**kwargs)
        cls.adds = not {"sum", "append"}.isdisjoint(cls.rules.values())

    def merge(self, older: Records, newer: Records, context: MergeContext) -> Records:  # noqa: ARG002
        """Merge pairs of records. See `RecordMerger.merge`."""
        self._warn_of_unknown(older.data.schema)
        wins = newer_wins(older, newer)
        later = pick(wins, older, newer)
        both = pc.and_(pc.invert(older.deleted), pc.invert(newer.deleted))
        columns = []
        for name, value in zip(later.data.schema.names, later.data.columns, strict=True):
            rule = self.rules.get(name, "latest")
            if rule == "latest":
                columns.append(value)
                continue
            merged = _RULES[self._checked(rule, name)](older.data[name], newer.data[name], wins)
            columns.append(pick_values(both, merged.cast(value.type), value))
        return Records(pa.RecordBatch.from_arrays(columns, schema=later.data.schema), later.keys, later.deleted)

    def partial_merge(self, older: Records, newer: Records, context: MergeContext) -> Records:
        """Merge pairs of records of which some have only some columns: what one of both lacks is that of the other."""
        merged = super().partial_merge(older, newer, context)
        if not isinstance(merged, Records):
            return Records(merged, newer.keys, newer.deleted)
        both = pc.and_(pc.invert(older.deleted), pc.invert(newer.deleted))
        columns = []
        for name, value in zip(merged.data.schema.names, merged.data.columns, strict=True):
            for side, other in ((older, newer), (newer, older)):
                if other.present is not None and self.rules.get(name, "latest") != "latest":
                    value = pick_values(pc.and_(both, pc.invert(other.present[name])), side.data[name], value)  # noqa: PLW2901
            columns.append(value)
        data = pa.RecordBatch.from_arrays(columns, schema=merged.data.schema)
        return replace(merged, data=data)

    def _warn_of_unknown(self, schema: pa.Schema) -> None:
        for name in self.rules:
            if name not in schema.names:
                message = (
                    f"the rules of {type(self).__name__} name the column '{name}', which the records do not have: "
                    "no value follows that rule. Correct its name"
                )
                warn(message)

    def _checked(self, rule: str, column: str) -> str:
        if rule not in _RULES:
            message = f"invalid rule '{rule}' for the column '{column}': expected latest, {', '.join(_RULES)}"
            raise InvalidOptionError(message)
        return rule


class ColumnGroups(RecordMerger):
    """Merges groups of columns, each by its own ordering column: for several services that write one table.

    For example, an order service and a payment service each write their columns of an order, at different times. Each
    group of columns comes from the record with the larger value in the ordering column of the group; a service writes
    null in the columns of other services.

    Subclasses set `strategy_id` and `groups`: the columns of each group by its ordering column. A column in no group
    comes from the later record; the ordering columns of the table keep the later value.

    Attributes:
        groups: Columns by the ordering column of their group.

    Examples:
        >>> import hoodoo
        >>> class Orders(hoodoo.mergers.ColumnGroups):
        ...     strategy_id = "5e6c1f1a-9a3b-4f0a-b6a4-1d8f0f7d3c03"
        ...     groups = {"ordered_at": ["item"], "paid_at": ["payment"]}
        >>> older = {"id": [1], "ordered_at": [None], "item": [None], "paid_at": [9], "payment": ["failed"]}
        >>> newer = {"id": [1], "ordered_at": [5], "item": ["book"], "paid_at": [None], "payment": [None]}
        >>> hoodoo.merge(older, newer, key="id", merger=Orders()).read_all().to_pylist()
        [{'id': 1, 'ordered_at': 5, 'item': 'book', 'paid_at': 9, 'payment': 'failed'}]
    """

    groups: ClassVar[Mapping[str, Sequence[str]]] = {}

    def merge(self, older: Records, newer: Records, context: MergeContext) -> Records:  # noqa: ARG002
        """Merge pairs of records. See `RecordMerger.merge`."""
        later = pick(newer_wins(older, newer), older, newer)
        both = pc.and_(pc.invert(older.deleted), pc.invert(newer.deleted))
        columns = dict(zip(later.data.schema.names, later.data.columns, strict=True))
        for ordering, members in self.groups.items():
            a, b = older.data[ordering], newer.data[ordering]
            newer_is_later = pc.or_(pc.fill_null(pc.greater_equal(b, a), False), pc.is_null(a))
            for name in (ordering, *members):
                of_group = pick_values(newer_is_later, newer.data[name], older.data[name])
                columns[name] = pick_values(both, of_group, columns[name])
        data = pa.RecordBatch.from_arrays(list(columns.values()), schema=later.data.schema)
        return Records(data, later.keys, later.deleted)


def pick_values(condition: pa.Array, yes: pa.Array, no: pa.Array) -> pa.Array:
    """Return values of `yes` where the condition is true, else of `no`; of any type."""
    try:
        return pc.if_else(condition, yes, no)
    except pa.ArrowNotImplementedError:
        rows = len(no)
        indices = pc.if_else(condition, pa.array(range(rows, 2 * rows)), pa.array(range(rows)))
        return pa.concat_arrays([no, yes]).take(indices)


def _non_null(older: pa.Array, newer: pa.Array, wins: pa.Array) -> pa.Array:
    later = pick_values(wins, newer, older)
    return pick_values(pc.is_null(later), pick_values(wins, older, newer), later) if later.null_count else later


def _sum(older: pa.Array, newer: pa.Array, wins: pa.Array) -> pa.Array:  # noqa: ARG001
    total = pc.add_checked(older, newer)
    return pc.coalesce(total, newer, older)


def _larger(first: pa.Array, second: pa.Array, *, smaller: bool = False) -> pa.Array:
    """The larger, or the smaller, of two values; the one that is there if the other is null or NaN."""
    try:
        return pc.min_element_wise(first, second) if smaller else pc.max_element_wise(first, second)
    except pa.ArrowNotImplementedError:
        # Of timestamps with a zone and of booleans.
        compare = pc.less if smaller else pc.greater
        takes_second = pc.coalesce(compare(second, first), pc.is_null(first))
        return pick_values(takes_second, second, first)


def _max(older: pa.Array, newer: pa.Array, wins: pa.Array) -> pa.Array:  # noqa: ARG001
    return _larger(older, newer)


def _min(older: pa.Array, newer: pa.Array, wins: pa.Array) -> pa.Array:  # noqa: ARG001
    return _larger(newer, older, smaller=True)


def _append(older: pa.Array, newer: pa.Array, wins: pa.Array) -> pa.Array:
    first, second = pick_values(wins, older, newer), pick_values(wins, newer, older)
    if pa.types.is_string(newer.type):
        joined = pc.binary_join_element_wise(first, second, "")
        return pc.coalesce(joined, first, second)
    if not pa.types.is_list(newer.type):
        message = f"a column of type {newer.type} cannot be appended to. Use a list or a string"
        raise InvalidOptionError(message)
    rows = len(newer)
    lengths = pc.add(pc.fill_null(pc.list_value_length(first), 0), pc.fill_null(pc.list_value_length(second), 0))
    # The values of both sides, row after row.
    parents = pa.concat_arrays([pc.list_parent_indices(first), pc.list_parent_indices(second)])
    values = pa.concat_arrays([pc.list_flatten(first), pc.list_flatten(second)])
    order = pc.sort_indices(pa.table({"row": parents}), sort_keys=[("row", "ascending")])
    ends = pc.cumulative_sum(lengths.cast(pa.int32())) if rows else pa.array([], pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends.combine_chunks() if hasattr(ends, "chunks") else ends])
    mask = pc.and_(pc.is_null(first), pc.is_null(second))
    return pa.ListArray.from_arrays(offsets, values.take(order), type=newer.type, mask=mask)


_RULES: dict[str, Callable[[pa.Array, pa.Array, pa.Array], pa.Array]] = {
    "non_null": _non_null,
    "sum": _sum,
    "max": _max,
    "min": _min,
    "append": _append,
}
