"""Actions as intervals in lanes: one lane an action, and rows in it where intervals overlap."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from hoodoo.commit_stats import CommitStats
from hoodoo.instant_time import parse_instant
from hoodoo.plot.palette import order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hoodoo.timeline import Instant

__all__ = ["Chart", "Interval", "Lane", "chart"]

# In the time zone of the table. Instants outside of this range are not times.
_EPOCH, _DOOMSDAY = datetime(1970, 1, 1), datetime(2300, 1, 1)  # noqa: DTZ001


# Operations of table services, and their lanes.
_SERVICES = {"compact": "compaction", "log_compact": "logcompaction", "cluster": "clustering"}


@dataclass(frozen=True)
class Interval:
    """An action from requested to completion time.

    Attributes:
        instant: The action.
        begin: Requested time, in milliseconds since 1970 in the zone of the table.
        end: Completion time likewise; None while the action is pending.
        row: Its row in the lane, from 0.
        stats: Its commit stats, when they were read.
    """

    instant: Instant
    begin: int
    end: int | None
    row: int
    stats: CommitStats = field(default_factory=CommitStats)


@dataclass(frozen=True)
class Lane:
    """All intervals of one kind of action.

    Attributes:
        action: Its name, such as `commit` or `clustering`; see `kind_of`.
        rows: The maximum number of intervals that overlap.
        intervals: The intervals, sorted by requested time.
    """

    action: str
    rows: int
    intervals: tuple[Interval, ...]


@dataclass(frozen=True)
class Chart:
    """The layout of a plot.

    Attributes:
        title: Name of the table.
        zone: Zone of all times: `UTC` or `LOCAL`.
        now: Time of the plot, in milliseconds since 1970 in that zone; pending intervals end there.
        lanes: The lanes, writes first.
        left_out: How many actions are not drawn because their instant is not a time.
    """

    title: str
    zone: str
    now: int
    lanes: tuple[Lane, ...]
    left_out: int

    @property
    def span(self) -> tuple[int, int]:
        """The range of time: from the first requested time to the last known time, or to now if that is near."""
        known = [one.begin for lane in self.lanes for one in lane.intervals]
        if not known:
            return self.now - 3_600_000, self.now
        known += [one.end for lane in self.lanes for one in lane.intervals if one.end is not None]
        first, last = min(known), max(known)
        # Otherwise an old table with a pending action would be a dot at the left edge.
        near = last < self.now <= last + (last - first) // 4
        return first, max(self.now if near else last, first + 1)

    @property
    def count(self) -> int:
        """How many intervals there are."""
        return sum(len(lane.intervals) for lane in self.lanes)

    @property
    def pending(self) -> int:
        """How many of them are pending."""
        return sum(one.end is None for lane in self.lanes for one in lane.intervals)


def millis(time: datetime) -> int:
    """Return milliseconds since 1970 of a time without a zone.

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
    stats: Mapping[Instant, CommitStats] | None = None,
    operations: Mapping[Instant, str] | None = None,
    merge_on_read: bool = False,
) -> Chart:
    """Return the layout of actions in lanes.

    Args:
        instants: The actions.
        now: The current time in the zone of the table.
        title: Name of the table.
        zone: Zone of the table.
        stats: Commit stats of some of the actions.
        operations: Operations of some of the actions, in lower case.
        merge_on_read: Whether the table is merge-on-read.

    Returns:
        The layout. Intervals of a row do not overlap, and a lane has no more rows than it needs.

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
        # Clocks of two machines may differ: then the end is before the start.
        closed = None if end is None else max(end, begin)
        kind = kind_of(one, (operations or {}).get(one, ""), merge_on_read=merge_on_read)
        lanes.setdefault(kind, []).append((begin, closed, one))
    known = stats or {}
    drawn = [_lane(action, lanes[action], known) for action in sorted(lanes, key=order)]
    return Chart(title=title, zone=zone, now=millis(now), lanes=tuple(drawn), left_out=left_out)


def kind_of(instant: Instant, operation: str = "", *, merge_on_read: bool = False) -> str:
    """Return the kind of an action, which is its lane: a table service has one lane while it is pending and afterwards.

    Args:
        instant: The action. Services complete under the name of a write: a compaction as `commit`, a log compaction as
            `deltacommit`, a clustering as `replacecommit`.
        operation: Its operation, in lower case; empty when it is not known.
        merge_on_read: Whether the table is merge-on-read. Then each completed `commit` is a compaction.

    Returns:
        The name of a lane.

    Examples:
        >>> from hoodoo import Instant
        >>> done = Instant("20260101000000000", "20260101000010000", "replacecommit", "COMPLETED")
        >>> kind_of(done, "cluster"), kind_of(done, "insert_overwrite")
        ('clustering', 'replacecommit')
    """
    if instant.state != "COMPLETED":
        return instant.action
    if merge_on_read and instant.action == "commit":
        return "compaction"
    return _SERVICES.get(operation, instant.action)


def _millis_of(name: str) -> int | None:
    time = parse_instant(name)
    # Other values are not times of actions, and would stretch the axis.
    return None if time is None or not _EPOCH <= time < _DOOMSDAY else millis(time)


def _lane(action: str, found: list[tuple[int, int | None, Instant]], stats: Mapping[Instant, CommitStats]) -> Lane:
    found.sort(key=lambda one: (one[0], one[2].requested))
    occupied: list[tuple[int, int]] = []  # (end, row)
    free: list[int] = []
    rows, intervals = 0, []
    for begin, end, instant in found:
        while occupied and occupied[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(occupied)[1])
        if free:
            row = heapq.heappop(free)
        else:
            row, rows = rows, rows + 1
        # A pending action occupies its row to the end. An action of no duration occupies it for 1 ms, so that two
        # actions at the same time are both visible.
        until = 1 << 62 if end is None else max(end, begin + 1)
        heapq.heappush(occupied, (until, row))
        intervals.append(Interval(instant, begin, end, row, stats.get(instant, CommitStats())))
    return Lane(action, rows, tuple(intervals))
