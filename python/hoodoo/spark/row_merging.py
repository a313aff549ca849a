"""Merging DataFrames by Hudi's rules, without a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.functions import lit, monotonically_increasing_id

from hoodoo.options import merge_options
from hoodoo.row_merging import merge_readers
from hoodoo.spark.arrow_schema import arrow_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from hoodoo.record_merger import RecordMerger

__all__ = ["merge", "merge_batches"]

SIDE = "_hoodoo_side"
"""Which rows are the newer ones (0) and which the older ones (1)."""
_ROW = "_hoodoo_row"
_NEWER, _OLDER = 0, 1


def merge(
    older: DataFrame,
    newer: DataFrame,
    key: str | Sequence[str],
    ordering: str | Sequence[str] | None = None,
    mode: str | None = None,
    *,
    merger: RecordMerger | None = None,
    payload_class: str | None = None,
    partial_update_mode: str | None = None,
    delete_marker: tuple[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Merges newer rows into older ones: what an upsert into a Hudi table would make of them.

    One shuffle of Spark's brings the rows of each key together; they are merged in Rust, through `mapInArrow`. The rows
    of a partition come in no particular order.

    Args:
        older: Rows as they are.
        newer: Rows that change them, with the same columns, and `_hoodie_is_deleted` or the marker's column if older
            rows have none. Of rows with equal ordering values the one that comes later in the DataFrame wins.
        key: See `hoodoo.merge`, as for the other arguments.
        ordering: Columns that tell which version of a record is later.
        mode: `EVENT_TIME_ORDERING` or `COMMIT_TIME_ORDERING`.
        merger: A record merger of one's own. It is sent to the tasks.
        payload_class: A payload class of Hudi.
        partial_update_mode: `IGNORE_DEFAULTS` or `FILL_UNAVAILABLE`.
        delete_marker: A column and the text in it that make a newer row a delete.
        options: More of Hudi's options, and `hoodoo.memory.budget` for each task.

    Returns:
        The merged rows, with the columns of `older`.

    Raises:
        SchemaError: Columns that are missing or do not fit; while Spark runs.
        InvalidOptionError: Options that contradict each other; while Spark runs.

    Example:
        ```python
        merged = hoodoo.spark.merge(old, new, key="id", ordering=["ts"])
        ```
    """
    keys = [key] if isinstance(key, str) else list(key)
    more = [field for field in newer.schema.fields if field.name not in older.columns]
    order = monotonically_increasing_id()
    after = newer.withColumn(SIDE, lit(_NEWER)).withColumn(_ROW, order)
    before = older.select("*", *(lit(None).cast(f.dataType).alias(f.name) for f in more))
    before = before.withColumn(SIDE, lit(_OLDER)).withColumn(_ROW, lit(0).cast("bigint"))
    together = after.unionByName(before).repartition(*keys).sortWithinPartitions(SIDE, _ROW)
    given = merge_options(mode, payload_class, partial_update_mode, delete_marker, options)
    merging = merge_batches(arrow_of(older.schema), keys, ordering, merger=merger, options=given, ignored=[_ROW])
    return together.mapInArrow(merging, older.schema)


def merge_batches(
    schema: pa.Schema,
    key: str | Sequence[str],
    ordering: str | Sequence[str] | None = None,
    *,
    merger: RecordMerger | None = None,
    options: Mapping[str, Any] | None = None,
    side: str = SIDE,
    ignored: Sequence[str] = (),
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Gives a function for `DataFrame.mapInArrow` that merges rows of one DataFrame.

    All rows of a key have to be in one partition, the newer ones first.

    Args:
        schema: The columns of the result, as Arrow has them.
        key: Columns that say which record a row is.
        ordering: Columns that tell which version of a record is later.
        merger: A record merger of one's own.
        options: Hudi's options, such as `hoodie.record.merge.mode`.
        side: A column of integers: 0 for newer rows, 1 for older ones.
        ignored: Columns that are not looked at.

    Returns:
        The function.

    Example:
        ```python
        merging = merge_batches(schema, key="id", ordering=["ts"])
        rows = df.repartition("id").sortWithinPartitions("_hoodoo_side").mapInArrow(merging, "id string, ts bigint")
        ```
    """
    keys = [key] if isinstance(key, str) else list(key)
    fields = [ordering] if isinstance(ordering, str) else list(ordering or [])
    given = {name: str(value) for name, value in (options or {}).items()}
    left_out = {side, *ignored}

    def merging(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = _Sides(batches, side, left_out)
        first = rows.peek()
        if first is None:
            return
        newer = pa.schema([field for field in first.schema if field.name not in left_out])
        before = pa.RecordBatchReader.from_batches(schema, (b.select(schema.names) for b in rows.take(_OLDER)))
        after = pa.RecordBatchReader.from_batches(newer, rows.take(_NEWER))
        yield from merge_readers(before, after, keys, fields, given, merger=merger)

    return merging


class _Sides:
    """Batches of which the newer rows come first, cut in two streams; the newer ones are to be read first."""

    def __init__(self, batches: Iterable[pa.RecordBatch], side: str, left_out: set[str]) -> None:
        self._batches = iter(batches)
        self._side = side
        self._left_out = left_out
        self._waiting: pa.RecordBatch | None = None

    def peek(self) -> pa.RecordBatch | None:
        while self._waiting is None or self._waiting.num_rows == 0:
            self._waiting = next(self._batches, None)
            if self._waiting is None:
                return None
        return self._waiting

    def take(self, side: int) -> Iterator[pa.RecordBatch]:
        while (batch := self.peek()) is not None:
            count = pc.sum(pc.equal(batch[self._side], side)).as_py()
            if count == 0:
                return
            self._waiting = batch.slice(count)
            names = [name for name in batch.schema.names if name not in self._left_out]
            yield batch.slice(0, count).select(names)
