"""`hoodoo upgrade`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table as Grid

from hoodoo.cli import output, render
from hoodoo.cli.arguments import Json, Options, StorageOptions, Uri, open_table
from hoodoo.upgrade import Upgrade, UpgradePlan

__all__ = ["add_upgrade"]


def upgrade(
    uri: Uri,
    *,
    to: Annotated[int, typer.Option("--to", help="The version that the table gets: 8 or 9.")] = 9,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done; do nothing.")] = False,
    as_json: Json = False,
    option: Options = None,
    storage_option: StorageOptions = None,
) -> None:
    """Upgrade a table of version 6 or 8; end an upgrade that was interrupted."""
    table = open_table(uri, storage_option, option)
    done = table.plan_upgrade(to) if dry_run else table.upgrade(to)
    if as_json:
        output.print_json(done)
    elif isinstance(done, UpgradePlan):
        _show_plan(done)
    else:
        _show(done)


def _show_plan(plan: UpgradePlan) -> None:
    if plan.version_before == plan.version_after and not plan.properties:
        render.console.print(f"the table has version {plan.version_before}: nothing to do", highlight=False)
        return
    render.console.print(f"[bold]version {plan.version_before} → {plan.version_after}[/]", highlight=False)
    steps = Grid(box=None, show_header=False, pad_edge=False)
    for what, value in (
        ("files of the timeline", plan.instants),
        ("archived instants", plan.archived),
        ("file slices to compact", plan.file_slices_to_compact),
        ("writes to roll back", len(plan.writes_to_roll_back)),
    ):
        steps.add_row(what, f"{value:,}")
    if plan.metadata_partitions:
        steps.add_row("metadata table", escape(", ".join(plan.metadata_partitions)))
    render.console.print(steps, highlight=False)
    for change in plan.properties:
        old, new = (escape(value) if value is not None else "—" for value in (change.old, change.new))
        render.console.print(f"  {escape(change.key)}: {old} → {new}", highlight=False, soft_wrap=True)


def _show(done: Upgrade) -> None:
    if done.version_before == done.version_after:
        render.console.print(f"the table has version {done.version_before}: nothing to do", highlight=False)
        return
    render.console.print(f"[bold]version {done.version_before} → {done.version_after}[/]", highlight=False)
    for what, values in (
        ("compacted", done.compactions),
        ("rolled back", done.rolled_back),
        ("metadata table", done.metadata_partitions),
    ):
        if values:
            render.console.print(f"{what}: {escape(', '.join(values))}", highlight=False)


def add_upgrade(app: typer.Typer) -> None:
    """Add the command to those of `hoodoo`.

    Args:
        app: The command line.
    """
    app.command()(upgrade)
