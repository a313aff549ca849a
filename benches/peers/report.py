"""Shows what came out: a table for people, JSON for programs."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from .case import Case
    from .harness import Outcome

_MEBIBYTE = 1 << 20


def _memory_of_machine() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _ratio(value: float, other: float | None) -> str:
    return "" if not other else f"{value / other:.2f}"


def _wall_of(outcomes: list[Outcome], name: str) -> float | None:
    return next((o.median_wall for o in outcomes if o.name == name and o.wall and not o.problem), None)


def show(console: Console, case: Case, outcomes: list[Outcome], load: float) -> None:
    """Prints one table.

    Args:
        console: Where.
        case: What was done.
        outcomes: What came of it.
        load: Load of the machine before.
    """
    data = case.data
    share = f"{data.changes:,} changes to {data.rows:,} rows of {len(data.columns)} columns"
    table = Table(title=f"Copy-on-write upsert: {share}", title_justify="left", caption_justify="left")
    table.add_column("peer")
    table.add_column("versions")
    for heading in ("wall s", "CPU s", "rows/s", "peak RSS MB", "x floor", "x hoodoo", "CPU x floor", "CPU x hoodoo"):
        table.add_column(heading, justify="right")
    floor, alone = _wall_of(outcomes, "floor"), _wall_of(outcomes, "hoodoo")
    cpu = {o.name: o.median_cpu for o in outcomes if o.wall and not o.problem}
    for outcome in outcomes:
        versions = ", ".join(f"{name} {version}" for name, version in outcome.versions.items())
        if outcome.problem or not outcome.wall:
            table.add_row(outcome.label or outcome.name, versions, outcome.problem or "did not run")
            continue
        wall = outcome.median_wall
        table.add_row(
            outcome.label,
            versions,
            f"{wall:.2f}",
            f"{outcome.median_cpu:.2f}",
            f"{data.rows / wall:,.0f}",
            f"{outcome.peak / _MEBIBYTE:,.0f}",
            _ratio(wall, floor),
            _ratio(wall, alone),
            _ratio(outcome.median_cpu, cpu.get("floor")),
            _ratio(outcome.median_cpu, cpu.get("hoodoo")),
        )
    console.print(table)
    console.print(
        f"Data: {data.origin}. {case.cores} cores, {_memory_of_machine() / (1 << 30):.0f} GiB, median of {case.runs} "
        f"after a warm-up, files in the page cache, zstd level 1, JVM heap {case.java_memory}. rows/s counts the rows "
        f"of the table.\nLoad of the machine before: {load:.1f}. On a shared machine trust CPU seconds more than wall.",
        highlight=False,
    )


def save(target: Path, case: Case, outcomes: list[Outcome], load: float) -> None:
    """Writes everything as JSON."""
    data = case.data
    document: dict[str, Any] = {
        "when": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
        "machine": {
            "system": platform.platform(),
            "python": platform.python_version(),
            "cores": case.cores,
            "memory": _memory_of_machine(),
            "load_before": load,
        },
        "data": {
            "name": data.name,
            "origin": data.origin,
            "rows": data.rows,
            "changes": data.changes,
            "columns": len(data.columns),
            "partitioned_by": data.partition,
        },
        "runs": case.runs,
        "java_memory": case.java_memory,
        "options": case.options,
        "peers": [_entry(outcome) for outcome in outcomes],
    }
    target.write_text(json.dumps(document, indent=2) + "\n")


def _entry(outcome: Outcome) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": outcome.name,
        "label": outcome.label,
        "versions": outcome.versions,
        "problem": outcome.problem,
    }
    if outcome.wall and not outcome.problem:
        entry |= {
            "wall": outcome.wall,
            "cpu": outcome.cpu,
            "median_wall": outcome.median_wall,
            "median_cpu": outcome.median_cpu,
            "peak_rss": outcome.peak,
        }
    return entry
