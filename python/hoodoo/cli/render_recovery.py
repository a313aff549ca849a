"""Output of the commands that take commits back, and of `hoodoo clean`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table as Grid

from hoodoo.cli.render import console, count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoodoo.recovery import CleanReport, Restore, Rollback, Savepoint

# File names that are printed.
_SHOWN = 20


def _number(count_of: int, what: str) -> str:
    return f"{count_of:,} {what}" if count_of == 1 else f"{count_of:,} {what}s"


def show_clean(report: CleanReport) -> None:
    """Print what a clean deleted, or would delete.

    Args:
        report: What it returned.
    """
    if not report.files:
        console.print("there is nothing to clean")
        return
    verb = "would delete" if report.dry_run else "deleted"
    console.print(
        f"[bold]{report.instant or 'a clean'}[/] {verb} {_number(len(report.files), 'file')}", highlight=False
    )
    for path in report.files[:_SHOWN]:
        console.print(f"  {escape(path)}", highlight=False, soft_wrap=True)
    if len(report.files) > _SHOWN:
        console.print(f"  and {len(report.files) - _SHOWN:,} more", style="dim")
    if report.partitions:
        console.print(f"without files afterwards: {escape(', '.join(report.partitions))}", highlight=False)
    if report.earliest_to_retain:
        console.print(f"queries of {report.earliest_to_retain} and later find all files", style="dim", highlight=False)


def show_rollback(done: Rollback) -> None:
    """Print which write was rolled back.

    Args:
        done: The rollback.
    """
    console.print(
        f"[bold]{done.rolled_back}[/] was rolled back; {_number(done.files, 'file')} deleted", highlight=False
    )


def show_restore(done: Restore) -> None:
    """Print what a restore took back.

    Args:
        done: The restore.
    """
    console.print(
        f"the table is as of [bold]{done.savepoint}[/] again: {_number(len(done.undone), 'instant')} taken back, "
        f"{_number(done.files, 'file')} deleted",
        highlight=False,
    )


def show_savepoints(savepoints: Sequence[Savepoint]) -> None:
    """Print savepoints.

    Args:
        savepoints: The savepoints.
    """
    if not savepoints:
        console.print("there are no savepoints")
        return
    grid = Grid(header_style="bold")
    grid.add_column("commit")
    grid.add_column("files", justify="right")
    for heading in ("user", "comment"):
        grid.add_column(heading)
    for one in savepoints:
        grid.add_row(one.instant, count(one.files), escape(one.user), escape(one.comment))
    console.print(grid)


def show_deleted_savepoint(instant: str) -> None:
    """Print that a savepoint is gone.

    Args:
        instant: Requested time of its commit.
    """
    console.print(f"the savepoint of {instant} was deleted; the next clean may delete its files", highlight=False)
