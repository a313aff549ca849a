"""Output of clusterings on a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.markup import escape
from rich.table import Table as Grid

from hoodoo.cli.overlap_picture import Span, picture, spans_expected, spans_of
from hoodoo.cli.render import console, narrow
from hoodoo.cli.render_timeline import age
from hoodoo.display import human_size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from hoodoo import ClusteringPlan, Commit, FileSlice, Overlap, OverlapDepth, PendingClustering

PICTURE_WIDTH = 80


@dataclass(frozen=True)
class Clustered:
    """The result of `hoodoo cluster run`.

    Attributes:
        commits: The clusterings, in order.
        replaced: The file slices that they replaced.
        written: The file slices that they wrote.
        seconds: The time it took, in seconds.
    """

    commits: Sequence[Commit]
    replaced: Sequence[FileSlice]
    written: Sequence[FileSlice]
    seconds: float


def show_plan(plan: ClusteringPlan, overlap: Overlap | None, schema: pa.Schema) -> None:
    """Print a plan.

    Args:
        plan: The plan.
        overlap: The overlap of files in its first sort column; None without sort columns.
        schema: The columns of the table.
    """
    console.print(plan)
    if overlap is not None:
        draw(overlap, spans_expected(overlap, plan), schema)


def show_clustered(done: Clustered, before: Overlap | None, after: Overlap | None, schema: pa.Schema) -> None:
    """Print the result of clusterings.

    Args:
        done: The clusterings.
        before: The overlap of files in the first sort column before them; None without sort columns.
        after: The overlap after them.
        schema: The columns of the table.
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
    for name, slices in (("in", done.replaced), ("out", done.written)):
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
    return f"{depth.max:,} at most, {depth.mean:.1f} on average"


def draw(before: Overlap, after: Sequence[Span], schema: pa.Schema) -> None:
    """Print how files overlap in a column.

    Args:
        before: The overlap before.
        after: The ranges after.
        schema: The columns of the table.
    """
    # Columns of Hudi and fields of structs are not in the schema: their values are drawn by order.
    kind = schema.field(before.column).type if before.column in schema.names else pa.string()
    lines = picture(before.column, kind, spans_of(before), after, min(console.width, PICTURE_WIDTH))
    if lines:
        console.print(f"\n{lines}", markup=False, highlight=False, soft_wrap=True)


def show_rolled_back(instant: str) -> None:
    """Print that a plan was rolled back.

    Args:
        instant: Requested time of the plan.
    """
    console.print(f"{instant} is off the timeline; the files of its plan are as they were", style="bold")


def show_planned(uri: str, instant: str | None) -> None:
    """Print the result of planning a clustering.

    Args:
        uri: Location of the table.
        instant: Requested time of the plan; None when there is none.
    """
    if instant is None:
        console.print("nothing to cluster", style="bold")
    else:
        console.print(f"planned as {instant}", style="bold")
        command = f"hoodoo cluster run {escape(uri)} {instant}"
        console.print(f"execute it with: {command}", style="dim", highlight=False, soft_wrap=True)


def show_pending(pending: Sequence[PendingClustering], now: datetime) -> None:
    """Print pending clusterings.

    Args:
        pending: The plans.
        now: The current time in the zone of the table.
    """
    if not pending:
        console.print("no clustering is planned", style="bold")
        return
    grid = narrow(("instant", "planned", "state"), ("groups", "slices", "output", "bytes"), ("sort by",))
    for plan in pending:
        grid.add_row(
            plan.instant,
            age(plan.instant, now),
            "inflight" if plan.inflight else "requested",
            f"{plan.groups:,}",
            f"{plan.slices:,}",
            f"{plan.output_file_groups:,}",
            human_size(plan.bytes),
            escape(", ".join(plan.sort_by)),
        )
    console.print(grid)
