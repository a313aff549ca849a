"""How clusterings look on a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.markup import escape
from rich.table import Table as Grid

from hoodoo.cli.overlap_picture import Span, picture, spans_expected, spans_of
from hoodoo.cli.render import console, human_size
from hoodoo.cli.render_timeline import age

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from hoodoo import ClusteringPlan, Commit, FileSlice, Overlap, OverlapDepth, PendingClustering

PICTURE_WIDTH = 80


@dataclass(frozen=True)
class Clustered:
    """What a run of clusterings did.

    Attributes:
        commits: The clusterings, in their order.
        taken: The file slices that they replaced.
        written: Those that they wrote.
        seconds: The time it took.
    """

    commits: Sequence[Commit]
    taken: Sequence[FileSlice]
    written: Sequence[FileSlice]
    seconds: float


def show_plan(plan: ClusteringPlan, overlap: Overlap | None, schema: pa.Schema) -> None:
    """Prints what would be planned.

    Args:
        plan: The plan.
        overlap: How files lie over each other in its first sort column, when it has one.
        schema: Columns of the table.
    """
    console.print(plan)
    if overlap is not None:
        draw(overlap, spans_expected(overlap, plan), schema)


def show_clustered(done: Clustered, before: Overlap | None, after: Overlap | None, schema: pa.Schema) -> None:
    """Prints what was done.

    Args:
        done: The clusterings.
        before: How files lay over each other in the first sort column, when there is one.
        after: How they do now.
        schema: Columns of the table.
    """
    if not done.commits:
        console.print("nothing to cluster", style="bold")
        return
    instants = ", ".join(commit.instant for commit in done.commits)
    rows = sum(commit.inserted for commit in done.commits)
    console.print(f"{instants} clustered {rows:,} rows in {done.seconds:.2f} s", style="bold green", highlight=False)
    grid = Grid(header_style="bold")
    grid.add_column("")
    for heading in ("files", "bytes"):
        grid.add_column(heading, justify="right")
    cells = []
    for name, slices in (("in", done.taken), ("out", done.written)):
        size = sum(part.size + part.log_size for part in slices)
        cells.append([name, f"{len(slices):,}", human_size(size)])
    if before is not None and after is not None:
        grid.add_column(f"files to open for one {escape(before.column)}")
        for line, overlap in zip(cells, (before, after), strict=True):
            line.append(_depth(overlap.depth))
    for line in cells:
        grid.add_row(*line)
    console.print(grid)
    if before is not None and after is not None:
        draw(before, spans_of(after), schema)


def _depth(depth: OverlapDepth) -> str:
    return f"{depth.greatest:,} at most, {depth.mean:.1f} on average"


def draw(before: Overlap, after: Sequence[Span], schema: pa.Schema) -> None:
    """Draws files over the range of a column.

    Args:
        before: How they lie.
        after: How they will lie.
        schema: Columns of the table.
    """
    # Of other columns, those of Hudi and fields of structs, values are drawn by their order.
    kind = schema.field(before.column).type if before.column in schema.names else pa.string()
    lines = picture(before.column, kind, spans_of(before), after, min(console.width, PICTURE_WIDTH))
    if lines:
        console.print(f"\n{lines}", markup=False, highlight=False, soft_wrap=True)


def show_rolled_back(instant: str) -> None:
    """Prints that a plan is gone.

    Args:
        instant: Its requested time.
    """
    console.print(f"{instant} is off the timeline; the files of its plan are as they were", style="bold")


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
        command = f"hoodoo cluster run {escape(uri)} {instant}"
        console.print(f"carry it out with: {command}", style="dim", highlight=False, soft_wrap=True)


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
