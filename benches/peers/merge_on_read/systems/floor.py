"""The floor: pyarrow reads the files of the table and, for a compaction, writes as many rows again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from benches.peers.codec import codec, level
from benches.peers.merge_on_read.tables import files

from .system import System

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from benches.peers.merge_on_read.job import Job

_BATCH_ROWS = 1 << 16
_READ_BYTES = 1 << 20


class Floor(System):
    """Base files decoded, log files read as bytes; nothing is merged, so nothing that reads them all is faster."""

    packages = ("pyarrow",)
    decodes = False

    def start(self, job: Job) -> None:
        """Holds pyarrow to the cores."""
        pa.set_cpu_count(job.cores)
        pa.set_io_thread_count(job.cores)

    def prepare(self, job: Job, place: Path) -> Callable[[], Any]:
        """Gives the call."""
        # The list belongs to the table, of which this may be a copy.
        slices = [
            (place / base.relative_to(job.table), [place / log.relative_to(job.table) for log in logs])
            for base, logs in files(Path(job.table))
        ]
        logs = [log for _, of_slice in slices for log in of_slice]
        bases = [base for base, _ in slices]
        if job.task == "read":
            return lambda: self._read(job, bases, logs)
        return lambda: self._rewrite(job, bases, logs)

    def _read(self, job: Job, bases: list[Path], logs: list[Path]) -> pa.Table:
        read_bytes(logs)
        if self.decodes:
            _drain(job.newer)
        return pq.read_table([str(base) for base in bases], partitioning=None)

    def _rewrite(self, job: Job, bases: list[Path], logs: list[Path]) -> Path:
        out = Path(job.scratch) / "floor"
        out.mkdir(exist_ok=True)
        with ThreadPoolExecutor(job.cores) as threads:
            begun: list[Future[Any]] = [threads.submit(read_bytes, logs)]
            if self.decodes:
                begun += [threads.submit(_drain, [file]) for file in job.newer]
            begun += [threads.submit(rewrite, base, out / f"{n}.parquet") for n, base in enumerate(bases)]
            for work in begun:
                work.result()
        return out

    def save(self, job: Job, place: Path, result: Any) -> None:
        """Keeps the rows from before: only their number can be compared."""
        if isinstance(result, Path):
            result = pq.read_table(sorted(result.glob("*.parquet")), partitioning=None)
        super().save(job, place, result)


class FloorDecoded(Floor):
    """Decodes the rows of the logs too, from Parquet files with the same rows."""

    decodes = True


def read_bytes(paths: Iterable[Path]) -> int:
    """Reads files to their end."""
    total = 0
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while block := file.read(_READ_BYTES):
                total += len(block)
    return total


def rewrite(source: Path, target: Path) -> None:
    """Copies a Parquet file batch by batch, with the codec and level that the others write with; in one thread."""
    with pq.ParquetFile(source) as rows:
        schema = rows.schema_arrow.remove_metadata()
        with pq.ParquetWriter(target, schema, compression=codec(), compression_level=level()) as writer:
            for batch in rows.iter_batches(_BATCH_ROWS, use_threads=False):
                writer.write_batch(batch.replace_schema_metadata(None))


def _drain(paths: Iterable[str]) -> None:
    for path in paths:
        with pq.ParquetFile(path) as rows:
            for _ in rows.iter_batches(_BATCH_ROWS, use_threads=False):
                pass
