"""Reading tables as DataFrames."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from hoodoo.distributed import ReadTask, SnapshotRead
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
    query: str = "snapshot",
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Reads a snapshot of a Hudi table.

    The snapshot is fixed when this is called: commits that come later are not in the DataFrame. A task reads one
    file slice at a time.

    Args:
        spark: The session, classic or Connect.
        uri: The table's location, which all executors can reach.
        columns: The columns wanted; Spark does not push its own projection down into this read, so name them here.
        filters: Rows wanted, pushed down to partitions, row groups and pages; see `hoodoo.filters.Filters`.
        as_of: The table as it was; see `hoodoo.Table.scan`.
        query: `snapshot` or `read_optimized`.
        options: Hudi's options.
        storage_options: Settings of the storage.

    Returns:
        The rows, Hudi's own columns first.

    Raises:
        TableNotFoundError: There is no table.
        SchemaError: A column that is not there.
        UnsupportedError: A table that hoodoo cannot read.

    Example:
        ```python
        trips = hoodoo.spark.read(spark, "s3://lake/trips", columns=["uuid", "fare"], filters=[("city", "=", "sf")])
        ```
    """
    snapshot = SnapshotRead(
        str(uri),
        columns=columns,
        filters=filters,
        as_of=as_of,
        query=query,
        options=options,
        storage_options=storage_options,
    )
    types = spark_types(snapshot.schema)
    slices = spark.createDataFrame([(text,) for text in snapshot.slices], "slice string")
    if snapshot.slices:
        slices = slices.repartition(len(snapshot.slices))
    return slices.mapInArrow(functools.partial(_read, snapshot.task, types), spark_of(types))


def _read(task: ReadTask, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        slices = batch.column("slice").to_pylist()
        if slices:
            for rows in task.read(slices):
                yield rows.cast(schema) if rows.schema != schema else rows
