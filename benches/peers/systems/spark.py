"""Spark 3.5 in one JVM: real Hudi, and hoodoo on the same Spark."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from benches.peers.case import PROJECT, Case
from benches.peers.duck import Digest, digest
from benches.peers.tables import folder, prepare_hudi, prepared

from .peer import Peer

if TYPE_CHECKING:
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


def _bundle() -> Path | None:
    return next(iter(sorted((PROJECT / ".cache" / "hudi").glob("hudi-spark3.5-bundle*.jar"))), None)


class _OnSpark(Peer):
    """A session with as many task slots as there are cores."""

    def __init__(self) -> None:
        self._session: Any = None
        self._home: str | None = None

    def missing(self) -> str | None:
        """Looks for Spark."""
        try:
            import pyspark  # noqa: PLC0415
        except ImportError as error:
            return str(error)
        return None if pyspark.__version__.startswith("3.5.") else f"Hudi needs Spark 3.5, not {pyspark.__version__}"

    def versions(self) -> dict[str, str]:
        """Gives Spark's."""
        return {"Spark": str(self._session.version)}

    def settings(self) -> dict[str, str]:
        """Gives what the session needs beside the settings of all."""
        return {}

    def start(self, case: Case) -> None:
        """Starts the session."""
        from pyspark.sql import SparkSession  # noqa: PLC0415

        # Workers would start the first python on the path.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        self._home = tempfile.mkdtemp(prefix="spark-", dir=case.scratch)
        own = {
            "spark.driver.memory": case.java_memory,
            "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dderby.system.home={self._home}",
            "spark.sql.warehouse.dir": f"{self._home}/warehouse",
            "spark.local.dir": self._home,
            "spark.sql.shuffle.partitions": str(case.cores),
            "spark.default.parallelism": str(case.cores),
        }
        builder = SparkSession.builder.master(f"local[{case.cores}]").appName("hoodoo-bench")
        for key, value in {**_SETTINGS, **self.settings(), **own}.items():
            builder = builder.config(key, value)
        self._session = builder.getOrCreate()
        self._session.sparkContext.setLogLevel("ERROR")

    def prepare(self, case: Case) -> None:
        """Takes the table that hoodoo wrote."""
        prepare_hudi(case)

    def table(self, case: Case) -> Path:
        """Takes the Hudi table."""
        return folder(case, "hudi")

    def close(self) -> None:
        """Stops the session."""
        if self._session is not None:
            self._session.stop()
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)


class HoodooOnSpark(_OnSpark):
    """`hoodoo.spark.write`."""

    label = "hoodoo on Spark"

    def missing(self) -> str | None:
        """Imports it."""
        try:
            import hoodoo.spark  # noqa: PLC0415
        except ImportError as error:
            return str(error)
        return super().missing() if hasattr(hoodoo.spark, "write") else "hoodoo.spark has no write"

    def versions(self) -> dict[str, str]:
        """Gives hoodoo's too."""
        import hoodoo  # noqa: PLC0415

        return {"hoodoo": hoodoo.__version__, **super().versions()}

    def upsert(self, case: Case, table: Path) -> None:
        """Upserts the DataFrame of the changes."""
        import hoodoo.spark  # noqa: PLC0415

        changes = self._session.read.parquet(case.data.updates)
        hoodoo.spark.write(changes, str(table), operation="upsert", options=case.options)

    def digest(self, case: Case, table: Path) -> Digest:
        """Scans it with hoodoo."""
        import hoodoo  # noqa: PLC0415

        rows = hoodoo.Table(table, options=case.options).scan(columns=list(case.data.columns))
        return digest(case.data, "rows", rows=rows)


class Hudi(_OnSpark):
    """Real Hudi, the metadata table off."""

    label = "Hudi on Spark"

    def missing(self) -> str | None:
        """Looks for the bundle."""
        return super().missing() if _bundle() else "its bundle is not in .cache/hudi: run scripts/setup hudi"

    def settings(self) -> dict[str, str]:
        """Puts the bundle on the class path."""
        return {**_HUDI_SETTINGS, "spark.jars": str(_bundle())}

    def versions(self) -> dict[str, str]:
        """Gives Hudi's too."""
        bundle = _bundle()
        return {"Hudi": bundle.stem.rpartition("-")[2] if bundle else "", **super().versions()}

    def options(self, case: Case) -> dict[str, str]:
        """Gives Hudi's options."""
        return case.options

    def upsert(self, case: Case, table: Path) -> None:
        """Upserts the DataFrame of the changes."""
        self.write(self._session.read.parquet(case.data.updates), case, table)

    def write(self, changes: Any, case: Case, table: Path) -> None:
        """Upserts a DataFrame."""
        options = {**self.options(case), "hoodie.datasource.write.operation": "upsert"}
        changes.write.format("hudi").options(**options).mode("append").save(str(table))

    def digest(self, case: Case, table: Path) -> Digest:
        """Has Hudi read it and write down what it read."""
        rows = self._session.read.format("hudi").options(**self.options(case)).load(str(table))
        target = f"{self._home}/rows"
        rows.select(*case.data.columns).write.mode("overwrite").parquet(target)
        return digest(case.data, f"read_parquet('{target}/*.parquet')")


class HudiWithMetadata(Hudi):
    """Real Hudi, the metadata table on, as is its default."""

    label = "Hudi on Spark, metadata table"

    def options(self, case: Case) -> dict[str, str]:
        """Turns it on."""
        return {**case.options, "hoodie.metadata.enable": "true"}

    def prepare(self, case: Case) -> None:
        """Lets Hudi make the metadata table beforehand, by an upsert of one row as it is."""
        super().prepare(case)

        def make(place: Path) -> None:
            shutil.copytree(folder(case, "hudi"), place)
            self.start(case)
            try:
                self.write(self._session.read.parquet(case.data.base[0]).limit(1), case, place)
            finally:
                self.close()

        prepared(case, "hudi-metadata", make)
        if not (folder(case, "hudi-metadata") / ".hoodie" / "metadata").is_dir():
            raise RuntimeError("Hudi made no metadata table")

    def table(self, case: Case) -> Path:
        """Takes the table with a metadata table."""
        return folder(case, "hudi-metadata")
