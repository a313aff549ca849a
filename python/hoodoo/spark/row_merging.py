"""Merges DataFrames by Hudi's rules, without a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.functions import lit, monotonically_increasing_id

from hoodoo.exceptions import SchemaError
from hoodoo.options import as_list, merge_options, string_options
from hoodoo.row_merging import merge_readers
from hoodoo.spark.executor import arrow_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from hoodoo.options import Columns, Options
    from hoodoo.record_merger import RecordMerger

__all__ = ["merge", "merge_batches"]

SIDE = "_hoodoo_side"
"""The column that says whether a row is newer (0) or older (1)."""
_ROW = "_hoodoo_row"
_NEWER, _OLDER = 0, 1


def merge(
    older: DataFrame,
    newer: DataFrame,
    key: Columns,
    ordering: Columns | None = None,
    mode: str | None = None,
    *,
    merger: RecordMerger | None = None,
    payload_class: str | None = None,
    partial_update_mode: str | None = None,
    delete_marker: tuple[str, str] | None = None,
    options: Options | None = None,
) -> DataFrame:
    """Merge newer rows into older rows, as an upsert into a Hudi table does.

    One shuffle of Spark brings the rows of each key together; Rust merges them, through `mapInArrow`. The merged rows
    come in no order.

    Arguments and errors as those of `hoodoo.merge`; errors come while Spark runs. The columns `_hoodie_is_deleted` and
    of `delete_marker` may be in `newer` alone. Of rows with equal ordering values the row that comes later in the
    DataFrame wins. A merger is sent to the tasks, and `hoodoo.memory.budget` is that of one task.

    Returns:
        The merged rows, with the columns of `older`.

    Example:
        ```python
        merged = hoodoo.spark.merge(old, new, key="id", ordering=["ts"])
        ```
    """
    keys = as_list(key)
    _check_columns(older, newer, keys, as_list(ordering))
    more = [field for field in newer.schema.fields if field.name not in older.columns]
    order = monotonically_increasing_id()
    after = newer.withColumn(SIDE, lit(_NEWER)).withColumn(_ROW, order)
    before = older.select("*", *(lit(None).cast(f.dataType).alias(f.name) for f in more))
    before = before.withColumn(SIDE, lit(_OLDER)).withColumn(_ROW, lit(0).cast("bigint"))
    together = after.unionByName(before).repartition(*keys).sortWithinPartitions(SIDE, _ROW)
    given = merge_options(mode, payload_class, partial_update_mode, delete_marker, options)
    merging = merge_batches(arrow_of(older.schema), keys, ordering, merger=merger, options=given, ignored=[_ROW])
    return together.mapInArrow(merging, older.schema)


def _check_columns(older: DataFrame, newer: DataFrame, keys: Sequence[str], ordering: Sequence[str]) -> None:
    for rows, columns in (("older", older.columns), ("newer", newer.columns)):
        # An ordering column may be a field of a struct column.
        tops = [name if name in columns else name.split(".", 1)[0] for name in ordering]
        for name in [*keys, *tops]:
            if name not in columns:
                raise SchemaError(f"the {rows} rows have no column {name!r}. Columns: {', '.join(columns)}")
    missing = [name for name in older.columns if name not in newer.columns]
    if missing:
        raise SchemaError(f"the newer rows lack columns of the older ones: {', '.join(missing)}")


def merge_batches(
    schema: pa.Schema,
    key: Columns,
    ordering: Columns | None = None,
    *,
    merger: RecordMerger | None = None,
    options: Options | None = None,
    side: str = SIDE,
    ignored: Sequence[str] = (),
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `DataFrame.mapInArrow` that merges the rows of one DataFrame.

    All rows of a key must be in one partition, and newer rows must come before older rows.

    Args:
        schema: The Arrow schema of the result.
        key: The record key: one or more columns.
        ordering: Columns that say which version of a record is later.
        merger: A custom record merger.
        options: Hudi's options, such as `hoodie.record.merge.mode`.
        side: A column of integers: 0 for newer rows, 1 for older rows.
        ignored: Columns to leave out.

    Returns:
        The function.

    Example:
        ```python
        merging = merge_batches(schema, key="id", ordering=["ts"])
        rows = df.repartition("id").sortWithinPartitions("_hoodoo_side").mapInArrow(merging, "id string, ts bigint")
        ```
    """
    keys, fields, given = as_list(key), as_list(ordering), string_options(options)
    left_out = {side, *ignored}

    def merging(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = _Sides(batches, side, left_out)
        first = rows.peek()
        if first is None:
            return
        newer = pa.schema([field for field in first.schema if field.name not in left_out])
        before = pa.RecordBatchReader.from_batches(schema, _in_types(rows.take(_OLDER), schema))
        after = pa.RecordBatchReader.from_batches(newer, _in_types(rows.take(_NEWER), newer))
        yield from merge_readers(before, after, keys, fields, given, merger=merger)

    return merging


def _in_types(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Cast batches to a schema, which a reader takes for theirs without looking.

    A union of DataFrames has widened columns, and Spark may send strings with other offsets.
    """
    for batch in batches:
        columns = batch.select(schema.names)
        if columns.schema.types == schema.types:
            yield pa.RecordBatch.from_arrays(columns.columns, schema=schema)
            continue
        try:
            yield from pa.Table.from_batches([columns]).cast(schema).combine_chunks().to_batches()
        except (pa.ArrowException, ValueError) as error:
            raise SchemaError(f"the rows do not have the types of the older ones: {error}") from error


class _Sides:
    """Batches whose newer rows come first, as two streams. Read the stream of newer rows first."""

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
