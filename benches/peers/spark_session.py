"""Spark sessions of the benches: as many task slots as there are cores, everything temporary in one folder."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from .case import PROJECT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_SETTINGS = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The others compress with level 1 too; Parquet's Java library would take 3.
    "spark.hadoop.parquet.compression.codec.zstd.level": "1",
}
_HUDI_SETTINGS = {
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
}


def bundle() -> Path | None:
    """Finds the bundle of real Hudi."""
    return next(iter(sorted((PROJECT / ".cache" / "hudi").glob("hudi-spark3.5-bundle*.jar"))), None)


def hudi_version() -> str:
    """Gives the version of the bundle; nothing where there is none."""
    found = bundle()
    return found.stem.rpartition("-")[2] if found else ""


def hudi_settings() -> dict[str, str]:
    """Gives what a session needs for Hudi, the bundle on its class path."""
    return {**_HUDI_SETTINGS, "spark.jars": str(bundle())}


def missing_spark() -> str | None:
    """Says why there is no Spark here that Hudi runs on; None when there is one."""
    try:
        import pyspark  # noqa: PLC0415
    except ImportError as error:
        return str(error)
    return None if pyspark.__version__.startswith("3.5.") else f"Hudi needs Spark 3.5, not {pyspark.__version__}"


def missing_hudi() -> str | None:
    """The same for Hudi itself."""
    return missing_spark() or (None if bundle() else "its bundle is not in .cache/hudi: run scripts/setup hudi")


def start(cores: int, java_memory: str, scratch: str, settings: Mapping[str, str]) -> tuple[Any, str]:
    """Starts a session.

    Args:
        cores: Task slots, and partitions of a shuffle.
        java_memory: Heap of the JVM, as Java spells it.
        scratch: Where its folder is made.
        settings: What it needs beside the settings of all.

    Returns:
        The session, and its folder.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415

    # Workers would start the first python on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    home = tempfile.mkdtemp(prefix="spark-", dir=scratch)
    own = {
        "spark.driver.memory": java_memory,
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dderby.system.home={home}",
        "spark.sql.warehouse.dir": f"{home}/warehouse",
        "spark.local.dir": home,
        "spark.sql.shuffle.partitions": str(cores),
        "spark.default.parallelism": str(cores),
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("hoodoo-bench")
    for key, value in {**_SETTINGS, **settings, **own}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session, home
