"""Several writers of one local table without a lock provider: only one at a time holds the writer lease."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import ConflictError, HudiError, LockError
from hoodoo.distributed.write import prepare_write

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64())])
KINDS = pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])


def rows(prefix: str, count: int, n: int) -> pa.Table:
    return pa.table({"id": [f"{prefix}{i:03}" for i in range(count)], "n": [n] * count}, schema=SCHEMA)


def make(root: Path, kind: str = "COPY_ON_WRITE", **options: str) -> hoodoo.Table:
    table = hoodoo.Table.create(root, SCHEMA, name="t", record_key="id", table_type=kind, options=options)
    table.insert(rows("first", 10, 0))
    return table


def content(table: hoodoo.Table) -> dict[str, int]:
    found: list[dict[str, Any]] = table.to_arrow(columns=["id", "n"]).to_pylist()
    values = {row["id"]: row["n"] for row in found}
    assert len(values) == len(found)
    return values


# All writers change the same rows too, so that each meets the files of the others.
WRITER = """
import json, sys

import pyarrow as pa

import hoodoo

table, prefix, times = hoodoo.Table(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for n in range(1, times + 1):
    ids = [f"{prefix}{i:03}" for i in range(5)] + [f"first{i:03}" for i in range(10)]
    table.upsert(pa.table({"id": ids, "n": pa.array([n] * 15, pa.int64())}))
    table.delete([f"{prefix}{n % 5:03}"]) if n % 4 == 0 else None
print(json.dumps(len(table.timeline.instants(history=True))))
"""


def start(root: Path, prefix: str, times: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(root), prefix, str(times)], stdout=subprocess.PIPE, text=True
    )


@KINDS
def test_processes(tmp_path: Path, kind: str):
    table = make(tmp_path / "t", kind)
    writers = [start(tmp_path / "t", prefix, 14) for prefix in "abc"]
    for writer in writers:
        said, _ = writer.communicate(timeout=300)
        assert writer.returncode == 0
        assert json.loads(said) > 0
    found = content(table)
    # Nobody failed, and the last write of each is there: 14 upserts, and a delete with the fourth, eighth and twelfth.
    for prefix in "abc":
        assert [found.get(f"{prefix}{i:03}") for i in range(5)] == [14] * 5
    assert [found[f"first{i:03}"] for i in range(10)] == [14] * 10
    assert len(found) == 25
    assert table.verify().ok
    actions = [i.action for i in table.timeline.instants(history=True)]
    assert actions.count("commit" if kind == "COPY_ON_WRITE" else "deltacommit") == 1 + 3 * 17
    assert "rollback" not in actions


@KINDS
def test_threads(tmp_path: Path, kind: str):
    table = make(tmp_path / "t", kind)
    errors: list[HudiError] = []

    def write(prefix: str) -> None:
        try:
            own = hoodoo.Table(tmp_path / "t")
            for n in range(8):
                own.upsert(pa.concat_tables([rows(prefix, 3, n), rows("first", 10, n)]))
        except HudiError as e:
            errors.append(e)

    threads = [threading.Thread(target=write, args=(prefix,)) for prefix in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert errors == []
    found = content(table)
    assert len(found) == 19
    assert set(found.values()) == {7}


def test_a_writer_that_was_killed_releases_its_lease(tmp_path: Path):
    root = tmp_path / "t"
    table = make(root)
    for number in range(4):
        other = start(root, "other", 10_000)
        deadline = time.monotonic() + 60
        before = len(table.timeline.instants(history=True))
        while len(table.timeline.instants(history=True)) < before + 3 and time.monotonic() < deadline:
            time.sleep(0.01 + 0.003 * number)
        other.send_signal(signal.SIGKILL)
        other.wait()
        table.upsert(rows("mine", 4, number))
        found = content(table)
        assert [found[f"mine{i:03}"] for i in range(4)] == [number] * 4
    assert table.verify().ok


def test_a_write_within_a_write_is_an_error(tmp_path: Path):
    table = make(tmp_path / "t")

    def batches() -> Iterator[pa.RecordBatch]:
        yield rows("outer", 3, 1).to_batches()[0]
        hoodoo.Table(tmp_path / "t").insert(rows("inner", 3, 1))

    # What a stream says reaches the reader as a text.
    with pytest.raises(HudiError, match="this thread holds the writer lease"):
        table.upsert(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert len(content(table)) == 10
    # Nothing is held any more.
    assert table.insert(rows("later", 3, 1)).inserted == 3


def test_what_is_rolled_back_does_not_commit(tmp_path: Path):
    """Hudi's single writer, which heeds no heartbeat, rolls a live write back."""
    root, elsewhere = tmp_path / "t", tmp_path / "elsewhere"
    make(root)
    write = prepare_write(SCHEMA, str(root), "insert", {}, {}).begin(SCHEMA, 1)
    # What it would do to this table it does to a copy.
    shutil.copytree(root, elsewhere)
    shutil.rmtree(elsewhere / ".hoodie/.heartbeat")
    hoodoo.Table(elsewhere).insert(rows("other", 1, 1))
    timeline = Path(".hoodie") / "timeline"
    (planned,) = (elsewhere / timeline).glob("*.rollback.requested")
    shutil.copy(planned, root / timeline)
    with pytest.raises(ConflictError, match="rolls this write back"):
        write.commit([])
    table = hoodoo.Table(root)
    assert len(content(table)) == 10
    # The next one carries the rollback out.
    table.insert(rows("later", 3, 1))
    assert len(content(table)) == 13
    assert table.verify().ok


def test_waiting_has_an_end(tmp_path: Path):
    root = tmp_path / "t"
    table = make(root)
    holding, go = threading.Event(), threading.Event()

    def batches() -> Iterator[pa.RecordBatch]:
        yield rows("slow", 3, 1).to_batches()[0]
        holding.set()
        assert go.wait(60)

    slow = threading.Thread(target=lambda: table.upsert(pa.RecordBatchReader.from_batches(SCHEMA, batches())))
    slow.start()
    assert holding.wait(60)
    impatient = {
        "hoodie.write.lock.wait_time_ms": "50",
        "hoodie.write.lock.client.num_retries": "0",
    }
    # A thread of this process, and a process.
    with pytest.raises(LockError, match="timed out after 50 ms waiting for the writer lease") as refused:
        hoodoo.Table(root, options=impatient).insert(rows("b", 1, 1))
    assert refused.value.retryable
    script = f"""
import sys
import pyarrow as pa
import hoodoo
try:
    hoodoo.Table(sys.argv[1], options={impatient!r}).insert(pa.table({{"id": ["c"], "n": pa.array([1], pa.int64())}}))
except hoodoo.LockError as e:
    assert "another process" in str(e), e
else:
    raise SystemExit("it did not wait")
"""
    subprocess.run([sys.executable, "-c", script, str(root)], check=True, timeout=120)
    # Readers do not wait.
    assert len(content(hoodoo.Table(root))) == 10
    go.set()
    slow.join(60)
    assert len(content(table)) == 13
