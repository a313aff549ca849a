"""A chart as a PNG, by matplotlib: the extra `hoodoo[plot]`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from hoodoo.extras import import_extra
from hoodoo.plot.palette import colour

if TYPE_CHECKING:
    from hoodoo.plot.intervals import Chart, Interval, Lane

__all__ = ["picture"]

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # times have the table's own zone
_WIDTH, _DPI = 14.0, 150
# Inches: the height of a lane with one row, of each further row, and the maximum height of a lane.
_LANE, _ROW, _TALLEST = 0.42, 0.16, 1.8
# The minimum share of the width that an interval is drawn with: about two pixels.
_MIN_SHARE = 0.0012


def picture(chart: Chart, path: str) -> None:
    """Draw a chart into a PNG file.

    Args:
        chart: The lanes.
        path: The file; an existing file is replaced.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    import_extra("matplotlib", "plot", "a PNG")
    from matplotlib import dates  # noqa: PLC0415 - an extra
    from matplotlib.figure import Figure  # noqa: PLC0415

    heights = [min(_LANE + _ROW * (lane.rows - 1), _TALLEST) for lane in chart.lanes] or [_LANE]
    figure = Figure(figsize=(_WIDTH, sum(heights) + 1.3), dpi=_DPI, layout="constrained")
    axes = figure.add_subplot()
    first, last = (_days(time) for time in chart.span)
    padding = max((last - first) * 0.02, 1e-8)
    axes.set_xlim(first - padding, last + padding)
    y, middles = 0.0, []
    for number, (lane, height) in enumerate(zip(chart.lanes, heights, strict=False)):
        if number % 2 == 0:
            axes.axhspan(y, y + height, color="#f6f7f9", zorder=0)
        _draw_lane(axes, lane, _days(chart.now), y, height)
        middles.append(y + height / 2)
        y += height
    axes.set_ylim(max(y, _LANE), 0)
    axes.set_yticks(middles, [f"{lane.action} ({len(lane.intervals):,})" for lane in chart.lanes])
    locator = dates.AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    axes.grid(axis="x", color="#e3e6ea", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    if first - padding < _days(chart.now) < last + padding:
        axes.axvline(_days(chart.now), color="#d03b3b", linewidth=1, linestyle=(0, (4, 4)))
    axes.set_title(_title(chart), loc="left", fontsize=11, parse_math=False)
    figure.savefig(path, format="png")


def _title(chart: Chart) -> str:
    name = f"Timeline of {chart.title}" if chart.title else "Timeline"
    zone = "UTC" if chart.zone == "UTC" else "local time of the writers"
    return f"{name}: {chart.count:,} actions, {chart.pending:,} pending (hatched: running, empty: waiting), {zone}"


def _days(time: int) -> float:
    """Return a time in days since 1970, as matplotlib counts."""
    return (_EPOCH + timedelta(milliseconds=time) - _EPOCH) / timedelta(days=1)


def _draw_lane(axes: Any, lane: Lane, now: float, y: float, height: float) -> None:
    left, right = axes.get_xlim()
    min_width = (right - left) * _MIN_SHARE
    step = (height - 0.12) / lane.rows
    # One collection for each row and state: thousands of single patches take minutes.
    groups: dict[tuple[int, str], list[Interval]] = {}
    for one in lane.intervals:
        state = "COMPLETED" if one.end is not None else one.instant.state
        groups.setdefault((one.row, state), []).append(one)
    for (row, state), ones in groups.items():
        bars = []
        for one in ones:
            begin = _days(one.begin)
            # An interval without an end goes on to the present, or out of the picture.
            end = max(now, begin) if one.end is None else _days(one.end)
            bars.append((begin, max(min(end, right) - begin, min_width)))
        tint = colour(lane.action)
        style: dict[str, Any] = {"facecolor": tint, "linewidth": 0}
        if state != "COMPLETED":
            # Running: hatched. Waiting: empty.
            style = {"facecolor": "none", "edgecolor": tint, "linewidth": 0.8}
            style |= {"hatch": "////"} if state == "INFLIGHT" else {"linestyle": (0, (3, 3))}
        axes.broken_barh(bars, (y + 0.06 + row * step, step * 0.86), zorder=2, **style)
