"""Does the steps of one axis at one size; started by the bench, a process for each, so that nothing is warm for the next."""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from benches.peers.growth.axes import AXES


def cpu() -> float:
    """Gives the CPU seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Does them, and prints a line for each."""
    axis, size, only = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    with tempfile.TemporaryDirectory(prefix="growth-", dir=os.environ.get("GROWTH_SCRATCH")) as folder:
        for task, work in AXES[axis][0](Path(folder) / "table", size):
            begun, used = time.perf_counter(), cpu()
            problem = None
            try:
                work()
            except Exception as error:
                problem = f"{type(error).__name__}: {str(error)[:300]}"
            row = {"axis": axis, "size": size, "task": task, "wall": time.perf_counter() - begun, "cpu": cpu() - used}
            print(json.dumps({**row, "problem": problem}), flush=True)
            if only and task == only[-1]:
                break


if __name__ == "__main__":
    main()
