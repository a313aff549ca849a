"""The timeline: what was done to a table, and when."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.exceptions import InvalidOptionError
from hoodoo.figures import WRITES, Figures, summarize
from hoodoo.history import History, HistoryCompaction, HistoryFile
from hoodoo.instant_time import now_in, zone_of
from hoodoo.plot import draw
from hoodoo.plot.intervals import chart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hoodoo._native import NativeTable

__all__ = ["ArchiveReport", "HeldBack", "Instant", "Timeline"]

# The first version of tables whose history has files of its own.
_LAYOUT_2 = 8
# Metadata that are read at a time: mostly it is the storage that is waited for.
_READERS = 8

_RANK = {"REQUESTED": 0, "INFLIGHT": 1, "COMPLETED": 2}
_ORDERS = ("requested", "completed")
# Actions whose completion shows rows; a clustering shows none that were not there.
_WRITES = WRITES | {"compaction", "logcompaction"}


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
class HeldBack:
    """What keeps actions on the active timeline that would be archived by their number.

    Attributes:
        since: Requested time of the first action that has to stay.
        reason: Why.
        remedy: What to do about it.
        writes: Completed writes that it holds back.
    """

    since: str
    reason: str
    remedy: str
    writes: int


@dataclass(frozen=True)
class ArchiveReport:
    """What an archiving did, or would do.

    Attributes:
        instants: The actions that went to the history.
        held_back: What holds others back, the nearest first.
        writes: Completed writes that were on the active timeline.
        keep_min: Completed writes that stay: `hoodie.keep.min.commits`, or more when the cleaner needs them.
        keep_max: Completed writes beyond which archiving begins: `hoodie.keep.max.commits`, or more likewise.
        files: Files of the history that were written.
        files_compacted: Files of the history that were merged into larger ones.
        dry_run: Whether nothing was done.
    """

    instants: tuple[Instant, ...]
    held_back: tuple[HeldBack, ...]
    writes: int
    keep_min: int
    keep_max: int
    files: int
    files_compacted: int
    dry_run: bool


class Timeline:
    """The timeline of a table. Each call reads it anew."""

    def __init__(self, native: NativeTable) -> None:
        """Made by `Table.timeline`."""
        self._native = native

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
        """Lists actions by the time they were requested, or by the time they were completed.

        Args:
            action: Only this action, such as `commit`.
            state: Only this state, in any case.
            since: Only requested times greater than or equal to this.
            until: Only requested times less than or equal to this.
            history: Also those that were archived.
            order: `requested`, or `completed`: the order in which actions became visible, pending ones last.

        Returns:
            The actions, oldest first.

        Raises:
            InvalidOptionError: A state or an order that does not exist.

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
            message = f"{order!r} is no order. Use 'requested' or 'completed'"
            raise InvalidOptionError(message)
        # The active ones first: an archiving in between moves instants the other way, and they are then seen twice
        # rather than not at all.
        rows = [Instant(*row) for row in self._native.instants()]
        if history:
            active = {(i.requested, i.action) for i in rows}
            archived = (Instant(*row) for row in self._native.history(since, until))
            rows += [i for i in archived if (i.requested, i.action) not in active]
            rows.sort(key=lambda i: (i.requested, i.action))
        if order == "completed":
            rows.sort(key=lambda i: (i.completed is None, i.completed or "", i.requested))
        return [i for i in rows if wanted(i)]

    def hollow(self) -> list[Instant]:
        """Lists pending writes behind which later ones are completed already.

        A reader that goes by requested times must stop before the first of them, or it will miss its rows when it
        completes; one that goes by completion times need not care. A pending clustering is none: it changes no rows.

        Returns:
            The writes, oldest first.
        """
        rows = self.instants()
        newest = max((i.requested for i in rows if i.state == "COMPLETED" and i.action in _WRITES), default="")
        return [i for i in rows if i.state != "COMPLETED" and i.action in _WRITES and i.requested < newest]

    def latest(
        self,
        count: int,
        action: str | None = None,
        state: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> list[Instant]:
        """Lists the newest of the actions asked for, archived ones too, in bounded memory.

        Args:
            count: How many at most.
            action: Only this action, such as `commit`.
            state: Only this state, in any case.
            since: Only requested times greater than or equal to this.
            until: Only requested times less than or equal to this.

        Returns:
            The actions by requested time, oldest first.

        Raises:
            InvalidOptionError: A state that does not exist.

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
            # Only later ones still matter: a pending action stays while those behind it are archived.
            since = found[-count].requested
        if state is None or state.upper() == "COMPLETED":
            seen = {(i.requested, i.action) for i in active}
            # One more for each that is on the active timeline too, as an archiving that died leaves them.
            archived = self._latest_archived(count + len(seen), action, since, until)
            found += [i for i in archived if (i.requested, i.action) not in seen]
            found.sort(key=lambda i: (i.requested, i.action))
        return found[-count:]

    def _latest_archived(self, count: int, action: str | None, since: str | None, until: str | None) -> list[Instant]:
        files = self.history_files().files if self._native.version >= _LAYOUT_2 else None
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
            # No more is held than is asked for.
            tail = tail.slice(max(tail.num_rows - count, 0))
        if tail is None:
            return []
        columns = (tail[name].to_pylist() for name in ("instantTime", "completionTime", "action"))
        return [Instant(begin, end, name, "COMPLETED") for begin, end, name in zip(*columns, strict=True)]

    def to_arrow(self, since: str | None = None, until: str | None = None, *, history: bool = True) -> pa.Table:
        """Gives actions as an Arrow table.

        Args:
            since: Only requested times greater than or equal to this.
            until: Only requested times less than or equal to this.
            history: Also those that were archived.

        Returns:
            The columns `requested`, `completed` (null while it is pending), `action` and `state`, all text, by
            requested time.

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
            # What an archiving that died left in both places is taken from the active timeline.
            twice = pc.is_in(archived["requested"], pa.array([i.requested for i in active if i.action != "savepoint"]))
            archived = archived.filter(pc.invert(twice))
        return pa.concat_tables([archived, found]).sort_by([("requested", "ascending"), ("action", "ascending")])

    def read_history(
        self, columns: str = "action", since: str | None = None, until: str | None = None
    ) -> pa.RecordBatchReader:
        """Streams the archived actions, in bounded memory.

        Args:
            columns: `time`: requested and completion time; `action`: these and the action; `metadata`: these and the
                metadata of the completed action; `plan`: times, action and plan; `full`: all.
            since: Only requested times greater than or equal to this.
            until: Only requested times less than or equal to this.

        Returns:
            A reader of Arrow batches by requested time, each action once. The columns have the names of Hudi's files:
            `instantTime`, `completionTime`, `action` (text), `metadata` and `plan` (bytes: Avro container files).

        Raises:
            InvalidOptionError: Columns of another name.
            CorruptFileError: A file of the history that cannot be read; while streaming, as the text of an Arrow error.
        """
        return self._native.scan_history(columns, since, until)

    def history_files(self) -> History:
        """Lists the files that the archived actions are kept in.

        Returns:
            The version and its files.

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

    def plot(
        self,
        path: str | Path,
        since: str | None = None,
        until: str | None = None,
        *,
        history: bool = True,
        limit: int = 5_000,
        figures: int = 30,
    ) -> Path:
        """Draws actions as intervals from their request to their completion.

        Args:
            path: The file: `.html` for a page of its own, which fetches nothing, to zoom and look into; `.png` for a
                picture, which takes matplotlib (`pip install 'hoodoo[plot]'`).
            since: Only requested times greater than or equal to this.
            until: Only requested times less than or equal to this.
            history: Also actions that were archived.
            limit: How many actions at most; the newest are drawn.
            figures: Of how many of the newest writes the metadata are read, for a page to tell their rows and files.

        Returns:
            The path.

        Raises:
            InvalidOptionError: A path with another ending.
            UnsupportedError: A PNG without matplotlib.

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
        if limit < 1:
            message = f"{limit} actions cannot be drawn. Give a limit of 1 or more"
            raise InvalidOptionError(message)
        if history:
            found = self.latest(limit, since=since, until=until)
        else:
            found = self.instants(since=since, until=until)[-limit:]
        options = self._native.properties()
        zone = zone_of(options)
        writes = [i for i in found if i.action in WRITES and i.state == "COMPLETED"]
        read = writes[-figures:] if figures > 0 and Path(path).suffix.lower() != ".png" else []
        drawn = chart(
            found,
            now_in(zone),
            title=options.get("hoodie.table.name", ""),
            zone=zone,
            figures=self.figures(read),
        )
        return draw(drawn, path)

    def figures(self, instants: Iterable[Instant]) -> dict[Instant, Figures]:
        """Adds up what actions did: rows, files and bytes.

        Args:
            instants: The actions; those that are not completed are left out.

        Returns:
            The figures of each.

        Raises:
            CorruptFileError: Metadata that cannot be decoded.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-timeline/figures", pa.schema({"id": pa.int64()}), name="t",
            ...                         record_key="id")
            >>> commit = t.insert({"id": [1, 2]})
            >>> [(did.operation, did.inserted, did.files) for did in t.timeline.figures(t.timeline.instants()).values()]
            [('insert', 2, 1)]
        """
        done = [i for i in instants if i.state == "COMPLETED"]
        with ThreadPoolExecutor(_READERS) as readers:
            return {i: summarize(i.action, m) for i, m in zip(done, readers.map(self.metadata, done), strict=True)}

    def compact_history(self) -> HistoryCompaction:
        """Merges files of the history level by level, and removes old versions. Archiving does it too.

        Returns:
            What was done.

        Raises:
            UnsupportedError: The table is of version 6.
        """
        return HistoryCompaction(*self._native.compact_history())

    def metadata(self, instant: Instant | str) -> dict[str, Any]:
        """Reads the metadata of a completed action, or what the file of a pending one holds.

        Args:
            instant: The action, archived or not, or its requested time; of several actions with that time, the first.

        Returns:
            The content of its file with Hudi's field names; empty when the file is.

        Raises:
            InvalidOptionError: There is no such action, neither on the active timeline nor in the history.
            CorruptFileError: The file cannot be decoded.
        """
        one = self._find(instant)
        text = self._native.metadata(one.requested, one.action, one.state, one.completed)
        return json.loads(text) or {}

    def plan(self, instant: Instant | str) -> dict[str, Any]:
        """Reads what an action set out to do: the files to clean, to compact, to cluster, to roll back.

        Args:
            instant: The action, archived or not, or its requested time; of several actions with that time, the first.

        Returns:
            The plan with Hudi's field names; empty for an action without one, such as a commit, and for rollbacks that
            are archived, which go without.

        Raises:
            InvalidOptionError: There is no such action, neither on the active timeline nor in the history.
            CorruptFileError: The file cannot be decoded.
        """
        one = self._find(instant)
        return json.loads(self._native.plan(one.requested, one.action)) or {}

    def _find(self, instant: Instant | str) -> Instant:
        if isinstance(instant, Instant):
            return instant
        found = self.instants(since=instant, until=instant) or self.instants(since=instant, until=instant, history=True)
        if not found:
            message = f"there is no instant {instant} on the timeline or in its history"
            raise InvalidOptionError(message)
        return found[0]


def _wanted(action: str | None, state: str | None, since: str | None, until: str | None) -> Callable[[Instant], bool]:
    """Checks what is asked for, and gives the condition."""
    if state is not None and state.upper() not in _RANK:
        message = f"{state!r} is no state. Use REQUESTED, INFLIGHT or COMPLETED"
        raise InvalidOptionError(message)
    highest = None if state is None else state.upper()
    return lambda i: (
        (action is None or i.action == action)
        and (highest is None or i.state == highest)
        and (since is None or i.requested >= since)
        and (until is None or i.requested <= until)
    )
