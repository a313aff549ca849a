"""Table services and indexes on Spark: a task for each unit of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoodoo.distributed.clustering import begin_clusterings, execute_clusterings
from hoodoo.distributed.compaction import begin_compaction, execute_compaction
from hoodoo.distributed.indexing import begin_index, execute_index
from hoodoo.spark.executor import SparkExecutor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from hoodoo.commit import Commit
    from hoodoo.options import Columns, Options
    from hoodoo.table_indexes import IndexCommit

__all__ = ["cluster", "compact", "index"]


def cluster(  # noqa: PLR0917 - those of `Table.cluster`, with a session
    spark: SparkSession,
    uri: str,
    sort_by: Columns | None = None,
    strategy: str | None = None,
    instant: str | None = None,
    options: Options | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Commit | None:
    """Rewrite file slices into fewer, larger or sorted files, with a task for each group of the plan.

    Works like `hoodoo.Table.cluster`. A clustering that failed stays pending: the next call rolls back what it left and
    executes it again. Failed, repeated and speculative tasks leave no files.

    A group of more than `hoodoo.clustering.task.bytes` is split among several tasks, by ranges of the sort order. A
    task sorts within its share of `hoodoo.memory.budget`: the budget divided by `hoodoo.threads`. Start and end of each
    plan are logged by `hoodoo.distributed.clustering`.

    Args:
        spark: The session, classic or Connect.
        uri: The table's location, which all executors can reach.
        sort_by: See `hoodoo.Table.cluster`, as for the other arguments.
        strategy: How file slices are grouped.
        instant: Execute only the plan with this requested time.
        options: Hudi's options.
        storage_options: Settings of the storage.

    Returns:
        The newest clustering that was executed; None when there was nothing to cluster.

    Raises:
        HudiError: As `hoodoo.Table.cluster`.
        pyspark.errors.PySparkException: A task failed for another reason.

    Example:
        ```python
        hoodoo.spark.cluster(spark, "s3://lake/trips", sort_by=["city", "ts"])
        ```
    """
    plans = begin_clusterings(str(uri), sort_by, strategy, instant, options=options, storage_options=storage_options)
    return execute_clusterings(SparkExecutor(spark), plans)


def compact(
    spark: SparkSession,
    uri: str,
    instant: str | None = None,
    options: Options | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Commit | None:
    """Merge the log files of a merge-on-read table into new base files, with a task for each file group.

    Executes the oldest plan; when there is none, plans and executes one, like `hoodoo.Table.compact`. A compaction that
    failed stays pending: the next call rolls back what it left and executes it again. Failed, repeated and speculative
    tasks leave no files.

    Args:
        spark: The session, classic or Connect.
        uri: The table's location, which all executors can reach.
        instant: Execute the plan with this requested time.
        options: Hudi's options.
        storage_options: Settings of the storage; see `hoodoo.Table`.

    Returns:
        The compaction; None when there was nothing to compact.

    Raises:
        HudiError: As `hoodoo.Table.compact`.
        pyspark.errors.PySparkException: A task failed for another reason.

    Example:
        ```python
        hoodoo.spark.compact(spark, "s3://lake/trips")
        ```
    """
    return execute_compaction(SparkExecutor(spark), begin_compaction(str(uri), instant, options, storage_options))


def index(  # noqa: PLR0917 - those of `Table.index`, with a session
    spark: SparkSession,
    uri: str,
    kind: str,
    columns: Columns | None = None,
    options: Options | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> IndexCommit:
    """Build an index in the metadata table, or build it anew, with the work in tasks of Spark.

    Works like `hoodoo.Table.index`. For `record_index` and `secondary_index`, tasks read the keys of file slices, one
    shuffle brings those of a shard together, and a task writes whole shards: the driver holds none of them. For the
    other indexes, tasks read the statistics and bloom filters of files, and the driver writes them. Other writers go on
    meanwhile; what they changed is added by the driver under the table lock.

    An index that failed is taken off the timeline, with what its tasks wrote. That of a killed driver is taken off by
    the next call. Failed, repeated and speculative tasks leave no files. Start and end are logged by
    `hoodoo.distributed.indexing`.

    Args:
        spark: The session, classic or Connect.
        uri: The table's location, which all executors can reach.
        kind: See `hoodoo.Table.index`. An expression index can be built anew; the driver reads its values.
        columns: The columns that have statistics, or the column of a secondary index; see `hoodoo.Table.index`.
        options: Hudi's options.
        storage_options: Settings of the storage; see `hoodoo.Table`.

    Returns:
        What was built.

    Raises:
        HudiError: As `hoodoo.Table.index`.
        pyspark.errors.PySparkException: A task failed for another reason.

    Example:
        ```python
        hoodoo.spark.index(spark, "s3://lake/trips", "secondary_index", "city")
        ```
    """
    return execute_index(SparkExecutor(spark), begin_index(str(uri), kind, columns, options, storage_options))
