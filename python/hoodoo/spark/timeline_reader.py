"""Timelines as DataFrames."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from hoodoo.distributed_timeline import TimelineRead, TimelineTask
from hoodoo.spark.arrow_schema import spark_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["timeline"]

_INSTANT = "struct<requested:string,completed:string,action:string,state:string>"


def timeline(
    spark: SparkSession,
    uri: str,
    *,
    since: str | None = None,
    until: str | None = None,
    columns: str = "action",
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Reads the whole timeline of a table, archived actions and active ones.

    What is read is settled when this is called: later actions are not in the DataFrame, and those that are archived
    meanwhile come once. A task reads the actions of one file of the history at a time.

    Args:
        spark: The session, classic or Connect.
        uri: The table's location, which all executors can reach.
        since: Only requested times greater than or equal to this. Files of the history that hold no such times are not
            read; Spark does not push its own filters down into this read, so give the range here.
        until: Only requested times less than or equal to this.
        columns: `time`: requested and completed time; `action`: also action and state; `metadata`: also the metadata
            of the action; `plan`: these without the metadata, but with the plan; `full`: all.
        storage_options: Settings of the storage.

    Returns:
        The columns `requested`, `completed` (null while it is pending), `action`, `state`, all text, and `metadata`
        and `plan`, both binary: the content of the action's file, an Avro container (in tables of version 6, JSON for
        commits that are not archived); null where there is none. Rows come in no order.

    Raises:
        TableNotFoundError: There is no table.
        InvalidOptionError: Columns of another name.
        CorruptFileError: The timeline cannot be read.

    Example:
        ```python
        actions = hoodoo.spark.timeline(spark, "s3://lake/trips", since="20260101")
        actions.groupBy("action", "state").count().show()
        ```
    """
    read = TimelineRead(str(uri), columns=columns, since=since, until=until, storage_options=storage_options)
    parts: list[tuple[str | None, str | None, list[tuple[str, str | None, str, str]]]]
    parts = [(low, high, []) for low, high in read.ranges] + [(None, None, some) for some in read.active]
    frame = spark.createDataFrame(parts, f"since string, until string, instants array<{_INSTANT}>")
    if parts:
        frame = frame.repartition(len(parts))
    return frame.mapInArrow(functools.partial(_read, read.task), spark_of(read.task.schema))


def _read(task: TimelineTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for part in batch.to_pylist():
            if part["instants"]:
                rows = [(one["requested"], one["completed"], one["action"], one["state"]) for one in part["instants"]]
                yield task.instants(rows)
            else:
                yield from task.history(part["since"], part["until"])
