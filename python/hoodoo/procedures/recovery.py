"""Procedures that make savepoints and go back."""

from __future__ import annotations

import pyarrow as pa

from hoodoo.procedures.arguments import TableLike, arrow, check_text, open_table

__all__ = ["create_savepoint", "delete_savepoint", "rollback_to_instant", "rollback_to_savepoint", "show_savepoints"]


def show_savepoints(table: TableLike) -> pa.Table:
    """Return the savepoints, newest first.

    Args:
        table: The table, or its location.

    Returns:
        A row for each savepoint.

    Raises:
        InvalidOptionError: The argument is invalid.
        TableNotFoundError: There is no table at the location.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-procedures/saved", {"id": pa.int64()}, name="t", record_key="id")
        >>> commit = t.insert({"id": [1]})
        >>> done = create_savepoint(t, commit.instant)
        >>> show_savepoints(t)["savepoint_time"].to_pylist() == [commit.instant]
        True
    """
    found = [[savepoint.instant] for savepoint in reversed(open_table(table).savepoints())]
    return arrow({"savepoint_time": pa.string()}, found)


def create_savepoint(table: TableLike, commit_time: str = "", user: str = "", comments: str = "") -> pa.Table:
    """Make a savepoint; see `hoodoo.Table.savepoint`.

    Args:
        table: The table, or its location.
        commit_time: Requested time of the commit. Default: the newest one.
        user: Who makes it.
        comments: Why.

    Returns:
        One row, with whether it was made.

    Raises:
        InvalidOptionError: There is no such commit, it has a savepoint, or files of that state were cleaned.
        TableNotFoundError: There is no table at the location.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-procedures/savepoint", {"id": pa.int64()}, name="t", record_key="id")
        >>> commit = t.insert({"id": [1]})
        >>> create_savepoint(t, user="ann", comments="before the migration").to_pylist()
        [{'create_savepoint_result': True}]
    """
    open_table(table).savepoint(commit_time or None, user=user, comment=comments)
    return arrow({"create_savepoint_result": pa.bool_()}, [[True]])


def delete_savepoint(table: TableLike, instant_time: str) -> pa.Table:
    """Delete a savepoint; see `hoodoo.Table.delete_savepoint`.

    Args:
        table: The table, or its location.
        instant_time: Requested time of the commit.

    Returns:
        One row, with whether it was deleted.

    Raises:
        InvalidOptionError: There is no such savepoint.
        TableNotFoundError: There is no table at the location.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-procedures/unsave", {"id": pa.int64()}, name="t", record_key="id")
        >>> commit = t.insert({"id": [1]})
        >>> made = create_savepoint(t)
        >>> delete_savepoint(t, commit.instant).to_pylist()
        [{'delete_savepoint_result': True}]
    """
    open_table(table).delete_savepoint(check_text("instant_time", instant_time))
    return arrow({"delete_savepoint_result": pa.bool_()}, [[True]])


def rollback_to_instant(table: TableLike, instant_time: str) -> pa.Table:
    """Take back one commit, the newest; see `hoodoo.Table.rollback`.

    Args:
        table: The table, or its location.
        instant_time: Requested time of the commit.

    Returns:
        One row, with whether it was taken back.

    Raises:
        InvalidOptionError: There is no such commit, or it cannot be taken back.
        TableNotFoundError: There is no table at the location.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-procedures/rollback", {"id": pa.int64()}, name="t", record_key="id")
        >>> first, second = t.insert({"id": [1]}), t.insert({"id": [2]})
        >>> rollback_to_instant(t, second.instant).to_pylist(), t.count()
        ([{'rollback_result': True}], 1)
    """
    open_table(table).rollback(check_text("instant_time", instant_time))
    return arrow({"rollback_result": pa.bool_()}, [[True]])


def rollback_to_savepoint(table: TableLike, instant_time: str) -> pa.Table:
    """Make the table what it was at a savepoint; see `hoodoo.Table.restore`.

    Args:
        table: The table, or its location.
        instant_time: Requested time of the commit that has the savepoint.

    Returns:
        One row, with whether it was done.

    Raises:
        InvalidOptionError: There is no such savepoint.
        TableNotFoundError: There is no table at the location.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-procedures/restore", {"id": pa.int64()}, name="t", record_key="id")
        >>> commit = t.insert({"id": [1]})
        >>> made, later = create_savepoint(t), t.insert({"id": [2]})
        >>> rollback_to_savepoint(t, commit.instant).to_pylist(), t.count()
        ([{'rollback_savepoint_result': True}], 1)
    """
    open_table(table).restore(check_text("instant_time", instant_time))
    return arrow({"rollback_savepoint_result": pa.bool_()}, [[True]])
