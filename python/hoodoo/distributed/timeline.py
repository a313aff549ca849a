"""Reads of a timeline in tasks, one for each file of the history."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.distributed.executor import Attempt, DataT, Executor, strings
from hoodoo.distributed.task import TableRef
from hoodoo.exceptions import InvalidOptionError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hoodoo import _native

__all__ = ["TimelineRead", "TimelineTask", "disjoint", "read_timeline"]


# Our columns, with the columns of Hudi's files that they come from.
_TIMES = {"requested": "instantTime", "completed": "completionTime"}
_COLUMNS = {
    "time": _TIMES,
    "action": {**_TIMES, "action": "action"},
    "metadata": {**_TIMES, "action": "action", "metadata": "metadata"},
    "plan": {**_TIMES, "action": "action", "plan": "plan"},
    "full": {**_TIMES, "action": "action", "metadata": "metadata", "plan": "plan"},
}
_INSTANT = ("requested", "completed", "action", "state")
# Number of active actions whose files one task reads.
_ACTIVE_PER_TASK = 64
# The first table version with timeline layout 2, whose history is an LSM tree.
_LAYOUT_2 = 8


@dataclass(frozen=True)
class TimelineTask:
    """What the tasks of a read of a timeline run. Can be pickled.

    Attributes:
        table: The table.
        columns: `time`, `action`, `metadata`, `plan` or `full`.
        active: Requested times of the actions that were on the active timeline when the read was planned. An archival
            may move them to the history meanwhile; they must not come twice.
    """

    table: TableRef
    columns: str
    active: frozenset[str]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        names = [*_COLUMNS[self.columns]]
        if self.columns != "time":
            names.insert(3, "state")
        return pa.schema([(name, pa.binary() if name in {"metadata", "plan"} else pa.string()) for name in names])

    def run(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Stream the actions of a split."""
        for unit in map(json.loads, strings(batches)):
            if "instants" in unit:
                yield self.instants([tuple(row) for row in unit["instants"]])
            else:
                yield from self.history(unit["since"], unit["until"])

    def history(self, since: str | None, until: str | None) -> Iterator[pa.RecordBatch]:
        """Stream the archived actions whose requested time is in a range, both ends included."""
        active = pa.array(sorted(self.active), pa.string())
        for batch in self.table.open().scan_history(self.columns, since, until):
            rows = batch.filter(pc.invert(pc.is_in(batch.column("instantTime"), active)))
            found = {ours: rows.column(theirs) for ours, theirs in _COLUMNS[self.columns].items()}
            found["state"] = pa.array(["COMPLETED"] * rows.num_rows, pa.string())
            yield pa.RecordBatch.from_arrays([found[f.name].cast(f.type) for f in self.schema], schema=self.schema)

    def instants(self, found: Sequence[tuple[str, str | None, str, str]]) -> pa.RecordBatch:
        """Return actions (requested and completion time, action, state) of the active timeline, with their files."""
        table = self.table.open()
        bodies = [name for name in ("metadata", "plan") if name in self.schema.names]
        rows: list[dict[str, str | bytes | None]] = [
            {**dict(zip(_INSTANT, one, strict=True)), **{name: _body(table, name, one) for name in bodies}}
            for one in found
        ]
        return pa.RecordBatch.from_pylist(rows, schema=self.schema)


def _body(table: _native.NativeTable, name: str, instant: tuple[str, str | None, str, str]) -> bytes | None:
    """The file with the metadata or the plan of an action, as in the history; None when there is none."""
    requested, completed, action, state = instant
    try:
        if name == "plan":
            return table.plan_file(requested, action)
        return table.instant_file(requested, action, state, completed)
    except (StorageError, InvalidOptionError):
        # A pending action may be completed or rolled back by now; then its file is gone.
        if state == "COMPLETED" or (requested, completed, action, state) in table.instants():
            raise
        return None


class TimelineRead:
    """The plan of a read of a timeline as it is now.

    Attributes:
        ranges: Ranges of requested times of the history, both ends included, one for each task.
        active: Actions of the active timeline, some for each task.
        task: What the tasks run.
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
        """Plan the read. Arguments as those of `hoodoo.spark.timeline`."""
        if columns not in _COLUMNS:
            message = f"invalid columns {columns!r}: expected {', '.join(_COLUMNS)}"
            raise InvalidOptionError(message)
        table, ref = TableRef.resolve(uri, {}, storage_options)
        # The active timeline is read first: when an archival runs in between, tasks know which actions it moved.
        every = table.instants()
        found = [row for row in every if (since is None or row[0] >= since) and (until is None or row[0] <= until)]
        self.active = [found[n : n + _ACTIVE_PER_TASK] for n in range(0, len(found), _ACTIVE_PER_TASK)]
        _, files = table.history_files()
        self.ranges: list[tuple[str | None, str | None]] = list(
            disjoint([(low, high) for _, _, low, high, _ in files], since, until)
        )
        if table.version < _LAYOUT_2:
            # Its archive consists of log files, which one task reads.
            self.ranges = [(since, until)]
        # A savepoint has the requested time of a commit, which may be archived without it.
        active = frozenset(requested for requested, _, action, _ in every if action != "savepoint")
        self.task = TimelineTask(ref, columns, active)

    @property
    def units(self) -> list[str]:
        """The units for `TimelineTask.run`."""
        return [
            *(json.dumps({"since": since, "until": until}) for since, until in self.ranges),
            *(json.dumps({"instants": rows}) for rows in self.active),
        ]


def read_timeline(
    executor: Executor[DataT],
    uri: str,
    *,
    columns: str = "action",
    since: str | None = None,
    until: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataT:
    """Plan a read of a timeline, and return a data set of the engine that executes it.

    Arguments and errors as those of `hoodoo.spark.timeline`.
    """
    read = TimelineRead(uri, columns=columns, since=since, until=until, storage_options=storage_options)
    return executor.map_batches(executor.from_units(read.units), read.task.run, read.task.schema)


def disjoint(spans: Sequence[tuple[str, str]], since: str | None, until: str | None) -> Iterator[tuple[str, str]]:
    r"""Split ranges of files, which may overlap, so that each time is in at most one range.

    Args:
        spans: The smallest and the largest requested time of each file.
        since: Lower bound of the ranges.
        until: Upper bound of the ranges.

    Yields:
        Ranges in ascending order, both ends included; a file outside of the bounds has none.

    Examples:
        >>> list(disjoint([("10", "20"), ("30", "40")], "35", None))
        [('35', '40')]
        >>> [(low.encode(), high) for low, high in disjoint([("10", "30"), ("20", "40")], None, None)]
        [(b'10', '30'), (b'30\x00', '40')]
    """
    after = None
    for first, last in sorted(spans):
        # The next string after `after`: instants need not be digits.
        low = first if after is None or first > after else after + "\0"
        low = low if since is None else max(low, since)
        high = last if until is None else min(last, until)
        after = last if after is None else max(after, last)
        if low <= high:
            yield low, high
