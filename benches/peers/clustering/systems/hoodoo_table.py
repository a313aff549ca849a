"""hoodoo from Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from benches.peers.clustering.options import DEFAULTS, clustering_options, filters_of, job_options, sort_columns
from benches.peers.merge_on_read.systems import System

from .files import inputs, keep

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.peers.merge_on_read.job import Job


class _Hoodoo(System):
    packages = ("hoodoo",)

    def versions(self) -> dict[str, str]:
        """Gives hoodoo's: it may run from a work tree, where no package tells it."""
        import hoodoo  # noqa: PLC0415

        return {"hoodoo": hoodoo.__version__}


def options(job: Job, place: Path) -> dict[str, str]:
    """Gives the options of a clustering by hoodoo."""
    total = sum(file.stat().st_size for file in inputs(job, place))
    own = {key: value for key, value in job.more.items() if key.startswith("hoodoo.")}
    clustering = clustering_options(total, int(job.more["outputs"]))
    table = job_options(job)
    if DEFAULTS in job.more:
        # It keeps no metadata table, and drops the one that is there.
        table["hoodie.metadata.enable"] = "false"
    return {**table, **clustering, "hoodoo.threads": str(job.cores), **own}


def keep_slices(job: Job, place: Path) -> None:
    """Keeps the files that a table has now."""
    import hoodoo  # noqa: PLC0415

    pieces = hoodoo.Table(place, options=job_options(job)).file_slices()
    keep(job, [place / piece.base_file for piece in pieces if piece.base_file])


class HoodooTable(_Hoodoo):
    """`Table.cluster`; opening the table and planning count."""

    def prepare(self, job: Job, place: Path) -> Callable[[], Any]:
        """Gives the call."""
        import hoodoo  # noqa: PLC0415

        given, columns = options(job, place), sort_columns(job.more)

        def cluster() -> None:
            table = hoodoo.Table(place, options=given)
            done = table.cluster(sort_by=columns) if columns else table.cluster()
            if done is None:
                raise RuntimeError("there was nothing to cluster")

        return cluster

    def save(self, job: Job, place: Path, result: Any) -> None:
        """Keeps the files of the table."""
        del result
        keep_slices(job, place)


class HoodooQuery(_Hoodoo):
    """`Table.to_arrow` with filters; opening the table counts."""

    def prepare(self, job: Job, place: Path) -> Callable[[], Any]:
        """Gives the call."""
        import hoodoo  # noqa: PLC0415

        given = {**job_options(job), "hoodoo.threads": str(job.cores)}
        return lambda: hoodoo.Table(place, options=given).to_arrow(filters=filters_of(job.more))

    def save(self, job: Job, place: Path, result: Any) -> None:
        """Writes the rows that came out."""
        del place
        Path(job.result).mkdir()
        pq.write_table(result, f"{job.result}/0.parquet")
