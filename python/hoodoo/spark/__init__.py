"""Hudi tables on Spark, without the JVM bundle.

Rows cross to Rust by `mapInArrow`, shuffles are Spark's, and only the driver commits. Works with Spark 3.5 and 4,
classic and Connect: nothing here uses the JVM of the driver. The work is in `hoodoo.distributed`, and `SparkExecutor`
adapts Spark to it.
"""

from __future__ import annotations

from hoodoo.extras import import_extra

import_extra("pyspark.sql", "spark", "hoodoo.spark")

from hoodoo.spark.procedures import call
from hoodoo.spark.recovery import clean, restore, rollback
from hoodoo.spark.registration import register
from hoodoo.spark.row_merging import merge, merge_batches
from hoodoo.spark.services import cluster, compact, index
from hoodoo.spark.statements import sql
from hoodoo.spark.streams import foreach_batch, write_stream_batch
from hoodoo.spark.tables import read, timeline, write

__all__ = [
    "call",
    "clean",
    "cluster",
    "compact",
    "foreach_batch",
    "index",
    "merge",
    "merge_batches",
    "read",
    "register",
    "restore",
    "rollback",
    "sql",
    "timeline",
    "write",
    "write_stream_batch",
]
