"""Clustering on Spark."""

from __future__ import annotations

import functools
import logging
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext

from hoodoo.distributed_clustering import ClusteringTask, DistributedClustering
from hoodoo.spark.task_errors import cause_in_task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from hoodoo.commit import Commit

__all__ = ["cluster"]

_FILES = "files string"
_FILES_SCHEMA = pa.schema([("files", pa.string())])
_log = logging.getLogger(__name__)


def cluster(  # noqa: PLR0917 - those of `Table.cluster`, with a session
    spark: SparkSession,
    uri: str,
    sort_by: str | Sequence[str] | None = None,
    strategy: str | None = None,
    instant: str | None = None,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Commit | None:
    """Rewrites file slices into fewer, larger or sorted files, a group of the plan in each task.

    As `hoodoo.Table.cluster`: without `sort_by` and `strategy` all plans that wait are carried out, one after the
    other, whoever made them, and when there is none, one is made now. A clustering that failed stays planned: the next
    one takes back what it left, and begins it anew. Failed, retried and speculative tasks leave nothing behind.

    A group of more than `hoodoo.clustering.task.bytes` is divided among several tasks, by ranges of the order. A task
    sorts within its share of `hoodoo.memory.budget`, which is that of one of `hoodoo.threads`. Spark's own progress
    counts these tasks; begin and end of each plan go to the log `hoodoo.spark.clusterer`.

    Args:
        spark: The session, classic or Connect.
        uri: The table's location, which all executors can reach.
        sort_by: Columns to sort rows by; see `hoodoo.Table.cluster`.
        strategy: How slices are grouped; see `hoodoo.Table.schedule_clustering`.
        instant: The plan with this requested time.
        options: Hudi's options.
        storage_options: Settings of the storage; see `hoodoo.Table`.

    Returns:
        The newest clustering that was carried out; None when there was nothing to cluster.

    Raises:
        InvalidOptionError: An option, a strategy, a column or a plan that there is not.
        ConflictError: Another process carries the plan out, or has written to file groups of it since it was made: then
            the plan is taken back, and nothing is lost.
        CorruptFileError: A file of the plan is gone or damaged.
        UnsupportedError: A strategy of Hudi that hoodoo does not have.
        pyspark.errors.PySparkException: A task failed for a reason that is not hoodoo's.

    Example:
        ```python
        hoodoo.spark.cluster(spark, "s3://lake/trips", sort_by=["city", "ts"])
        ```
    """
    last = None
    plans = DistributedClustering.begin_each(
        str(uri), sort_by, strategy, instant, options=options, storage_options=storage_options
    )
    for begun in plans:
        try:
            last = _carry_out(spark, begun)
        finally:
            begun.leave()
    return last


def _carry_out(spark: SparkSession, begun: DistributedClustering) -> Commit:
    task, count, began = begun.task, len(begun.groups), time.monotonic()
    _log.info("clustering %s of %s begins: %d tasks", task.instant, task.uri, count)
    groups = spark.createDataFrame(list(enumerate(begun.groups)), "number int, group string")
    # By ranges, for each of them is to be a task of its own: dealt out in turns, some meet in one.
    groups = groups.repartitionByRange(max(1, count), "number")
    try:
        done = groups.mapInArrow(functools.partial(_cluster, task), _FILES).collect()
    except Exception as error:
        cause = cause_in_task(error)
        if cause is not None:
            begun.give_up(cause)
            raise cause from error
        raise
    commit = begun.commit([row.files for row in done])
    seconds = time.monotonic() - began
    _log.info("clustering %s is done: %d tasks in %.1f s", task.instant, count, seconds)
    return commit


def _cluster(task: ClusteringTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    token = "0-0-0" if context is None else f"{context.partitionId()}-{context.stageId()}-{context.taskAttemptId()}"
    for batch in batches:
        files = [task.cluster(group, token) for group in batch["group"].to_pylist()]
        yield pa.record_batch([pa.array(files, pa.string())], schema=_FILES_SCHEMA)
