"""Packed rows on their way to the splits in which they are merged: in memory while they are few, else in files."""

from __future__ import annotations

import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

__all__ = ["Shuffle", "SpilledRows"]

_IN_MEMORY = 64 << 20
_SPLITS_IN_FILES = 32


class SpilledRows:
    """Batches of one schema: the first megabytes in memory, the others in a file. To be read again and again.

    Args:
        schema: The schema of the batches.
        in_memory: Bytes that stay in memory.
        folder: Where the file goes. Default: the folder of the system for temporary files.
    """

    def __init__(self, schema: pa.Schema, in_memory: int = _IN_MEMORY, folder: str | None = None) -> None:
        """Make an empty one."""
        self.schema = schema
        self.rows = 0
        self._in_memory = in_memory
        self._folder = folder
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._file: Any = None
        self._writer: Any = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch."""
        self.rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._bytes <= self._in_memory:
            self._batches.append(batch)
            return
        if self._writer is None:
            # Its name is gone at once where the system allows it, so nothing stays behind a process that is killed.
            self._file = tempfile.TemporaryFile(  # noqa: SIM115 - `close` closes it
                prefix="hoodoo-", suffix=".arrow", dir=self._folder
            )
            self._writer = pa.ipc.new_stream(self._file, self.schema)
        self._writer.write_batch(batch)

    def finish(self) -> None:
        """End the rows. Nothing can be added any more."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the batches, in the order in which they were added."""
        yield from self._batches
        if self._file is not None:
            self._file.seek(0)
            yield from pa.ipc.open_stream(self._file)

    def table(self) -> pa.Table:
        """Return the rows; those of the file are mapped, not read, where the system can."""
        if self._file is None:
            return pa.Table.from_batches(self._batches, self.schema)
        self._file.flush()
        mapped = Path(f"/proc/self/fd/{self._file.fileno()}")
        source = pa.memory_map(str(mapped)) if mapped.exists() else self._file
        if source is self._file:
            self._file.seek(0)
        spilled = pa.ipc.open_stream(source).read_all()
        return pa.concat_tables([pa.Table.from_batches(self._batches, self.schema), spilled])

    def close(self) -> None:
        """Remove the file."""
        self.finish()
        self._batches = []
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> SpilledRows:  # noqa: PYI034 - Self is in typing from Python 3.11 on
        """Return the rows, which are closed at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the file."""
        self.close()


class Shuffle:
    """Brings packed rows with equal values in some columns into one split, and sorts each split.

    Args:
        by: The columns that decide the split.
        sort_by: The columns by which a split is sorted.
        splits: The number of splits of rows that stay in memory.
    """

    def __init__(self, by: list[str], sort_by: list[str], splits: int) -> None:
        """Make an empty one."""
        self._by = by
        self._sort_by = sort_by
        self._splits = splits
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        self._files: list[SpilledRows] = []

    def add(self, batch: pa.RecordBatch | None) -> None:
        """Add a batch, if there is one."""
        if batch is None or not batch.num_rows:
            return
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > _IN_MEMORY:
            self._spill()

    def _spill(self) -> None:
        if not self._files:
            schema = self._waiting[0].schema
            self._files = [SpilledRows(schema, in_memory=0) for _ in range(_SPLITS_IN_FILES)]
        for batch in self._waiting:
            for number, rows in self._divided(batch, _SPLITS_IN_FILES):
                self._files[number].add(rows)
        self._waiting, self._bytes = [], 0

    def _divided(self, batch: pa.RecordBatch, splits: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        names = zip(*(batch.column(name).to_pylist() for name in self._by), strict=True)
        numbers = pa.array([zlib.crc32("\0".join(map(str, name)).encode()) % splits for name in names], pa.int32())
        for number in numbers.unique().to_pylist():
            yield number, batch.filter(pc.equal(numbers, number))

    def finish(self) -> list[Callable[[], pa.Table]]:
        """Return a function for each split that is not empty; it loads the rows, sorted."""
        if self._files:
            self._spill()
            for file in self._files:
                file.finish()
            return [self._loader(file.batches) for file in self._files if file.rows]
        parts: dict[int, list[pa.RecordBatch]] = {}
        for batch in self._waiting:
            for number, rows in self._divided(batch, self._splits):
                parts.setdefault(number, []).append(rows)
        return [self._loader(rows.__iter__) for _, rows in sorted(parts.items())]

    def _loader(self, batches: Callable[[], Iterator[pa.RecordBatch]]) -> Callable[[], pa.Table]:
        return lambda: pa.Table.from_batches(list(batches())).sort_by([(name, "ascending") for name in self._sort_by])

    def close(self) -> None:
        """Remove the files."""
        for file in self._files:
            file.close()
        self._files, self._waiting = [], []
