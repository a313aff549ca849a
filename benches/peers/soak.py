"""Thousands of upserts into one merge-on-read table, with every service behind them: does anything grow?

`python -m benches.peers.soak [--upserts 2000] [--plot soak.svg] [--json soak.json]`
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table as Figures

import hoodoo
from benches.peers.processes import resident

KEYS = 40_000
PER_UPSERT = 800
PARTITIONS = 4
WINDOW = 200
WARM_UP = 2 * WINDOW
"""Upserts after which the table has all that it keeps: commits, file slices, a compacted metadata table."""
MOST_GROWTH = 1.2
OPTIONS = {
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "5",
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "20",
    "hoodie.clustering.plan.strategy.sort.columns": "val",
}
Row = dict[str, Any]


def batch(keys: list[int], ts: int) -> pa.Table:
    """Makes a row for each key."""
    return pa.table(
        {
            "id": pa.array([f"k{key:07}" for key in keys]),
            "ts": pa.array([ts] * len(keys), pa.int64()),
            "part": pa.array([f"p{key % PARTITIONS}" for key in keys]),
            "val": pa.array([f"v{key * 7919 % 104729}-{ts}" for key in keys]),
        }
    )


def sizes(folder: Path) -> tuple[int, int]:
    """Gives the bytes and the number of the files in a folder."""
    found = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return sum(found), len(found)


def check(table: hoodoo.Table, newest: dict[int, int]) -> None:
    """Compares every row with what was written last."""
    read = table.to_arrow(columns=["id", "ts"]).to_pydict()
    expected = {f"k{key:07}": ts for key, ts in newest.items()}
    if dict(zip(read["id"], read["ts"], strict=True)) != expected or len(read["id"]) != len(expected):
        message = "the table does not have the rows that were written"
        raise AssertionError(message)
    problems = table.verify().problems
    if problems:
        raise AssertionError(problems)


def soak(path: Path, upserts: int, console: Console) -> list[Row]:
    """Writes, and measures each upsert; the table is compared with what was written at the end of each window."""
    chance = random.Random(7)  # noqa: S311
    newest = dict.fromkeys(range(KEYS), 0)
    table = hoodoo.Table.create(
        path,
        batch([0], 0).schema,
        name="soak",
        record_key="id",
        partition_by="part",
        ordering="ts",
        table_type="MERGE_ON_READ",
        options=OPTIONS,
    )
    table.bulk_insert(batch(list(newest), 0))
    rows: list[Row] = []
    for number in range(1, upserts + 1):
        keys = sorted(chance.sample(range(KEYS), PER_UPSERT))
        given = batch(keys, number)
        begun = time.perf_counter()
        table.upsert(given)
        seconds = time.perf_counter() - begun
        newest |= dict.fromkeys(keys, number)
        row: Row = {"upsert": number, "seconds": seconds, "resident": resident([os.getpid()])}
        if number % 10 == 0:
            row["bytes"], row["files"] = sizes(path / ".hoodie")
            row["history"], _ = sizes(path / ".hoodie/timeline/history")
            row["data"], row["data_files"] = sizes(path)
        rows.append(row)
        if number % WINDOW == 0:
            check(table, newest)
            console.log(f"{number} upserts")
    return rows


def windows(rows: list[Row]) -> list[Row]:
    """Gives the figures of each window."""
    found = []
    for start in range(0, len(rows), WINDOW):
        part = rows[start : start + WINDOW]
        seen = [row for row in part if "bytes" in row]
        figures: Row = {"upserts": f"{start + 1:,} to {start + len(part):,}"}
        figures["seconds"] = statistics.mean(row["seconds"] for row in part)
        figures["median"] = statistics.median(row["seconds"] for row in part)
        figures["resident"] = max(row["resident"] for row in part)
        for name in ("bytes", "files", "history", "data", "data_files"):
            figures[name] = statistics.mean(row[name] for row in seen)
        found.append(figures)
    return found


def show(console: Console, found: list[Row]) -> int:
    """Prints the windows, and by how much the last differs from the first after the warm-up."""
    table = Figures(title=f"{KEYS:,} rows, {PER_UPSERT} a commit")
    headings = ("upserts", "mean of a commit", "median", "peak RSS", ".hoodie", "files there", "of it history", "table")
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in found:
        table.add_row(
            row["upserts"],
            f"{1000 * row['seconds']:.0f} ms",
            f"{1000 * row['median']:.0f} ms",
            f"{row['resident'] / 1e6:.0f} MB",
            f"{row['bytes'] / 1e6:.2f} MB",
            f"{row['files']:.0f}",
            f"{row['history'] / 1e6:.2f} MB",
            f"{row['data'] / 1e6:.1f} MB",
        )
    console.print(table)
    first, last = found[WARM_UP // WINDOW], found[-1]
    grown = 0
    for name in ("seconds", "median", "resident", "bytes", "files", "data"):
        ratio = last[name] / first[name]
        grown += ratio > MOST_GROWTH
        console.print(f"{name}: {ratio:.2f} times the first {WINDOW} after {WARM_UP}")
    without = (last["bytes"] - last["history"]) / (first["bytes"] - first["history"])
    console.print(f"bytes without history: {without:.2f} times")
    return grown


def plot(rows: list[Row], to: Path) -> None:
    """Draws the figures over the upserts."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("svg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    seen = [row for row in rows if "bytes" in row]
    figure, axes = plt.subplots(3, 1, sharex=True, figsize=(8, 7), layout="constrained")
    at = [row["upsert"] for row in rows]
    axes[0].plot(at, [1000 * row["seconds"] for row in rows], ".", markersize=2)
    axes[0].set_ylabel("commit, ms")
    axes[0].set_yscale("log")
    axes[1].plot(at, [row["resident"] / 1e6 for row in rows])
    axes[1].set_ylabel("RSS, MB")
    axes[1].set_ylim(bottom=0)
    for name in ("bytes", "history"):
        axes[2].plot([row["upsert"] for row in seen], [row[name] / 1e6 for row in seen], label=name)
    axes[2].set_ylabel(".hoodie, MB")
    axes[2].set_ylim(bottom=0)
    axes[2].set_xlabel("upserts")
    axes[2].legend()
    figure.savefig(to)


def main() -> int:
    """Measures; 1 when a figure grows."""
    parser = argparse.ArgumentParser(prog="python -m benches.peers.soak", description=__doc__)
    parser.add_argument("--upserts", type=int, default=2_000)
    parser.add_argument("--scratch", help="folder for the table")
    parser.add_argument("--plot", type=Path, help="file for a chart")
    parser.add_argument("--json", type=Path, help="file for all figures")
    given = parser.parse_args()
    console = Console() if sys.stdout.isatty() else Console(width=160)
    folder = Path(tempfile.mkdtemp(prefix="soak-", dir=given.scratch))
    try:
        rows = soak(folder / "table", given.upserts, console)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if given.json:
        given.json.write_text(json.dumps(rows))
    if given.plot:
        plot(rows, given.plot)
    return 1 if show(console, windows(rows)) else 0


if __name__ == "__main__":
    sys.exit(main())
