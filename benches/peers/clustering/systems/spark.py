"""Spark in one warm session: real Hudi, and hoodoo on the same Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from benches.peers.clustering.options import clustering_options, job_options, sort_columns, subject_of
from benches.peers.clustering.rows import FILES
from benches.peers.merge_on_read.systems import spark

from .files import inputs
from .hoodoo_table import keep_slices, options

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.peers.merge_on_read.job import Job


class Hudi(spark.Hudi):
    """Real Hudi, by `run_clustering`, on a table of its own."""

    def start(self, job: Job) -> None:
        """Makes the table too, unless it is there."""
        super().start(job)
        place = Path(job.table)
        if place.exists():
            return
        unfinished = place.with_suffix(".part")
        rows = self._session.read.parquet(*job.newer)
        # The same rows in each file as in the other table, in the same order.
        keys = subject_of(job).keys
        rows = rows.repartitionByRange(FILES, keys[0]).sortWithinPartitions(*keys)
        more = {"hoodie.datasource.write.operation": "bulk_insert", "hoodie.bulkinsert.sort.mode": "NONE"}
        written = rows.write.format("hudi").options(**job_options(job), **more)
        written.mode("append").save(str(unfinished))
        found = len(list(unfinished.glob("*.parquet")))
        if found != FILES:
            raise RuntimeError(f"Hudi wrote {found} files")
        unfinished.rename(place)

    def prepare(self, job: Job, place: Path) -> Callable[[], Any]:
        """Gives the call."""
        total = sum(file.stat().st_size for file in place.glob("*.parquet"))
        given = {**job_options(job), **clustering_options(total, int(job.more["outputs"]))}
        # Its writer takes what waits in memory, uncompressed, for the size of a file, and would write three for one.
        given["hoodie.parquet.compression.ratio"] = "4"
        # The call takes a comma for the end of an option.
        spelled = ",".join(f"{key}={value}" for key, value in given.items() if "," not in value)
        columns = ",".join(sort_columns(job.more))
        order = f", order => '{columns}'" if columns else ""
        call = f"CALL run_clustering(path => '{place}', options => '{spelled}'{order})"
        return lambda: self._session.sql(call).collect()

    def save(self, job: Job, place: Path, result: Any) -> None:
        """Keeps the files of the table."""
        del result
        keep_slices(job, place)


class HoodooOnSpark(spark.HoodooOnSpark):
    """`hoodoo.spark.cluster`."""

    def missing(self, job: Job) -> str | None:
        """Looks for it."""
        problem = super().missing(job)
        if problem is not None:
            return problem
        import hoodoo.spark  # noqa: PLC0415

        return None if hasattr(hoodoo.spark, "cluster") else "not installed: hoodoo.spark has no cluster"

    def prepare(self, job: Job, place: Path) -> Callable[[], Any]:
        """Gives the call."""
        import hoodoo.spark  # noqa: PLC0415

        given, columns = options(job, place), sort_columns(job.more)
        # The cores are the tasks', and the one group has to have one for each: rounded up, or there would be one more.
        total = sum(file.stat().st_size for file in inputs(job, place))
        given |= {"hoodoo.threads": "1", "hoodoo.clustering.task.bytes": str(-(-total // job.cores))}
        return lambda: hoodoo.spark.cluster(self._session, str(place), sort_by=columns, options=given)

    def save(self, job: Job, place: Path, result: Any) -> None:
        """Keeps the files of the table."""
        del result
        keep_slices(job, place)
