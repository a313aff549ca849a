"""Writing DataFrames."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import LongType, StringType, StructField, StructType

from hoodoo import exceptions
from hoodoo.distributed import ROUTE_COLUMNS, DistributedWrite, WriteTask, prepare_write
from hoodoo.exceptions import HudiError
from hoodoo.spark.arrow_schema import arrow_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from hoodoo.commit import Commit

__all__ = ["write"]

_ERROR_IN_TRACEBACK = re.compile(r"^\s*hoodoo\.exceptions\.(\w+): (.*)$", re.MULTILINE)
_APPEND_ONLY = ("bulk_insert",)
_STATS = "stat string"
_STAT_SCHEMA = pa.schema([("stat", pa.string())])
_SORT_COLUMNS = "hoodie.bulkinsert.user.defined.partitioner.sort.columns"


def write(
    df: DataFrame,
    uri: str,
    operation: str | None = None,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Commit:
    """Writes a DataFrame into a Hudi table; creates the table when there is none.

    The rows cross to Rust twice, with one shuffle of Spark's between: once to find the file group that each belongs
    to, once to be merged there. A failed, retried or speculative task leaves no row behind: only files that the driver
    hears of are committed, and the others are removed before the commit.

    Args:
        df: The rows. A true `_hoodie_is_deleted` deletes the row of that key.
        uri: The table's location, which all executors can reach.
        operation: `upsert`, `insert`, `bulk_insert`, `delete`, `insert_overwrite`, `insert_overwrite_table` or
            `delete_partition`; see `hoodoo.write`.
        options: Hudi's options, as `df.write.format("hudi").options(**options)` takes them.
        storage_options: Settings of the storage; see `hoodoo.Table`.

    Returns:
        What was done.

    Raises:
        InvalidOptionError: Options that contradict each other or the table.
        SchemaError: Columns that do not fit the table, or a null key.
        UnsupportedError: A table or an option that hoodoo cannot handle.
        pyspark.errors.PySparkException: A task failed for a reason that is not hoodoo's. As with all errors, nothing
            was committed.

    Example:
        ```python
        commit = hoodoo.spark.write(df, "s3://lake/trips", options={
            "hoodie.table.name": "trips",
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.partitionpath.field": "city",
            "hoodie.datasource.write.precombine.field": "ts",
        })
        ```
    """
    schema = arrow_of(df.schema)
    prepared = prepare_write(schema, uri, operation, options, storage_options)
    if prepared.operation == "delete_partition":
        named = prepared.options.get("hoodie.datasource.write.partitions.to.delete", "")
        return prepared.delete_partitions([part.strip() for part in named.split(",") if part.strip()])
    buckets = int(df.sparkSession.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    begun = prepared.begin(schema, buckets)
    try:
        stats = _run(df, begun, prepared.operation, prepared.options)
    except BaseException as error:
        begun.abort()
        cause = _cause_in_task(error)
        if cause is not None:
            raise cause from error
        raise
    return begun.commit(stats)


def _cause_in_task(error: BaseException) -> HudiError | None:
    """The error of hoodoo that made a task fail; of a task's error Spark keeps nothing but the traceback's text."""
    for name, message in _ERROR_IN_TRACEBACK.findall(str(error)):
        kind = getattr(exceptions, name, None)
        if isinstance(kind, type) and issubclass(kind, HudiError):
            return kind(message)
    return None


def _run(df: DataFrame, begun: DistributedWrite, operation: str, options: Mapping[str, str]) -> list[str]:
    task = begun.task
    if operation in _APPEND_ONLY and _takes_rows_as_they_come(options):
        written = df.mapInArrow(functools.partial(_append, task), _STATS)
    else:
        routed = df.mapInArrow(functools.partial(_route, task), _routed_schema(df))
        _, partition, route, row = ROUTE_COLUMNS
        order = (partition, route, *_sort_by(operation, options), row)
        together = routed.repartition(partition, route).sortWithinPartitions(*order)
        written = together.mapInArrow(functools.partial(_apply, task), _STATS)
    return [row.stat for row in written.collect()]


def _takes_rows_as_they_come(options: Mapping[str, str]) -> bool:
    combines = options.get("hoodie.combine.before.insert", "false").lower() == "true"
    return not combines and not _is_sorted(options)


def _is_sorted(options: Mapping[str, str]) -> bool:
    mode = options.get("hoodie.bulkinsert.sort.mode", "NONE").upper()
    return _SORT_COLUMNS in options or mode not in ("NONE", "PARTITION_PATH_REPARTITION")


def _sort_by(operation: str, options: Mapping[str, str]) -> list[str]:
    if operation not in _APPEND_ONLY or not _is_sorted(options):
        return []
    columns = [column.strip() for column in options.get(_SORT_COLUMNS, "").split(",") if column.strip()]
    return columns or [ROUTE_COLUMNS[0]]


def _routed_schema(df: DataFrame) -> StructType:
    kept = [field for field in df.schema.fields if field.name not in ROUTE_COLUMNS]
    *texts, row = ROUTE_COLUMNS
    added = [*(StructField(name, StringType()) for name in texts), StructField(row, LongType())]
    return StructType([*kept, *added])


def _attempt() -> tuple[int, str]:
    """Number of this task, and the write token of this attempt."""
    context = TaskContext.get()
    if context is None:
        return 0, "0-0-0"
    number = context.partitionId()
    return number, f"{number}-{context.stageId()}-{context.taskAttemptId()}"


def _route(task: WriteTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return task.route(batches, _attempt()[0])


def _apply(task: WriteTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield _stat_batch(task.apply(batches, *_attempt()))


def _append(task: WriteTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield _stat_batch(task.append(batches, *_attempt()))


def _stat_batch(stats: list[str]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(stats, pa.string())], schema=_STAT_SCHEMA)
