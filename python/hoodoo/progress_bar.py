"""A bar for calls that take more than a second: by rich in terminals, as HTML in notebooks. It goes away at the end."""

from __future__ import annotations

import html
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from hoodoo.progress import STAGES, in_ipython

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

__all__ = ["Bar"]

# Seconds before a bar appears, and between two updates of one in a notebook.
DELAY = 1.0
_REFRESH = 0.25


def described(what: str, unit: str, done: int) -> str:
    """Return what runs.

    Args:
        what: The call.
        unit: The unit of the newest event.
        done: How much was done.

    Returns:
        The call, with the stage that runs.

    Examples:
        >>> described("upsert", "stages", 4), described("upsert", "rows", 4000)
        ('upsert: files', 'upsert: 4,000 rows')
    """
    if not unit:
        return what
    return f"{what}: {STAGES[min(done, len(STAGES) - 1)] if unit == 'stages' else f'{done:,} {unit}'}"


class _Drawing(Protocol):
    """What draws a bar."""

    def update(self, what: str, done: int, total: int | None) -> None:
        """Draw an event."""

    def close(self) -> None:
        """Take the bar away."""


class Bar:
    """A bar of one call.

    Args:
        what: What runs.
    """

    def __init__(self, what: str) -> None:
        """Make a bar that is not drawn yet."""
        self._what = what
        self._event: tuple[int, int | None, str] = (0, None, "")
        self._lock = threading.Lock()
        self._drawing: _Drawing | None = None
        self._timer = threading.Timer(DELAY, self._appear)
        self._timer.daemon = True

    def start(self) -> None:
        """Begin to wait until the bar is worth drawing."""
        self._timer.start()

    def update(self, done: int, total: int | None, unit: str) -> None:
        """Take an event: a `ProgressCallback`."""
        with self._lock:
            self._event = (done, total, unit)
            if self._drawing is not None:
                self._drawing.update(described(self._what, unit, done), done, total)

    def stop(self) -> None:
        """Take the bar away."""
        self._timer.cancel()
        with self._lock:
            if self._drawing is not None:
                self._drawing.close()
                self._drawing = None
            self._what = ""

    def _appear(self) -> None:
        with self._lock:
            if not self._what:
                return
            shell = in_ipython()
            self._drawing = _Notebook() if getattr(shell, "kernel", None) is not None else _Terminal()
            done, total, unit = self._event
            self._drawing.update(described(self._what, unit, done), done, total)


class _Terminal:
    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - only where something is drawn
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        self._bar: RichProgress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=None)
        # It has run for a while.
        self._bar.tasks[0].start_time = self._bar.get_time() - DELAY
        self._bar.start()

    def update(self, what: str, done: int, total: int | None) -> None:
        self._bar.update(self._task, description=what, completed=done, total=total)

    def close(self) -> None:
        self._bar.stop()


class _Notebook:
    """HTML that is replaced; it needs no widgets. A thread counts the seconds."""

    def __init__(self) -> None:
        from IPython.display import HTML, display  # noqa: PLC0415 - there in a notebook

        self._html: Any = HTML
        self._handle = display(HTML(""), display_id=True)
        self._since = time.monotonic() - DELAY
        self._event: tuple[str, int, int | None] = ("", 0, None)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._count, daemon=True)
        self._thread.start()

    def update(self, what: str, done: int, total: int | None) -> None:
        self._event = (what, done, total)

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        self._handle.update(self._html(""))

    def _count(self) -> None:
        while not self._closed.wait(_REFRESH):
            self._handle.update(self._html(notebook_bar(*self._event, time.monotonic() - self._since)))


def notebook_bar(what: str, done: int, total: int | None, seconds: float) -> str:
    """Return a bar as HTML.

    Args:
        what: What runs.
        done: How much is done.
        total: Of how much; None when it is not known.
        seconds: For how long it has run.

    Returns:
        HTML without scripts.

    Examples:
        >>> notebook_bar("upsert", 1, 4, 2.4)
        '<div class="hoodoo">upsert <progress value="1" max="4"></progress> 1 of 4, 2 s</div>'
    """
    value = "" if total is None else f' value="{done}" max="{total}"'
    count = "" if total is None else f"{done:,} of {total:,}, "
    return f'<div class="hoodoo">{html.escape(what)} <progress{value}></progress> {count}{seconds:.0f} s</div>'
