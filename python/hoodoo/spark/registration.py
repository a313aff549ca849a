"""Registers the data source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoodoo.exceptions import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Register the data source `hoodoo` in a session of Spark 4.

    Spark also finds it by itself, when it first meets the name of a data source: then hoodoo has to be installed for
    the Python of the driver's workers.

    Args:
        spark: The session, classic or Connect.

    Raises:
        UnsupportedError: Spark is older than 4.0.

    Example:
        ```python
        hoodoo.spark.register(spark)
        trips = spark.read.format("hoodoo").load("s3://lake/trips")
        ```
    """
    try:
        from hoodoo.spark.data_source import HoodooDataSource  # noqa: PLC0415 - Spark 3.5 has no such classes
    except ImportError as error:
        raise UnsupportedError(
            "data sources in Python need Spark 4.0 or later: call hoodoo.spark.read and hoodoo.spark.write, which take "
            "the same options"
        ) from error
    try:
        spark.dataSource.register(HoodooDataSource)
    except Exception as error:
        # Spark 4.0 does not let a session replace what it found by itself, which is the same.
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise
