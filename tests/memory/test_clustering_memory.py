"""Sorting a group of twenty times the memory budget keeps to it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_MIB = 1 << 20
_BUDGET = 32 * _MIB
_ROWS = 72_000
_FILES = 10

_FILL = """
import sys
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import hoodoo
schema = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("text", pa.string())])
options = {{"hoodie.parquet.small.file.limit": "0", "hoodie.clean.automatic": "false",
           "hoodie.parquet.block.size": "4000000"}}
t = hoodoo.Table.create(sys.argv[1], schema, name="t", record_key="id", options=options)
bytes = 0
for file in range({files}):
    rng = np.random.default_rng(file)
    text = pc.binary_join_element_wise(pa.array(rng.integers(0, 1 << 62, {rows})).cast(pa.string()), "x" * 900, "")
    ids = pa.array(np.arange(file * {rows}, (file + 1) * {rows}))
    rows = pa.table([ids, pa.array(rng.integers(0, 1 << 40, {rows})), text], schema=schema)
    bytes += rows.nbytes
    t.bulk_insert(rows)
print(bytes, len(t.file_slices()))
"""

_CLUSTER = """
import json, sys, threading, time
import hoodoo
def anonymous():
    # Mapped pages of a file are not counted: the system takes them back when it needs to.
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
peak, done = [0], threading.Event()
def watch():
    while not done.is_set():
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.005)
options = {"hoodoo.memory.budget": sys.argv[2], "hoodoo.threads": "1", "hoodie.clean.automatic": "false",
           "hoodie.parquet.block.size": "4000000",
           "hoodie.clustering.plan.strategy.target.file.max.bytes": "8000000"}
t = hoodoo.Table(sys.argv[1], options=options)
started = anonymous()
watcher = threading.Thread(target=watch)
watcher.start()
commit = t.cluster(sort_by="n")
done.set()
watcher.join()
last, rows = -1, 0
for batch in t.scan(columns=["n"]):
    rows += batch.num_rows
print(json.dumps({"peak": peak[0] - started, "rows": rows, "written": commit.inserted}))
"""


def _run(script: str, *arguments: str) -> str:
    # The allocator keeps freed pages for a second, so that a peak would depend on the speed of the machine.
    environment = {**os.environ, "MIMALLOC_PURGE_DELAY": "0"}
    command = [sys.executable, "-c", script, *arguments]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads its memory from /proc")
def test_a_group_beyond_the_budget_is_not_in_memory(tmp_path: Path) -> None:
    peaks = {}
    size, slices = map(int, _run(_FILL.format(rows=_ROWS, files=_FILES), str(tmp_path / "filled")).split())
    assert size > 20 * _BUDGET
    assert slices == _FILES
    for budget in (_BUDGET, 100 * _BUDGET):
        uri = str(tmp_path / str(budget))
        shutil.copytree(tmp_path / "filled", uri)
        figures = json.loads(_run(_CLUSTER, uri, str(budget)))
        assert figures["rows"] == figures["written"] == _FILES * _ROWS
        peaks[budget] = figures["peak"] * 1024
    print({budget: peak // _MIB for budget, peak in peaks.items()}, "MiB")
    # Besides the rows that are sorted: the batches that are read, the row group that is written, keys of a file.
    assert peaks[_BUDGET] < 2.5 * _BUDGET
    assert peaks[100 * _BUDGET] > 15 * _BUDGET, "the rows would fit"
