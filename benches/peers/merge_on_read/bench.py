"""Starts the workers one after the other, and has somebody judge what they did."""

from __future__ import annotations

import abc
import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import hoodoo
from benches.peers.case import PROJECT
from benches.peers.merge_on_read import plan, report
from benches.peers.merge_on_read.job import Job, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
    from rich.status import Status

CACHE = PROJECT / ".cache" / "bench"
NOT_INSTALLED = "not installed"
LEFT_OUT = "left out"


class Bench(abc.ABC):
    """Runs systems, each in a process of its own.

    Args:
        given: The command line.
        scratch: A folder for all of them.
        console: Where to tell of failures.
    """

    worker = "benches.peers.merge_on_read.worker"
    """The module that is started."""

    def __init__(self, given: argparse.Namespace, scratch: Path, console: Console) -> None:
        self._given = given
        self._scratch = scratch
        self._console = console

    def run_all(self, groups: Iterable[plan.Group], status: Status) -> report.Results:
        """Runs all systems of all groups, and says how far it is."""
        results: report.Results = []
        for group in groups:
            outcomes = []
            for entry in group.entries:
                status.update(f"{group.title}: {entry.label}")
                outcomes.append((entry, self.run(group, entry)))
                if not self._console.is_terminal:
                    # Nobody sees the status there, and a long run that dies would have told nothing.
                    self._console.print(report.line(group, *outcomes[-1]), highlight=False, markup=False)
            results.append((group, outcomes))
        return results

    def run(self, group: plan.Group, entry: plan.Entry) -> Outcome:
        """Runs one system in a process of its own.

        Args:
            group: What is done.
            entry: The system.
        """
        if entry.system in plan.JAVA and self._given.no_hudi:
            return Outcome(problem=LEFT_OUT)
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
            runs=entry.runs or given.runs,
            warm_seconds=entry.warm_seconds,
            cores=given.cores,
            java_memory=given.java_memory,
        )
        described = folder / "job.json"
        described.write_text(job.to_json())
        log = folder / "output.log"
        with log.open("w") as output:
            command = [self.python(entry), "-m", self.worker, str(described)]
            done = subprocess.run(command, cwd=PROJECT, stdout=output, stderr=output, check=False)
        if done.returncode or not Path(job.answer).exists():
            last = log.read_text(errors="replace").strip().splitlines()[-1:]
            kept = CACHE / f"{entry.system}-{group.task}.log"
            log.replace(kept)
            self._console.print(f"[red]{entry.label}[/red] failed; its output is in {kept}")
            return Outcome(problem=f"failed: {' '.join(last)[:120]}")
        outcome = Outcome(**json.loads(Path(job.answer).read_text()))
        if outcome.problem is None:
            outcome.problem = self.judge(group, entry, job, outcome)
        shutil.rmtree(folder, ignore_errors=True)
        return outcome

    def python(self, entry: plan.Entry) -> str:
        """Gives the Python that runs a system."""
        del entry
        return sys.executable

    @abc.abstractmethod
    def judge(self, group: plan.Group, entry: plan.Entry, job: Job, outcome: Outcome) -> str | None:
        """Compares the rows before any time counts; says what is wrong, None when nothing is.

        Args:
            group: What was done.
            entry: The system.
            job: What it was asked; its rows are at `job.result`.
            outcome: May get notes.
        """


def failed(results: report.Results) -> bool:
    """Tells whether a system failed that is there and was not left out."""
    problems = [outcome.problem for _, outcomes in results for _, outcome in outcomes]
    return any(p is not None and p != LEFT_OUT and not p.startswith(NOT_INSTALLED) for p in problems)


def some(of: tuple[str, ...], what: str, text: str) -> list[str]:
    """Reads names from the command line.

    Args:
        of: Those that there are.
        what: What they name.
        text: Some of them, with commas.
    """
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    for name in chosen:
        if name not in of:
            raise argparse.ArgumentTypeError(f"no {what} is called {name!r}; there are {', '.join(of)}")
    return chosen
