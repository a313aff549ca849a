"""Writing with nothing but an options dictionary, as Spark jobs do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hoodoo import _native
from hoodoo.arrow_input import Rows, record_batch_reader
from hoodoo.commit import Commit
from hoodoo.table import SchemaEvolution, check_options, evolution_option, text_options

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

__all__ = ["write"]


def write(
    data: Rows,
    uri: str | os.PathLike[str],
    operation: str | None = None,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    schema_evolution: SchemaEvolution | None = None,
) -> Commit:
    """Writes rows; creates the table when there is none.

    Args:
        data: See `hoodoo.arrow_input.Rows`. A `delete` needs the key columns only, and looks in all partitions when
            the partition columns are missing; `delete_partition` needs the partition columns, or no rows when
            `hoodie.datasource.write.partitions.to.delete` names the partitions.
        uri: The table's location.
        operation: `upsert`, `insert`, `bulk_insert`, `delete`, `insert_overwrite`, `insert_overwrite_table` or
            `delete_partition`. When None: `hoodie.datasource.write.operation` of the options, else `upsert`, or
            `bulk_insert` for a table without key columns.
        options: Hudi's options. A new table needs `hoodie.table.name`.
        storage_options: See `Table`.
        schema_evolution: `allow` or `refuse`; see `Table.upsert`.

    Returns:
        What was done.

    Raises:
        InvalidOptionError: Options that contradict each other or the table.
        SchemaError: Data that do not fit the table.
        UnsupportedError: A table or an option that hoodoo cannot handle.

    Examples:
        >>> import hoodoo
        >>> options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
        >>> hoodoo.write({"id": [1, 2]}, "memory://docs-write/t", options=options).inserted
        2
    """
    given = text_options(options) | evolution_option(schema_evolution)
    check_options(given, "write")
    reader = record_batch_reader(data)
    storage = dict(storage_options or {})
    chosen = (operation or _native.default_operation(given)).lower()
    if chosen in ("delete", "delete_partition"):
        table = _native.NativeTable.open(str(uri), given, storage)
    else:
        table = _native.NativeTable.open_or_create(str(uri), reader.schema, given, storage)
    partitions = [
        p.strip() for p in given.get("hoodie.datasource.write.partitions.to.delete", "").split(",") if p.strip()
    ]
    if chosen == "delete_partition" and partitions:
        return Commit.from_native(table.write(chosen, None, partitions))
    return Commit.from_native(table.write(chosen, reader))
