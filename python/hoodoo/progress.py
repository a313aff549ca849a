"""Progress of calls: one callback, or a bar in terminals and notebooks.

The core tells two things while it writes: it reads the rows one batch after another, and it logs each stage of a write
when it is over (see `Commit.timings`). Both are counted here. Other calls say nothing of how far they are; of them only
the elapsed time is shown.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from hoodoo.warning import warn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from hoodoo.progress_bar import Bar

__all__ = ["STAGES", "Progress", "ProgressCallback", "Watch"]

ProgressCallback: TypeAlias = Callable[[int, int | None, str], object]
"""A function of `(done, total, unit)`. The unit is `rows` while a write reads its rows, and `stages` when a stage of it
is over; `STAGES[done]` is the stage that runs then. The total is None where it is not known. A write that another
writer got in the way of repeats stages, so that `done` can become smaller."""

Progress: TypeAlias = ProgressCallback | bool | None
"""A callback; True: a bar for calls of more than a second, where a person can see it, in a terminal or a notebook;
False: nothing; None: a bar in notebooks and IPython, and else nothing."""

STAGES = ("lease", "rows", "locate", "begin", "files", "publish", "services")
"""The stages of a write, in their order; see `Commit.timings`."""

_STAGE = re.compile(r"stage \[name=(\w+)\] took ")
_LOGGER = logging.getLogger("hoodoo")


def in_ipython() -> Any:
    """Return the shell of IPython, in a notebook or a terminal; None if there is none."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


class Watch:
    """The progress of one call, as a context.

    Args:
        progress: See `Progress`.
        what: What runs, such as `upsert`.
        stages: Whether it is a write, which has stages. They are only told on the main thread.

    Examples:
        >>> with Watch(print, "upsert") as watch:
        ...     table = watch.rows(pa.table({"id": [1, 2]}).to_reader(), 2).read_all()
        2 2 rows
    """

    def __init__(self, progress: Progress, what: str, *, stages: bool = False) -> None:
        """Make a watch; it costs nothing when nobody wants to see anything."""
        self._callback: ProgressCallback | None = None
        self._bar: Bar | None = None
        self._stages = stages
        if callable(progress):
            self._callback = progress
        elif _wants_bar(progress):
            from hoodoo.progress_bar import Bar  # noqa: PLC0415 - only where something is drawn

            self._bar = Bar(what)
            self._callback = self._bar.update

    def __enter__(self) -> Watch:  # noqa: PYI034 - Self needs Python 3.11
        """Begin."""
        if self._bar is not None:
            self._bar.start()
        if self._callback is not None and self._stages and threading.current_thread() is threading.main_thread():
            _STAGE_EVENTS.add(self)
        else:
            self._stages = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, whether or not the call failed."""
        if self._stages:
            _STAGE_EVENTS.remove(self)
        if self._bar is not None:
            self._bar.stop()

    def report(self, done: int, total: int | None, unit: str) -> None:
        """Pass an event on. An error of the callback does not end the call; the callback is not called again.

        Args:
            done: How much is done.
            total: Of how much; None when it is not known.
            unit: Of what.
        """
        if self._callback is None:
            return
        try:
            self._callback(done, total, unit)
        except Exception as error:  # noqa: BLE001 - of any kind: it is the user's code
            self._callback = None
            warn(f"the progress callback raised {type(error).__name__}: {error}; it is not called again")

    def rows(self, reader: pa.RecordBatchReader, total: int | None) -> pa.RecordBatchReader:
        """Return rows so that they are counted when they are read.

        Args:
            reader: The rows.
            total: How many there are; None when it is not known.

        Returns:
            The same rows.
        """
        if self._callback is None:
            return reader
        return pa.RecordBatchReader.from_batches(reader.schema, self._counted(reader, total))

    def _counted(self, reader: pa.RecordBatchReader, total: int | None) -> Iterator[pa.RecordBatch]:
        done = 0
        for batch in reader:
            yield batch
            done += batch.num_rows
            self.report(done, total, "rows")


def number_of_rows(data: object) -> int | None:
    """Return how many rows data have, where they can tell.

    Args:
        data: What a write gets.

    Returns:
        The number; None of a stream.

    Examples:
        >>> number_of_rows(pa.table({"a": [1, 2]})), number_of_rows([{"a": 1}]), number_of_rows(iter([]))
        (2, 1, None)
    """
    for name in ("num_rows", "height"):
        if isinstance(found := getattr(data, name, None), int):
            return found
    if type(data).__module__.split(".", 1)[0] == "pandas":
        return len(data)  # type: ignore[arg-type]
    if not isinstance(data, list | tuple):
        return None
    counts = [1 if isinstance(item, Mapping) else getattr(item, "num_rows", None) for item in data]
    known = [count for count in counts if isinstance(count, int)]
    return sum(known) if len(known) == len(counts) else None


def _wants_bar(progress: object) -> bool:
    shell = in_ipython()
    if progress is False or (progress is None and shell is None):
        return False
    return getattr(shell, "kernel", None) is not None or sys.stderr.isatty()


class _StageEvents(logging.Filter):
    """Reads the ends of stages from what the core logs, and keeps from other handlers what they would not get."""

    def __init__(self) -> None:
        super().__init__()
        self._watches: list[Watch] = []
        self._level = logging.NOTSET
        self._done = 0

    def add(self, watch: Watch) -> None:
        """Begin to tell a watch."""
        if not self._watches:
            self._level = _LOGGER.level
            _LOGGER.addFilter(self)
            _LOGGER.setLevel(logging.DEBUG)
        self._watches.append(watch)
        self._done = 0
        watch.report(0, len(STAGES), "stages")

    def remove(self, watch: Watch) -> None:
        """End it."""
        self._watches.remove(watch)
        if not self._watches:
            _LOGGER.setLevel(self._level)
            _LOGGER.removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is important enough without us."""
        stage = _STAGE.match(record.getMessage())
        if stage and stage[1] in STAGES and self._watches:
            done = STAGES.index(stage[1]) + 1
            # A stage may consist of several steps.
            if done != self._done:
                self._done = done
                # The innermost call runs; the others wait for it.
                self._watches[-1].report(done, len(STAGES), "stages")
        wanted = self._level or (_LOGGER.parent or _LOGGER).getEffectiveLevel()
        return record.levelno >= wanted


_STAGE_EVENTS = _StageEvents()
