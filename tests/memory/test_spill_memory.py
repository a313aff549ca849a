"""A write of many more rows than its memory budget keeps to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_MIB = 1 << 20
_BATCH_ROWS = 50_000
_BATCHES = 60
_BUDGET = 64 * _MIB

# Rows are made as they are asked for, so that nobody but the write can hold them.
_WRITE = """
import sys, threading, time
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import hoodoo
uri, budget = sys.argv[1], sys.argv[2]
schema = pa.schema([("id", pa.int64()), ("part", pa.string()), ("text", pa.string())])
def batches():
    rng = np.random.default_rng(1)
    for n in range({batches}):
        ids = np.arange(n * {rows}, (n + 1) * {rows})
        text = pc.binary_join_element_wise(pa.array(rng.integers(0, 1 << 62, {rows})).cast(pa.string()), "x" * 200, "")
        part = pc.binary_join_element_wise("p", pa.array(ids % 4).cast(pa.string()), "")
        yield pa.record_batch([pa.array(ids), part, text], schema=schema)
def anonymous():
    # Mapped pages of a file are not counted: the system takes them back when it needs to.
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
peak, done = [0], threading.Event()
def watch():
    while not done.is_set():
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.01)
watcher = threading.Thread(target=watch)
watcher.start()
options = {{"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part", "hoodoo.threads": "2", "hoodoo.memory.budget": budget}}
commit = hoodoo.write(pa.RecordBatchReader.from_batches(schema, batches()), uri, operation="upsert", options=options)
done.set()
watcher.join()
assert commit.inserted == {batches} * {rows}, commit
print(peak[0])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads its memory from /proc")
def test_rows_beyond_the_budget_are_not_in_memory(tmp_path: Path) -> None:
    peaks = {}
    for budget in (_BUDGET, 64 * _BUDGET):
        script = _WRITE.format(batches=_BATCHES, rows=_BATCH_ROWS)
        command = [sys.executable, "-c", script, str(tmp_path / str(budget)), str(budget)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        peaks[budget] = int(run.stdout) * 1024
        print(f"budget {budget // _MIB:,} MiB: {peaks[budget] // _MIB:,} MiB of memory at the peak")
    rows = _BATCHES * _BATCH_ROWS * 230
    assert peaks[64 * _BUDGET] > rows, "this many rows should have been in memory"
    assert peaks[_BUDGET] < 0.75 * rows, peaks
