"""DuckDB and polars sort the rows of the files, Hudi's columns with them, into one file. They commit nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from benches.peers.clustering.options import sort_columns
from benches.peers.codec import codec, level
from benches.peers.duck import connect
from benches.peers.merge_on_read.systems import System

from .files import inputs, keep

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benches.peers.merge_on_read.job import Job


_LEVEL = ", COMPRESSION_LEVEL 1"


class _OneFile(System):
    def save(self, job: Job, place: Path, result: Any) -> None:
        """Keeps the file."""
        del place
        keep(job, [result])


class DuckDb(_OneFile):
    """By `COPY … ORDER BY`; a new database each time, so that none holds the memory of the last."""

    packages = ("duckdb",)

    def prepare(self, job: Job, place: Path) -> Callable[[], Any]:
        """Gives the call."""
        sources, target = [str(file) for file in inputs(job, place)], place / "duckdb.parquet"
        query = (
            f"COPY (SELECT * FROM read_parquet({sources!r}, hive_partitioning = false) "  # noqa: S608
            f"ORDER BY {', '.join(sort_columns(job.more))}) "
            f"TO '{target}' (FORMAT parquet, COMPRESSION {codec()}{_LEVEL if level() else ''})"
        )

        def sort() -> Path:
            db = connect(job.cores)
            db.execute(f"SET temp_directory = '{place}/spilled'")
            db.execute(query)
            db.close()
            return target

        return sort


class Polars(_OneFile):
    """By a lazy sort and a streamed sink."""

    packages = ("polars",)

    def missing(self, job: Job) -> str | None:
        """Imports it; it counts its threads when it is first used."""
        os.environ["POLARS_MAX_THREADS"] = str(job.cores)
        return super().missing(job)

    def prepare(self, job: Job, place: Path) -> Callable[[], Any]:
        """Gives the call."""
        import polars as pl  # noqa: PLC0415

        target = place / "polars.parquet"
        compression: Any = codec()
        rows = pl.scan_parquet(inputs(job, place), hive_partitioning=False).sort(sort_columns(job.more))

        def sort() -> Path:
            rows.sink_parquet(target, compression=compression, compression_level=level())
            return target

        return sort
