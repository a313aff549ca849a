"""Charts as HTML pages that load nothing: their style, script and data are inside."""

from __future__ import annotations

import html
import json
from importlib import resources
from typing import TYPE_CHECKING, Any

from hoodoo.plot.palette import colour

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hoodoo.plot.intervals import Chart, Interval, Lane

__all__ = ["fragment", "page", "shell"]

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
    title = f"Timeline of {chart.title}" if chart.title else "Timeline"
    return shell(title, f"<h1>{html.escape(title)}</h1>\n{fragment(chart)}", ["base.css", "chart.css"])


def shell(title: str, body: str, styles: Sequence[str]) -> str:
    """Return a page.

    Args:
        title: Its title.
        body: Its body, as HTML.
        styles: Names of its style sheets, which become part of it.

    Returns:
        HTML that loads nothing from elsewhere.
    """
    style = "\n".join(map(_resource, styles))
    return _filled("shell.html", {"TITLE": html.escape(title), "STYLE": style, "BODY": body})


def fragment(chart: Chart) -> str:
    """Return a chart as a part of a page, which needs `base.css` and `chart.css`. A page can have one.

    Args:
        chart: The lanes.

    Returns:
        HTML with the script and the data.
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
    # A string of the table cannot end its element, or start another.
    packed = json.dumps(data, separators=(",", ":")).replace("<", r"\u003c").replace(">", r"\u003e")
    script = "\n\n".join(map(_resource, ("chart.js", "chart_input.js")))
    return _filled("chart.html", {"SCRIPT": script, "DATA": packed})


def _filled(name: str, values: Mapping[str, str]) -> str:
    # The template is split before values are inserted: a value may look like a placeholder.
    head, *chunks = _resource(name).split("{{")
    return head + "".join(values[key] + rest for key, rest in (chunk.split("}}", 1) for chunk in chunks))


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
        # Names on the timeline that are not that of the lane.
        "named": {n: one.instant.action for n, one in enumerate(ones) if one.instant.action != lane.action},
        "requested": [one.instant.requested for one in ones],
        "stats": {n: _stats(one) for n, one in enumerate(ones) if one.stats.operation},
    }


def _stats(one: Interval) -> list[str | int | None]:
    stats = one.stats
    return [stats.operation, stats.files, stats.inserted, stats.updated, stats.deleted, stats.size]
