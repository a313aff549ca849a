"""Output of `hoodoo sync`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from hoodoo.cli.render import console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoodoo import CatalogTable, SyncReport

__all__ = ["show_sync"]

# Partitions that are printed.
_SHOWN = 10


def show_sync(report: SyncReport) -> None:
    """Print what a sync did.

    Args:
        report: What it returned.
    """
    for table in report.tables:
        _show_table(table)
    for failure in report.failures:
        console.print(f"[yellow]not synced:[/] {escape(failure)}", highlight=False)


def _show_table(table: CatalogTable) -> None:
    done = "created" if table.created else "created again" if table.recreated else "changed"
    console.print(f"[bold]{escape(table.name)}[/] {done if table.changed else 'is up to date'}", highlight=False)
    for change in table.columns:
        console.print(f"  column {escape(str(change))}", highlight=False)
    _show("properties", table.properties)
    _show("partitions added", table.partitions_added)
    _show("partitions moved", table.partitions_changed)
    _show("partitions dropped", table.partitions_dropped)


def _show(what: str, names: Sequence[str]) -> None:
    if not names:
        return
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    shown = escape(", ".join(names[:_SHOWN]))
    console.print(f"  {len(names):,} {what}: {shown}{more}", highlight=False, soft_wrap=True)
