"""Spark in one warm session: Hudi on tables; hoodoo and Spark's own SQL on rows."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from benches.peers import spark_session
from benches.peers.merge_on_read.job import COLUMNS, KEY, ORDERING
from benches.peers.merge_on_read.rows import window_sql

from .system import System

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benches.peers.merge_on_read.job import Job


class _OnSpark(System):
    _session: Any = None
    _home: str | None = None

    def missing(self, job: Job) -> str | None:
        """Looks for Spark."""
        return super().missing(job) or spark_session.missing_spark()

    def settings(self) -> dict[str, str]:
        """Gives what the session needs beside the settings of all."""
        return {}

    def versions(self) -> dict[str, str]:
        """Gives Spark's."""
        return {"Spark": str(self._session.version)}

    def start(self, job: Job) -> None:
        """Starts the session."""
        # A collected table may be large.
        settings = {**self.settings(), "spark.driver.maxResultSize": "0"}
        self._session, self._home = spark_session.start(job.cores, job.java_memory, job.scratch, settings)

    def close(self) -> None:
        """Stops the session."""
        if self._session is not None:
            self._session.stop()
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)

    def save(self, job: Job, place: Path, result: Any) -> None:
        """Has Spark write down the rows of a DataFrame."""
        del place
        rows = result.select(*COLUMNS)
        rows.write.mode("overwrite").parquet(job.result)


def drained(rows: Any) -> Any:
    """Computes all rows of a DataFrame and throws them away."""
    rows.write.format("noop").mode("overwrite").save()
    return rows


class Hudi(_OnSpark):
    """Real Hudi; a read decodes all rows inside the JVM and keeps none."""

    def missing(self, job: Job) -> str | None:
        """Looks for the bundle."""
        del job
        return spark_session.missing_hudi()

    def settings(self) -> dict[str, str]:
        """Puts the bundle on the class path."""
        return spark_session.hudi_settings()

    def versions(self) -> dict[str, str]:
        """Gives Hudi's too."""
        return {"Hudi": spark_session.hudi_version(), **super().versions()}

    def prepare(self, job: Job, place: Path) -> Callable[[], Any]:
        """Gives the call."""
        if job.task == "read":
            return lambda: self._read(job, place)
        if job.task == "compact":
            options = {**job.options, "hoodie.compact.inline.max.delta.commits": "1"}
            spelled = ",".join(f"{key}={value}" for key, value in options.items())
            call = f"CALL run_compaction(op => 'scheduleandexecute', path => '{place}', options => '{spelled}')"
            return lambda: self._session.sql(call).collect()

        def append() -> None:
            options = {**job.options, "hoodie.datasource.write.operation": "upsert"}
            changes = self._session.read.parquet(job.newer[0])
            changes.write.format("hudi").options(**options).mode("append").save(str(place))

        return append

    def _rows(self, job: Job, place: Path, query: str) -> Any:
        options = {**job.options, "hoodie.datasource.query.type": query}
        return self._session.read.format("hudi").options(**options).load(str(place))

    def _read(self, job: Job, place: Path) -> Any:
        return drained(self._rows(job, place, "snapshot"))

    def save(self, job: Job, place: Path, result: Any) -> None:
        """Has Hudi read the table; after a compaction base files alone must have all rows."""
        del result
        query = "read_optimized" if job.task == "compact" else "snapshot"
        super().save(job, place, self._rows(job, place, query))


class HudiIntoArrow(Hudi):
    """A read of all rows into an Arrow table of Python."""

    def _read(self, job: Job, place: Path) -> pa.Table:
        rows = self._rows(job, place, "snapshot")
        if hasattr(rows, "toArrow"):
            return rows.toArrow()
        # What `toPandas` does in Spark 3.5, without pandas.
        return pa.Table.from_batches(rows._collect_as_arrow())  # noqa: SLF001

    def save(self, job: Job, place: Path, result: Any) -> None:
        """Writes the table that came out."""
        System.save(self, job, place, result)


class HoodooOnSpark(_OnSpark):
    """`hoodoo.spark.merge`."""

    packages = ("hoodoo",)

    def versions(self) -> dict[str, str]:
        """Gives hoodoo's too."""
        import hoodoo  # noqa: PLC0415

        return {"hoodoo": hoodoo.__version__, **super().versions()}

    def prepare(self, job: Job, place: Path) -> Callable[[], Any]:
        """Gives the call; its rows go nowhere."""
        del place
        import hoodoo.spark  # noqa: PLC0415

        def merge() -> Any:
            older, newer = (self._session.read.parquet(file) for file in (job.older, job.newer[0]))
            return drained(hoodoo.spark.merge(older, newer, key=KEY, ordering=[ORDERING]))

        return merge


class SparkWindow(_OnSpark):
    """The same in Spark SQL: a union, a window and `row_number`."""

    def prepare(self, job: Job, place: Path) -> Callable[[], Any]:
        """Gives the call; its rows go nowhere."""
        del place

        def merge() -> Any:
            for name, file in (("older", job.older), ("newer", job.newer[0])):
                self._session.read.parquet(file).createOrReplaceTempView(name)
            return drained(self._session.sql(window_sql(["older", "newer"])))

        return merge
