"""The `hudi` package (hudi-rs), as a user gets it from PyPI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .system import System

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benches.peers.merge_on_read.job import Job


class HudiRs(System):
    """A snapshot as Arrow batches; opening the table counts."""

    packages = ("hudi", "pyarrow")

    def prepare(self, job: Job, place: Path) -> Callable[[], Any]:
        """Gives the call."""
        del job
        import hudi  # type: ignore[import-not-found]  # noqa: PLC0415  # from an environment of its own

        def read() -> Any:
            table = hudi.HudiTableBuilder.from_base_uri(str(place)).build()
            # What 0.5 calls `read` was `read_snapshot` before.
            return table.read() if hasattr(table, "read") else table.read_snapshot()

        return read

    def save(self, job: Job, place: Path, result: Any) -> None:
        """Makes a table of the batches."""
        import pyarrow as pa  # noqa: PLC0415

        super().save(job, place, pa.Table.from_batches([pa.record_batch(batch) for batch in result]))
