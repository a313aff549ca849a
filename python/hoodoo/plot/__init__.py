"""Timelines as pictures: actions as intervals from their request to their completion, one lane an action.

`intervals` lays them out, `page` and `picture` draw them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hoodoo.exceptions import InvalidOptionError
from hoodoo.plot.page import page
from hoodoo.plot.picture import picture

if TYPE_CHECKING:
    from hoodoo.plot.intervals import Chart

__all__ = ["draw"]


def draw(chart: Chart, path: str | Path) -> Path:
    """Draws a chart into a file.

    Args:
        chart: What `hoodoo.plot.intervals.chart` laid out.
        path: The file; its ending says what it becomes: `.html` or `.png`.

    Returns:
        The path.

    Raises:
        InvalidOptionError: Another ending.
        UnsupportedError: A PNG without matplotlib.
    """
    file = Path(path)
    kind = file.suffix.lower()
    if kind in {".html", ".htm"}:
        file.write_text(page(chart), encoding="utf-8")
    elif kind == ".png":
        picture(chart, str(file))
    else:
        message = f"{str(path)!r} is neither .html nor .png"
        raise InvalidOptionError(message)
    return file
