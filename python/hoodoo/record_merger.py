"""Custom record mergers: how two versions of a record become one.

A table names its merge strategy by a UUID (`hoodie.record.merge.strategy.id`). A merger is a class with that UUID. Jobs
name the class by its import path in the option `hoodie.write.record.merge.custom.implementation.classes`; of several
classes the first one with the UUID of the table is used. Hudi on the JVM needs a merger for such a table too, with the
same UUID and the same results.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.exceptions import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MergeContext", "RecordMerger", "Records", "RowMerger", "newer_wins", "pick"]


@dataclass(frozen=True)
class Records:
    """Versions of records, side by side: row `i` of `older` and row `i` of `newer` have the same key.

    Attributes:
        data: The columns, with Hudi's meta columns when files of a table are read. A delete may have only nulls.
        keys: The record keys; strings.
        deleted: Which records are deletes; booleans without nulls.
        ordering: The ordering values, a column for each ordering field of the table; deletes have them too.
        unordered: Which records have no ordering value. Such a delete wins over all earlier records.
        present: For each column which records have it, when some records have only some columns (partial updates);
            None when all records have all columns.
    """

    data: pa.RecordBatch
    keys: pa.Array
    deleted: pa.Array
    ordering: tuple[pa.Array, ...] = ()
    unordered: pa.Array | None = None
    present: Mapping[str, pa.Array] | None = None

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.keys)


@dataclass(frozen=True)
class MergeContext:
    """What a merger knows about the table.

    Attributes:
        ordering: Names of the columns that order records.
        properties: The table's `hoodie.record.merge.property.*`, without that prefix.
    """

    ordering: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


Merged: TypeAlias = Records | pa.RecordBatch


class RecordMerger:
    """Merges pairs of records, many at a time, as Arrow batches.

    Subclasses set `strategy_id` and define `merge`. hoodoo creates them without arguments, once for each table that is
    opened, and calls them from several threads.

    `merge` returns a row for each pair, in the columns of `older.data`. When it returns a `pyarrow.RecordBatch`, the
    result is a delete where `newer` is a delete; to change that, return `Records` with `data` and `deleted`. Rows must
    keep their record key and the values of the ordering columns. Merging must be associative, because log records are
    merged with each other before they are merged with base files: `hoodoo.testing.check_merger` tests that.

    Source: `HoodieRecordMerger` of Hudi, RFC-101.

    Attributes:
        strategy_id: The UUID of the merge strategy.
        adds: Whether values of both records are added up, so that a row which is written again counts twice. Updates by
            statements write whole rows, and refuse tables of such a merger.

    Examples:
        >>> import hoodoo, pyarrow as pa, pyarrow.compute as pc
        >>> class Highest(hoodoo.RecordMerger):
        ...     strategy_id = "6b8dbd4e-5c0b-4a3e-8f5e-8d6f6f0a7c11"
        ...
        ...     def merge(self, older, newer, context):
        ...         score = pc.max_element_wise(older.data["score"], newer.data["score"])
        ...         at = newer.data.schema.get_field_index("score")
        ...         return newer.data.set_column(at, "score", score)
        >>> older = pa.record_batch({"id": ["a"], "score": [7]})
        >>> newer = pa.record_batch({"id": ["a"], "score": [3]})
        >>> hoodoo.merge(older, newer, key="id", merger=Highest()).read_all().to_pylist()
        [{'id': 'a', 'score': 7}]
    """

    strategy_id: str = ""
    adds: bool = False

    def merge(self, older: Records, newer: Records, context: MergeContext) -> Merged:
        """Merge records that have all columns.

        Args:
            older: The earlier versions.
            newer: The later versions.
            context: What is known about the table.

        Returns:
            The merged records.
        """
        raise NotImplementedError

    def partial_merge(self, older: Records, newer: Records, context: MergeContext) -> Merged:
        """Merge records of which some have only some columns.

        By default, columns that one side lacks are filled from the other side, and the filled records are merged by
        `merge`. That is right for mergers that treat each column alone and return a value that both sides have; other
        mergers override this method.
        """
        filled = [_filled(older, newer), _filled(newer, older)]
        result = self.merge(filled[0], filled[1], context)
        merged = result if isinstance(result, Records) else Records(result, newer.keys, newer.deleted)
        return Records(merged.data, merged.keys, merged.deleted, present=_either(older, newer))


class RowMerger(RecordMerger):
    """Merges record by record, as dictionaries: simple, but a hundred times slower than a `RecordMerger`.

    Examples:
        >>> import hoodoo
        >>> class Longest(hoodoo.RowMerger):
        ...     strategy_id = "0d5a3a4f-0a9b-4bb0-9a54-3b1f8a1c2d10"
        ...
        ...     def merge_rows(self, older, newer, context):
        ...         if newer is None:
        ...             return None
        ...         return max(older or newer, newer, key=lambda row: len(row["text"]))
        >>> older, newer = {"id": [1], "text": ["long"]}, {"id": [1], "text": ["no"]}
        >>> hoodoo.merge(older, newer, key="id", merger=Longest()).read_all().to_pylist()
        [{'id': 1, 'text': 'long'}]
    """

    def merge_rows(
        self, older: dict[str, Any] | None, newer: dict[str, Any] | None, context: MergeContext
    ) -> dict[str, Any] | None:
        """Merge two versions of a record; None is a delete.

        Args:
            older: The earlier version.
            newer: The later version.
            context: What is known about the table.

        Returns:
            The merged record; None deletes it.
        """
        raise NotImplementedError

    def merge(self, older: Records, newer: Records, context: MergeContext) -> Records:
        """Call `merge_rows` for each pair."""
        merged = [self.merge_rows(a, b, context) for a, b in zip(_rows(older), _rows(newer), strict=True)]
        nothing: dict[str, Any] = {}
        data = pa.RecordBatch.from_pylist([row or nothing for row in merged], schema=older.data.schema)
        return Records(data, newer.keys, pa.array([row is None for row in merged], pa.bool_()))


def newer_wins(older: Records, newer: Records) -> pa.Array:
    """Return which of two versions is later in event time.

    The larger ordering value wins; of equal values `newer` wins; null is the smallest. Without ordering values `newer`
    wins. A delete without an ordering value wins over earlier records, and later records win over it.

    Args:
        older: The earlier versions, in commit order.
        newer: The later versions.

    Returns:
        Booleans, true where `newer` wins.
    """
    rows = len(newer)
    wins = pa.repeat(pa.scalar(True), rows)
    for a, b in reversed(list(zip(older.ordering, newer.ordering, strict=True))):
        less, greater = pc.less(b, a), pc.greater(b, a)
        if a.null_count or b.null_count:
            no_a, no_b = pc.is_null(a, nan_is_null=False), pc.is_null(b, nan_is_null=False)
            less = pc.or_(pc.fill_null(less, False), pc.and_(no_b, pc.invert(no_a)))
            greater = pc.or_(pc.fill_null(greater, False), pc.and_(pc.invert(no_b), no_a))
        wins = pc.and_(pc.invert(less), pc.or_(greater, wins))
    for side in (older, newer):
        if side.unordered is not None and side.ordering:
            wins = pc.or_(wins, pc.and_(side.deleted, side.unordered))
    return wins


def pick(newer_is_taken: pa.Array, older: Records, newer: Records) -> Records:
    """Return whole records of one side or the other.

    Args:
        newer_is_taken: Booleans, true where the record of `newer` is taken.
        older: The earlier versions.
        newer: The later versions.

    Returns:
        The chosen records, deletes among them.
    """
    if newer_is_taken.true_count == len(newer_is_taken):
        return Records(newer.data, newer.keys, newer.deleted)
    columns = [_choose(newer_is_taken, a, b) for a, b in zip(older.data.columns, newer.data.columns, strict=True)]
    data = pa.RecordBatch.from_arrays(columns, schema=newer.data.schema)
    return Records(data, newer.keys, pc.if_else(newer_is_taken, newer.deleted, older.deleted))


def _choose(newer_is_taken: pa.Array, older: pa.Array, newer: pa.Array) -> pa.Array:
    # Equal strings on both sides, such as keys, are faster to compare than to copy.
    if pa.types.is_string(newer.type) and newer.equals(older):
        return newer
    try:
        return pc.if_else(newer_is_taken, newer, older)
    except pa.ArrowNotImplementedError:
        both = pa.concat_arrays([older, newer])
        rows = len(older)
        return both.take(pa.array([i + rows if taken else i for i, taken in enumerate(newer_is_taken.to_pylist())]))


def _filled(records: Records, other: Records) -> Records:
    if records.present is None:
        return records
    # A delete has no values to fill from.
    own = {name: pc.or_(mask, other.deleted) for name, mask in records.present.items()}
    columns = [_choose(own[name], other.data[name], records.data[name]) for name in records.data.schema.names]
    data = pa.RecordBatch.from_arrays(columns, schema=records.data.schema)
    return Records(data, records.keys, records.deleted, records.ordering, records.unordered)


def _either(older: Records, newer: Records) -> dict[str, pa.Array] | None:
    if older.present is None and newer.present is None:
        return None
    names = older.data.schema.names
    sides = [side.present or dict.fromkeys(names, _all(side)) for side in (older, newer)]
    # Of a record and a delete, the columns of the record count.
    a, b = (
        {n: pc.and_(side[n], pc.invert(s.deleted)) for n in names}
        for side, s in zip(sides, (older, newer), strict=True)
    )
    return {name: pc.or_(a[name], b[name]) for name in names}


def _all(records: Records) -> pa.Array:
    return pc.or_(records.deleted, pc.invert(records.deleted))


def _rows(records: Records) -> Iterator[dict[str, Any] | None]:
    for row, deleted in zip(records.data.to_pylist(), records.deleted.to_pylist(), strict=True):
        yield None if deleted else row


_Side: TypeAlias = tuple[pa.RecordBatch, pa.Array, Sequence[pa.Array], pa.Array, pa.Array, Sequence[pa.Array] | None]


def run_merger(
    merger: RecordMerger, partial: bool, older: _Side, newer: _Side, context: tuple[Sequence[str], dict[str, str]]
) -> tuple[pa.RecordBatch, pa.Array, list[pa.Array] | None]:
    """Call a merger for the core, which checks the result."""
    sides = [_records(side) for side in (older, newer)]
    known = MergeContext(tuple(context[0]), context[1])
    method = merger.partial_merge if partial else merger.merge
    result = method(sides[0], sides[1], known)
    if isinstance(result, pa.RecordBatch):
        # Of columns that neither record has, the values are not known.
        has = _either(*sides) if partial else None
        return result, sides[1].deleted, None if has is None else [_whole(has[name]) for name in result.schema.names]
    if not isinstance(result, Records):
        message = f"{type(merger).__name__} returned {type(result).__name__}: expected Records or a pyarrow.RecordBatch"
        raise TypeError(message)
    names = result.data.schema.names
    present = None if result.present is None else [_whole(result.present[name]) for name in names]
    return result.data, _whole(result.deleted), present


def _whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _records(side: _Side) -> Records:
    data, keys, ordering, unordered, deleted, present = side
    columns = None if present is None else dict(zip(data.schema.names, present, strict=True))
    return Records(data, keys, deleted, tuple(ordering), unordered, columns)


def load_mergers(classes: str, wanted: str) -> list[RecordMerger]:
    """Make the merger with a strategy id, from import paths of classes that are separated by commas.

    Names that cannot be imported count as classes of the JVM and are ignored, as Hudi ignores mergers of other engines.
    When no class has the strategy id, the reader of the table raises an error.
    """
    for path in (name.strip() for name in classes.split(",")):
        module, _, name = path.replace(":", ".").rpartition(".")
        if not module:
            continue
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            if isinstance(error, ImportError) and error.name and not module.startswith(error.name):
                message = f"the record merger {path} cannot be imported: {error}"
                raise InvalidOptionError(message) from error
            continue
        merger = found() if isinstance(found, type) else found
        if not isinstance(merger, RecordMerger):
            message = f"invalid record merger {path}: expected a subclass of hoodoo.RecordMerger"
            raise InvalidOptionError(message)
        if merger.strategy_id.lower() == wanted.lower():
            return [merger]
    return []
