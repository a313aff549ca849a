"""Writing DataFrames."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import BooleanType, DataType, LongType, StringType, StructField, StructType

from hoodoo.distributed import (
    KEY_COLUMNS,
    PLACE_COLUMNS,
    ROUTE_COLUMNS,
    DistributedWrite,
    WriteTask,
    misfit_column,
    prepare_write,
)
from hoodoo.exceptions import ConflictError
from hoodoo.spark.arrow_schema import arrow_of
from hoodoo.spark.task_errors import cause_in_task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from hoodoo.commit import Commit
    from hoodoo.options import SchemaEvolution

__all__ = ["write"]

_APPEND_ONLY = ("bulk_insert",)
_REPORTS = "report string"
_REPORT_SCHEMA = pa.schema([("report", pa.string())])
_ADDED: dict[str, DataType] = {
    **dict.fromkeys(ROUTE_COLUMNS, StringType()),
    KEY_COLUMNS[-1]: LongType(),
    **dict(zip(PLACE_COLUMNS, (LongType(), BooleanType()), strict=True)),
}
_RETRIES = "hoodie.write.num.retries.on.conflict.failures"
_SORT_COLUMNS = "hoodie.bulkinsert.user.defined.partitioner.sort.columns"


def write(
    df: DataFrame,
    uri: str,
    operation: str | None = None,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    partial: bool = False,
    schema_evolution: SchemaEvolution | None = None,
) -> Commit:
    """Writes a DataFrame into a Hudi table; creates the table when there is none.

    The rows cross to Rust twice, with one shuffle of Spark's between: once to find the file group that each belongs
    to, once to be merged there. Where keys are looked for in all partitions (a global index, or deletes that do not
    name the partition columns), another shuffle first brings the rows of each key together.

    A failed, retried or speculative task leaves no row behind: only files that the driver hears of are committed, and
    the others are removed before the commit.

    Args:
        df: The rows. A true `_hoodie_is_deleted` deletes the row of that key.
        uri: The table's location, which all executors can reach.
        operation: `upsert`, `insert`, `bulk_insert`, `delete`, `insert_overwrite`, `insert_overwrite_table` or
            `delete_partition`; see `hoodoo.write`.
        options: Hudi's options, as `df.write.format("hudi").options(**options)` takes them.
        storage_options: Settings of the storage; see `hoodoo.Table`.
        partial: The rows of an upsert have only some columns, those of the key, of the partition and of the ordering
            among them: what they lack stays as it is stored, as with `hoodoo.Table.upsert`. The table has to be there.
            Not with a global index.
        schema_evolution: `allow` or `refuse`; see `hoodoo.Table.upsert`. Tasks check whether the values fit the table's
            types. When one does not and its column may become wider, the write is begun anew with the wider column.

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
    prepared = prepare_write(
        schema, uri, operation, options, storage_options, partial=partial, schema_evolution=schema_evolution
    )
    if prepared.operation == "delete_partition":
        named = prepared.options.get("hoodie.datasource.write.partitions.to.delete", "")
        partitions = [part.strip() for part in named.split(",") if part.strip()]
        if partitions:
            return prepared.delete_partitions(partitions)
    buckets = int(df.sparkSession.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    widened: list[str] = []
    retries = int(prepared.options.get(_RETRIES, "5"))
    while True:
        begun = prepared.begin(schema, buckets, partial, widened)
        try:
            reports = _run(df, begun, prepared.operation, prepared.options)
        except BaseException as error:
            begun.abort()
            cause = cause_in_task(error)
            column = misfit_column(cause)
            if column is None or column in widened or prepared.refuses_schema_changes:
                if cause is not None:
                    raise cause from error
                raise
            # Other tasks have written the column by the table's type by then.
            widened.append(column)
            continue
        try:
            return begun.commit(reports)
        except ConflictError as error:
            # Another writer was faster: the tasks run again, from the table as it is now.
            if not error.outdated_plan or retries <= 0:
                raise
            retries -= 1


def _run(df: DataFrame, begun: DistributedWrite, operation: str, options: Mapping[str, str]) -> list[str]:
    task = begun.task
    if operation == "delete_partition":
        done = df.mapInArrow(functools.partial(_partitions, task), _REPORTS).distinct()
    elif operation in _APPEND_ONLY and _takes_rows_as_they_come(options):
        done = df.mapInArrow(functools.partial(_append, task), _REPORTS)
    else:
        routed = _located(df, task) if begun.whole_table else _routed(df, task)
        _, partition, route, row = ROUTE_COLUMNS
        order = (partition, route, *_sort_by(operation, options), row)
        together = routed.repartition(partition, route).sortWithinPartitions(*order)
        done = together.mapInArrow(functools.partial(_apply, task), _REPORTS)
    return [row.report for row in done.collect()]


def _routed(df: DataFrame, task: WriteTask) -> DataFrame:
    return df.mapInArrow(functools.partial(_route, task), _with_added(df, ROUTE_COLUMNS))


def _located(df: DataFrame, task: WriteTask) -> DataFrame:
    keyed = df.mapInArrow(functools.partial(_key, task), _with_added(df, KEY_COLUMNS))
    key, row = KEY_COLUMNS
    together = keyed.repartition(key).sortWithinPartitions(row)
    return together.mapInArrow(functools.partial(_locate, task), _with_added(df, (*ROUTE_COLUMNS, *PLACE_COLUMNS)))


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


def _with_added(df: DataFrame, names: Iterable[str]) -> StructType:
    kept = [field for field in df.schema.fields if field.name not in _ADDED]
    return StructType([*kept, *(StructField(name, _ADDED[name]) for name in names)])


def _attempt() -> tuple[int, str]:
    """Number of this task, and the write token of this attempt."""
    context = TaskContext.get()
    if context is None:
        return 0, "0-0-0"
    number = context.partitionId()
    return number, f"{number}-{context.stageId()}-{context.taskAttemptId()}"


def _route(task: WriteTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return task.route(batches, _attempt()[0])


def _key(task: WriteTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return task.key(batches, _attempt()[0])


def _locate(task: WriteTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return task.locate(batches)


def _partitions(task: WriteTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield _report_batch(task.partitions(batches))


def _apply(task: WriteTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield _report_batch(task.apply(batches, *_attempt()))


def _append(task: WriteTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield _report_batch(task.append(batches, *_attempt()))


def _report_batch(reports: list[str]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(reports, pa.string())], schema=_REPORT_SCHEMA)
