"""A stream that is killed again and again, at any moment, loses no row and doubles none."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from tests.spark import sessions
from tests.spark.test_streams import needs_data_source

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(sessions.KIND != "classic", reason="each query has a driver of its own, which is killed"),
]

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = pa.schema({"id": pa.int64(), "v": pa.int64()})
KILLS = 20
# The longest that a stream goes on once it has begun a micro-batch, in seconds: to the end of it, and of another.
LONGEST = 5
# A stream that is killed all the time stands still for long.
KEPT = {"hoodie.clean.automatic": "false"}

# A driver of its own. Arguments: the source, the sink, the checkpoint, whether it ends by itself.
_SCRIPT = """
import sys
import hoodoo.spark
from tests.spark import sessions
from tests.spark.test_streams import OPTIONS

source, sink, checkpoint, once = sys.argv[1:]
with sessions.session() as spark:
    if source.endswith(".files"):
        stream = spark.readStream.schema("id long, v long").option("maxFilesPerTrigger", 2).parquet(source)
    else:
        stream = spark.readStream.format("hoodoo").option("columns", "id,v").load(source)
    if sink.endswith(".files"):
        writer = stream.writeStream.format("parquet").option("path", sink)
    else:
        writer = stream.writeStream.foreachBatch(hoodoo.spark.foreach_batch(sink, "insert", OPTIONS))
    trigger = {"availableNow": True} if once == "once" else {"processingTime": "100 milliseconds"}
    query = writer.option("checkpointLocation", checkpoint).trigger(**trigger).start()
    print("started", flush=True)
    query.awaitTermination()
"""


def _start(*arguments: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _SCRIPT, *map(str, arguments)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert "started" in process.stdout.read(8)
    return process


def _begun(checkpoint: Path) -> int:
    """The number of micro-batches that began, and of those that ended: one that is repeated ends only."""
    return sum(len(list((checkpoint / folder).glob("[0-9]*"))) for folder in ("offsets", "commits"))


def _wait_for_batch(checkpoint: Path, begun: int) -> None:
    deadline = time.monotonic() + 120
    while _begun(checkpoint) == begun:
        assert time.monotonic() < deadline, "the stream does not go on"
        time.sleep(0.05)


def _run_and_kill(source: Path, sink: Path, write: Any, seed: int) -> None:
    """Lets a stream go on while rows are written, kills it at random, and lets it end in the end."""
    choose = random.Random(seed)
    checkpoint = sink.parent / "checkpoint"
    for number in range(KILLS):
        write(2 * number)
        begun = _begun(checkpoint)
        process = _start(source, sink, checkpoint, "on")
        write(2 * number + 1)
        _wait_for_batch(checkpoint, begun)
        time.sleep(choose.random() * LONGEST)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    last = _start(source, sink, checkpoint, "once")
    last.communicate()
    assert last.returncode == 0


def _numbered(number: int) -> pa.Table:
    return pa.table({"id": list(range(10 * number, 10 * number + 10)), "v": [number] * 10}, SCHEMA)


@needs_data_source
def test_a_source(spark: Any, tmp_path: Path):
    source = hoodoo.Table.create(
        str(tmp_path / "source"), SCHEMA, name="t", record_key="id", table_type="MERGE_ON_READ", options=KEPT
    )
    sink = tmp_path / "sink.files"
    _run_and_kill(Path(source.uri), sink, lambda number: source.insert(_numbered(number)), seed=1)
    read = [row.id for row in spark.read.parquet(str(sink)).collect()]
    assert sorted(read) == list(range(20 * KILLS))


def test_a_sink(spark: Any, tmp_path: Path):
    source, sink = tmp_path / "source.files", tmp_path / "sink"

    def write(number: int) -> None:
        frame = spark.createDataFrame(_numbered(number).to_pylist(), "id long, v long")
        frame.coalesce(1).write.mode("append").parquet(str(source))

    _run_and_kill(source, sink, write, seed=2)
    table = hoodoo.Table(str(sink))
    assert sorted(table.to_arrow()["id"].to_pylist()) == list(range(20 * KILLS))
    assert not table.verify().problems


@needs_data_source
def test_a_table_into_a_table(tmp_path: Path):
    source = hoodoo.Table.create(str(tmp_path / "source"), SCHEMA, name="t", record_key="id", options=KEPT)
    sink = tmp_path / "sink"
    _run_and_kill(Path(source.uri), sink, lambda number: source.insert(_numbered(number)), seed=3)
    assert sorted(hoodoo.Table(str(sink)).to_arrow()["id"].to_pylist()) == list(range(20 * KILLS))
