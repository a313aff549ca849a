"""One system at one task, in a process of its own: `python -m benches.peers.merge_on_read.worker JOB.json`."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from benches.peers.merge_on_read.job import Job, Outcome
from benches.peers.merge_on_read.systems import System, system
from benches.peers.processes import cpu_seconds, family, peaks, reset_peaks

if TYPE_CHECKING:
    from collections.abc import Callable

SHORT = 1.0
"""Seconds that the timed runs take together at least."""
MOST_RUNS = 10
"""Unless there are so many of them."""


def fresh(job: Job) -> Path:
    """Copies the table for a run that changes it, all of it written out before the clock starts."""
    if not job.changes_table:
        return Path(job.table)
    # A name of its own each time: nothing that a system remembers of a table can be right for another.
    target = Path(tempfile.mkdtemp(prefix="table-", dir=job.scratch)) / "t"
    shutil.copytree(job.table, target)
    os.sync()
    return target


def once(chosen: System, job: Job, outcome: Outcome, *, save: bool = False) -> None:
    """Runs once.

    Args:
        chosen: The system.
        job: What to do.
        outcome: Gets the figures.
        save: Writes the rows down that came out.
    """
    place = fresh(job)
    work = chosen.prepare(job, place)
    reset_peaks(family(os.getpid()))
    cpu, begin = cpu_seconds(os.getpid()), time.perf_counter()
    result = work()
    wall, cpu = time.perf_counter() - begin, cpu_seconds(os.getpid()) - cpu
    outcome.wall.append(wall)
    outcome.cpu.append(cpu)
    # Workers of Spark may have been started meanwhile: all that are there now.
    outcome.peak = max(outcome.peak, peaks(family(os.getpid())) + chosen.ended_peak)
    if save:
        chosen.save(job, place, result)
    if job.changes_table:
        shutil.rmtree(place.parent)


def run(chosen: System, job: Job) -> Outcome:
    """Warms up, runs, and writes down the rows that come out."""
    outcome = Outcome(problem=chosen.missing(job))
    if outcome.problem is not None:
        return outcome
    chosen.start(job)
    try:
        outcome.versions = chosen.versions()
        warm = Outcome()
        while not warm.wall or sum(warm.wall) < job.warm_seconds:
            once(chosen, job, warm)
        while len(outcome.wall) < job.runs or (sum(outcome.wall) < SHORT and len(outcome.wall) < MOST_RUNS):
            once(chosen, job, outcome)
        # A run more: what it takes to write down its rows is not in the memory of the others.
        once(chosen, job, Outcome(), save=True)
    finally:
        chosen.close()
    return outcome


def main(make: Callable[[str], System] = system) -> None:
    """Reads the job, and writes the answer.

    Args:
        make: Gives a system by its name.
    """
    job = Job.from_json(Path(sys.argv[1]).read_text())
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[: job.cores])
    outcome = run(make(job.system), job)
    Path(job.answer).write_text(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
