"""The timeline: the actions on a table, active and archived."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.arguments import text
from hoodoo.commit_stats import WRITE_ACTIONS, CommitStats, commit_stats
from hoodoo.display import Displayed, ListListing, View
from hoodoo.exceptions import InvalidOptionError
from hoodoo.history import History, HistoryCompaction, HistoryFile
from hoodoo.timeline_plots import TimelinePlots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hoodoo import _native

__all__ = ["ArchiveBlocker", "ArchiveReport", "Instant", "Timeline"]

# The first table version with timeline layout 2, whose history is an LSM tree.
_LAYOUT_2 = 8
# Instants that a notebook shows.
_SHOWN = 10
# Threads that read metadata: most of their time they wait for the storage.
_READERS = 8

_RANK = {"REQUESTED": 0, "INFLIGHT": 1, "COMPLETED": 2}
_ORDERS = ("requested", "completed")
# Actions whose completion makes new rows visible. A clustering makes none visible.
_ROW_ACTIONS = WRITE_ACTIONS | {"compaction", "logcompaction"}


@dataclass(frozen=True)
class Instant:
    """An action on the timeline, in the highest state it has reached.

    Attributes:
        requested: Requested time, 17 digits.
        completed: Completion time; None while it is pending.
        action: Such as `commit`, `clean`, `replacecommit`.
        state: `REQUESTED`, `INFLIGHT` or `COMPLETED`.
    """

    requested: str
    completed: str | None
    action: str
    state: str


@dataclass(frozen=True)
class ArchiveBlocker:
    """Why actions stay on the active timeline although `hoodie.keep.max.commits` says to archive them.

    Attributes:
        since: Requested time of the first action that stays; empty when all actions stay.
        reason: Why it stays.
        remedy: What to do about it.
        writes: How many completed writes stay because of it.
    """

    since: str
    reason: str
    remedy: str
    writes: int


@dataclass(frozen=True)
class ArchiveReport(Displayed):
    """The result of `Table.archive`.

    Attributes:
        instants: The actions that moved to the history.
        blockers: What blocks the archival of other actions, the oldest action first.
        writes: How many completed writes were on the active timeline.
        keep_min: How many completed writes stay: `hoodie.keep.min.commits`, or more when the cleaner needs them.
        keep_max: Number of completed writes above which archival starts: `hoodie.keep.max.commits`, or more when the
            cleaner needs them.
        files: How many files of the history were written.
        files_compacted: How many files of the history were merged into larger ones.
        dry_run: Whether nothing was changed.
    """

    instants: tuple[Instant, ...]
    blockers: tuple[ArchiveBlocker, ...]
    writes: int
    keep_min: int
    keep_max: int
    files: int
    files_compacted: int
    dry_run: bool

    @classmethod
    def from_native(cls, value: _native.ArchiveRow, *, dry_run: bool) -> ArchiveReport:
        """Make a report of what the core returns."""
        instants, rows, (writes, keep_min, keep_max), files, files_compacted = value
        archived = tuple(Instant(*row) for row in instants)
        blockers = tuple(ArchiveBlocker(*row) for row in rows)
        return cls(archived, blockers, writes, keep_min, keep_max, files, files_compacted, dry_run)

    def __repr__(self) -> str:
        """Return the counts."""
        counts = f"instants={len(self.instants)}, blockers={len(self.blockers)}, writes={self.writes}"
        return f"ArchiveReport({counts}, files={self.files}, dry_run={self.dry_run})"

    def _view(self) -> View:
        verb = "would move" if self.dry_run else "moved"
        facts: list[tuple[str, object]] = [
            ("completed writes before", self.writes),
            ("archival starts above", self.keep_max),
            ("writes that stay", self.keep_min),
            ("files of the history written", self.files),
        ]
        facts += [("archive blocker", f"{one.reason} → {one.remedy}") for one in self.blockers]
        headings = ("requested", "completed", "action") if self.instants else ()
        rows = [(one.requested, one.completed, one.action) for one in self.instants]
        return View(f"Archival: {len(rows):,} instants {verb} to the history", facts, headings, rows)


class Timeline(TimelinePlots, Displayed):
    """The timeline of a table: `Table.timeline`. Each call reads the newest state from the storage."""

    def __init__(self, native: _native.NativeTable) -> None:
        """Take an open table."""
        self._native = native

    def __repr__(self) -> str:
        """Return the class and the location of the table."""
        return f"Timeline({self._native.uri!r})"

    def _view(self) -> View:
        active = self.instants()
        pending = sum(one.state != "COMPLETED" for one in active)
        newest = active[-_SHOWN:]
        rows = [(one.requested, one.completed, one.action, one.state.lower()) for one in newest]
        title = f"Timeline of {self._native.uri}: {len(active):,} active instants, {pending:,} pending"
        note = f"the newest {_SHOWN}; older ones by Timeline.instants()" if len(active) > len(newest) else ""
        return View(title, headings=("requested", "completed", "action", "state"), rows=rows, note=note)

    def instants(
        self,
        action: str | None = None,
        state: str | None = None,
        since: str | None = None,
        until: str | None = None,
        *,
        history: bool = False,
        order: str = "requested",
    ) -> list[Instant]:
        """Return actions, sorted by requested time or by completion time.

        Args:
            action: Only this action, such as `commit`.
            state: Only this state: `REQUESTED`, `INFLIGHT` or `COMPLETED`, in upper or lower case.
            since: Only requested times greater than or equal to this.
            until: Only requested times less than or equal to this.
            history: Return archived actions too.
            order: `requested`, or `completed`: the order in which actions became visible, pending actions last.

        Returns:
            The actions, oldest first.

        Raises:
            InvalidOptionError: `state` or `order` is invalid.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-timeline/t", pa.schema({"id": pa.int64()}), name="t",
            ...                         record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> [i.action for i in t.timeline.instants(state="completed")]
            ['commit']
        """
        wanted = _wanted(action, state, since, until)
        if order not in _ORDERS:
            message = f"invalid order {order!r}: expected 'requested' or 'completed'"
            raise InvalidOptionError(message)
        # The active timeline is read first: when an archival runs in between, its actions come twice and not never.
        rows = [Instant(*row) for row in self._native.instants()]
        if history:
            active = {(i.requested, i.action) for i in rows}
            archived = (Instant(*row) for row in self._native.history(since, until))
            rows += [i for i in archived if (i.requested, i.action) not in active]
            rows.sort(key=lambda i: (i.requested, i.action))
        if order == "completed":
            rows.sort(key=lambda i: (i.completed is None, i.completed or "", i.requested))
        return ListListing.of("instants", (i for i in rows if wanted(i)))

    def hollow_commits(self) -> list[Instant]:
        """Return pending writes that were requested before a write that is completed: Hudi's hollow commits.

        A reader that follows requested times must stop before the first of them, or it misses its rows. A reader that
        follows completion times, such as `Table.changes`, misses none. A pending clustering does not count: it changes
        no rows.

        Returns:
            The writes, oldest first.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-timeline/hollow", pa.schema({"id": pa.int64()}), name="t",
            ...                         record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> t.timeline.hollow_commits()
            []
        """
        rows = self.instants()
        newest = max((i.requested for i in rows if i.state == "COMPLETED" and i.action in _ROW_ACTIONS), default="")
        return [i for i in rows if i.state != "COMPLETED" and i.action in _ROW_ACTIONS and i.requested < newest]

    def latest(
        self,
        count: int,
        action: str | None = None,
        state: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> list[Instant]:
        """Return the newest actions, archived actions too, in bounded memory.

        Args:
            count: Return at most this many actions.
            action: Only this action, such as `commit`.
            state: Only this state, in upper or lower case.
            since: Only requested times greater than or equal to this.
            until: Only requested times less than or equal to this.

        Returns:
            The actions by requested time, oldest first.

        Raises:
            InvalidOptionError: `state` is invalid.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-timeline/latest", pa.schema({"id": pa.int64()}), name="t",
            ...                         record_key="id")
            >>> commits = [t.insert({"id": [n]}) for n in range(3)]
            >>> [i.requested for i in t.timeline.latest(2)] == [c.instant for c in commits[1:]]
            True
        """
        wanted = _wanted(action, state, since, until)
        if count < 1:
            return []
        active = self.instants()
        found = [i for i in active if wanted(i)]
        if len(found) >= count:
            # Only newer actions matter now. (A pending action stays while newer actions are archived.)
            since = found[-count].requested
        if state is None or state.upper() == "COMPLETED":
            seen = {(i.requested, i.action) for i in active}
            # An archival that was killed leaves actions in both; read one more for each active action.
            archived = self._latest_archived(count + len(seen), action, since, until)
            found += [i for i in archived if (i.requested, i.action) not in seen]
            found.sort(key=lambda i: (i.requested, i.action))
        return found[-count:]

    def _latest_archived(self, count: int, action: str | None, since: str | None, until: str | None) -> list[Instant]:
        # Files of a table that Hudi upgraded from version 6 are not named by the times of their oldest and newest rows.
        initial = self._native.properties().get("hoodie.table.initial.version", "")
        has_names = not initial.isdigit() or int(initial) >= _LAYOUT_2
        files = self.history_files().files if has_names and self._native.version >= _LAYOUT_2 else None
        if files is not None and all(since is not None and file.until < since for file in files):
            return []
        if action is None and until is None:
            newest = (Instant(*row) for row in self._native.newest_history(count))
            return [i for i in newest if since is None or i.requested >= since]
        tail: pa.Table | None = None
        for batch in self.read_history("action", since, until):
            rows = pa.Table.from_batches([batch])
            if action is not None:
                rows = rows.filter(pc.equal(rows["action"], action))
            tail = rows if tail is None else pa.concat_tables([tail, rows])
            # Bounds the memory.
            tail = tail.slice(max(tail.num_rows - count, 0))
        if tail is None:
            return []
        columns = (tail[name].to_pylist() for name in ("instantTime", "completionTime", "action"))
        return [Instant(begin, end, name, "COMPLETED") for begin, end, name in zip(*columns, strict=True)]

    def to_arrow(self, since: str | None = None, until: str | None = None, *, history: bool = True) -> pa.Table:
        """Return actions as an Arrow table.

        Args:
            since: Only requested times greater than or equal to this.
            until: Only requested times less than or equal to this.
            history: Return archived actions too.

        Returns:
            The string columns `requested`, `completed` (null while the action is pending), `action` and `state`,
            sorted by requested time.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-timeline/arrow", pa.schema({"id": pa.int64()}), name="t",
            ...                         record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> t.timeline.to_arrow().select(["action", "state"]).to_pylist()
            [{'action': 'commit', 'state': 'COMPLETED'}]
        """
        columns = {f.name: pa.array([], pa.string()) for f in fields(Instant)}
        active = self.instants(since=since, until=until)
        found = pa.table({name: pa.array([getattr(i, name) for i in active], pa.string()) for name in columns})
        if not history:
            return found
        archived = self._native.scan_history("action", since, until).read_all()
        archived = archived.rename_columns(["requested", "completed", "action"])
        archived = archived.append_column("state", pa.array(["COMPLETED"] * archived.num_rows, pa.string()))
        if active:
            # An archival that was killed leaves actions in both; the active timeline wins.
            twice = pc.is_in(archived["requested"], pa.array([i.requested for i in active if i.action != "savepoint"]))
            archived = archived.filter(pc.invert(twice))
        return pa.concat_tables([archived, found]).sort_by([("requested", "ascending"), ("action", "ascending")])

    def read_history(
        self, columns: str = "action", since: str | None = None, until: str | None = None
    ) -> pa.RecordBatchReader:
        """Stream the archived actions, in bounded memory.

        Args:
            columns: `time`: requested and completion time; `action`: these and the action; `metadata`: these and the
                metadata of the completed action; `plan`: times, action and plan; `full`: all.
            since: Only requested times greater than or equal to this.
            until: Only requested times less than or equal to this.

        Returns:
            A reader over the actions, sorted by requested time, each action once. The columns have the names of Hudi's
            files: the strings `instantTime`, `completionTime` and `action`, and the binary columns `metadata` and
            `plan` (Avro container files).

        Raises:
            InvalidOptionError: `columns` is invalid.
            CorruptFileError: A file of the history cannot be read. While streaming, this is an Arrow error with the
                same message.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-timeline/read", pa.schema({"id": pa.int64()}), name="t",
            ...                         record_key="id")
            >>> t.timeline.read_history("time").schema.names
            ['instantTime', 'completionTime']
        """
        return self._native.scan_history(columns, since, until)

    def history_files(self) -> History:
        """Return the files of the history.

        Returns:
            The version of the manifest, and its files.

        Raises:
            CorruptFileError: The manifest cannot be read.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-timeline/files", pa.schema({"id": pa.int64()}), name="t",
            ...                         record_key="id")
            >>> t.timeline.history_files()
            History(version=0, files=())
        """
        version, files = self._native.history_files()
        found = [HistoryFile(*file) for file in files]
        return History(version, tuple(sorted(found, key=lambda f: (f.since, f.until, f.name))))

    def commit_stats(self, instants: Iterable[Instant]) -> dict[Instant, CommitStats]:
        """Return the commit stats of actions: rows, files and bytes.

        Args:
            instants: The actions. Pending actions have no stats and are left out.

        Returns:
            The stats of each action.

        Raises:
            CorruptFileError: The metadata of an action cannot be decoded.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-timeline/stats", pa.schema({"id": pa.int64()}), name="t",
            ...                         record_key="id")
            >>> commit = t.insert({"id": [1, 2]})
            >>> [(s.operation, s.inserted, s.files) for s in t.timeline.commit_stats(t.timeline.instants()).values()]
            [('insert', 2, 1)]
        """
        done = [i for i in instants if i.state == "COMPLETED"]
        with ThreadPoolExecutor(_READERS) as readers:
            return {i: commit_stats(i.action, m) for i, m in zip(done, readers.map(self.metadata, done), strict=True)}

    def compact_history(self) -> HistoryCompaction:
        """Merge files of the history level by level, and remove old versions. `Table.archive` does it too.

        Returns:
            What was done.

        Raises:
            UnsupportedError: The table has version 6.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-timeline/compact", pa.schema({"id": pa.int64()}), name="t",
            ...                         record_key="id")
            >>> t.timeline.compact_history().files
            0
        """
        return HistoryCompaction(*self._native.compact_history())

    def metadata(self, instant: Instant | str) -> dict[str, Any]:
        """Return the metadata of a completed action, or the content of the file of a pending action.

        Args:
            instant: The action, archived or not, or its requested time; of several actions with that time, the first.

        Returns:
            The content of its file with Hudi's field names; empty when the file is empty.

        Raises:
            InvalidOptionError: There is no such action, neither on the active timeline nor in the history.
            CorruptFileError: The file cannot be decoded.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-timeline/metadata", pa.schema({"id": pa.int64()}), name="t",
            ...                         record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> t.timeline.metadata(commit.instant)["operationType"]
            'INSERT'
        """
        one = self._find(instant)
        found = self._native.metadata(one.requested, one.action, one.state, one.completed)
        return json.loads(found) or {}

    def plan(self, instant: Instant | str) -> dict[str, Any]:
        """Return the plan of an action: the files to clean, to compact, to cluster, to roll back.

        Args:
            instant: The action, archived or not, or its requested time; of several actions with that time, the first.

        Returns:
            The plan with Hudi's field names; empty for an action without a plan, such as a commit or an archived
            rollback.

        Raises:
            InvalidOptionError: There is no such action, neither on the active timeline nor in the history.
            CorruptFileError: The file cannot be decoded.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-timeline/plan", pa.schema({"id": pa.int64()}), name="t",
            ...                         record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> plan = t.timeline.plan(t.schedule_clustering())
            >>> len(plan["clusteringPlan"]["inputGroups"])
            1
        """
        one = self._find(instant)
        return json.loads(self._native.plan(one.requested, one.action)) or {}

    def _find(self, instant: Instant | str) -> Instant:
        if isinstance(instant, Instant):
            return instant
        text(instant, "instant", "a Commit.instant")
        found = self.instants(since=instant, until=instant) or self.instants(since=instant, until=instant, history=True)
        if not found:
            message = f"there is no instant {instant} on the active timeline or in the history"
            raise InvalidOptionError(message)
        return found[0]


def _wanted(action: str | None, state: Any, since: str | None, until: str | None) -> Callable[[Instant], bool]:
    """Return the condition of a query, or raise."""
    if state is not None and (not isinstance(state, str) or state.upper() not in _RANK):
        message = f"invalid state {state!r}: expected REQUESTED, INFLIGHT or COMPLETED"
        raise InvalidOptionError(message)
    highest = None if state is None else state.upper()
    return lambda i: (
        (action is None or i.action == action)
        and (highest is None or i.state == highest)
        and (since is None or i.requested >= since)
        and (until is None or i.requested <= until)
    )
