"""Tables and timelines as DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoodoo.distributed.read import plan_table_read, read_table
from hoodoo.distributed.timeline import read_timeline
from hoodoo.distributed.write import write_rows
from hoodoo.exceptions import InvalidOptionError
from hoodoo.options import AS_OF, string_options
from hoodoo.spark.executor import SparkExecutor
from hoodoo.spark.row_filters import META_COLUMNS, columns_to_read, pruning_of
from hoodoo.sync.keys import is_sync_asked
from hoodoo.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from hoodoo.commit import Commit
    from hoodoo.options import Options, SchemaEvolution
    from hoodoo.spark.row_filters import RowFilters

__all__ = ["read", "timeline", "write"]


def read(
    spark: SparkSession,
    uri: str,
    *,
    columns: Sequence[str] | None = None,
    filters: RowFilters | None = None,
    as_of: str | None = None,
    query: str | None = None,
    since: str | None = None,
    until: str | None = None,
    options: Options | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read a Hudi table: a snapshot, its base files alone, an earlier snapshot, or the changes in a range of time.

    The call fixes what is read: later commits are not in the DataFrame. A task reads one file slice at a time.

    Args:
        spark: The session, classic or Connect.
        uri: The table's location, which all executors can reach.
        columns: The columns. Spark does not push its own projection into this read, so name them here.
        filters: Return only rows that match: conditions (see `hoodoo.filters.Filters`), a filter in SQL such as
            `"city = 'sf' AND fare > 5"`, or a Column such as `col("fare") > 5`. Filters apply to partitions, row groups
            and pages. Of SQL and of Columns, Spark applies the filter, and hoodoo skips files by comparisons, `IN`,
            `BETWEEN` and `IS NULL` that `AND` connects; by Columns in a classic session of Spark 3.5 only.
        as_of: Read the table as it was at this time; see `hoodoo.Table.scan`.
        query: `snapshot`, `read_optimized` or `incremental`. Default: `incremental` with `since` or `until`, else the
            query of the options, else `snapshot`.
        since: For an incremental query, return commits with a completion time after this; see `hoodoo.Table.changes`.
        until: Completion time of the last commit to return. Default: the newest.
        options: Hudi's options, also of reads: `hoodie.datasource.query.type`, `as.of.instant`,
            `hoodie.datasource.read.begin.instanttime` and `….end.instanttime`. Arguments win over options. With
            `hoodie.datasource.query.incremental.format=cdc`, an incremental query returns every change of a row; see
            `hoodoo.Table.changes`.
        storage_options: Settings of the storage; see `hoodoo.Table`.

    Returns:
        The rows, Hudi's `_hoodie_*` columns first.

    Raises:
        TableNotFoundError: There is no table at the location.
        SchemaError: A column does not exist.
        InvalidOptionError: Arguments and options contradict each other, an incremental query has no start, or there are
            no columns, or one twice.
        UnsupportedError: The table or the query is not supported.

    Example:
        ```python
        trips = hoodoo.spark.read(spark, "s3://lake/trips", columns=["uuid", "fare"], filters=[("city", "=", "sf")])
        changed = hoodoo.spark.read(spark, "s3://lake/trips", query="incremental", since=last_commit.completed)
        ```
    """
    if columns is not None and (not columns or len(set(columns)) < len(columns)):
        raise InvalidOptionError(
            f"invalid columns {list(columns)!r}: name at least one, and each once. To count rows, read a single column"
        )
    pruning = pruning_of(filters, spark)
    wanted = columns
    if pruning is not None and columns is not None:
        if as_of is not None or AS_OF in (options or {}):
            # The columns that the table had then.
            planned = plan_table_read(str(uri), None, None, as_of, query, since, until, options, storage_options)
            known = planned.task.schema.names
        else:
            table = Table(str(uri), storage_options=dict(storage_options or {}))
            known = [*META_COLUMNS, *table.schema.names]
        columns = columns_to_read(columns, filters, known)
    frame = read_table(
        SparkExecutor(spark),
        str(uri),
        columns=columns,
        filters=filters if pruning is None else pruning,
        as_of=as_of,
        query=query,
        since=since,
        until=until,
        options=options,
        storage_options=storage_options,
    )
    if pruning is None:
        return frame
    matching = frame.where(filters)
    return matching if wanted is None else matching.select(*(f"`{name}`" for name in wanted))


