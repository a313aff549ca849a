"""A chart as one HTML page that loads nothing: its style, script and data are inside."""

from __future__ import annotations

import html
import json
from importlib import resources
from typing import TYPE_CHECKING, Any

from hoodoo.plot.palette import colour

if TYPE_CHECKING:
    from hoodoo.plot.intervals import Chart, Interval, Lane

__all__ = ["page"]

_STATES = {"REQUESTED": 0, "INFLIGHT": 1, "COMPLETED": 2}


def page(chart: Chart) -> str:
    """Return a chart as a page.

    Args:
        chart: The lanes.

    Returns:
        HTML. The page can zoom and pan, and shows the details of an interval.

    Examples:
        >>> from datetime import datetime
        >>> from hoodoo.plot.intervals import chart
        >>> page(chart([], datetime(2026, 1, 1), title="a </script>")).count("</script>")
        2
    """
    first, last = chart.span
    data: dict[str, Any] = {
        "title": chart.title,
        "zone": chart.zone,
        "now": chart.now,
        "span": [first, last],
        "left_out": chart.left_out,
        "lanes": [_lane(lane) for lane in chart.lanes],
    }
    values = {
        "TITLE": html.escape(f"Timeline of {chart.title}" if chart.title else "Timeline"),
        "STYLE": _resource("page.css"),
        "SCRIPT": _resource("page.js"),
        # A string of the table cannot end its element, or start another.
        "DATA": json.dumps(data, separators=(",", ":")).replace("<", r"\u003c").replace(">", r"\u003e"),
    }
    # The template is split before values are inserted: a value may look like a placeholder.
    head, *chunks = _resource("page.html").split("{{")
    return head + "".join(values[name] + rest for name, rest in (chunk.split("}}", 1) for chunk in chunks))


def _resource(name: str) -> str:
    return resources.files("hoodoo.plot").joinpath(name).read_text(encoding="utf-8").rstrip("\n")


def _lane(lane: Lane) -> dict[str, Any]:
    ones = lane.intervals
    return {
        "action": lane.action,
        "colour": colour(lane.action),
        "rows": lane.rows,
        "begin": [one.begin for one in ones],
        "end": [one.end for one in ones],
        "row": [one.row for one in ones],
        "state": [_STATES.get(one.instant.state, 0) for one in ones],
        "requested": [one.instant.requested for one in ones],
        "stats": {n: _stats(one) for n, one in enumerate(ones) if one.stats.operation},
    }


def _stats(one: Interval) -> list[str | int | None]:
    stats = one.stats
    return [stats.operation, stats.files, stats.inserted, stats.updated, stats.deleted, stats.size]
