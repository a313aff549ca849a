"""The command line."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from benches.peers import codec, dataset
from benches.peers.clustering import plan
from benches.peers.clustering.options import SUBJECTS, filters_of, sort_columns
from benches.peers.clustering.rows import FILES, Rows
from benches.peers.merge_on_read import report
from benches.peers.merge_on_read.bench import CACHE, Bench, failed, some

if TYPE_CHECKING:
    from benches.peers.merge_on_read.job import Job, Outcome
    from benches.peers.merge_on_read.plan import Entry, Group

_MEBIBYTE = 1 << 20
_FLOORS = "Floors and copies sort nothing."


class Clustering(Bench):
    """Judges by the rows that the table was made of, and by the order of those that came out.

    Args:
        given: The command line.
        rows: The rows.
        scratch: A folder for all systems.
        console: Where to tell of failures.
    """

    worker = "benches.peers.clustering.worker"

    def __init__(self, given: argparse.Namespace, rows: Rows, scratch: Path, console: Console) -> None:
        super().__init__(given, scratch, console)
        self._rows = rows

    def judge(self, group: Group, entry: Entry, job: Job, outcome: Outcome) -> str | None:
        """Compares rows and order before any time counts."""
        del group
        result = Path(job.result)
        filters = filters_of(entry.more)
        expected, found = self._rows.expected(filters), self._rows.digest(result)
        if found != expected:
            return f"WRONG ROWS: {found.rows:,} of {expected.rows:,}, hashes {found.hashes} and not {expected.hashes}"
        if filters:
            outcome.notes = {"rows": found.rows, **self._rows.touched(Path(job.table), filters)}
            return None
        sizes = [file.stat().st_size for file in result.iterdir()]
        outcome.notes = {"files": len(sizes), "MB": round(sum(sizes) / _MEBIBYTE, 1)}
        sort = sort_columns(entry.more)
        return self._rows.disorder(result, sort) if sort and entry.system not in plan.COPIES else None


def _tasks(text: str) -> list[str]:
    return some(plan.TASKS, "task", text)


def _count(text: str) -> int:
    if int(text) < plan.LEAST_ROWS:
        raise argparse.ArgumentTypeError(f"at least {plan.LEAST_ROWS:,} rows, or there is nothing to measure")
    return int(text)


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benches.peers.clustering", description="Clustering beside others.")
    parser.add_argument("--only", type=_tasks, default=list(plan.TASKS), help=f"some of {','.join(plan.TASKS)}")
    parser.add_argument("--data", choices=list(SUBJECTS), default="lineitem")
    parser.add_argument("--rows", type=_count, default=2_000_000, help="rows of the table")
    parser.add_argument("--outputs", type=int, default=FILES, help="files that hoodoo and Hudi are to sort rows into")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each, more of what takes milliseconds")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--java-memory", default="8g", help="heap of Spark's JVM")
    parser.add_argument("--no-hudi", action="store_true", help="leave out what needs Java")
    parser.add_argument("--codec", choices=codec.CODECS, default=codec.CODECS[0], help="of all files that are written")
    parser.add_argument("--json", type=Path, help="file for all figures")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Makes rows and tables, runs everything, shows the figures.

    Args:
        arguments: The command line; of the process when None.

    Returns:
        1 when a system's rows were wrong or it failed.
    """
    given = _arguments(arguments)
    # A pipe or a log has no width of its own; figures that are cut off are worth nothing there.
    console = Console() if sys.stdout.isatty() else Console(width=180)
    load = os.getloadavg()[0]
    codec.choose(given.codec)
    CACHE.mkdir(parents=True, exist_ok=True)
    with (
        console.status("rows") as status,
        tempfile.TemporaryDirectory(prefix="work-", dir=CACHE, ignore_cleanup_errors=True) as scratch,
    ):
        rows = Rows(dataset.load(given.data, given.rows, dataset.SHARE, CACHE), Path(scratch))
        rows.make()
        groups = plan.Plan(rows, Path(scratch), given.cores, given.outputs).groups(given.only)
        results = Clustering(given, rows, Path(scratch), console).run_all(groups, status)
    report.show(console, f"Clustering of {FILES} files", results)
    described = f"{len(rows.data.columns)} columns ({rows.data.origin}) in {FILES} files"
    console.print(report.about(given, load, results, described, _FLOORS), highlight=False)
    if given.json:
        report.save(given, load, results)
    return 1 if failed(results) else 0


if __name__ == "__main__":
    sys.exit(main())
