"""Output of the commands below `hoodoo metadata`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from hoodoo.cli.render import console, count, narrow
from hoodoo.display import human_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoodoo.metadata_table import MetadataPartition


def show_no_metadata_table(uri: str) -> None:
    """Print that a table has no metadata table.

    Args:
        uri: Location of the table.
    """
    console.print(f"{escape(uri)} has no metadata table", style="bold", highlight=False, soft_wrap=True)


def show_partitions(partitions: Sequence[MetadataPartition]) -> None:
    """Print the partitions of a metadata table.

    Args:
        partitions: The partitions.
    """
    headings = ("shards", "base files", "log files", "log bytes")
    grid = narrow(("partition",), headings, ("latest instant",))
    for one in partitions:
        grid.add_row(
            escape(one.name),
            count(one.shards),
            human_size(one.base_size),
            count(one.logs),
            human_size(one.log_size),
            one.latest_instant or "",
        )
    console.print(grid)


def show_row_count(partition: str, rows: int) -> None:
    """Print how many rows a partition has.

    Args:
        partition: Its name.
        rows: The number of rows.
    """
    console.print(f"{rows:,} rows in {escape(partition)}", style="dim")


def show_built(partitions: Sequence[str]) -> None:
    """Print which partitions a metadata table has after one was built.

    Args:
        partitions: Their names.
    """
    console.print(f"the metadata table has {escape(', '.join(partitions))}", highlight=False)


def show_dropped(names: Sequence[str]) -> None:
    """Print what was dropped.

    Args:
        names: What it was; nothing if it was not there.
    """
    message = f"dropped {', '.join(names)}" if names else "there was nothing to drop"
    console.print(escape(message), highlight=False)
