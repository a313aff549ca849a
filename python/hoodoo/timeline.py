"""The timeline: what was done to a table, and when."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.exceptions import InvalidOptionError

if TYPE_CHECKING:
    from hoodoo._native import NativeTable

__all__ = ["ArchiveReport", "HeldBack", "HistoryCompaction", "Instant", "Timeline"]

_RANK = {"REQUESTED": 0, "INFLIGHT": 1, "COMPLETED": 2}
_ORDERS = ("requested", "completed")
_WRITES = {"commit", "deltacommit", "replacecommit", "compaction", "logcompaction"}


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


@dataclass(frozen=True)
class HistoryCompaction:
    """What a compaction of the history did.

    Attributes:
        levels: Levels that were compacted.
        files: Files that were merged.
        removed: Old versions and files that were removed.
    """

    levels: int
    files: int
    removed: int


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
        if state is not None and state.upper() not in _RANK:
            message = f"{state!r} is no state. Use REQUESTED, INFLIGHT or COMPLETED"
            raise InvalidOptionError(message)
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
        return [
            i
            for i in rows
            if (action is None or i.action == action)
            and (state is None or i.state == state.upper())
            and (since is None or i.requested >= since)
            and (until is None or i.requested <= until)
        ]

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

    def latest(self, count: int) -> list[Instant]:
        """Lists the newest actions, archived ones too when the active timeline has fewer.

        Args:
            count: How many.

        Returns:
            The actions by requested time, oldest first.
        """
        rows = self.instants()
        if len(rows) < count:
            active = {(i.requested, i.action) for i in rows}
            archived = (Instant(*row) for row in self._native.newest_history(count))
            rows = [i for i in archived if (i.requested, i.action) not in active] + rows
            rows.sort(key=lambda i: (i.requested, i.action))
        return rows[-count:] if count > 0 else []

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
