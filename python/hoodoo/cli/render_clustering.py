"""How clusterings look on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table as Grid

from hoodoo.cli.render import console, human_size
from hoodoo.cli.render_timeline import age

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from hoodoo import ClusteringPlan, PendingClustering


def show_plan(plan: ClusteringPlan) -> None:
    """Prints what would be planned.

    Args:
        plan: The plan.
    """
    console.print(plan)


def show_planned(uri: str, instant: str | None) -> None:
    """Prints what came of planning a clustering.

    Args:
        uri: Where the table is.
        instant: Requested time of the plan, if there is one.
    """
    if instant is None:
        console.print("nothing to cluster", style="bold")
    else:
        console.print(f"planned as {instant}", style="bold")
        command = f"hoodoo cluster status {escape(uri)}"
        console.print(f"look at it with: {command}", style="dim", highlight=False, soft_wrap=True)


def show_pending(pending: Sequence[PendingClustering], now: datetime) -> None:
    """Prints the plans that wait.

    Args:
        pending: The plans.
        now: The present time in the zone of the table.
    """
    if not pending:
        console.print("no clustering is planned", style="bold")
        return
    grid = Grid(header_style="bold")
    grid.add_column("instant")
    grid.add_column("planned")
    grid.add_column("state")
    for heading in ("groups", "file slices", "bytes", "outputs"):
        grid.add_column(heading, justify="right")
    grid.add_column("sort by")
    for plan in pending:
        grid.add_row(
            plan.instant,
            age(plan.instant, now),
            "inflight" if plan.inflight else "requested",
            f"{plan.groups:,}",
            f"{plan.slices:,}",
            human_size(plan.bytes),
            f"{plan.outputs:,}",
            escape(", ".join(plan.sort_by)),
        )
    console.print(grid)
