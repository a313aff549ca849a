"""Timelines as charts: `Timeline.plot` and `Timeline.chart`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hoodoo.commit_stats import WRITE_ACTIONS
from hoodoo.exceptions import InvalidOptionError
from hoodoo.instant_time import now_in, zone_of

if TYPE_CHECKING:
    from hoodoo import _native
    from hoodoo.plot.intervals import Chart
    from hoodoo.timeline import Timeline

__all__ = ["TimelinePlots"]

# A completed clustering is a replacecommit that only its metadata tells from an overwrite; of more, they are not read.
_MOST_REPLACEMENTS = 500


class TimelinePlots:
    """The plots of a `Timeline`."""

    _native: _native.NativeTable

    def plot(
        self,
        path: str | Path,
        since: str | None = None,
        until: str | None = None,
        *,
        history: bool = True,
        limit: int = 5_000,
        stats: int = 200,
    ) -> Path:
        """Draw actions as intervals from requested to completion time, compactions and clusterings in their own lanes.

        Args:
            path: The file. `.html`: a page to zoom and to inspect; it loads nothing from elsewhere. `.png`: a picture,
                which needs matplotlib (`pip install 'hoodoo[plot]'`).
            since: Only requested times greater than or equal to this.
            until: Only requested times less than or equal to this.
            history: Draw archived actions too.
            limit: Draw at most this many actions, the newest ones.
            stats: Read the commit stats of this many writes, the newest ones, for the details and the heights in a
                page.

        Returns:
            The path.

        Raises:
            InvalidOptionError: The path ends in neither `.html` nor `.png`, or `limit` is below 1.
            MissingDependencyError: The path ends in `.png`, and matplotlib is not installed.

        Examples:
            >>> import hoodoo, pathlib, pyarrow as pa, tempfile
            >>> t = hoodoo.Table.create("memory://docs-timeline/plot", pa.schema({"id": pa.int64()}), name="t",
            ...                         record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     page = t.timeline.plot(pathlib.Path(folder) / "t.html").read_text()
            >>> commit.instant in page
            True
        """
        from hoodoo.plot import draw  # noqa: PLC0415 - loaded only for plots

        read = 0 if Path(path).suffix.lower() == ".png" else stats
        return draw(self.chart(since, until, history=history, limit=limit, stats=read), path)

    def chart(
        self,
        since: str | None = None,
        until: str | None = None,
        *,
        history: bool = True,
        limit: int = 5_000,
        stats: int = 200,
    ) -> Chart:
        """Return the layout that `plot` draws. Arguments and errors as those of `plot`.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-timeline/chart", pa.schema({"id": pa.int64()}), name="t",
            ...                         record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> [(lane.action, lane.rows) for lane in t.timeline.chart().lanes]
            [('commit', 1)]
        """
        from hoodoo.plot.intervals import chart  # noqa: PLC0415 - loaded only for plots

        if limit < 1:
            raise InvalidOptionError(f"invalid limit {limit}: expected 1 or more")
        timeline = cast("Timeline", self)
        active = [] if history else timeline.instants(since=since, until=until)[-limit:]
        found = timeline.latest(limit, since=since, until=until) if history else active
        options: dict[str, Any] = self._native.properties()
        done = [one for one in found if one.state == "COMPLETED"]
        read = [one for one in done if one.action in WRITE_ACTIONS][-stats:] if stats > 0 else []
        replacements = [one for one in done if one.action == "replacecommit"][-_MOST_REPLACEMENTS:]
        known = timeline.commit_stats(dict.fromkeys([*read, *replacements]))
        zone = zone_of(options)
        return chart(
            found,
            now_in(zone),
            title=options.get("hoodie.table.name", ""),
            zone=zone,
            stats={one: known[one] for one in read},
            operations={one: given.operation for one, given in known.items()},
            merge_on_read=options.get("hoodie.table.type") == "MERGE_ON_READ",
        )
