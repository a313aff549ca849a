"""Tables as sinks of streams: each micro-batch is in the table once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hoodoo.distributed.write import write_rows
from hoodoo.exceptions import InvalidOptionError, TableNotFoundError, UnsupportedError
from hoodoo.options import string_options
from hoodoo.spark.executor import SparkExecutor
from hoodoo.stream_checkpoint import IDENTIFIER, checkpoint_metadata, last_batch
from hoodoo.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from hoodoo.commit import Commit
    from hoodoo.options import Options, SchemaEvolution

__all__ = ["foreach_batch", "write_stream_batch"]

_OPERATION = "hoodie.datasource.write.operation"


def foreach_batch(
    uri: str,
    operation: str | None = None,
    options: Options | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    identifier: str | None = None,
    partial: bool = False,
    schema_evolution: SchemaEvolution | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return a function for `DataStreamWriter.foreachBatch` that writes each micro-batch into a Hudi table once.

    See `write_stream_batch`, also for the arguments. Works with every version of Spark and every operation but
    `delete_partition`.

    Returns:
        The function.

    Example:
        ```python
        sink = hoodoo.spark.foreach_batch("s3://lake/trips", "upsert", options=hudi_options)
        query = stream.writeStream.foreachBatch(sink).option("checkpointLocation", "s3://lake/checkpoints/trips").start()
        ```
    """

    def write_batch(df: DataFrame, batch_id: int) -> None:
        write_stream_batch(
            df,
            batch_id,
            uri,
            operation,
            options,
            storage_options,
            identifier=identifier,
            partial=partial,
            schema_evolution=schema_evolution,
        )

    return write_batch


def write_stream_batch(  # noqa: PLR0917 - those of `write`, after those of Spark's function
    df: DataFrame,
    batch_id: int,
    uri: str,
    operation: str | None = None,
    options: Options | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    identifier: str | None = None,
    partial: bool = False,
    schema_evolution: SchemaEvolution | None = None,
) -> Commit | None:
    """Write a micro-batch of a stream into a Hudi table, unless the table holds it already.

    The commit stores the name of the stream and the number of the micro-batch in its metadata, as Hudi's own sink does.
    A stream that was killed after the commit and before its checkpoint repeats the micro-batch: nothing is written.

    Args:
        df: The rows of the micro-batch.
        batch_id: The number of the micro-batch.
        uri: See `write`, as for `operation`, `options`, `storage_options`, `partial` and `schema_evolution`.
        operation: See `write`; not `delete_partition`.
        options: See `write`.
        storage_options: See `write`.
        identifier: The name of the stream among those that write to the table. Default: the option
            `hoodie.datasource.write.streaming.checkpoint.identifier`, else the id of the query, which its checkpoint
            keeps. Spark Connect does not tell that id: name the stream there. A stream that starts again with an empty
            checkpoint counts its micro-batches from 0: give it a new name. A function that writes a micro-batch to a
            table in several parts needs a name for each part.
        partial: See `write`.
        schema_evolution: See `write`.

    Returns:
        The commit; None when the table holds the micro-batch already.

    Raises:
        InvalidOptionError: The stream has no name, or its function writes a micro-batch to the table a second time
            under the same name.
        UnsupportedError: The operation is `delete_partition`.
        HudiError: As `write`.

    Example:
        ```python
        def sink(df, batch_id):
            df = df.dropDuplicates(["uuid"])
            hoodoo.spark.write_stream_batch(df, batch_id, "s3://lake/trips", "upsert", hudi_options)

        query = stream.writeStream.foreachBatch(sink).option("checkpointLocation", "s3://lake/checkpoints/trips").start()
        ```
    """
    given = string_options(options)
    if (operation or given.get(_OPERATION, "")).lower() == "delete_partition":
        raise UnsupportedError("delete_partition is not supported in a stream: call hoodoo.spark.write outside of it")
    name = identifier or given.pop(IDENTIFIER, None) or _query_id(df.sparkSession)
    given.pop(IDENTIFIER, None)
    if name is None:
        raise InvalidOptionError(
            f"the stream that writes to {uri} has no name: pass identifier=…, which says which micro-batches of the "
            "table are its own"
        )
    _refuse_second_part(df.sparkSession, str(uri), name, batch_id)
    if _holds(uri, name, batch_id, storage_options):
        _note_batch(df.sparkSession, str(uri), name, batch_id)
        return None
    commit = write_rows(
        SparkExecutor(df.sparkSession),
        df,
        str(uri),
        operation,
        given,
        storage_options,
        partial=partial,
        schema_evolution=schema_evolution,
        extra_metadata=checkpoint_metadata(name, batch_id),
    )
    _note_batch(df.sparkSession, str(uri), name, batch_id)
    return commit


_WORKER_OF_CONNECT = "SPARK_CONNECT_LOCAL_URL"
"""Variable of the environment that the process has in which Spark Connect calls the function of a query."""
_WRITTEN: dict[tuple[str, str, str], int] = {}
"""The newest micro-batch of each run of a query that is in a table, by run, table and name of the stream."""


def _refuse_second_part(spark: SparkSession, uri: str, name: str, batch: int) -> None:
    """Refuse to pass over rows that are another part of a micro-batch, rather than the same rows again."""
    run = _run_of_query(spark)
    if run is not None and _WRITTEN.get((run, uri, name)) == batch:
        raise InvalidOptionError(
            f"micro-batch {batch} of the stream {name!r} is written to {uri} a second time: a table takes a "
            "micro-batch of a name once. Give each write of the function a name of its own with identifier=…"
        )


def _note_batch(spark: SparkSession, uri: str, name: str, batch: int) -> None:
    run = _run_of_query(spark)
    if run is not None:
        _WRITTEN[run, uri, name] = batch


def _holds(uri: str, identifier: str, batch: int, storage_options: Mapping[str, str] | None) -> bool:
    try:
        timeline = Table(str(uri), storage_options=dict(storage_options or {})).timeline
    except TableNotFoundError:
        return False
    # A commit that is archived by now may have the first micro-batch too, if others wrote much since.
    last = last_batch(timeline, identifier, history=True)
    return last is not None and last >= batch


def _query_id(spark: SparkSession) -> str | None:
    """The id of the query that calls, where Spark tells it."""
    return _local_property(spark, "sql.streaming.queryId")


def _run_of_query(spark: SparkSession) -> str | None:
    """What tells one start of a query from the next: its group of jobs; on Spark Connect, its function's process."""
    if _WORKER_OF_CONNECT in os.environ:
        return f"process {os.getpid()}"
    return None if _query_id(spark) is None else _local_property(spark, "spark.jobGroup.id")


def _local_property(spark: SparkSession, key: str) -> str | None:
    try:
        return spark.sparkContext.getLocalProperty(key) or None
    except Exception:  # noqa: BLE001 - each line of Spark has an error of its own for what Connect lacks
        return None
