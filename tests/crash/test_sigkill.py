"""A writer that is killed at any moment: never a part of a commit, and the next write cleans up."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo

_KILLS = 100
OPTIONS = {
    "hoodie.table.name": "killed",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.metadata.enable": "false",
    "hoodie.parquet.max.file.size": "300000",
    "hoodie.parquet.small.file.limit": "0",
    # So that the killed write may be at its cleaning, too.
    "hoodie.clean.commits.retained": "1",
}
_ROWS = 40_000

# Forks a writer for each line "table seconds", kills it after that time (0: never), and says whether it had finished.
# Forking spares the start of Python: the moments of the kill are moments of the write.
_WRITERS = """
import os, signal, sys, time
import pyarrow as pa
import hoodoo
from tests.crash.test_sigkill import batch, OPTIONS
pa.set_cpu_count(1)
rows = batch(range(0, {rows}, 10), 2, "new")
for line in sys.stdin:
    table, seconds = line.rsplit(" ", 1)
    begun = time.monotonic()
    child = os.fork()
    if child == 0:
        hoodoo.write(rows, table, operation="upsert", options=OPTIONS)
        os._exit(0)
    if float(seconds):
        time.sleep(float(seconds))
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    ended = "killed" if os.WIFSIGNALED(status) else f"exit {{os.WEXITSTATUS(status)}}"
    print(ended, time.monotonic() - begun, flush=True)
"""


def batch(numbers: range, ts: int, text: str) -> pa.Table:
    """Makes rows in four partitions."""
    return pa.table(
        {
            "id": [f"key-{n:06d}" for n in numbers],
            "ts": pa.array([ts] * len(numbers), pa.int64()),
            "part": [f"p{n % 4}" for n in numbers],
            "val": [f"{text} {n * 7919 % 104729:x}" for n in numbers],
        }
    )


class _Writers:
    def __init__(self) -> None:
        root = Path(__file__).resolve().parents[2]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WRITERS.format(rows=_ROWS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
        )

    def run(self, table: Path, seconds: float) -> tuple[str, float]:
        """Runs one writer; gives how it ended, and after what time."""
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


@pytest.fixture
def writers() -> Iterator[_Writers]:
    """Gives the process that forks writers."""
    process = _Writers()
    yield process
    process.close()


def _rows(table: Path) -> pa.Table:
    columns = ["id", "ts", "part", "val"]
    return hoodoo.Table(str(table)).to_arrow(columns=columns).sort_by("id")


def _left_over(table: Path) -> list[Path]:
    """Finds files that belong to no finished action: half written ones, markers, pending instants."""
    pending = (".requested", ".inflight")
    instants = {p.name.split("_")[0].split(".")[0] for p in (table / ".hoodie/timeline").iterdir() if "_" in p.name}
    found = [p for p in table.rglob("*") if p.is_file() and p.name.rpartition("#")[2].isdigit()]
    found += [p for p in (table / ".hoodie/.temp").rglob("*") if p.is_file()]
    timeline = (table / ".hoodie/timeline").iterdir()
    return found + [p for p in timeline if p.name.endswith(pending) and p.name.split(".")[0] not in instants]


def test_killed_at_random_moments(tmp_path: Path, writers: _Writers) -> None:
    made = tmp_path / "made"
    hoodoo.write(batch(range(_ROWS), 1, "old"), str(made), operation="bulk_insert", options=OPTIONS)
    hoodoo.write(batch(range(0, _ROWS, 7), 1, "old"), str(made), operation="upsert", options=OPTIONS)
    before = _rows(made)
    times = []
    for number in range(3):
        whole = shutil.copytree(made, tmp_path / f"whole{number}")
        ended, took = writers.run(whole, 0)
        assert ended == "exit 0"
        times.append(took)
    after = _rows(whole)
    assert not before.equals(after)
    longest = 1.2 * sorted(times)[1]
    random_moments = random.Random(20_260_101)
    ends = {"before": 0, "before, work left behind": 0, "after": 0}
    for number in range(_KILLS):
        table = shutil.copytree(made, tmp_path / "killed")
        writers.run(table, random_moments.uniform(0.001, longest))
        read = _rows(table)
        done = read.equals(after)
        assert done or read.equals(before), f"kill {number}: a part of a commit can be seen"
        ends["after" if done else "before, work left behind" if _left_over(table) else "before"] += 1
        hoodoo.write(batch(range(_ROWS, _ROWS + 4), 1, "next"), str(table), operation="upsert", options=OPTIONS)
        assert _rows(table).slice(0, _ROWS).equals(after if done else before), f"kill {number}"
        assert _rows(table).num_rows == _ROWS + 4
        assert _left_over(table) == [], f"kill {number}"
        assert hoodoo.Table(str(table)).verify().problems == (), f"kill {number}"
        shutil.rmtree(table)
    print(f"{_KILLS} kills within {longest:.2f} s: {ends}; {time.process_time():.0f} s of CPU")
    assert ends["before, work left behind"] >= _KILLS // 10, ends