def write(
    df: DataFrame,
    uri: str,
    operation: str | None = None,
    options: Options | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    partial: bool = False,
    schema_evolution: SchemaEvolution | None = None,
) -> Commit:
    """Write a DataFrame into a Hudi table; create the table when there is none.

    The rows cross to Rust twice, with one shuffle of Spark between: first to find the file group of each row, then to
    merge the rows of each file group. When keys are looked up in all partitions (with a global index, or for deletes
    without partition columns), another shuffle first brings the rows of each key together.

    Failed, repeated and speculative tasks leave no rows: the driver commits only the files of one attempt of each task,
    and removes the others before the commit.

    Args:
        df: The rows. A row whose `_hoodie_is_deleted` is true deletes its key.
        uri: The table's location, which all executors can reach.
        operation: `upsert`, `insert`, `bulk_insert`, `delete`, `insert_overwrite`, `insert_overwrite_table` or
            `delete_partition`; see `hoodoo.write`.
        options: Hudi's options, as `df.write.format("hudi").options(**options)` takes them.
        storage_options: Settings of the storage; see `hoodoo.Table`.
        partial: The rows of an upsert have only some columns; see `hoodoo.Table.upsert`. The table must exist, and must
            not have a global index.
        schema_evolution: `allow` or `refuse`; see `hoodoo.Table.upsert`. Tasks check whether values fit the types of
            the table. When one does not and its column may be widened, the write starts again with the wider column.

    Returns:
        The commit.

    Raises:
        InvalidOptionError: Options contradict each other or the table.
        SchemaError: The columns do not match the table, or a key is null.
        UnsupportedError: The table or an option is not supported.
        ConflictError: Another writer changed the same file groups, and retries did not help.
        pyspark.errors.PySparkException: A task failed for another reason. As with all errors, nothing is committed.

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
    return write_rows(
        SparkExecutor(df.sparkSession),
        df,
        str(uri),
        operation,
        _with_spark_version(options, df.sparkSession),
        storage_options,
        partial=partial,
        schema_evolution=schema_evolution,
    )


def _with_spark_version(options: Options | None, spark: SparkSession) -> Options | None:
    """Add the version that a catalog sync writes down as the one that made the table."""
    if options is None or not is_sync_asked(string_options(options)):
        return options
    return {"hoodie.meta_sync.spark.version": spark.version, **options}


def timeline(
    spark: SparkSession,
    uri: str,
    *,
    since: str | None = None,
    until: str | None = None,
    columns: str = "action",
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read the whole timeline of a table, archived and active actions.

    The call fixes what is read: later actions are not in the DataFrame, and actions that are archived meanwhile come
    once. A task reads the actions of one file of the history at a time.

    Args:
        spark: The session, classic or Connect.
        uri: The table's location, which all executors can reach.
        since: Only requested times greater than or equal to this. Files of the history without such times are not read.
            Spark does not push its own filters into this read, so give the range here.
        until: Only requested times less than or equal to this.
        columns: `time`: requested and completion time. `action`: also action and state. `metadata`: also the metadata
            of the action. `plan`: also the plan, without the metadata. `full`: all.
        storage_options: Settings of the storage; see `hoodoo.Table`.

    Returns:
        The actions, in no order. The columns `requested`, `completed` (null while the action is pending), `action` and
        `state` are strings; `metadata` and `plan` are binary: the file of the action, an Avro container (in tables of
        version 6, JSON for commits that are not archived), or null when there is none.

    Raises:
        TableNotFoundError: There is no table at the location.
        InvalidOptionError: `columns` is invalid.
        CorruptFileError: The timeline cannot be read.

    Example:
        ```python
        actions = hoodoo.spark.timeline(spark, "s3://lake/trips", since="20260101")
        actions.groupBy("action", "state").count().show()
        ```
    """
    return read_timeline(
        SparkExecutor(spark), str(uri), columns=columns, since=since, until=until, storage_options=storage_options
    )
