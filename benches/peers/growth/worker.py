"""Does the steps of one axis at one size, in a process of its own: nothing is warm from the size before."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benches.peers import spark_session
from benches.peers.growth import hudi
from benches.peers.growth.axes import AXES
from benches.peers.processes import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benches.peers.growth.axes import Step


def run(system: str, axis: str, size: int, steps: Iterable[Step]) -> None:
    """Does steps, and prints a line for each."""
    for task, work in steps:
        begun, used, problem = time.perf_counter(), cpu_seconds(os.getpid()), None
        try:
            work()
        except Exception as error:  # noqa: BLE001
            problem = f"{type(error).__name__}: {str(error)[:300]}"
        wall, cpu = time.perf_counter() - begun, cpu_seconds(os.getpid()) - used
        row = {"system": system, "axis": axis, "size": size, "task": task, "wall": wall, "cpu": cpu}
        print(json.dumps({**row, "problem": problem}), flush=True)


def main() -> None:
    """Does them by one system."""
    parser = argparse.ArgumentParser()
    parser.add_argument("system", choices=["hoodoo", "hudi"])
    parser.add_argument("axis", choices=AXES)
    parser.add_argument("size", type=int)
    parser.add_argument("--scratch", help="folder for the tables")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="growth-", dir=given.scratch))
    try:
        if given.system == "hoodoo":
            run("hoodoo", given.axis, given.size, AXES[given.axis][0](folder / "table", given.size))
            return
        session, _ = spark_session.start(os.cpu_count() or 2, "4g", str(folder), spark_session.hudi_settings())
        # The first write of a session takes seconds, whatever it writes.
        warm = folder / "warm"
        for _, work in hudi.steps(session, "partitions", warm, 2):
            work()
        run("hudi", given.axis, given.size, hudi.steps(session, given.axis, folder / "table", given.size))
        session.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
