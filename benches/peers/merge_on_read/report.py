"""Shows what came out: a table for people, JSON for programs."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from benches.peers.merge_on_read.job import Outcome
    from benches.peers.merge_on_read.plan import Entry, Group

    Results = list[tuple[Group, list[tuple[Entry, Outcome]]]]

_MEBIBYTE = 1 << 20


def show(console: Console, results: Results) -> None:
    """Prints one table, a section for each group; the first of each has the ratio 1."""
    table = Table(title="Merge-on-read and the record merger", title_justify="left")
    table.add_column("what, and by which system")
    for heading in ("wall s", "CPU s", "M rows/s", "peak RSS MB", "x first", "CPU x first", "peak x first"):
        table.add_column(heading, justify="right")
    for group, entries in results:
        table.add_row(f"[bold]{group.title}[/bold]")
        first = next((outcome for _, outcome in entries if outcome.wall and not outcome.problem), None)
        if entries[0][1].problem:
            first = None
        for entry, outcome in entries:
            if outcome.problem or not outcome.wall:
                table.add_row(f"  {entry.label}: [red]{outcome.problem or 'did not run'}[/red]")
                continue
            table.add_row(
                f"  {entry.label}",
                f"{outcome.median_wall:.3f}",
                f"{outcome.median_cpu:.2f}",
                f"{group.rows / outcome.median_wall / 1e6:.2f}",
                f"{outcome.peak / _MEBIBYTE:,.0f}",
                _ratio(outcome.median_wall, first and first.median_wall),
                _ratio(outcome.median_cpu, first and first.median_cpu),
                _ratio(outcome.peak, first and first.peak),
            )
        table.add_section()
    console.print(table)


def about(rows: int, runs: int, cores: int, java_memory: str, load: float, results: Results) -> str:
    """Says what the figures were measured on, and with what."""
    versions = sorted({f"{name} {v}" for _, entries in results for _, o in entries for name, v in o.versions.items()})
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return (
        f"{rows:,} rows of 6 columns in 4 partitions; medians of {runs} after warming up, files in the page cache, zstd "
        f"level 1, JVM heap {java_memory}.\n{cores} cores, {memory:.0f} GiB, Python {platform.python_version()}, "
        f"{', '.join(versions)}.\nLoad of the machine before and after: {load:.1f}, {os.getloadavg()[0]:.1f}. On a "
        f"shared machine trust CPU seconds more than wall; what takes some milliseconds has none worth reading."
    )


def save(target: Path, rows: int, cores: int, load: float, results: Results) -> None:
    """Writes everything as JSON."""
    document = {
        "when": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
        "machine": {
            "system": platform.platform(),
            "python": platform.python_version(),
            "cores": cores,
            "load_before": load,
            "load_after": os.getloadavg()[0],
        },
        "rows": rows,
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
    target.write_text(json.dumps(document, indent=2) + "\n")


def _ratio(value: float, other: float | None) -> str:
    return f"{value / other:.2f}" if other else ""
