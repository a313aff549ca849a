"""The timeline: what was done to a table, and when."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hoodoo.exceptions import InvalidOptionError

if TYPE_CHECKING:
    from hoodoo._native import NativeTable

__all__ = ["Instant", "Timeline"]

_RANK = {"REQUESTED": 0, "INFLIGHT": 1, "COMPLETED": 2}


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
    ) -> list[Instant]:
        """Lists actions by requested time.

        Args:
            action: Only this action, such as `commit`.
            state: Only this state, in any case.
            since: Only requested times greater than or equal to this.
            until: Only requested times less than or equal to this.
            history: Also those that were archived.

        Returns:
            The actions, oldest first.

        Raises:
            InvalidOptionError: A state that does not exist.

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
        rows = [Instant(*row) for row in self._native.instants()]
        if history:
            active = {(i.requested, i.action) for i in rows}
            rows += [
                i for i in (Instant(*row) for row in self._native.history()) if (i.requested, i.action) not in active
            ]
            rows.sort(key=lambda i: (i.requested, i.action))
        return [
            i
            for i in rows
            if (action is None or i.action == action)
            and (state is None or i.state == state.upper())
            and (since is None or i.requested >= since)
            and (until is None or i.requested <= until)
        ]

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
