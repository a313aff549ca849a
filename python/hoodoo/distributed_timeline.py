"""Reads of a timeline that are cut into tasks of several processes. See `hoodoo.distributed`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo import _native
from hoodoo.distributed import TableTask
from hoodoo.exceptions import InvalidOptionError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["TimelineRead", "TimelineTask", "disjoint"]

# Columns of ours with those that Hudi's files have for them.
_TIMES = {"requested": "instantTime", "completed": "completionTime"}
_COLUMNS = {
    "time": _TIMES,
    "action": {**_TIMES, "action": "action"},
    "metadata": {**_TIMES, "action": "action", "metadata": "metadata"},
    "plan": {**_TIMES, "action": "action", "plan": "plan"},
    "full": {**_TIMES, "action": "action", "metadata": "metadata", "plan": "plan"},
}
# Active actions whose files one task reads.
_ACTIVE_AT_A_TIME = 64
# The first version of tables whose history has files of its own.
_LAYOUT_2 = 8


@dataclass(frozen=True)
class TimelineTask(TableTask):
    """What the tasks of a read of a timeline do. Can be pickled.

    Attributes:
        columns: `time`, `action`, `metadata`, `plan` or `full`.
        active: Requested times of the actions that were on the active timeline when the read was planned: an archiving
            may have moved them since, and they are not to come twice.
    """

    columns: str
    active: frozenset[str]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        names = [*_COLUMNS[self.columns]]
        if self.columns != "time":
            names.insert(3, "state")
        return pa.schema([(name, pa.binary() if name in {"metadata", "plan"} else pa.string()) for name in names])

    def history(self, since: str | None, until: str | None) -> Iterator[pa.RecordBatch]:
        """Streams the archived actions of a range.

        Args:
            since: The earliest requested time.
            until: The latest.

        Yields:
            Rows of `schema`.
        """
        for batch in self.table().scan_history(self.columns, since, until):
            busy = pc.is_in(batch.column("instantTime"), pa.array(sorted(self.active), pa.string()))
            rows = batch.filter(pc.invert(busy))
            names = _COLUMNS[self.columns]
            found = {ours: rows.column(theirs) for ours, theirs in names.items()}
            found["state"] = pa.array(["COMPLETED"] * rows.num_rows, pa.string())
            yield pa.RecordBatch.from_arrays([found[f.name].cast(f.type) for f in self.schema], schema=self.schema)

    def instants(self, found: Sequence[tuple[str, str | None, str, str]]) -> pa.RecordBatch:
        """Gives actions of the active timeline, with the files that the columns need.

        Args:
            found: Requested time, completion time, action and state of each.

        Returns:
            Rows of `schema`.
        """
        wanted = [name for name in ("metadata", "plan") if name in self.schema.names]
        table = self.table()
        columns: dict[str, list[str | bytes | None]] = {field.name: [] for field in self.schema}
        for requested, completed, action, state in found:
            row = {"requested": requested, "completed": completed, "action": action, "state": state}
            for name in columns.keys() & row.keys():
                columns[name].append(row[name])
            for name in wanted:
                columns[name].append(_body(table, name, (requested, completed, action, state)))
        return pa.RecordBatch.from_pydict(columns, schema=self.schema)


def _body(table: _native.NativeTable, name: str, instant: tuple[str, str | None, str, str]) -> bytes | None:
    """The file with the metadata or the plan of an action, as the history has them; None where there is none."""
    requested, completed, action, state = instant
    try:
        if name == "plan":
            return table.plan_file(requested, action)
        return table.instant_file(requested, action, state, completed)
    except (StorageError, InvalidOptionError):
        # A pending action may be finished or rolled back by now; its file is gone then.
        if state == "COMPLETED" or (requested, completed, action, state) in table.instants():
            raise
        return None


class TimelineRead:
    """A timeline as it is now, cut into tasks.

    Attributes:
        ranges: Ranges of requested times of the history, both ends in it, for a task each.
        active: Actions of the active timeline, a few for each task.
        task: What the tasks do.
    """

    def __init__(
        self,
        uri: str,
        *,
        columns: str = "action",
        since: str | None = None,
        until: str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Plans the read. Arguments as those of `hoodoo.spark.timeline`."""
        if columns not in _COLUMNS:
            message = f"{columns!r} are no columns. Use {', '.join(_COLUMNS)}"
            raise InvalidOptionError(message)
        storage = dict(storage_options or {})
        table = _native.NativeTable.open(uri, {}, storage)
        # The active ones first: an archiving in between moves instants the other way, and tasks then know of them.
        every = table.instants()
        found = [row for row in every if (since is None or row[0] >= since) and (until is None or row[0] <= until)]
        self.active = [found[n : n + _ACTIVE_AT_A_TIME] for n in range(0, len(found), _ACTIVE_AT_A_TIME)]
        _, files = table.history_files()
        self.ranges: list[tuple[str | None, str | None]] = list(
            disjoint([(low, high) for _, _, low, high, _ in files], since, until)
        )
        if table.version < _LAYOUT_2:
            # Its archive is made of logs, which are read as one.
            self.ranges = [(since, until)]
        # A savepoint has the requested time of a commit, which may be archived without it.
        active = frozenset(requested for requested, _, action, _ in every if action != "savepoint")
        self.task = TimelineTask(table.uri, (), tuple(sorted(storage.items())), columns, active)


def disjoint(spans: Sequence[tuple[str, str]], since: str | None, until: str | None) -> Iterator[tuple[str, str]]:
    r"""Cuts ranges of files, which may overlap, so that each time is in at most one.

    Args:
        spans: The earliest and the latest requested time of each file.
        since: Nothing before this.
        until: Nothing after this.

    Yields:
        Ranges in ascending order, both ends in them; files that hold nothing of what is wanted have none.

    Examples:
        >>> list(disjoint([("10", "20"), ("30", "40")], "35", None))
        [('35', '40')]
        >>> [(low.encode(), high) for low, high in disjoint([("10", "30"), ("20", "40")], None, None)]
        [(b'10', '30'), (b'30\x00', '40')]
    """
    after = None
    for first, last in sorted(spans):
        # The text that comes next after `after`, whatever times look like.
        low = first if after is None or first > after else after + "\0"
        low = low if since is None else max(low, since)
        high = last if until is None else min(last, until)
        after = last if after is None else max(after, last)
        if low <= high:
            yield low, high
