"""Readers that begin with their first batch, and that other libraries may still read from when Python ends.

pyarrow reads ahead in threads of its own. A thread that calls into Python while Python shuts down aborts the process,
so readers end before.
"""

from __future__ import annotations

import atexit
import time
import weakref
from typing import TYPE_CHECKING

import pyarrow as pa

from hoodoo.exceptions import HudiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["lazy_reader"]

_LONGEST_BATCH = 10.0
"""Seconds that Python's end waits for a batch that is being read."""
_LOOKS = 100
"""How often Python's end looks for a thread that reads ahead. By count: on a busy machine, looks take longer too."""


def lazy_reader(schema: pa.Schema, batches: Callable[[], Iterator[pa.RecordBatch]]) -> pa.RecordBatchReader:
    """Return a reader over batches.

    Args:
        schema: The columns.
        batches: Called when the first batch is asked for.

    Returns:
        The reader.

    Examples:
        >>> rows = pa.table({"id": [1, 2]})
        >>> lazy_reader(rows.schema, lambda: iter(rows.to_batches())).read_all().num_rows
        2
    """
    return pa.RecordBatchReader.from_batches(schema, _Batches(batches))


class _Batches:
    def __init__(self, batches: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self._begin = batches
        self._batches: Iterator[pa.RecordBatch] | None = None
        self.is_reading = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if _Ending.has_begun:
            _OPEN.discard(self)
            raise HudiError("Python ends: the rows are not read any further")
        if self._batches is None:
            self._batches = self._begin()
            _OPEN.add(self)
        self.is_reading = True
        try:
            return next(self._batches)
        except BaseException:
            _OPEN.discard(self)
            raise
        finally:
            self.is_reading = False


_OPEN: weakref.WeakSet[_Batches] = weakref.WeakSet()


class _Ending:
    has_begun = False


@atexit.register
def _end() -> None:
    _Ending.has_begun = True
    latest = time.monotonic() + _LONGEST_BATCH
    looks = 0
    # A thread that reads ahead asks for its next batch soon, and finds the end, if nothing holds it back.
    while _OPEN and looks < _LOOKS and time.monotonic() < latest:
        looks = 0 if any(batches.is_reading for batches in list(_OPEN)) else looks + 1
        time.sleep(0.005)
