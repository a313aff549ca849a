"""Forks, as `multiprocessing` makes them: a child uses tables on, whatever its parent was doing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.s3_server import BUCKET, S3Server

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

PRELUDE = """
import faulthandler, os, signal, sys, threading, time, warnings

import pyarrow as pa

import hoodoo

warnings.simplefilter("ignore", DeprecationWarning)
root = sys.argv[1]
schema = pa.schema([("id", pa.string()), ("p", pa.string()), ("n", pa.int64())])


def rows(count, n=0):
    ids = [f"{i:06}" for i in range(count)]
    return pa.table({"id": ids, "p": [str(i % 4) for i in range(count)], "n": [n] * count}, schema=schema)


def make(count, kind="MERGE_ON_READ"):
    made = {"name": "t", "record_key": "id", "partition_by": "p", "table_type": kind}
    table = hoodoo.Table.create(root, schema, **made)
    table.bulk_insert(rows(count))
    table.upsert(rows(count // 2, 1))
    return table


def fork(child):
    # A child that hangs says where, and is ended.
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(20, exit=True)
        child()
        sys.exit(0)
    return pid


def ended(pid):
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the child ended with {status}"
"""


def run(root: Path, code: str, before: str = "") -> str:
    command = [sys.executable, "-c", before + PRELUDE + code, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_in_the_middle_of_a_scan(tmp_path: Path) -> None:
    code = """
table = make(200_000)
reader = table.scan()
first = reader.read_next_batch()


def child():
    assert hoodoo.Table(root).to_arrow().num_rows == 200_000
    assert table.to_arrow().num_rows == 200_000
    try:
        reader.read_all()
    except pa.ArrowException as e:
        assert "forked" in str(e), e
    else:
        raise AssertionError("the rows of a reader were given to two processes")
    table.upsert(rows(3, 7))


ended(fork(child))
rest = reader.read_all()
print(first.num_rows + rest.num_rows, table.to_arrow(filters=[("n", "=", 7)]).num_rows, table.verify().ok)
"""
    assert run(tmp_path / "t", code) == "200000 3 True\n"


def test_while_other_threads_are_at_work(tmp_path: Path) -> None:
    code = """
table = make(20_000)
stop = threading.Event()


def work(n):
    while not stop.is_set():
        table.to_arrow() if n else table.upsert(rows(50, 2))


# Those of a parent that fails end with it.
threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(3)]
[thread.start() for thread in threads]


def child():
    assert hoodoo.Table(root).to_arrow().num_rows == 20_000
    assert table.to_arrow().num_rows == 20_000


for _ in range(6):
    time.sleep(0.02)
    ended(fork(child))
stop.set()
[thread.join() for thread in threads]
print(table.to_arrow().num_rows, table.verify().ok)
"""
    assert run(tmp_path / "t", code) == "20000 True\n"


def test_beside_hooks_of_others(tmp_path: Path) -> None:
    # Those that were registered before hoodoo's may come later, and let other threads of Python go on.
    hook = """
import os, time

os.register_at_fork(before=lambda: time.sleep(0.05))
"""
    code = """
stop = threading.Event()


def work():
    while not stop.is_set():
        table.to_arrow()


def child():
    assert table.to_arrow().num_rows == 1000


table = make(1000)
threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
[thread.start() for thread in threads]
for _ in range(5):
    time.sleep(0.02)
    ended(fork(child))
stop.set()
[thread.join() for thread in threads]
print("ended")
"""
    assert run(tmp_path / "t", code, hook) == "ended\n"


def test_what_the_parent_holds_stays_its_own(tmp_path: Path) -> None:
    code = """
import fcntl

from hoodoo import _native

# A clustering shows by a heartbeat that it is carried out; a write whose rows tasks merge holds the right to write.
table = make(1000, "COPY_ON_WRITE")
native = table._native.with_options({"hoodie.clustering.plan.strategy.sort.columns": "n"})
clustering = _native.NativeClustering.begin(native, None, True)
begun = _native.NativeWrite.begin(table._native, "bulk_insert", schema, 4, 10_000)
beats = lambda: os.listdir(os.path.join(root, ".hoodie", ".heartbeat"))
assert len(beats()) >= 1
before = beats()


def child():
    global clustering, begun
    del clustering, begun


ended(fork(child))
assert beats() == before, beats()
timeline = os.open(os.path.join(root, ".hoodie", "timeline"), os.O_RDONLY)
try:
    fcntl.flock(timeline, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("held")
begun.abort()
del clustering
table.bulk_insert(rows(1003, 5).slice(1000))
print(table.verify().ok)
"""
    assert run(tmp_path / "t", code) == "held\nTrue\n"


@pytest.mark.s3
def test_an_object_store(tmp_path: Path) -> None:
    server = S3Server()
    code = f"""
root, options = "s3://{BUCKET}/fork/t", {server.storage_options!r}
made = {{"name": "t", "record_key": "id", "partition_by": "p", "storage_options": options}}
table = hoodoo.Table.create(root, schema, **made)
table.upsert(rows(1000))
reader = table.scan()


def child():
    assert table.to_arrow().num_rows == 1000
    assert hoodoo.Table(root, storage_options=options).to_arrow().num_rows == 1000
    table.upsert(rows(3, 7))


begun = time.monotonic()
ended(fork(child))
assert time.monotonic() - begun < 15
print(reader.read_all().num_rows, table.to_arrow(filters=[("n", "=", 7)]).num_rows)
"""
    try:
        assert run(tmp_path / "t", code) == "1000 3\n"
    finally:
        server.close()


def test_worker_processes(tmp_path: Path) -> None:
    code = """
import multiprocessing

table = make(5000)
table.to_arrow()


def count(n):
    return table.to_arrow(filters=[("p", "=", str(n))]).num_rows


with multiprocessing.get_context("fork").Pool(2) as pool:
    print(sum(pool.map(count, range(4))))
"""
    assert run(tmp_path / "t", code) == "5000\n"
