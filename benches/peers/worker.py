"""Runs one peer; started by `harness`, once for each. Tells what it does as lines of JSON on a file descriptor."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from .case import Case
from .processes import cpu_seconds
from .systems import Peer, peer


def _copy(table: Path, case: Case, number: int) -> Path:
    """Copies a table, all of it written out before the clock starts."""
    target = Path(case.scratch) / f"run-{number}"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(table, target)
    os.sync()
    return target


def prepare(chosen: Peer, case: Case, descriptor: int) -> None:
    """Makes the peer's table, in a process of its own: what writing takes is not in the memory of the runs."""
    reason = chosen.missing()
    if reason is not None:
        os.write(descriptor, (json.dumps({"event": "missing", "reason": reason}) + "\n").encode())
        return
    chosen.prepare(case)


def work(chosen: Peer, case: Case, descriptor: int) -> None:
    """Warms up, then runs.

    Args:
        chosen: The peer.
        case: What to do.
        descriptor: Where to tell it; `begin` and `end` surround what is timed.
    """

    def tell(event: str, **values: Any) -> None:
        os.write(descriptor, (json.dumps({"event": event, **values}) + "\n").encode())

    chosen.start(case)
    try:
        tell("versions", versions=chosen.versions(), label=chosen.label, changes_rows=chosen.changes_rows)
        table = chosen.table(case)
        for number in range(case.runs + 1):
            copy = _copy(table, case, number)
            tell("begin", run=number)
            cpu, started = cpu_seconds(os.getpid()), time.perf_counter()
            chosen.upsert(case, copy)
            wall, cpu = time.perf_counter() - started, cpu_seconds(os.getpid()) - cpu
            tell("end", run=number, wall=wall, cpu=cpu)
            if number == case.runs:
                # Only now, so that what reading takes is not in the memory of the runs.
                found = chosen.digest(case, copy)
                tell("digest", rows=found.rows, hashes=found.hashes)
            shutil.rmtree(copy)
    finally:
        chosen.close()


def main() -> None:
    """Reads the command line of the harness."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", required=True)
    parser.add_argument("--case", type=Path, required=True)
    parser.add_argument("--descriptor", type=int, required=True)
    parser.add_argument("--prepare", action="store_true")
    given = parser.parse_args()
    case = Case.from_json(given.case.read_text())
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[: case.cores])
    do = prepare if given.prepare else work
    do(peer(given.peer), case, given.descriptor)


if __name__ == "__main__":
    main()
