"""The command line: `python -m benches.peers.timeline [--actions 10000,100000] [--json FILE]`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benches.peers.case import PROJECT
from benches.peers.timeline import tables
from benches.peers.timeline.worker import ARCHIVED

CACHE = PROJECT / ".cache" / "bench" / "timeline"
HUDI_UP_TO = 1_000_000
"""Actions beyond which Hudi is not asked: it holds all of them in memory."""
HUDI_METADATA_UP_TO = 100_000
"""The same with metadata: a million did not fit into 8 GiB."""
LARGE = 1_000_000

COMPACTED = 10

Row = dict[str, Any]


def check(row: Row, expected: int) -> None:
    """Compares what came out before any time counts."""
    if row["found"] != expected:
        message = f"{row['system']} met {row['found']} and not {expected}: {row}"
        raise RuntimeError(message)


class Worker:
    """One system, in a process that lasts."""

    def __init__(self, system: str) -> None:
        command = [sys.executable, "-m", "benches.peers.timeline.worker", system]
        log = (CACHE / f"{system}.log").open("w")
        self.system = system
        self._process = subprocess.Popen(
            command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )

    def run(self, name: str, place: Path, runs: int = 1) -> Row:
        """Does a task, and gives what it took."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError(self.system)
        stdin.write(json.dumps([name, str(place), runs]) + "\n")
        stdin.flush()
        answer = stdout.readline()
        if not answer:
            message = f"{self.system} died at {name}; its output is in {CACHE / (self.system + '.log')}"
            raise RuntimeError(message)
        return {"system": self.system, "task": name, **json.loads(answer)}

    def close(self) -> None:
        """Ends it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def reads(hudi: Worker | None, actions: int, runs: int) -> list[Row]:
    """Reads a history whole and in part; up to a size, the same files by Hudi, and files that Hudi wrote by both."""
    per_file = 700 if actions <= LARGE // 10 else 70_000
    ours = tables.with_history(CACHE / f"ours-{actions}", actions, per_file)
    places = [("ours", ours)]
    if hudi and actions <= HUDI_UP_TO:
        theirs = CACHE / f"hudi-{actions}"
        if not (theirs / ".made").exists():
            shutil.copytree(ours, theirs, dirs_exist_ok=True)
            (theirs / ".made").unlink()
            hudi.run("rewrite", theirs)
            (theirs / ".made").touch()
        places.append(("Hudi's", theirs))
    rows = []
    for kind, place in places:
        for task in ("times", "metadata", "range", "newest"):
            # A process for each: the peak of one is not that of another.
            hoodoo = Worker("hoodoo")
            rows.append({**hoodoo.run(task, place, runs + 1), "actions": actions, "files": kind})
            hoodoo.close()
            most = {"times": HUDI_UP_TO, "metadata": HUDI_METADATA_UP_TO}.get(task, 0)
            if hudi and actions <= most:
                rows.append({**hudi.run(task, place, runs + 1), "actions": actions, "files": kind})
    for row in rows:
        expected = actions if row["task"] in ("times", "metadata") else 1_000
        check(row, expected)
    return rows


def writes(hudi: Worker | None, runs: int) -> list[Row]:
    """Archives 1,000 commits, compacts ten files of a level, loads active timelines."""
    rows = []
    workers = [Worker("hoodoo"), *([hudi] if hudi else []), Worker("floor")]
    for worker in workers:
        for run in range(runs + 1):
            place = tables.with_commits(CACHE / f"archive-{worker.system}", 1_004)
            row = worker.run("archive", place)
            check(row, ARCHIVED)
            if run:
                rows.append({**row, "actions": 1_000, "files": "active"})
            shutil.rmtree(place)
        if worker.system == "floor":
            continue
        source = CACHE / "compact"
        tables.empty(source)
        tool = PROJECT / "target" / "release" / "examples" / "make_history"
        subprocess.run([str(tool), str(source), "10000", str(tables.METADATA_BYTES), "1000", "99"], check=True)
        for run in range(runs + 1):
            place = CACHE / f"compact-{worker.system}"
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(source, place)
            row = worker.run("compact", place)
            check(row, COMPACTED)
            check({**row, "found": len(list(tables.history(place).glob("*_1.parquet")))}, 1)
            if run:
                rows.append({**row, "actions": 10_000, "files": "ours"})
        for commits in (50, 1_000):
            place = tables.with_commits(CACHE / f"active-{worker.system}", commits)
            row = worker.run("active", place, runs + 2)
            check(row, commits)
            rows.append({**row, "actions": commits, "files": "active"})
    for worker in workers:
        if worker is not hudi:
            worker.close()
    return merged(rows)


def merged(rows: list[Row]) -> list[Row]:
    """Puts runs of one task together."""
    together: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = (row["system"], row["task"], row["actions"], row["files"])
        known = together.setdefault(key, {**row, "wall": [], "cpu": [], "peak": 0})
        known["wall"] += row["wall"]
        known["cpu"] += row["cpu"]
        known["peak"] = max(known["peak"], row["peak"])
    return list(together.values())


def show(console: Console, rows: list[Row]) -> None:
    """Prints one table; the first run of each was to warm up, and does not count where there are more."""
    table = Table(title="The history of a timeline", title_justify="left")
    for heading in ("task", "actions", "files", "system"):
        table.add_column(heading)
    for heading in ("wall ms", "CPU ms", "peak RSS MB", "x hoodoo"):
        table.add_column(heading, justify="right")
    for row in rows:
        for key in ("wall", "cpu"):
            values = row[key][1:] or row[key]
            row[f"median_{key}"] = statistics.median(values)
    base = {(r["task"], r["actions"], r["files"]): r["median_wall"] for r in rows if r["system"] == "hoodoo"}
    for row in rows:
        ratio = row["median_wall"] / base[row["task"], row["actions"], row["files"]]
        table.add_row(
            row["task"],
            f"{row['actions']:,}",
            row["files"],
            row["system"],
            f"{row['median_wall'] * 1_000:,.1f}",
            f"{row['median_cpu'] * 1_000:,.0f}",
            f"{row['peak'] / (1 << 20):,.0f}",
            f"{ratio:.1f}",
        )
    console.print(table)


def main() -> int:
    """Makes the timelines, runs both, shows the figures."""
    parser = argparse.ArgumentParser(prog="python -m benches.peers.timeline", description=__doc__)
    parser.add_argument("--actions", default="10000,100000,1000000", help="sizes of the history")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--without-hudi", action="store_true")
    parser.add_argument("--json", type=Path, help="file for all figures")
    given = parser.parse_args()
    console = Console() if sys.stdout.isatty() else Console(width=140)
    CACHE.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    tables.build_tool()
    hudi = None if given.without_hudi else Worker("hudi")
    rows = writes(hudi, given.runs)
    for actions in (int(text) for text in given.actions.split(",")):
        rows += reads(hudi, actions, given.runs)
    if hudi:
        hudi.close()
    show(console, rows)
    console.print(f"Metadata of {tables.METADATA_BYTES} bytes an action. Load of the machine before: {load:.1f}.")
    if given.json:
        given.json.write_text(json.dumps({"load": load, "rows": rows}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
