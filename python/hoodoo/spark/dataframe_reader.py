"""Reading tables as DataFrames."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from hoodoo.distributed import DistributedRead, ReadTask
from hoodoo.spark.arrow_schema import spark_of, spark_types

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from hoodoo.filters import Filters

__all__ = ["read"]


def read(
    spark: SparkSession,
    uri: str,
    *,
    columns: Sequence[str] | None = None,
    filters: Filters | None = None,
    as_of: str | None = None,
    query: str | None = None,
    since: str | None = None,
    until: str | None = None,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Reads a Hudi table: a snapshot, its base files alone, an earlier state, or what was written in a range of time.

    What is read is fixed when this is called: commits that come later are not in the DataFrame. A task reads one
    file slice at a time.

    Args:
        spark: The session, classic or Connect.
        uri: The table's location, which all executors can reach.
        columns: The columns wanted; Spark does not push its own projection down into this read, so name them here.
        filters: Rows wanted, pushed down to partitions, row groups and pages; see `hoodoo.filters.Filters`.
        as_of: The table as it was; see `hoodoo.Table.scan`.
        query: `snapshot`, `read_optimized` or `incremental`. By default `incremental` with `since` or `until`, else
            what the options say, else `snapshot`.
        since: Of an incremental query: completion time after which a commit counts; see `hoodoo.Table.changes`.
        until: Completion time of the last commit that counts; the newest when None.
        options: Hudi's options, those of its reads among them: `hoodie.datasource.query.type`, `as.of.instant`,
            `hoodie.datasource.read.begin.instanttime` and `….end.instanttime`. Arguments win over them.
        storage_options: Settings of the storage.

    Returns:
        The rows, Hudi's own columns first.

    Raises:
        TableNotFoundError: There is no table.
        SchemaError: A column that is not there.
        InvalidOptionError: Arguments and options that contradict each other; an incremental query without beginning.
        UnsupportedError: A table or a query that hoodoo cannot read, `cdc` for instance.

    Example:
        ```python
        trips = hoodoo.spark.read(spark, "s3://lake/trips", columns=["uuid", "fare"], filters=[("city", "=", "sf")])
        changed = hoodoo.spark.read(spark, "s3://lake/trips", query="incremental", since=last_commit.completed)
        ```
    """
    planned = DistributedRead(
        str(uri),
        columns=columns,
        filters=filters,
        as_of=as_of,
        query=query,
        since=since,
        until=until,
        options=options,
        storage_options=storage_options,
    )
    types = spark_types(planned.schema)
    slices = spark.createDataFrame([(text,) for text in planned.slices], "slice string")
    if planned.slices:
        slices = slices.repartition(len(planned.slices))
    return slices.mapInArrow(functools.partial(_read, planned.task, types), spark_of(types))


def _read(task: ReadTask, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        slices = batch.column("slice").to_pylist()
        if slices:
            for rows in task.read(slices):
                yield rows.cast(schema) if rows.schema != schema else rows
