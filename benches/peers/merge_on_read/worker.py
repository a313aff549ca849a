"""One system at one task, in a process of its own: `python -m benches.peers.merge_on_read.worker JOB.json`."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from benches.peers.merge_on_read.job import Job, Outcome
from benches.peers.merge_on_read.systems import System, system
from benches.peers.processes import cpu_seconds, family, peaks, reset_peaks

if TYPE_CHECKING:
    from collections.abc import Callable


def fresh(job: Job, number: int) -> Path:
    """Copies the table for a run that changes it, all of it written out before the clock starts."""
    if not job.changes_table:
        return Path(job.table)
    target = Path(job.scratch) / f"run-{number}"
    shutil.copytree(job.table, target)
    os.sync()
    return target


def timed(work: Callable[[], object], outcome: Outcome, *, counts: bool) -> object:
    """Runs once.

    Args:
        work: What is timed.
        outcome: Gets the figures.
        counts: False for a warm-up.
    """
    reset_peaks(family(os.getpid()))
    cpu, begin = cpu_seconds(os.getpid()), time.perf_counter()
    result = work()
    wall, cpu = time.perf_counter() - begin, cpu_seconds(os.getpid()) - cpu
    if counts:
        outcome.wall.append(wall)
        outcome.cpu.append(cpu)
        # Workers of Spark may have been started meanwhile: all that are there now.
        outcome.peak = max(outcome.peak, peaks(family(os.getpid())))
    return result


def run(chosen: System, job: Job) -> Outcome:
    """Warms up, runs, and writes down the rows that came out of the last run."""
    outcome = Outcome(problem=chosen.missing(job))
    if outcome.problem is not None:
        return outcome
    chosen.start(job)
    try:
        outcome.versions = chosen.versions()
        every = job.warm_ups + job.runs
        for number in range(every):
            place = fresh(job, number)
            result = timed(chosen.prepare(job, place), outcome, counts=number >= job.warm_ups)
            if number == every - 1:
                # Only now, so that what it takes is not in the memory of the runs.
                chosen.save(job, place, result)
            del result
            if job.changes_table:
                shutil.rmtree(place)
    finally:
        chosen.close()
    return outcome


def main() -> None:
    """Reads the job, and writes the answer."""
    job = Job.from_json(Path(sys.argv[1]).read_text())
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[: job.cores])
    outcome = run(system(job.system), job)
    Path(job.answer).write_text(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
