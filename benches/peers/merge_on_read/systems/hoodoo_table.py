"""hoodoo from Python, on tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from benches.peers.merge_on_read.job import COLUMNS

from .system import System

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benches.peers.merge_on_read.job import Job


class HoodooTable(System):
    """`hoodoo.write` from a Parquet file, `Table.to_arrow` and `Table.compact`; opening the table counts."""

    packages = ("hoodoo",)

    def versions(self) -> dict[str, str]:
        """Gives hoodoo's: it may run from a work tree, where no package tells it."""
        import hoodoo  # noqa: PLC0415

        return {"hoodoo": hoodoo.__version__}

    def prepare(self, job: Job, place: Path) -> Callable[[], Any]:
        """Gives the call."""
        import hoodoo  # noqa: PLC0415

        options = {**job.options, "hoodoo.threads": str(job.cores)}
        if job.task == "read":
            return lambda: hoodoo.Table(place, options=options).to_arrow()
        if job.task == "compact":
            return lambda: hoodoo.Table(place, options=options).compact()

        def append() -> hoodoo.Commit:
            with pq.ParquetFile(job.newer[0]) as changes:
                reader = pa.RecordBatchReader.from_batches(changes.schema_arrow, changes.iter_batches())
                return hoodoo.write(reader, place, operation="upsert", options=options)

        return append

    def save(self, job: Job, place: Path, result: Any) -> None:
        """Scans what was written; after a compaction base files alone must have all rows."""
        import hoodoo  # noqa: PLC0415

        if job.task != "read":
            query = "read_optimized" if job.task == "compact" else "snapshot"
            result = hoodoo.Table(place, options=job.options).to_arrow(columns=list(COLUMNS), query=query)
        super().save(job, place, result)
