"""Merging rows by Hudi's rules, without a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hoodoo import _native
from hoodoo.arrow_input import Rows, record_batch_reader
from hoodoo.table import check_options, text_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from hoodoo.record_merger import RecordMerger

__all__ = ["merge", "merge_options", "merge_readers"]


def merge(
    older: Rows,
    newer: Rows,
    key: str | Sequence[str],
    ordering: str | Sequence[str] | None = None,
    mode: str | None = None,
    *,
    merger: RecordMerger | None = None,
    payload_class: str | None = None,
    partial_update_mode: str | None = None,
    delete_marker: tuple[str, str] | None = None,
    partial: bool = False,
    sorted: bool = False,  # noqa: A002
    options: Mapping[str, Any] | None = None,
) -> pa.RecordBatchReader:
    """Merges newer rows into older ones: what an upsert into a Hudi table would make of them.

    Newer rows of one key are first merged with each other, as the rows of one write are; what is left is merged with
    each older row of the key. Rows that stay or change come in the order of the older ones, new rows behind them.

    Args:
        older: Rows as they are; see `hoodoo.arrow_input.Rows`. They stream: only a batch at a time is in memory.
        newer: Rows that change them, with the same columns. A true `_hoodie_is_deleted` deletes. They are kept, on the
            disk what exceeds `hoodoo.memory.budget` bytes.
        key: Columns that say which record a row is.
        ordering: Columns that tell which version of a record is later.
        mode: `EVENT_TIME_ORDERING`, the default where there is an ordering: the row with the larger ordering value
            wins, of equal ones the newer; `COMMIT_TIME_ORDERING`: the newer row wins.
        merger: A record merger of one's own; stands in place of a mode.
        payload_class: A payload class of Hudi, understood as a table of version 9 does. Stands in place of a mode.
        partial_update_mode: `IGNORE_DEFAULTS`: nulls of the winner are filled from the other row; `FILL_UNAVAILABLE`:
            texts that say that a value is unavailable are, as
            `hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value` of the options has them.
        delete_marker: A column and the text in it that make a newer row a delete.
        partial: Newer rows may lack columns; the older values stay.
        sorted: Both inputs are sorted by the key, ascending, and no key comes twice in `older`: then nothing is kept
            but a batch of either, and the result is sorted too.
        options: More of Hudi's options, and `hoodoo.memory.budget`, `hoodoo.spill.folder`.

    Returns:
        A stream of rows with the columns of `older`.

    Raises:
        SchemaError: Columns that are missing or do not fit, null keys.
        InvalidOptionError: Options that contradict each other; inputs that are not sorted as was said.

    Examples:
        >>> import hoodoo
        >>> older = {"id": ["a", "b"], "ts": [1, 5], "fare": [1.0, 2.0]}
        >>> newer = {"id": ["b", "c", "a"], "ts": [4, 1, 2], "fare": [9.0, 3.0, 8.0]}
        >>> merged = hoodoo.merge(older, newer, key="id", ordering=["ts"])
        >>> [(row["id"], row["fare"]) for row in merged.read_all().to_pylist()]
        [('a', 8.0), ('b', 2.0), ('c', 3.0)]
    """
    given = merge_options(mode, payload_class, partial_update_mode, delete_marker, options)
    before = record_batch_reader(older)
    after = record_batch_reader(newer, before.schema)
    names = _names(key), _names(ordering)
    return merge_readers(before, after, *names, given, merger=merger, partial=partial, in_order=sorted)


def merge_readers(
    older: pa.RecordBatchReader,
    newer: pa.RecordBatchReader,
    key: Sequence[str],
    ordering: Sequence[str],
    options: dict[str, str],
    *,
    merger: RecordMerger | None = None,
    partial: bool = False,
    in_order: bool = False,
) -> pa.RecordBatchReader:
    """Does what `merge` does with its arguments settled; `newer` is read first, when the first result is asked for."""
    return _native.merge_rows(older, newer, key, ordering, options, merger, partial, in_order)


def merge_options(
    mode: str | None,
    payload_class: str | None,
    partial_update_mode: str | None,
    delete_marker: tuple[str, str] | None,
    options: Mapping[str, Any] | None,
) -> dict[str, str]:
    """Gives the arguments of `merge` as Hudi's options."""
    given = text_options(options)
    check_options(given, "table")
    named = {
        "hoodie.record.merge.mode": mode,
        "hoodie.datasource.write.payload.class": payload_class,
        "hoodie.table.partial.update.mode": partial_update_mode,
    }
    if delete_marker is not None:
        prefix = "hoodie.record.merge.property.hoodie.payload.delete"
        named |= {f"{prefix}.field": delete_marker[0], f"{prefix}.marker": delete_marker[1]}
    return given | {name: value for name, value in named.items() if value is not None}


def _names(names: str | Sequence[str] | None) -> list[str]:
    if names is None:
        return []
    return [names] if isinstance(names, str) else list(names)
