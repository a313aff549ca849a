"""Compaction on Spark."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext

from hoodoo.distributed_compaction import CompactionTask, DistributedCompaction
from hoodoo.spark.task_errors import cause_in_task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from hoodoo.commit import Commit

__all__ = ["compact"]

_STATS = "stat string"
_STAT_SCHEMA = pa.schema([("stat", pa.string())])


def compact(
    spark: SparkSession,
    uri: str,
    instant: str | None = None,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Commit | None:
    """Merges the log files of a merge-on-read table into new base files, a file group in each task.

    Carries out the oldest plan, whoever made it; when there is none, everything that has log files is compacted now. A
    compaction that failed stays planned: the next one takes back what it left, and begins it anew. Failed, retried and
    speculative tasks leave nothing behind.

    Args:
        spark: The session, classic or Connect.
        uri: The table's location, which all executors can reach.
        instant: The plan with this requested time.
        options: Hudi's options.
        storage_options: Settings of the storage; see `hoodoo.Table`.

    Returns:
        What was done; None when there was nothing to compact.

    Raises:
        InvalidOptionError: There is no such plan.
        UnsupportedError: The table is copy-on-write.
        pyspark.errors.PySparkException: A task failed for a reason that is not hoodoo's.

    Example:
        ```python
        hoodoo.spark.compact(spark, "s3://lake/trips")
        ```
    """
    begun = DistributedCompaction.begin(str(uri), instant, options, storage_options)
    if begun is None:
        return None
    operations = spark.createDataFrame([(text,) for text in begun.operations], "operation string")
    operations = operations.repartition(max(1, len(begun.operations)))
    try:
        done = operations.mapInArrow(functools.partial(_compact, begun.task), _STATS).collect()
    except Exception as error:
        cause = cause_in_task(error)
        if cause is not None:
            raise cause from error
        raise
    return begun.commit([row.stat for row in done])


def _compact(task: CompactionTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    stage = "0-0-0" if context is None else f"{context.partitionId()}-{context.stageId()}-{context.taskAttemptId()}"
    for batch in batches:
        stats = [task.compact(operation, stage) for operation in batch["operation"].to_pylist()]
        yield pa.record_batch([pa.array(stats, pa.string())], schema=_STAT_SCHEMA)
