"""Cleans, rollbacks and restores on Spark: tasks list the folders and delete the files of a large table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoodoo.distributed.recovery import FileTasks
from hoodoo.spark.executor import SparkExecutor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from hoodoo.options import Options
    from hoodoo.recovery import CleanReport, Restore, Rollback

__all__ = ["clean", "restore", "rollback"]


def clean(
    spark: SparkSession,
    uri: str,
    options: Options | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    dry_run: bool = False,
) -> CleanReport:
    """Delete the files that the cleaning policy does not keep, with tasks that list folders and delete files.

    Works like `hoodoo.Table.clean`. Tasks list where there are more than 64 folders, and delete where there are more
    than 1,000 files; for less, the driver does it. A clean that failed stays pending, and the next one finishes it.

    Args:
        spark: The session, classic or Connect.
        uri: The table's location, which all executors can reach.
        options: Hudi's options.
        storage_options: Settings of the storage; see `hoodoo.Table`.
        dry_run: Return what would be deleted, and delete nothing.

    Returns:
        What was deleted; without files if there was nothing to delete.

    Raises:
        HudiError: As `hoodoo.Table.clean`.
        pyspark.errors.PySparkException: A task failed for another reason.

    Example:
        ```python
        hoodoo.spark.clean(spark, "s3://lake/trips", {"hoodie.clean.commits.retained": "24"})
        ```
    """
    return FileTasks.open(SparkExecutor(spark), str(uri), options, storage_options).clean(dry_run=dry_run)


def rollback(
    spark: SparkSession,
    uri: str,
    instant: str,
    options: Options | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Rollback:
    """Take back one write, the newest completed one or one that did not complete, with tasks that list and delete.

    Works like `hoodoo.Table.rollback`, with tasks as those of `clean`. A rollback that failed is finished by the next
    one and by the next write.

    Args:
        spark: The session, classic or Connect.
        uri: The table's location, which all executors can reach.
        instant: Requested time of the write.
        options: Hudi's options.
        storage_options: Settings of the storage; see `hoodoo.Table`.

    Returns:
        The rollback.

    Raises:
        HudiError: As `hoodoo.Table.rollback`.
        pyspark.errors.PySparkException: A task failed for another reason.

    Example:
        ```python
        hoodoo.spark.rollback(spark, "s3://lake/trips", commit.instant)
        ```
    """
    return FileTasks.open(SparkExecutor(spark), str(uri), options, storage_options).rollback(instant)


def restore(
    spark: SparkSession,
    uri: str,
    savepoint: str,
    options: Options | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Restore:
    """Make a table what it was at a savepoint, with tasks that list folders and delete files.

    Works like `hoodoo.Table.restore`, with tasks as those of `clean`. Nobody can write to the table until a restore
    that failed is finished: call it again.

    Args:
        spark: The session, classic or Connect.
        uri: The table's location, which all executors can reach.
        savepoint: Requested time of the commit that has the savepoint.
        options: Hudi's options.
        storage_options: Settings of the storage; see `hoodoo.Table`.

    Returns:
        What was taken back.

    Raises:
        HudiError: As `hoodoo.Table.restore`.
        pyspark.errors.PySparkException: A task failed for another reason.

    Example:
        ```python
        hoodoo.spark.restore(spark, "s3://lake/trips", saved.instant)
        ```
    """
    return FileTasks.open(SparkExecutor(spark), str(uri), options, storage_options).restore(savepoint)
