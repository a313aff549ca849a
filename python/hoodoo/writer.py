"""Writes with Hudi's options alone, as Spark jobs do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoodoo import _native
from hoodoo.arguments import location, optional_text, storage_settings
from hoodoo.commit import Commit
from hoodoo.exceptions import TableNotFoundError
from hoodoo.options import check_options, split_list, string_options, write_options
from hoodoo.progress import Progress, Watch, number_of_rows
from hoodoo.rows import Rows, has_types, record_batch_reader
from hoodoo.sync.after_commit import sync_after_commit

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from hoodoo.options import Options, SchemaEvolution

__all__ = ["write"]


def write(
    data: Rows,
    uri: str | os.PathLike[str],
    operation: str | None = None,
    options: Options | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    schema_evolution: SchemaEvolution | None = None,
    progress: Progress = None,
) -> Commit:
    """Write rows; create the table when there is none.

    Args:
        data: The rows; see `hoodoo.rows.Rows`. `delete` needs only the key columns, and searches all partitions when
            the partition columns are missing. `delete_partition` needs only the partition columns; it ignores the rows
            when `hoodie.datasource.write.partitions.to.delete` names the partitions.
        uri: The table's location.
        operation: `upsert`, `insert`, `bulk_insert`, `delete`, `insert_overwrite`, `insert_overwrite_table` or
            `delete_partition`. Default: the option `hoodie.datasource.write.operation`, else `upsert`, or
            `bulk_insert` for a table without key columns.
        options: Hudi's options. A new table needs `hoodie.table.name`.
        storage_options: See `Table`.
        schema_evolution: `allow` or `refuse`; see `Table.upsert`.
        progress: See `Table`.

    Returns:
        The commit.

    Raises:
        InvalidOptionError: Options contradict each other or the table.
        SchemaError: The rows do not match the table.
        UnsupportedError: The table or an option is not supported.
        ConflictError: Another writer changed the same file groups, and retries did not help.

    Examples:
        >>> import hoodoo
        >>> options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
        >>> hoodoo.write({"id": [1, 2]}, "memory://docs-write/t", options=options).inserted
        2
    """
    given = string_options(options) | write_options(schema_evolution)
    check_options(given, "write")
    storage, uri = storage_settings(storage_options), location(uri)
    asked = optional_text(operation, "operation", "'upsert'")
    stated = asked or _native.stated_operation(given) or ""
    chosen = stated.lower()
    table = None
    if chosen in ("delete", "delete_partition"):
        table = _native.NativeTable.open(uri, given, storage)
    elif not has_types(data):
        table = _table_if_there(uri, given, storage)
    schema = None if table is None or has_types(data) else table.schema()
    reader = record_batch_reader(data, schema)
    if table is None:
        table = _native.NativeTable.open_or_create(uri, reader.schema, given, storage)
    # What is there decides, not what the options repeat of it.
    chosen = chosen or table.default_operation.lower()
    partitions = split_list(given.get("hoodie.datasource.write.partitions.to.delete"))
    if chosen == "delete_partition" and partitions:
        return sync_after_commit(Commit.from_native(table.write(chosen, None, partitions)), table, given)
    with Watch(progress, chosen, stages=True) as watch:
        done = table.write(chosen, watch.rows(reader, number_of_rows(data)))
    return sync_after_commit(Commit.from_native(done), table, given)


def _table_if_there(uri: str, options: dict[str, str], storage: dict[str, str]) -> _native.NativeTable | None:
    """Open the table, which has the types of columns of plain Python values."""
    try:
        return _native.NativeTable.open(uri, options, storage)
    except TableNotFoundError:
        return None
