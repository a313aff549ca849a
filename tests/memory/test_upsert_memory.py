"""The memory of an upsert does not grow with the table: ten times the file groups, the same peak."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_FEW, _MANY = 8, 80
_ROWS_OF_A_FILE = 20_000
_ALLOWED = 1.3

_MAKE = """
import sys
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import hoodoo
uri, files, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
options = {options!r}
def named(before, numbers, digits):
    return pc.binary_join_element_wise(before, pc.utf8_lpad(pa.array(numbers).cast(pa.string()), digits, "0"), "")
for first in range(0, files, 8):
    n = np.arange(first * rows, (first + 8) * rows)
    data = pa.table({{
        "id": named("key-", n, 9), "ts": pa.array(np.ones(len(n), np.int64)), "part": named("p", n // rows, 3),
        "text": pc.binary_repeat(named("", n * 2654435761 % 4294967296, 8), 5), "x": n * 7919 % 104729 / 3,
    }})
    hoodoo.write(data, uri, operation="bulk_insert", options=options)
"""

# The same number of rows whatever the table; they fall on all its files.
_UPSERT = """
import sys
import pyarrow as pa
import hoodoo
uri, files, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
options = {options!r}
step = files * rows // 8_000
n = range(0, files * rows, step)
data = pa.table({{
    "id": [f"key-{{i:09d}}" for i in n], "ts": pa.array([2] * len(n), pa.int64()),
    "part": [f"p{{i // rows:03d}}" for i in n], "text": ["changed"] * len(n),
    "x": pa.array([0.0] * len(n), pa.float64()),
}})
def kib(what):
    # getrusage would count the process that started this one.
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))
before = kib("VmRSS")
commit = hoodoo.write(data, uri, operation="upsert", options=options)
assert (commit.updated, commit.inserted, len(commit.files)) == (len(n), 0, files), commit
print(before, kib("VmHWM"))
"""
_OPTIONS = {
    "hoodie.table.name": "wide",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.metadata.enable": "false",
    "hoodie.clean.automatic": "false",
    "hoodoo.threads": "2",
}


def _run(script: str, uri: Path, files: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script.format(options=_OPTIONS), str(uri), str(files), str(_ROWS_OF_A_FILE)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads its memory from /proc")
def test_ten_times_the_file_groups_take_the_same_memory(tmp_path: Path) -> None:
    peaks: dict[int, int] = {}
    for files in (_FEW, _MANY):
        _run(_MAKE, tmp_path / str(files), files)
        # Which thread meets which file is chance, and moves a peak by a fifth: the lowest one says what is needed.
        for _ in range(3):
            started, peak = (int(kib) for kib in _run(_UPSERT, tmp_path / str(files), files).split())
            peaks[files] = min(peak, peaks.get(files, peak))
            print(f"{files} file groups: {started >> 10} MiB before the upsert, {peak >> 10} MiB at its peak")
    assert peaks[_MANY] <= _ALLOWED * peaks[_FEW], peaks
