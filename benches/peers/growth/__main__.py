"""The command line: `python -m benches.peers.growth [--axes partitions,columns] [--most 10000] [--hudi]`."""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benches.peers import spark_session
from benches.peers.case import PROJECT
from benches.peers.growth import hudi
from benches.peers.growth.axes import AXES

STEEP = 1.25
"""A slope from which on the cost counts as growing faster than the work."""
NOISE = 0.05
"""CPU seconds below which a slope says nothing."""

Row = dict[str, Any]


def measure(system: str, axis: str, size: int, scratch: str | None) -> list[Row]:
    """Does the steps of one axis at one size."""
    command = [sys.executable, "-m", "benches.peers.growth.worker", system, axis, str(size)]
    command += ["--scratch", scratch] if scratch else []
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    if done.returncode:
        message = f"{system} failed at {axis} {size}: {done.stderr.strip().splitlines()[-1:]}"
        raise RuntimeError(message)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def slope(rows: list[Row]) -> float | None:
    """Gives by which power of the size the CPU time grows between the two largest sizes."""
    known = [row for row in rows if row["problem"] is None and row["cpu"] > NOISE]
    if len(known) < 2:  # noqa: PLR2004
        return None
    before, last = known[-2:]
    return math.log(last["cpu"] / before["cpu"]) / math.log(last["size"] / before["size"])


def show(console: Console, axis: str, rows: list[Row]) -> int:
    """Prints one axis; how many of its tasks grow faster than their work."""
    sizes = sorted({row["size"] for row in rows})
    table = Table(title=f"{axis}: wall (CPU) seconds", title_justify="left")
    for heading in ("task", "system"):
        table.add_column(heading)
    for size in sizes:
        table.add_column(f"{size:,}", justify="right")
    table.add_column("slope", justify="right")
    steep = 0
    for key in dict.fromkeys((row["task"], row["system"]) for row in rows):
        own = [row for row in rows if (row["task"], row["system"]) == key]
        cells = {row["size"]: row["problem"] or f"{row['wall']:.3f} ({row['cpu']:.2f})" for row in own}
        grows = slope(own)
        steep += key[1] == "hoodoo" and grows is not None and grows > STEEP
        table.add_row(*key, *(cells.get(size, "") for size in sizes), "" if grows is None else f"{grows:.2f}")
    console.print(table)
    return steep


def main() -> int:
    """Measures the axes; 1 when the cost of a task grows faster than its work, or a task failed."""
    parser = argparse.ArgumentParser(prog="python -m benches.peers.growth", description=__doc__)
    parser.add_argument("--axes", default=",".join(AXES), help="some of the axes")
    parser.add_argument("--most", type=int, default=10_000, help="the largest size of each axis")
    parser.add_argument("--hudi", action="store_true", help="real Hudi too, at sizes that it can do")
    parser.add_argument("--scratch", help="folder for the tables")
    parser.add_argument("--json", type=Path, help="file for all figures")
    given = parser.parse_args()
    console = Console() if sys.stdout.isatty() else Console(width=160)
    reason = spark_session.missing_hudi() if given.hudi else None
    if reason:
        console.print(f"Without Hudi: {reason}")
    load, rows, steep = os.getloadavg()[0], [], 0
    for axis in given.axes.split(","):
        own: list[Row] = []
        for size in (size for size in AXES[axis][1] if size <= given.most):
            own += measure("hoodoo", axis, size, given.scratch)
        if given.hudi and not reason:
            for size in (size for size in hudi.SIZES.get(axis, ()) if size <= given.most):
                own += measure("hudi", axis, size, given.scratch)
        steep += show(console, axis, own)
        rows += own
    console.print(f"{os.cpu_count()} cores; load of the machine before: {load:.1f}. Slope: log of CPU by log of size.")
    if given.json:
        given.json.write_text(json.dumps({"load": load, "rows": rows}, indent=2))
    return 1 if steep or any(row["problem"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
