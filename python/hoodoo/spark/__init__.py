"""Hudi tables on Spark, without the JVM bundle.

Rows cross to Rust by `mapInArrow`, shuffles are Spark's, and only the driver commits. Works with Spark 3.5 and 4,
classic and Connect: nothing here touches the JVM of the driver.
"""

from __future__ import annotations

from hoodoo.spark.clusterer import cluster
from hoodoo.spark.compactor import compact
from hoodoo.spark.dataframe_reader import read
from hoodoo.spark.dataframe_writer import write
from hoodoo.spark.row_merging import merge, merge_batches
from hoodoo.spark.timeline_reader import timeline

__all__ = ["cluster", "compact", "merge", "merge_batches", "read", "timeline", "write"]
