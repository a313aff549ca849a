"""The command line."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from benches.peers.merge_on_read import plan, report
from benches.peers.merge_on_read.bench import CACHE, Bench, failed, some
from benches.peers.merge_on_read.rows import SMALL, Rows, digest_of

if TYPE_CHECKING:
    from benches.peers.merge_on_read.job import Job, Outcome

_ROWS = "6 columns in 4 partitions"
_FLOORS = "Floors merge nothing; of their rows only the number is compared."


class Merging(Bench):
    """Judges by what DuckDB makes of the rows.

    Args:
        given: The command line.
        rows: The rows.
        scratch: A folder for all systems.
        console: Where to tell of failures.
    """

    def __init__(self, given: argparse.Namespace, rows: Rows, scratch: Path, console: Console) -> None:
        super().__init__(given, scratch, console)
        self._rows = rows

    def python(self, entry: plan.Entry) -> str:
        """Takes the one that has `hudi` for hudi-rs."""
        return str(self._given.hudi_rs) if entry.system == "hudi-rs" else super().python(entry)

    def judge(self, group: plan.Group, entry: plan.Entry, job: Job, outcome: Outcome) -> str | None:
        """Compares the rows before any time counts."""
        del outcome
        result = Path(job.result)
        expected = self._rows.expected(group.older, group.newer, fill=entry.fill)
        found = digest_of(f"{result}/*.parquet" if result.is_dir() else str(result))
        if found.rows == expected.rows and (entry.only_count or found == expected):
            return None
        return f"WRONG ROWS: {found.rows:,} of {expected.rows:,}, hashes {found.hashes} and not {expected.hashes}"


def _tasks(text: str) -> list[str]:
    return some(plan.TASKS, "task", text)


def _formats(text: str) -> list[str]:
    return some(plan.FORMATS, "log format", text)


def _python(text: str) -> str:
    found = shutil.which(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text} is no program")
    return found


def _count(text: str) -> int:
    if int(text) < SMALL:
        raise argparse.ArgumentTypeError(f"at least {SMALL} rows, for the small delta has as many")
    return int(text)


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benches.peers.merge_on_read", description="Merge-on-read and the merger beside others."
    )
    parser.add_argument("--only", type=_tasks, default=list(plan.TASKS), help=f"some of {','.join(plan.TASKS)}")
    parser.add_argument("--formats", type=_formats, default=list(plan.FORMATS), help="of the log blocks")
    parser.add_argument("--rows", type=_count, default=2_000_000, help="rows of the table")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each, more of what takes milliseconds")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--java-memory", default="8g", help="heap of Spark's JVM")
    parser.add_argument("--no-hudi", action="store_true", help="leave out what needs Java")
    parser.add_argument(
        "--hudi-rs", type=_python, metavar="PYTHON", default=sys.executable, help="the Python that has `hudi`"
    )
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
    console = Console() if sys.stdout.isatty() else Console(width=160)
    load = os.getloadavg()[0]
    CACHE.mkdir(parents=True, exist_ok=True)
    # Tables are made anew each time: a table of an older build must not be what is measured.
    with (
        console.status("rows") as status,
        tempfile.TemporaryDirectory(prefix="work-", dir=CACHE, ignore_cleanup_errors=True) as scratch,
    ):
        rows = Rows(Path(scratch), given.rows)
        rows.make()
        groups = plan.Plan(rows, Path(scratch), given.cores).groups(given.only, given.formats)
        results = Merging(given, rows, Path(scratch), console).run_all(groups, status)
    report.show(console, "Merge-on-read and the record merger", results)
    console.print(report.about(given, load, results, _ROWS, _FLOORS), highlight=False)
    if given.json:
        report.save(given, load, results)
    return 1 if failed(results) else 0


if __name__ == "__main__":
    sys.exit(main())
