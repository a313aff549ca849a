"""The command line."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

import hoodoo
from benches.peers.case import PROJECT
from benches.peers.merge_on_read import plan, report
from benches.peers.merge_on_read.job import Job, Outcome
from benches.peers.merge_on_read.rows import SMALL, Rows, digest_of

CACHE = PROJECT / ".cache" / "bench"
NOT_INSTALLED = "not installed"


class Bench:
    """Starts the workers one after the other, and judges what they did.

    Args:
        given: The command line.
        rows: The rows.
        scratch: A folder for all of them.
        console: Where to tell of failures.
    """

    def __init__(self, given: argparse.Namespace, rows: Rows, scratch: Path, console: Console) -> None:
        self._given = given
        self._rows = rows
        self._scratch = scratch
        self._console = console

    def run(self, group: plan.Group, entry: plan.Entry) -> Outcome:
        """Runs one system in a process of its own.

        Args:
            group: What is done.
            entry: The system.
        """
        if entry.system in plan.JAVA and self._given.no_hudi:
            return Outcome(problem="left out")
        given, table = self._given, entry.table or group.table
        try:
            place = table() if table else ""
        except (hoodoo.HudiError, RuntimeError) as error:
            return Outcome(problem=f"failed: its table: {error}")
        folder = Path(tempfile.mkdtemp(prefix=f"{entry.system}-", dir=self._scratch))
        job = Job(
            system=entry.system,
            task=group.task,
            format=group.format,
            table=str(place),
            older=group.older,
            newer=group.newer,
            more=dict(entry.more),
            scratch=str(folder),
            runs=given.runs,
            warm_seconds=entry.warm_seconds,
            cores=given.cores,
            java_memory=given.java_memory,
        )
        described = folder / "job.json"
        described.write_text(job.to_json())
        python = given.hudi_rs if entry.system == "hudi-rs" else sys.executable
        log = folder / "output.log"
        with log.open("w") as output:
            command = [python, "-m", "benches.peers.merge_on_read.worker", str(described)]
            done = subprocess.run(command, cwd=PROJECT, stdout=output, stderr=output, check=False)
        if done.returncode or not Path(job.answer).exists():
            last = log.read_text(errors="replace").strip().splitlines()[-1:]
            kept = CACHE / f"{entry.system}-{group.task}.log"
            log.replace(kept)
            self._console.print(f"[red]{entry.label}[/red] failed; its output is in {kept}")
            return Outcome(problem=f"failed: {' '.join(last)[:120]}")
        outcome = Outcome(**json.loads(Path(job.answer).read_text()))
        if outcome.problem is None:
            outcome.problem = self._judge(group, entry, Path(job.result))
        shutil.rmtree(folder, ignore_errors=True)
        return outcome

    def _judge(self, group: plan.Group, entry: plan.Entry, result: Path) -> str | None:
        """Compares the rows before any time counts."""
        expected = self._rows.expected(group.older, group.newer, fill=entry.fill)
        found = digest_of(f"{result}/*.parquet" if result.is_dir() else str(result))
        if found.rows == expected.rows and (entry.only_count or found == expected):
            return None
        return f"WRONG ROWS: {found.rows:,} of {expected.rows:,}, hashes {found.hashes} and not {expected.hashes}"


def _some(of: tuple[str, ...], what: str, text: str) -> list[str]:
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    for name in chosen:
        if name not in of:
            raise argparse.ArgumentTypeError(f"no {what} is called {name!r}; there are {', '.join(of)}")
    return chosen


def _tasks(text: str) -> list[str]:
    return _some(plan.TASKS, "task", text)


def _formats(text: str) -> list[str]:
    return _some(plan.FORMATS, "log format", text)


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
    results: report.Results = []
    # Tables are made anew each time: a table of an older build must not be what is measured.
    with (
        console.status("rows") as status,
        tempfile.TemporaryDirectory(prefix="work-", dir=CACHE, ignore_cleanup_errors=True) as scratch,
    ):
        rows = Rows(Path(scratch), given.rows)
        rows.make()
        bench = Bench(given, rows, Path(scratch), console)
        for group in plan.Plan(rows, Path(scratch), given.cores).groups(given.only, given.formats):
            outcomes = []
            for entry in group.entries:
                status.update(f"{group.title}: {entry.label}")
                outcomes.append((entry, bench.run(group, entry)))
                if not console.is_terminal:
                    # Nobody sees the status there, and a long run that dies would have told nothing.
                    console.print(report.line(group, *outcomes[-1]), highlight=False, markup=False)
            results.append((group, outcomes))
    report.show(console, results)
    about = report.about(given, load, results)
    console.print(about, highlight=False)
    if given.json:
        report.save(given, load, results)
    bad = [o for _, outcomes in results for _, o in outcomes if o.problem and not _harmless(o.problem)]
    return 1 if bad else 0


def _harmless(problem: str) -> bool:
    return problem == "left out" or problem.startswith(NOT_INSTALLED)


if __name__ == "__main__":
    sys.exit(main())
