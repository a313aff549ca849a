"""Procedures on the timeline and its commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hoodoo.commit_stats import WRITE_ACTIONS
from hoodoo.exceptions import InvalidOptionError
from hoodoo.instant_time import parse_instant
from hoodoo.procedures.arguments import TableLike, arrow, check_limit, check_text, open_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hoodoo.table import Table
    from hoodoo.timeline import Instant, Timeline

__all__ = [
    "show_archived_commits",
    "show_commit_extra_metadata",
    "show_commit_files",
    "show_commit_partitions",
    "show_commit_write_stats",
    "show_commits",
    "show_rollbacks",
    "show_timeline",
]

_S, _L, _I = pa.string(), pa.int64(), pa.int32()
_TOTALS = {
    "total_bytes_written": _L,
    "total_files_added": _L,
    "total_files_updated": _L,
    "total_partitions_written": _L,
    "total_records_written": _L,
    "total_update_records_written": _L,
    "total_errors": _L,
}

Stats = dict[str, Any]


def _stats(metadata: Mapping[str, Any]) -> list[tuple[str, Stats]]:
    written = metadata.get("partitionToWriteStats") or {}
    return [(partition, stat) for partition, stats in written.items() for stat in stats]


def _total(stats: list[Stats], name: str) -> int:
    return sum(stat.get(name) or 0 for stat in stats)


def _is_new(stat: Stats) -> bool:
    return str(stat.get("prevCommit")).lower() == "null" and stat.get("prevCommit") is not None


def _added_and_updated(stats: list[Stats]) -> tuple[int, int]:
    known = [stat for stat in stats if stat.get("prevCommit") is not None]
    added = sum(_is_new(stat) for stat in known)
    return added, len(known) - added


def _totals(metadata: Mapping[str, Any]) -> list[int]:
    stats = [stat for _, stat in _stats(metadata)]
    partitions = len(metadata.get("partitionToWriteStats") or {})
    sums = [_total(stats, name) for name in ("numWrites", "numUpdateWrites", "totalWriteErrors")]
    return [_total(stats, "totalWriteBytes"), *_added_and_updated(stats), partitions, *sums]


def _commits(table: Table, *, archived: bool) -> Iterator[Instant]:
    """Completed commits of the active or of the archived timeline, newest first."""
    active = table.timeline.instants(state="completed")
    known = {(i.requested, i.action) for i in active}
    found = table.timeline.instants(state="completed", history=True) if archived else active
    for instant in reversed(found):
        if instant.action in WRITE_ACTIONS and archived != ((instant.requested, instant.action) in known):
            yield instant


def show_commits(table: TableLike, limit: int = 10) -> pa.Table:
    """Return the commits of the active timeline, newest first.

    Args:
        table: The table, or its location.
        limit: Return at most this many.

    Returns:
        A row for each commit.

    Raises:
        InvalidOptionError: An argument is invalid.
        TableNotFoundError: There is no table at the location.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-procedures/commits", {"id": pa.int64()}, name="t", record_key="id")
        >>> commits = t.insert({"id": [1, 2]}), t.upsert({"id": [2, 3]})
        >>> columns = ["action", "total_files_added", "total_records_written", "total_update_records_written"]
        >>> [list(row.values()) for row in show_commits(t).select(columns).to_pylist()]
        [['commit', 0, 3, 1], ['commit', 1, 2, 0]]
    """
    found = open_table(table)
    schema = {"commit_time": _S, "state_transition_time": _S, "action": _S, **_TOTALS}
    rows = [
        [instant.requested, instant.completed, instant.action, *_totals(found.timeline.metadata(instant))]
        for instant in _first(_commits(found, archived=False), limit)
    ]
    return arrow(schema, rows)


def _first(instants: Iterator[Instant], limit: int) -> Iterator[Instant]:
    for _, instant in zip(range(check_limit(limit)), instants, strict=False):
        yield instant


def show_archived_commits(table: TableLike, limit: int = 10, start_ts: str = "", end_ts: str = "") -> pa.Table:
    """Return commits of the archived timeline, newest first.

    Args:
        table: The table, or its location.
        limit: Return at most this many.
        start_ts: Only requested times greater than or equal to this. Default: all. (Hudi: the last ten days.)
        end_ts: Only requested times less than or equal to this. Default: all. (Hudi: until yesterday.)

    Returns:
        A row for each commit.

    Raises:
        InvalidOptionError: An argument is invalid.
        TableNotFoundError: There is no table at the location.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-procedures/archived", {"id": pa.int64()}, name="t", record_key="id")
        >>> show_archived_commits(t).num_rows
        0
    """
    found = open_table(table)
    wanted = (
        i
        for i in _commits(found, archived=True)
        if (not start_ts or i.requested >= start_ts) and (not end_ts or i.requested <= end_ts)
    )
    schema = {"commit_time": _S, "state_transition_time": _S, **_TOTALS}
    rows = [[i.requested, i.completed, *_totals(found.timeline.metadata(i))] for i in _first(wanted, limit)]
    return arrow(schema, rows)


def show_timeline(
    table: TableLike,
    limit: int = 20,
    showArchived: bool = False,  # noqa: N803 - Hudi's names
    startTime: str = "",  # noqa: N803
    endTime: str = "",  # noqa: N803
) -> pa.Table:
    """Return the actions of the timeline, newest first.

    Args:
        table: The table, or its location.
        limit: Return at most this many.
        showArchived: Return actions of the archived timeline too.
        startTime: Only requested times greater than or equal to this.
        endTime: Only requested times less than or equal to this.

    Returns:
        A row for each action. `requested_time` and `completed_time` are times as Hudi prints them; `inflight_time`,
        which Hudi takes from the time of a file, is null.

    Raises:
        InvalidOptionError: An argument is invalid.
        TableNotFoundError: There is no table at the location.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-procedures/timeline", {"id": pa.int64()}, name="t", record_key="id")
        >>> commit = t.insert({"id": [1, 2]})
        >>> show_timeline(t).select(["action", "state", "timeline_type"]).to_pylist()
        [{'action': 'commit', 'state': 'COMPLETED', 'timeline_type': 'ACTIVE'}]
    """
    timeline = open_table(table).timeline
    active = timeline.instants()
    known = {(i.requested, i.action) for i in active}
    instants = sorted(timeline.instants(history=True) if showArchived else active, key=lambda i: i.action)
    wanted = (
        i
        for i in sorted(instants, key=lambda i: i.requested, reverse=True)
        if (not startTime or i.requested >= startTime) and (not endTime or i.requested <= endTime)
    )
    schema = {
        "instant_time": _S,
        "action": _S,
        "state": _S,
        "requested_time": _S,
        "inflight_time": _S,
        "completed_time": _S,
        "timeline_type": _S,
        "rollback_info": _S,
    }
    return arrow(
        schema, [_action(timeline, i, is_active=(i.requested, i.action) in known) for i in _first(wanted, limit)]
    )


def _action(timeline: Timeline, instant: Instant, *, is_active: bool) -> list[str | None]:
    rolled_back = None
    if instant.action == "rollback" and instant.state == "COMPLETED":
        rolled_back = "Rolled back: " + ", ".join(timeline.metadata(instant).get("commitsRollback") or [])
    kind = "ACTIVE" if is_active else "ARCHIVED"
    times = [_printed(instant.requested), None, _printed(instant.completed or "")]
    return [instant.requested, instant.action, instant.state, *times, kind, rolled_back]


def _printed(instant: str) -> str | None:
    time = parse_instant(instant)
    return None if time is None else f"{time:%m-%d %H:%M:%S}"


def _commit(table: Table, instant_time: str) -> tuple[Instant, Mapping[str, Any]]:
    wanted = check_text("instant_time", instant_time)
    timeline = table.timeline
    found = timeline.instants(state="completed", since=wanted, until=wanted, history=True)
    writes = [i for i in found if i.action in WRITE_ACTIONS]
    if not writes:
        raise InvalidOptionError(
            f"there is no commit {wanted} in {table.uri}: see show_commits for those that there are"
        )
    return writes[0], timeline.metadata(writes[0])


def show_commit_files(table: TableLike, instant_time: str, limit: int = 10) -> pa.Table:
    """Return the files that a commit wrote.

    Args:
        table: The table, or its location.
        instant_time: Requested time of the commit.
        limit: Return at most this many.

    Returns:
        A row for each file.

    Raises:
        InvalidOptionError: There is no such commit, or an argument is invalid.
        TableNotFoundError: There is no table at the location.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-procedures/files", {"id": pa.int64()}, name="t", record_key="id")
        >>> commit = t.insert({"id": [1, 2]})
        >>> show_commit_files(t, commit.instant).select(["total_records_written", "total_errors"]).to_pylist()
        [{'total_records_written': 2, 'total_errors': 0}]
    """
    instant, metadata = _commit(open_table(table), instant_time)
    schema = {
        "action": _S,
        "partition_path": _S,
        "file_id": _S,
        "previous_commit": _S,
        "total_records_updated": _L,
        "total_records_written": _L,
        "total_bytes_written": _L,
        "total_errors": _L,
        "file_size": _L,
    }
    names = ("fileId", "prevCommit", "numUpdateWrites", "numWrites", "totalWriteBytes", "totalWriteErrors")
    rows = [
        [instant.action, partition, *(stat.get(name) for name in names), stat.get("fileSizeInBytes")]
        for partition, stat in _stats(metadata)
    ]
    return arrow(schema, rows[: check_limit(limit)])


def show_commit_partitions(table: TableLike, instant_time: str, limit: int = 10) -> pa.Table:
    """Return the partitions that a commit wrote to. Arguments and errors as those of `show_commit_files`.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-procedures/partitions", {"id": pa.int64(), "p": pa.string()},
        ...                         name="t", record_key="id", partition_by="p")
        >>> commit = t.insert({"id": [1, 2], "p": ["a", "b"]})
        >>> show_commit_partitions(t, commit.instant)["total_records_inserted"].to_pylist()
        [1, 1]
    """
    instant, metadata = _commit(open_table(table), instant_time)
    schema = {
        "action": _S,
        "partition_path": _S,
        "total_files_added": _L,
        "total_files_updated": _L,
        "total_records_inserted": _L,
        "total_records_updated": _L,
        "total_bytes_written": _L,
        "total_errors": _L,
    }
    rows = []
    for partition, stats in (metadata.get("partitionToWriteStats") or {}).items():
        sums = (_total(stats, n) for n in ("numInserts", "numUpdateWrites", "totalWriteBytes", "totalWriteErrors"))
        rows.append([instant.action, partition, *_added_and_updated(stats), *sums])
    return arrow(schema, rows[: check_limit(limit)])


def show_commit_write_stats(table: TableLike, instant_time: str, limit: int = 10) -> pa.Table:
    """Return what a commit wrote in all. Arguments and errors as those of `show_commit_files`.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-procedures/stats", {"id": pa.int64()}, name="t", record_key="id")
        >>> commit = t.insert({"id": [1, 2]})
        >>> show_commit_write_stats(t, commit.instant)["total_records_written"].to_pylist()
        [2]
    """
    instant, metadata = _commit(open_table(table), instant_time)
    schema = {"action": _S, "total_bytes_written": _L, "total_records_written": _L, "avg_record_size": _L}
    written, *_, records, _, _ = _totals(metadata)
    # As Hudi does: rounded up.
    row = [instant.action, written, records, -(-written // records) if records else 0]
    return arrow(schema, [row][: check_limit(limit)])


def show_commit_extra_metadata(
    table: TableLike, instant_time: str | None = None, metadata_key: str | None = None, limit: int = 100
) -> pa.Table:
    """Return what a commit carries beside its files.

    Args:
        table: The table, or its location.
        instant_time: Requested time of the commit. Default: the newest one.
        metadata_key: Only this key.
        limit: Return at most this many.

    Returns:
        A row for each key.

    Raises:
        InvalidOptionError: There is no such commit, or an argument is invalid.
        TableNotFoundError: There is no table at the location.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-procedures/extra", {"id": pa.int64()}, name="t", record_key="id")
        >>> commit = t.insert({"id": [1, 2]})
        >>> show_commit_extra_metadata(t)["metadata_key"].to_pylist()
        ['schema']
    """
    found = open_table(table)
    if instant_time is None:
        newest = next(_commits(found, archived=False), None)
        if newest is None:
            raise InvalidOptionError(f"there is no commit in {found.uri} yet: pass instant_time, or write first")
        instant_time = newest.requested
    instant, metadata = _commit(found, instant_time)
    extra = metadata.get("extraMetadata") or {}
    rows = [
        [instant.requested, instant.action, key, value]
        for key, value in extra.items()
        if metadata_key is None or key == metadata_key
    ]
    schema = {"instant_time": _S, "action": _S, "metadata_key": _S, "metadata_value": _S}
    return arrow(schema, rows[: check_limit(limit)])


def show_rollbacks(table: TableLike, limit: int = 10) -> pa.Table:
    """Return the rollbacks, newest first. Arguments and errors as those of `show_commits`.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-procedures/rollbacks", {"id": pa.int64()}, name="t", record_key="id")
        >>> first, second = t.insert({"id": [1]}), t.insert({"id": [2]})
        >>> done = t.rollback(second.instant)
        >>> show_rollbacks(t)["rollback_instant"].to_pylist() == [second.instant]
        True
    """
    timeline = open_table(table).timeline
    instants = reversed(timeline.instants(action="rollback", state="completed"))
    schema = {
        "instant": _S,
        "rollback_instant": _S,
        "total_files_deleted": _I,
        "time_taken_in_millis": _L,
        "total_partitions": _I,
    }
    rows = []
    for instant in _first(instants, limit):
        metadata = timeline.metadata(instant)
        partitions = len(metadata.get("partitionMetadata") or {})
        for rolled_back in metadata.get("commitsRollback") or []:
            counts = [metadata.get("totalFilesDeleted"), metadata.get("timeTakenInMillis"), partitions]
            rows.append([instant.requested, rolled_back, *counts])
    return arrow(schema, rows)
