"""Spark 3.5 in one JVM: real Hudi, and hoodoo on the same Spark."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from benches.peers import spark_session
from benches.peers.duck import Digest, digest
from benches.peers.tables import folder, prepare_hudi, prepared

from .peer import Peer

if TYPE_CHECKING:
    from pathlib import Path

    from benches.peers.case import Case


class _OnSpark(Peer):
    """A session with as many task slots as there are cores."""

    def __init__(self) -> None:
        self._session: Any = None
        self._home: str | None = None

    def missing(self) -> str | None:
        """Looks for Spark."""
        return spark_session.missing_spark()

    def versions(self) -> dict[str, str]:
        """Gives Spark's."""
        return {"Spark": str(self._session.version)}

    def settings(self) -> dict[str, str]:
        """Gives what the session needs beside the settings of all."""
        return {}

    def start(self, case: Case) -> None:
        """Starts the session."""
        settings = self.settings()
        self._session, self._home = spark_session.start(case.cores, case.java_memory, case.scratch, settings)

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
        return spark_session.missing_hudi()

    def settings(self) -> dict[str, str]:
        """Puts the bundle on the class path."""
        return spark_session.hudi_settings()

    def versions(self) -> dict[str, str]:
        """Gives Hudi's too."""
        return {"Hudi": spark_session.hudi_version(), **super().versions()}

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
