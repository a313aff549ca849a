"""Procedures that run and show table services."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hoodoo.exceptions import InvalidOptionError, UnsupportedError
from hoodoo.procedures.arguments import TableLike, arrow, check_limit, open_table, options_of, with_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoodoo.table import Table
    from hoodoo.timeline import Instant

__all__ = ["run_clean", "run_clustering", "run_compaction", "show_clustering", "show_compaction"]

_S, _L, _I = pa.string(), pa.int64(), pa.int32()
_CLUSTERING = {"timestamp": _S, "input_group_size": _I, "state": _S, "involved_partitions": _S}
_COMPACTION = {"timestamp": _S, "operation_size": _I, "state": _S}
_OPERATIONS = ("schedule", "execute", "scheduleandexecute")


def _operation(op: str | None, more: Sequence[str] = ()) -> str:
    chosen = "scheduleandexecute" if op is None else str(op).strip().lower()
    if chosen in more:
        return "execute"
    if chosen not in _OPERATIONS:
        names = ", ".join(("schedule", "execute", "scheduleAndExecute", *more))
        raise InvalidOptionError(f"invalid op {op!r}: expected one of {names}")
    return chosen


def _refuse(**arguments: Any) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise UnsupportedError(
                f"the argument {name}={value!r} is not supported: set it with options=, or call the method of Table"
            )


def _instants(instants: str | None, op: str | None) -> list[str]:
    """The instants to execute. As in Hudi, plans cannot be both named and made."""
    found = [part.strip() for part in (instants or "").split(",") if part.strip()]
    if found and op is not None and _operation(op, ("run",)) != "execute":
        raise InvalidOptionError(f"op={op!r} makes a plan, and instants name plans: use op='execute', or no op")
    return found


def show_clustering(table: TableLike, limit: int = 20, show_involved_partition: bool = False) -> pa.Table:
    """Return the clusterings of the active timeline, newest first.

    Args:
        table: The table, or its location.
        limit: Return at most this many.
        show_involved_partition: Name the partitions, instead of `*`.

    Returns:
        A row for each clustering.

    Raises:
        InvalidOptionError: An argument is invalid.
        TableNotFoundError: There is no table at the location.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-procedures/clusterings", {"id": pa.int64()}, name="t",
        ...                         record_key="id")
        >>> commit, done = t.insert({"id": [2, 1]}), t.cluster(sort_by="id")
        >>> show_clustering(t).select(["input_group_size", "state"]).to_pylist()
        [{'input_group_size': 1, 'state': 'COMPLETED'}]
    """
    found = open_table(table)
    rows = _clusterings(found, show_partitions=show_involved_partition)
    return arrow(_CLUSTERING, rows[: check_limit(limit)])


def _clusterings(table: Table, *, show_partitions: bool, only: set[str] | None = None) -> list[list[Any]]:
    rows = []
    for instant in reversed(table.timeline.instants()):
        if instant.action not in {"clustering", "replacecommit"} or (
            only is not None and instant.requested not in only
        ):
            continue
        groups = ((table.timeline.plan(instant) or {}).get("clusteringPlan") or {}).get("inputGroups")
        if groups is None:
            # Another operation that replaces file groups.
            continue
        paths = {s.get("partitionPath") or "" for group in groups for s in group.get("slices") or []}
        named = ",".join(sorted(paths)) if show_partitions else "*"
        rows.append([instant.requested, len(groups), instant.state, named])
    return rows


def run_clustering(  # noqa: PLR0917 - Hudi's arguments
    table: TableLike,
    predicate: str | None = None,
    order: str | None = None,
    show_involved_partition: bool = False,
    op: str | None = None,
    order_strategy: str | None = None,
    options: str | None = None,
    instants: str | None = None,
    selected_partitions: str | None = None,
    partition_regex_pattern: str | None = None,
    limit: int | None = None,
) -> pa.Table:
    """Plan and execute clusterings; see `hoodoo.Table.cluster`.

    Args:
        table: The table, or its location.
        predicate: Not supported; use `selected_partitions`.
        order: Sort columns, separated by commas.
        show_involved_partition: Name the partitions, instead of `*`.
        op: `schedule`, `execute` (what is planned), or `scheduleAndExecute`, the default.
        order_strategy: `linear`, `z-order` or `hilbert`.
        options: More of Hudi's options: `key=value,key=value`.
        instants: Execute only the plans with these requested times, separated by commas.
        selected_partitions: Only these partitions, separated by commas.
        partition_regex_pattern: Only partitions that match.
        limit: Not supported.

    Returns:
        A row for each clustering that was planned or executed.

    Raises:
        InvalidOptionError: An argument is invalid.
        UnsupportedError: An argument is not supported.
        TableNotFoundError: There is no table at the location.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-procedures/cluster", {"id": pa.int64()}, name="t", record_key="id")
        >>> commit = t.insert({"id": [2, 1]})
        >>> run_clustering(t, order="id")["state"].to_pylist()
        ['COMPLETED']
    """
    _refuse(predicate=predicate, limit=limit)
    chosen = _operation(op)
    given = options_of(options)
    named = {
        "hoodie.clustering.plan.strategy.partition.selected": selected_partitions,
        "hoodie.clustering.plan.strategy.partition.regex.pattern": partition_regex_pattern,
        "hoodie.layout.optimize.strategy": order_strategy,
    }
    given |= {key: value for key, value in named.items() if value is not None}
    found = with_options(open_table(table), given)
    wanted = _instants(instants, op)
    before = _pending(found, {"clustering", "replacecommit"})
    touched = set(wanted)
    sort_by = None if order is None else [part.strip() for part in order.split(",") if part.strip()]
    if chosen != "execute" and not wanted:
        planned = found.schedule_clustering(sort_by=sort_by, options=given or None)
        touched |= set() if planned is None else {planned}
    if chosen != "schedule":
        touched |= {i.requested for i in before} if not wanted else set()
        for instant in sorted(touched):
            found.cluster(instant=instant)
    return arrow(_CLUSTERING, _clusterings(found, show_partitions=show_involved_partition, only=touched))


def _pending(table: Table, actions: set[str]) -> list[Instant]:
    pending = (i for i in table.timeline.instants() if i.state != "COMPLETED" and i.action in actions)
    planned = {p.instant for p in table.pending_clusterings()} if "clustering" in actions else None
    return [i for i in pending if planned is None or i.requested in planned]


def show_compaction(table: TableLike, limit: int = 20) -> pa.Table:
    """Return the compactions of the active timeline, newest first.

    Args:
        table: The table, or its location.
        limit: Return at most this many.

    Returns:
        A row for each compaction.

    Raises:
        InvalidOptionError: The table is not merge-on-read, or an argument is invalid.
        TableNotFoundError: There is no table at the location.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-procedures/compactions", {"id": pa.int64()}, name="t",
        ...                         record_key="id", table_type="MERGE_ON_READ")
        >>> commits = t.insert({"id": [1]}), t.upsert({"id": [1]}), t.compact()
        >>> show_compaction(t).select(["operation_size", "state"]).to_pylist()
        [{'operation_size': 1, 'state': 'COMPLETED'}]
    """
    found = open_table(table)
    _check_merge_on_read(found)
    return arrow(_COMPACTION, _compactions(found)[: check_limit(limit)])


def _check_merge_on_read(table: Table) -> None:
    if table.options.get("hoodie.table.type") != "MERGE_ON_READ":
        raise InvalidOptionError(
            f"{table.uri} is a copy-on-write table, which has no compactions: nothing is to be done"
        )


def _compactions(table: Table, only: set[str] | None = None) -> list[list[Any]]:
    rows = []
    for instant in reversed(table.timeline.instants()):
        # A completed compaction is a commit in a merge-on-read table.
        if instant.action not in {"compaction", "commit"} or (only is not None and instant.requested not in only):
            continue
        operations = (table.timeline.plan(instant) or {}).get("operations")
        if operations is not None:
            rows.append([instant.requested, len(operations), instant.state])
    return rows


def run_compaction(  # noqa: PLR0917 - Hudi's arguments
    table: TableLike,
    op: str,
    timestamp: str | int | None = None,
    options: str | None = None,
    instants: str | None = None,
    limit: int | None = None,
) -> pa.Table:
    """Plan and execute compactions; see `hoodoo.Table.compact`.

    Args:
        table: The table, or its location.
        op: `schedule`, `run` or `execute` (what is planned), or `scheduleAndExecute`.
        timestamp: Execute only the plan with this requested time.
        options: More of Hudi's options: `key=value,key=value`.
        instants: Execute only the plans with these requested times, separated by commas.
        limit: Execute at most this many plans, the oldest ones.

    Returns:
        A row for each compaction that was planned or executed.

    Raises:
        InvalidOptionError: The table is not merge-on-read, or an argument is invalid.
        TableNotFoundError: There is no table at the location.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-procedures/compact", {"id": pa.int64()}, name="t",
        ...                         record_key="id", table_type="MERGE_ON_READ",
        ...                         options={"hoodie.compact.inline": "false"})
        >>> commits = t.insert({"id": [1]}), t.upsert({"id": [1]})
        >>> options = "hoodie.compact.inline.max.delta.commits=1"
        >>> run_compaction(t, "schedule", options=options)["state"].to_pylist()
        ['REQUESTED']
        >>> run_compaction(t, "run")["state"].to_pylist()
        ['COMPLETED']
    """
    chosen = _operation(op, ("run",))
    found = with_options(open_table(table), options_of(options))
    _check_merge_on_read(found)
    wanted = _instants(instants, op) + ([] if timestamp is None else [str(timestamp)])
    before = [i.requested for i in _pending(found, {"compaction"})]
    touched = set(wanted)
    if chosen != "execute" and not wanted:
        planned = found.schedule_compaction()
        touched |= set() if planned is None else {planned}
    if chosen != "schedule":
        due = sorted(touched | (set() if wanted else set(before)))
        due = due if limit is None else due[: check_limit(limit)]
        touched = set(due)
        for instant in due:
            found.compact(instant)
    return arrow(_COMPACTION, _compactions(found, touched))


def run_clean(  # noqa: PLR0917 - Hudi's arguments
    table: TableLike,
    schedule_in_line: bool = True,
    clean_policy: str | None = None,
    retain_commits: int | None = None,
    hours_retained: int | None = None,
    file_versions_retained: int | None = None,
    trigger_strategy: str | None = None,
    trigger_max_commits: int | None = None,
    options: str | None = None,
) -> pa.Table:
    """Delete files that the cleaning policy does not keep; see `hoodoo.Table.clean`.

    Args:
        table: The table, or its location.
        schedule_in_line: Only True is supported: cleans are planned by the call.
        clean_policy: `KEEP_LATEST_COMMITS`, `KEEP_LATEST_FILE_VERSIONS` or `KEEP_LATEST_BY_HOURS`.
        retain_commits: `hoodie.clean.commits.retained`.
        hours_retained: `hoodie.clean.hours.retained`.
        file_versions_retained: `hoodie.clean.fileversions.retained`.
        trigger_strategy: Not supported: the call cleans at once.
        trigger_max_commits: Not supported, as `trigger_strategy`.
        options: More of Hudi's options: `key=value,key=value`.

    Returns:
        A row for the clean; none if there was nothing to delete.

    Raises:
        InvalidOptionError: An argument is invalid.
        UnsupportedError: An argument is not supported.
        TableNotFoundError: There is no table at the location.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-procedures/clean", {"id": pa.int64()}, name="t", record_key="id")
        >>> commits = [t.upsert({"id": [1]}) for _ in range(3)]
        >>> run_clean(t, retain_commits=1)["total_files_deleted"].to_pylist()
        [1]
    """
    _refuse(trigger_strategy=trigger_strategy, trigger_max_commits=trigger_max_commits)
    if schedule_in_line is not True:
        raise UnsupportedError(
            "schedule_in_line=False is not supported: a clean is planned by the call that executes it"
        )
    named = {
        "hoodie.clean.policy": clean_policy,
        "hoodie.clean.commits.retained": retain_commits,
        "hoodie.clean.hours.retained": hours_retained,
        "hoodie.clean.fileversions.retained": file_versions_retained,
    }
    given = options_of(options) | {key: str(value) for key, value in named.items() if value is not None}
    begun = time.monotonic()
    report = with_options(open_table(table), given).clean()
    millis = int((time.monotonic() - begun) * 1000)
    schema = {
        "start_clean_time": _S,
        "time_taken_in_millis": _L,
        "total_files_deleted": _I,
        "earliest_commit_to_retain": _S,
        "bootstrap_part_metadata": _S,
        "version": _I,
    }
    row = [report.instant, millis, len(report.files), report.earliest_to_retain, None, 2]
    return arrow(schema, [] if report.instant is None else [row])
