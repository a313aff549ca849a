"""Merges rows by Hudi's rules, without a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoodoo import _native
from hoodoo.arguments import names_of
from hoodoo.exceptions import InvalidOptionError, SchemaError
from hoodoo.options import merge_options
from hoodoo.rows import Rows, record_batch_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from hoodoo.options import Columns, Options
    from hoodoo.record_merger import RecordMerger

__all__ = ["merge", "merge_readers"]


def merge(
    older: Rows,
    newer: Rows,
    key: Columns,
    ordering: Columns | None = None,
    mode: str | None = None,
    *,
    merger: RecordMerger | None = None,
    payload_class: str | None = None,
    partial_update_mode: str | None = None,
    delete_marker: tuple[str, str] | None = None,
    partial: bool = False,
    sorted: bool = False,  # noqa: A002
    options: Options | None = None,
) -> pa.RecordBatchReader:
    """Merge newer rows into older rows, as an upsert into a Hudi table does.

    Newer rows with the same key are first merged with each other, as the rows of one write are; the result is merged
    with each older row of the key. The rows of `older` keep their order; new rows come after them.

    Args:
        older: The stored rows; see `hoodoo.rows.Rows`. They stream: only one batch at a time is in memory.
        newer: The rows to merge into them, with the same columns. A row whose `_hoodie_is_deleted` is true deletes its
            key. All newer rows are held; beyond `hoodoo.memory.budget` bytes they spill.
        key: The record key: one or more columns.
        ordering: Columns that say which version of a record is later.
        mode: `EVENT_TIME_ORDERING`, the default with `ordering`: the row with the larger ordering value wins; of equal
            values the newer row wins. `COMMIT_TIME_ORDERING`, the default without: the newer row wins.
        merger: A custom record merger, instead of a mode.
        payload_class: A payload class of Hudi, with the semantics of table version 9, instead of a mode.
        partial_update_mode: `IGNORE_DEFAULTS`: nulls of the row that wins are filled from the other row.
            `FILL_UNAVAILABLE`: values equal to the marker for unavailable values are filled; the marker is the option
            `hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value`.
        delete_marker: A column, and its value that makes a newer row a delete.
        partial: Newer rows may lack columns; the older values of those columns stay.
        sorted: Both inputs are sorted by the key, ascending, and each key comes once in `older`. Then only one batch of
            each is in memory, and the result is sorted too.
        options: More of Hudi's options, and `hoodoo.memory.budget` (bytes), `hoodoo.spill.folder`.

    Returns:
        A reader over the merged rows, with the columns of `older`.

    Raises:
        SchemaError: A column is missing or has another type, or a key is null.
        InvalidOptionError: Options contradict each other, or an input is not sorted although `sorted` says so.

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
    keys, fields = names_of(key, "key"), names_of(ordering, "ordering")
    for rows, schema in (("older", before.schema), ("newer", after.schema)):
        # An ordering column may be a field of a struct column.
        outer = [name.split(".", 1)[0] for name in fields if name not in schema.names]
        for name in (*keys, *(name for name in fields if name in schema.names), *outer):
            if name not in schema.names:
                columns = ", ".join(schema.names)
                raise SchemaError(f"the {rows} rows have no column {name!r}. Columns: {columns}")
    if mode is not None and not fields and str(mode).upper() == "EVENT_TIME_ORDERING":
        raise InvalidOptionError("the mode EVENT_TIME_ORDERING compares ordering columns: pass ordering=['ts']")
    return merge_readers(before, after, keys, fields, given, merger=merger, partial=partial, in_order=sorted)


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
    """Merge as `merge` does. `newer` is read first, when the first result is asked for."""
    return _native.merge_rows(older, newer, key, ordering, options, merger, partial, in_order)
