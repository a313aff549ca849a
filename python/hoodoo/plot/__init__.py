"""Timelines as pictures: actions as intervals from requested to completion time, one lane for each kind of action.

`intervals` computes the layout, `page` and `picture` draw it. Nothing here is imported before something is drawn;
`picture` needs the extra `hoodoo[plot]`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hoodoo.exceptions import InvalidOptionError

if TYPE_CHECKING:
    from hoodoo.plot.intervals import Chart

__all__ = ["draw"]


def draw(chart: Chart, path: str | Path) -> Path:
    """Draw a chart into a file.

    Args:
        chart: The layout, from `hoodoo.plot.intervals.chart`.
        path: The file. It ends in `.html` or `.png`.

    Returns:
        The path.

    Raises:
        InvalidOptionError: The path ends in something else.
        MissingDependencyError: The path ends in `.png`, and matplotlib is not installed.
    """
    file = Path(path)
    kind = file.suffix.lower()
    if kind in {".html", ".htm"}:
        from hoodoo.plot.page import page  # noqa: PLC0415 - only for HTML

        file.write_text(page(chart), encoding="utf-8")
    elif kind == ".png":
        from hoodoo.plot.picture import picture  # noqa: PLC0415 - only for PNG

        picture(chart, str(file))
    else:
        message = f"invalid file name {str(path)!r}: expected a name that ends in .html or .png"
        raise InvalidOptionError(message)
    return file
