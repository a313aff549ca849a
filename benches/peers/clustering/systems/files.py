"""Files that a system reads, and those that it wrote."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from benches.peers.merge_on_read.tables import files, listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benches.peers.merge_on_read.job import Job


def inputs(job: Job, place: Path) -> list[Path]:
    """Lists the base files of a copy of the job's table; one that Hudi made has no others."""
    if not listed(Path(job.table)):
        return sorted(place.glob("*.parquet"))
    return [place / base.relative_to(job.table) for base, _ in files(Path(job.table))]


def keep(job: Job, written: Iterable[Path]) -> None:
    """Puts Parquet files where the judge looks for them; the table that they are in may go.

    Args:
        job: What was done.
        written: All that have rows of the result.
    """
    result = Path(job.result)
    result.mkdir()
    for number, file in enumerate(written):
        os.link(file, result / f"{number:05}.parquet")
