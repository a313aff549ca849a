"""Shows what came out: a table for people, JSON for programs."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from benches.peers.codec import described

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from benches.peers.merge_on_read.job import Outcome
    from benches.peers.merge_on_read.plan import Entry, Group

    Results = list[tuple[Group, list[tuple[Entry, Outcome]]]]

_MEBIBYTE = 1 << 20
_TOLD_CPU = 0.1
"""Seconds; see `_ratios`."""
_MILLISECONDS = 0.1
"""Seconds below which a digit more is told."""


def show(console: Console, title: str, results: Results) -> None:
    """Prints one table, a section for each group; the first of each has the ratio 1."""
    table = Table(title=title, title_justify="left")
    noted = any(outcome.notes for _, entries in results for _, outcome in entries)
    table.add_column("what, and by which system")
    for heading in ("wall s", "CPU s", "M rows/s", "peak RSS MB", "x first", "CPU x first", "peak x first"):
        table.add_column(heading, justify="right")
    if noted:
        table.add_column("result")
    for group, entries in results:
        table.add_row(f"[bold]{group.title}[/bold]")
        first = entries[0][1] if entries[0][1].wall and not entries[0][1].problem else None
        for entry, outcome in entries:
            if outcome.problem or not outcome.wall:
                table.add_row(f"  {entry.label}: [red]{escape(outcome.problem or 'did not run')}[/red]")
                continue
            table.add_row(
                f"  {entry.label}",
                _seconds(outcome.median_wall),
                f"{outcome.median_cpu:.2f}",
                f"{group.rows / outcome.median_wall / 1e6:.2f}",
                f"{outcome.peak / _MEBIBYTE:,.0f}",
                *(_ratios(outcome, first) if first else ("", "", "")),
                *([", ".join(f"{value:,.10g} {name}" for name, value in outcome.notes.items())] if noted else ()),
            )
        table.add_section()
    console.print(table)


def line(group: Group, entry: Entry, outcome: Outcome) -> str:
    """Says in one line what came of a system."""
    said = outcome.problem or f"{_seconds(outcome.median_wall)} s, CPU {outcome.median_cpu:.2f} s"
    return f"{group.title}: {entry.label}: {said}"


def about(given: argparse.Namespace, load: float, results: Results, rows: str, floors: str) -> str:
    """Says what the figures were measured on, and with what.

    Args:
        given: The command line.
        load: Load of the machine before.
        results: The figures.
        rows: What the rows are like.
        floors: What the floors do not do.
    """
    versions = sorted({f"{name} {v}" for _, entries in results for _, o in entries for name, v in o.versions.items()})
    gibibytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    machine = f"{given.cores} cores, {gibibytes:.0f} GiB, Python {platform.python_version()}"
    return (
        f"{given.rows:,} rows of {rows}; medians of {given.runs} or more runs after warming up, "
        f"files in the page cache, {described()}, JVM heap {given.java_memory}.\n{machine}, {', '.join(versions)}.\n"
        f"Load of the machine before and after: {load:.1f}, {os.getloadavg()[0]:.1f}. On a shared machine trust CPU "
        f"seconds more than wall.\nThe first of each group is what the others are divided by. {floors}"
    )


def save(given: argparse.Namespace, load: float, results: Results) -> None:
    """Writes everything as JSON, to the file that the command line names. Takes the first arguments of `about`."""
    document = {
        "when": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
        "machine": {
            "system": platform.platform(),
            "python": platform.python_version(),
            "cores": given.cores,
            "load_before": load,
            "load_after": os.getloadavg()[0],
        },
        "rows": given.rows,
        "runs": given.runs,
        "java_memory": given.java_memory,
        "groups": [
            {
                "task": group.task,
                "title": group.title,
                "rows": group.rows,
                "systems": [{"system": e.system, "label": e.label, **asdict(outcome)} for e, outcome in entries],
            }
            for group, entries in results
        ],
    }
    given.json.write_text(json.dumps(document, indent=2) + "\n")


def _seconds(wall: float) -> str:
    return f"{wall:.3f}" if wall >= _MILLISECONDS else f"{wall:.4f}"


def _ratios(outcome: Outcome, first: Outcome) -> tuple[str, str, str]:
    # The kernel counts CPU time in ticks: a ratio of some of them says nothing.
    told = min(outcome.median_cpu, first.median_cpu) >= _TOLD_CPU
    return (
        f"{outcome.median_wall / first.median_wall:.2f}",
        f"{outcome.median_cpu / first.median_cpu:.2f}" if told else "",
        f"{outcome.peak / first.peak:.2f}",
    )
