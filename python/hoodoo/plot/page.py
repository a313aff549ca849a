"""A chart as one HTML page that fetches nothing: its style, its script and its data are inside."""

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
    """Draws a chart as a page.

    Args:
        chart: The lanes.

    Returns:
        HTML. The chart can be zoomed and moved there, and its intervals tell their details.

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
    parts = {
        "TITLE": html.escape(f"Timeline of {chart.title}" if chart.title else "Timeline"),
        "STYLE": _resource("page.css"),
        "SCRIPT": _resource("page.js"),
        # No text of a table can end the element that it is in, or begin another.
        "DATA": json.dumps(data, separators=(",", ":")).replace("<", r"\u003c").replace(">", r"\u003e"),
    }
    # Cut before anything is put in: what is put in may look like a place.
    pieces = _resource("page.html").split("{{")
    return pieces[0] + "".join(parts[name] + rest for name, rest in (piece.split("}}", 1) for piece in pieces[1:]))


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
        "figures": {n: _figures(one) for n, one in enumerate(ones) if one.figures.operation},
    }


def _figures(one: Interval) -> list[str | int | None]:
    did = one.figures
    return [did.operation, did.files, did.inserted, did.updated, did.deleted, did.size]
