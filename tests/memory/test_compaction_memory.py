"""Reading and compacting logs of ten times the memory budget keeps to it."""

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
_ROWS = 40_000
_APPENDS = 9

# Each append is larger than the budget; records differ, so that all of them are in the end.
_FILL = """
import sys
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import hoodoo
schema = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("text", pa.string())])
def rows(low, ts, width):
    rng = np.random.default_rng(ts)
    text = pc.binary_join_element_wise(pa.array(rng.integers(0, 1 << 62, {rows})).cast(pa.string()), "x" * width, "")
    ids = pa.array(np.arange(low, low + {rows}))
    return pa.table([ids, pa.array(np.full({rows}, ts)), text], schema=schema)
options = {{"hoodie.compact.inline": "false", "hoodie.parquet.small.file.limit": "0", "hoodie.clean.automatic": "false",
           "hoodie.copyonwrite.insert.split.size": "10000000", "hoodie.copyonwrite.insert.auto.split": "false"}}
t = hoodoo.Table.create(sys.argv[1], schema, name="t", record_key="id", ordering=["ts"], table_type="MERGE_ON_READ",
                        options=options)
t.bulk_insert(pa.concat_tables([rows(n * {rows}, 1, 10) for n in range({appends})]))
for n in range({appends}):
    t.upsert(rows(n * {rows}, 2, 1000))
print(sum(s.log_size for s in t.file_slices()), len(t.file_slices()))
"""

_COMPACT = """
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
options = {"hoodoo.memory.budget": sys.argv[2], "hoodoo.threads": "1", "hoodie.clean.automatic": "false"}
t = hoodoo.Table(sys.argv[1], options=options)
started = anonymous()
watcher = threading.Thread(target=watch)
watcher.start()
read = sum(batch.num_rows for batch in t.scan())
before = peak[0]
peak[0] = 0
done_with = t.compact()
done.set()
watcher.join()
peaks = {"read": before - started, "compact": peak[0] - started}
print(json.dumps({**peaks, "rows": read, "updated": done_with.updated}))
"""


def _run(script: str, *arguments: str) -> str:
    # The allocator keeps freed pages for a second, so that a peak would depend on the speed of the machine.
    environment = {**os.environ, "MIMALLOC_PURGE_DELAY": "0"}
    command = [sys.executable, "-c", script, *arguments]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads its memory from /proc")
def test_logs_beyond_the_budget_are_not_in_memory(tmp_path: Path) -> None:
    peaks = {}
    size, slices = map(int, _run(_FILL.format(rows=_ROWS, appends=_APPENDS), str(tmp_path / "filled")).split())
    assert size > 10 * _BUDGET
    assert slices == 1
    for budget in (_BUDGET, 100 * _BUDGET):
        uri = str(tmp_path / str(budget))
        shutil.copytree(tmp_path / "filled", uri)
        figures = json.loads(_run(_COMPACT, uri, str(budget)))
        assert figures["rows"] == figures["updated"] == _APPENDS * _ROWS
        peaks[budget] = {name: figures[name] * 1024 for name in ("read", "compact")}
    print({budget: {name: peak // _MIB for name, peak in of.items()} for budget, of in peaks.items()}, "MiB")
    for name in ("read", "compact"):
        # Besides the records: pieces of a block, decoded and not, the row group that is written, the table of keys.
        assert peaks[_BUDGET][name] < 2.5 * _BUDGET, name
        assert peaks[100 * _BUDGET][name] > 10 * _BUDGET, f"{name}: the logs would fit"
