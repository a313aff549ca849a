"""Procedures on the files and the settings of a table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from hoodoo.procedures.arguments import TableLike, arrow, check_limit, open_table

__all__ = ["show_fsview_latest", "show_table_properties"]

_S, _L, _D = pa.string(), pa.int64(), pa.float64()


def show_fsview_latest(table: TableLike, limit: int = 10) -> pa.Table:
    """Return the file slices of the newest snapshot.

    Args:
        table: The table, or its location.
        limit: Return at most this many.

    Returns:
        A row for each file slice, sorted by partition and file id. As in Hudi 1.2, the sizes of log files count as
        scheduled for compaction, and their paths as unscheduled.

    Raises:
        InvalidOptionError: An argument is invalid.
        TableNotFoundError: There is no table at the location.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-procedures/fsview", {"id": pa.int64()}, name="t", record_key="id")
        >>> commit = t.insert({"id": [1, 2]})
        >>> found = show_fsview_latest(t).select(["base_instant", "num_delta_files"]).to_pylist()
        >>> found == [{"base_instant": commit.instant, "num_delta_files": 0}]
        True
    """
    found = open_table(table)
    schema = {
        "partition": _S,
        "file_id": _S,
        "base_instant": _S,
        "data_file": _S,
        "data_file_size": _L,
        "num_delta_files": _L,
        "total_delta_file_size": _L,
        "delta_size_compaction_scheduled": _L,
        "delta_size_compaction_unscheduled": _L,
        "delta_to_base_radio_compaction_scheduled": _D,
        "delta_to_base_radio_compaction_unscheduled": _D,
        "delta_files_compaction_scheduled": _S,
        "delta_files_compaction_unscheduled": _S,
    }
    base_path = _hadoop_path(found.uri)
    rows = []
    for row in found._native.file_slices(None)[: check_limit(limit)]:  # noqa: SLF001 - with the size of each log file
        partition, file_id, base_instant, base_file, size, logs, log_sizes = row
        total = sum(log_sizes)
        newest_first = sorted(zip(logs, log_sizes, strict=True), key=lambda log: log[0], reverse=True)
        listed = ", ".join(f"HoodieLogFile(pathStr={base_path}/{path}, fileSize={n})" for path, n in newest_first)
        rows.append(
            [
                partition,
                file_id,
                base_instant,
                "" if base_file is None else f"{base_path}/{base_file}",
                -1 if base_file is None else size,
                len(logs),
                total,
                total,
                0,
                total / size if size else -1.0,
                0.0 if size else -1.0,
                "[]",
                f"[{listed}]",
            ]
        )
    return arrow(schema, rows)


def _hadoop_path(uri: str) -> str:
    return uri if "://" in uri else f"file:{Path(uri).absolute()}"


def show_table_properties(table: TableLike, limit: int = 10) -> pa.Table:
    """Return the table config, sorted by key.

    Args:
        table: The table, or its location.
        limit: Return at most this many.

    Returns:
        A row for each property of `hoodie.properties`.

    Raises:
        InvalidOptionError: An argument is invalid.
        TableNotFoundError: There is no table at the location.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-procedures/config", {"id": pa.int64()}, name="t", record_key="id")
        >>> dict(zip(*show_table_properties(t, limit=100).to_pydict().values()))["hoodie.table.name"]
        't'
    """
    found = sorted(open_table(table).options.items())
    return arrow({"key": _S, "value": _S}, found[: check_limit(limit)])
