"""What `hoodoo info` tells of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hoodoo import Table

__all__ = ["table_facts"]


def table_facts(table: Table) -> dict[str, Any]:
    """Return the properties of a table.

    Args:
        table: The table.

    Returns:
        Values by name, as `hoodoo info --json` prints them.
    """
    options, slices, instants = table.options, table.file_slices(), table.timeline.instants()
    completed = [one for one in instants if one.state == "COMPLETED"]
    return {
        "uri": table.uri,
        "name": options.get("hoodie.table.name", ""),
        "version": table.version,
        "options": options,
        "schema": [{"name": field.name, "type": str(field.type), "nullable": field.nullable} for field in table.schema],
        "partitions": len({one.partition for one in slices}),
        "file_groups": len(slices),
        "base_bytes": sum(one.size for one in slices),
        "log_files": sum(len(one.log_files) for one in slices),
        "log_bytes": sum(one.log_size for one in slices),
        "completed": len(completed),
        "pending": len(instants) - len(completed),
        "latest": completed[-1] if completed else None,
    }
