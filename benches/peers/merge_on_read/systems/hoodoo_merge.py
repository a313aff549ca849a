"""`hoodoo.merge` on rows in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from benches.peers.merge_on_read.job import KEY, ORDERING
from benches.peers.merge_on_read.tables import merger

from .system import System

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    from benches.peers.merge_on_read.job import Job


def inputs(job: Job) -> tuple[pa.Table, pa.Table]:
    """Reads older and newer rows into memory, sorted by key where the job says so."""
    tables = (pq.read_table(job.older), pq.read_table(job.newer[0]))
    if job.more.get("sorted"):
        older, newer = (table.sort_by(KEY) for table in tables)
        return older, newer
    return tables


class HoodooMerge(System):
    """From Arrow tables into an Arrow table, by the rule that the job names."""

    packages = ("hoodoo",)

    def versions(self) -> dict[str, str]:
        """Gives hoodoo's: it may run from a work tree, where no package tells it."""
        import hoodoo  # noqa: PLC0415

        return {"hoodoo": hoodoo.__version__}

    def start(self, job: Job) -> None:
        """Reads the rows."""
        self._older, self._newer = inputs(job)

    def prepare(self, job: Job, place: Path) -> Callable[[], Any]:
        """Gives the call."""
        del place
        import hoodoo  # noqa: PLC0415

        rule = job.more.get("rule")
        given: dict[str, Any] = {"sorted": bool(job.more.get("sorted"))}
        if rule == "IGNORE_DEFAULTS":
            given["partial_update_mode"] = rule
        elif rule is not None:
            given["merger"] = merger(rule)
        return lambda: hoodoo.merge(self._older, self._newer, key=KEY, ordering=[ORDERING], **given).read_all()
