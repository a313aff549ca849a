"""Processes that are killed in the middle of their work."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

# Forks a child for each line "table seconds", kills it after that time (0: never), and says whether it had finished.
# Forking spares the start of Python: the moments of the kill are moments of the work.
_PARENT = """
import os, signal, sys, time
import pyarrow as pa
import hoodoo
pa.set_cpu_count(1)
{prepare}
for line in sys.stdin:
    table, seconds = line.rsplit(" ", 1)
    begun = time.monotonic()
    child = os.fork()
    if child == 0:
        {work}
        os._exit(0)
    if float(seconds):
        time.sleep(float(seconds))
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    ended = "killed" if os.WIFSIGNALED(status) else f"exit {{os.WEXITSTATUS(status)}}"
    print(ended, time.monotonic() - begun, flush=True)
"""


class Forks:
    """Runs a piece of work in a process of its own, as often as asked.

    Args:
        work: A line of Python that works on `table`.
        prepare: Lines that run once, before.
    """

    def __init__(self, work: str, prepare: str = "") -> None:
        root = Path(__file__).resolve().parents[2]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PARENT.format(prepare=prepare, work=work)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
        )

    def run(self, table: Path, seconds: float) -> tuple[str, float]:
        """Runs the work once; gives how it ended, and after what time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{table} {seconds:.6f}\n")
        self._process.stdin.flush()
        ended, took = self._process.stdout.readline().rsplit(" ", 1)
        return ended, float(took)

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


def age(table: Path) -> None:
    """Makes files that were being written old: another process might still be at them if they were new."""
    then = time.time() - 60
    for path in (table / ".hoodie").rglob("*"):
        if path.is_file() and path.name.rpartition("#")[2].isdigit():
            os.utime(path, (then, then))


def left_over(table: Path) -> list[Path]:
    """Finds files that belong to no finished action: half written ones, markers, heartbeats, pending instants."""
    pending = (".requested", ".inflight")
    instants = {p.name.split("_")[0].split(".")[0] for p in (table / ".hoodie/timeline").iterdir() if "_" in p.name}
    found = [p for p in table.rglob("*") if p.is_file() and p.name.rpartition("#")[2].isdigit()]
    found += [p for p in (table / ".hoodie/.temp").rglob("*") if p.is_file()]
    found += [p for p in (table / ".hoodie/.heartbeat").rglob("*") if p.is_file()]
    timeline = (table / ".hoodie/timeline").iterdir()
    return found + [p for p in timeline if p.name.endswith(pending) and p.name.split(".")[0] not in instants]
