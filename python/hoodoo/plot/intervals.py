"""Actions as intervals in lanes: one lane an action, and rows in it where intervals overlap."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from hoodoo.figures import Figures
from hoodoo.instant_time import parse_instant
from hoodoo.plot.palette import order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hoodoo.timeline import Instant

__all__ = ["Chart", "Interval", "Lane", "chart"]

# Times have the table's own zone. There were no tables before the first, and will be none after the second.
_EPOCH, _DOOMSDAY = datetime(1970, 1, 1), datetime(2300, 1, 1)  # noqa: DTZ001


@dataclass(frozen=True)
class Interval:
    """An action from its request to its completion.

    Attributes:
        instant: The action.
        begin: Milliseconds since 1970 in the table's zone.
        end: The same; None while it is pending.
        row: In which row of its lane it is.
        figures: What it did, where that was read.
    """

    instant: Instant
    begin: int
    end: int | None
    row: int
    figures: Figures = field(default_factory=Figures)


@dataclass(frozen=True)
class Lane:
    """All intervals of one action.

    Attributes:
        action: Its name.
        rows: How many of them overlap at most.
        intervals: By requested time.
    """

    action: str
    rows: int
    intervals: tuple[Interval, ...]


@dataclass(frozen=True)
class Chart:
    """What is drawn.

    Attributes:
        title: Name of the table.
        zone: Zone of all times: `UTC` or `LOCAL`.
        now: When it was drawn, in milliseconds since 1970 in that zone; pending intervals are open there.
        lanes: Writes first.
        left_out: Actions whose names are no times.
    """

    title: str
    zone: str
    now: int
    lanes: tuple[Lane, ...]
    left_out: int

    @property
    def span(self) -> tuple[int, int]:
        """The times from the first request to the last known end, and on to the present if that is near."""
        known = [one.begin for lane in self.lanes for one in lane.intervals]
        if not known:
            return self.now - 3_600_000, self.now
        known += [one.end for lane in self.lanes for one in lane.intervals if one.end is not None]
        first, last = min(known), max(known)
        # An old table with a pending action is not to be a speck at the left edge.
        near = last < self.now <= last + (last - first) // 4
        return first, max(self.now if near else last, first + 1)

    @property
    def count(self) -> int:
        """How many intervals there are."""
        return sum(len(lane.intervals) for lane in self.lanes)

    @property
    def pending(self) -> int:
        """How many of them are open."""
        return sum(one.end is None for lane in self.lanes for one in lane.intervals)


def millis(time: datetime) -> int:
    """Gives milliseconds since 1970 of a time without a zone.

    Args:
        time: The time.

    Returns:
        Whole milliseconds.
    """
    return (time - _EPOCH) // timedelta(milliseconds=1)


def chart(
    instants: Sequence[Instant],
    now: datetime,
    *,
    title: str = "",
    zone: str = "UTC",
    figures: Mapping[Instant, Figures] | None = None,
) -> Chart:
    """Puts actions into lanes.

    Args:
        instants: The actions.
        now: The present in the table's zone.
        title: Name of the table.
        zone: Its zone.
        figures: What some of the actions did.

    Returns:
        The chart. Intervals of a row do not overlap, and no lane has more rows than it needs.

    Examples:
        >>> from hoodoo import Instant
        >>> times = [("20260101000000000", "20260101000010000"), ("20260101000005000", "20260101000006000")]
        >>> drawn = chart([Instant(a, b, "commit", "COMPLETED") for a, b in times], datetime(2026, 1, 2))
        >>> [(lane.action, lane.rows) for lane in drawn.lanes]
        [('commit', 2)]
    """
    lanes: dict[str, list[tuple[int, int | None, Instant]]] = {}
    left_out = 0
    for one in instants:
        begin = _millis_of(one.requested)
        end = _millis_of(one.completed) if one.completed else None
        if begin is None or (one.completed and end is None):
            left_out += 1
            continue
        # Clocks of two machines may give an end before the beginning.
        closed = None if end is None else max(end, begin)
        lanes.setdefault(one.action, []).append((begin, closed, one))
    known = figures or {}
    drawn = [_lane(action, lanes[action], known) for action in sorted(lanes, key=order)]
    return Chart(title=title, zone=zone, now=millis(now), lanes=tuple(drawn), left_out=left_out)


def _millis_of(name: str) -> int | None:
    time = parse_instant(name)
    # What else looks like a time is none, and would make a speck of all others.
    return None if time is None or not _EPOCH <= time < _DOOMSDAY else millis(time)


def _lane(action: str, found: list[tuple[int, int | None, Instant]], figures: Mapping[Instant, Figures]) -> Lane:
    found.sort(key=lambda one: (one[0], one[2].requested))
    busy: list[tuple[int, int]] = []  # (end, row) of the rows that are taken
    free: list[int] = []
    rows, intervals = 0, []
    for begin, end, instant in found:
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            row = heapq.heappop(free)
        else:
            row, rows = rows, rows + 1
        # What is pending keeps its row for good; what took no time keeps it for a moment, so that twins are both seen.
        taken_until = 1 << 62 if end is None else max(end, begin + 1)
        heapq.heappush(busy, (taken_until, row))
        intervals.append(Interval(instant, begin, end, row, figures.get(instant, Figures())))
    return Lane(action, rows, tuple(intervals))
