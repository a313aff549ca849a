"""Signals whose handlers raise, Ctrl-C among them: they end any call soon, and nothing is committed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodoo
from hoodoo import RecordMerger

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs signals of Unix")

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64())])
# Two seconds, and what a busy machine adds.
SOON = 4.0
STRATEGY = "7d9c2c6e-6c3c-4a8e-9d2f-0e5d1f1f3a55"


class StoppedError(BaseException):
    """What the handler raises; like `KeyboardInterrupt` no `Exception`, for which code of users may look."""


@pytest.fixture
def alarms() -> Iterator[list[float]]:
    """The times at which SIGALRM was handled, which raises."""
    handled: list[float] = []

    def handle(_number: int, _frame: FrameType | None) -> None:
        handled.append(time.monotonic())
        raise StoppedError

    before = signal.signal(signal.SIGALRM, handle)
    yield handled
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def rows(count: int, n: int = 0) -> pa.Table:
    return pa.table({"id": [f"{i:05}" for i in range(count)], "n": [n] * count}, schema=SCHEMA)


def make(root: Path, kind: str = "COPY_ON_WRITE", **options: Any) -> hoodoo.Table:
    given = {name.replace("__", "."): str(value) for name, value in options.items()}
    table = hoodoo.Table.create(root, SCHEMA, name="t", record_key="id", table_type=kind, options=given)
    table.insert(rows(1000))
    return table


def state(table: hoodoo.Table) -> tuple[int, int, list[str]]:
    found = table.to_arrow(columns=["n"])
    total = pc.sum(found["n"]).as_py() or 0
    return found.num_rows, total, [str(i) for i in table.timeline.instants()]


def is_clean(table: hoodoo.Table) -> bool:
    """Whether an interrupted call left nothing, and the next write goes on as if there had been none."""
    root = Path(table.uri)
    left = [*root.glob("**/*#*"), *root.glob(".hoodie/.temp/*"), *root.glob(".hoodie/.heartbeat/*")]
    table.upsert(spread(3, 7) if "p" in table.schema.names else rows(3, 7))
    return not left and table.verify().ok


@contextlib.contextmanager
def ends_soon(alarms: list[float], seconds: float = 0.2) -> Iterator[None]:
    signal.setitimer(signal.ITIMER_REAL, seconds)
    with pytest.raises(StoppedError):
        yield
    assert time.monotonic() - alarms[0] < SOON


def endless() -> Iterator[pa.RecordBatch]:
    for n in range(1_000_000):
        yield rows(1000, n).to_batches()[0]


class Signals(RecordMerger):
    """Merges like `EVENT_TIME_ORDERING`, and sends a signal when it is told to."""

    strategy_id = STRATEGY
    send = False

    def merge(self, older: Any, newer: Any, context: Any) -> Any:  # noqa: ARG002
        if Signals.send:
            Signals.send = False
            os.kill(os.getpid(), signal.SIGALRM)
            # Long enough for the main thread to see it, which waits for this one.
            time.sleep(0.3)
        return newer


@pytest.fixture
def merged_by_signals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    Signals.send = False

    def made(kind: str, **options: Any) -> hoodoo.Table:
        names = {
            "hoodie.record.merge.mode": "CUSTOM",
            "hoodie.record.merge.strategy.id": STRATEGY,
            "hoodie.write.record.merge.custom.implementation.classes": f"{__name__}.Signals",
            "hoodoo.threads": "2",
        }
        given = names | {name.replace("__", "."): str(value) for name, value in options.items()}
        # Several partitions, so that several threads have work.
        schema = pa.schema([*SCHEMA, ("p", pa.string())])
        where: dict[str, Any] = {"name": "t", "record_key": "id", "partition_by": "p", "table_type": kind}
        table = hoodoo.Table.create(tmp_path / "t", schema, options=given, **where)
        table.insert(spread(1000))
        return table

    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    return made


def spread(count: int, n: int = 0) -> pa.Table:
    table = rows(count, n)
    return table.append_column("p", pa.array([str(i % 4) for i in range(count)]))


def test_endless_input(tmp_path: Path, alarms: list[float]) -> None:
    table = make(tmp_path / "t")
    before = state(table)
    with ends_soon(alarms):
        table.upsert(endless())
    assert state(table) == before
    assert is_clean(table)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), ValueError("mine"), OSError("mine")])
@pytest.mark.parametrize("as_reader", [False, True])
def test_what_the_source_of_the_rows_raises_arrives(tmp_path: Path, error: BaseException, as_reader: bool) -> None:
    table = make(tmp_path / "t")
    before = state(table)
    thread = []

    def batches() -> Iterator[pa.RecordBatch]:
        yield rows(10, 1).to_batches()[0]
        thread.append(threading.current_thread())
        raise error

    with pytest.raises(type(error)) as raised:
        table.upsert(pa.RecordBatchReader.from_batches(SCHEMA, batches()) if as_reader else batches())
    assert raised.value is error
    assert thread == [threading.current_thread()]
    assert state(table) == before
    assert is_clean(table)


def test_waiting_for_another_process(tmp_path: Path, alarms: list[float]) -> None:
    fcntl = pytest.importorskip("fcntl")
    table = make(tmp_path / "t")
    before = state(table)
    # As another process would: the folder is opened once more.
    folder = os.open(tmp_path / "t" / ".hoodie" / "timeline", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    with ends_soon(alarms):
        table.upsert(rows(5, 1))
    os.close(folder)
    assert state(table) == before
    assert is_clean(table)


def test_waiting_for_another_thread(tmp_path: Path, alarms: list[float]) -> None:
    table = make(tmp_path / "t")
    inside, done = threading.Event(), threading.Event()

    def slow() -> Iterator[pa.RecordBatch]:
        yield rows(5, 1).to_batches()[0]
        inside.set()
        done.wait(30)

    other = threading.Thread(target=lambda: table.upsert(slow()))
    other.start()
    inside.wait(30)
    with ends_soon(alarms):
        table.upsert(rows(5, 100))
    done.set()
    other.join()
    assert state(table)[:2] == (1000, 5)
    assert is_clean(table)


def test_a_store_that_does_not_answer(alarms: list[float]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        options = {"aws_endpoint": endpoint, "aws_allow_http": "true", "aws_region": "us-east-1"}
        options |= {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
        with ends_soon(alarms):
            hoodoo.Table("s3://bucket/t", storage_options=options)


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_writing(merged_by_signals: Any, alarms: list[float], kind: str) -> None:
    table = merged_by_signals(kind)
    if kind == "MERGE_ON_READ":
        table.upsert(spread(1000, 1))
    before = state(table)
    Signals.send = True
    with ends_soon(alarms, 0):
        # A merge-on-read table merges when it is compacted, or when two rows of a write have one key.
        table.upsert(pa.concat_tables([spread(1000, 2), spread(1000, 3)]))
    assert state(table) == before
    assert is_clean(table)


def test_compaction(merged_by_signals: Any, alarms: list[float]) -> None:
    table = merged_by_signals("MERGE_ON_READ")
    table.upsert(spread(1000, 1))
    planned = table.schedule_compaction()
    found = state(table)[:2]
    Signals.send = True
    with ends_soon(alarms, 0):
        table.compact()
    assert state(table)[:2] == found
    done = table.compact()
    assert done is not None
    assert done.instant == planned
    assert state(table)[:2] == found
    assert is_clean(table)


@pytest.mark.parametrize("read", ["to_arrow", "scan"])
def test_reading(merged_by_signals: Any, alarms: list[float], read: str) -> None:
    table = merged_by_signals("MERGE_ON_READ")
    table.upsert(spread(1000, 1))
    Signals.send = True
    if read == "to_arrow":
        with ends_soon(alarms, 0):
            table.to_arrow()
    else:
        # Python looks for signals itself between the batches.
        with pytest.raises((StoppedError, pa.ArrowException)):
            for _ in table.scan():
                pass
    assert table.to_arrow().num_rows == 1000


def test_a_commit_that_stands_is_told(merged_by_signals: Any, alarms: list[float]) -> None:
    inline = {"hoodie__compact__inline": "true", "hoodie__compact__inline__max__delta__commits": 1}
    table = merged_by_signals("MERGE_ON_READ", **inline)
    Signals.send = True
    signal.setitimer(signal.ITIMER_REAL, 0)
    with pytest.raises(StoppedError) as raised:
        table.upsert(spread(1000, 1))
    commit = raised.value.commit  # type: ignore[attr-defined]
    assert isinstance(commit, hoodoo.Commit)
    assert time.monotonic() - alarms[0] < SOON
    assert state(table)[:2] == (1000, 1000)
    if sys.version_info >= (3, 11):
        assert commit.instant in raised.value.__notes__[0]
    assert commit.instant in str(state(table)[2])
    table.upsert(spread(3, 7))
    assert table.verify().ok


def test_a_handler_that_does_not_raise_changes_nothing(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    handled: list[tuple[int, bool]] = []
    waits = True
    before = signal.signal(signal.SIGALRM, lambda *_: handled.append((table.to_arrow().num_rows, waits)))
    folder = os.open(tmp_path / "t" / ".hoodie" / "timeline", os.O_RDONLY)
    fcntl = pytest.importorskip("fcntl")
    fcntl.flock(folder, fcntl.LOCK_EX)

    def release() -> None:
        nonlocal waits
        waits = False
        os.close(folder)

    threading.Timer(1.0, release).start()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        table.upsert(rows(5, 1))
    finally:
        signal.signal(signal.SIGALRM, before)
    # It ran while the write waited, and could read the table.
    assert handled == [(1000, True)]
    assert state(table)[:2] == (1000, 5)


CALL = """
import json, os, signal, sys, time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import hoodoo

# Shells start what is to run in the background with this signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
root, case, count = sys.argv[1], sys.argv[2], int(sys.argv[3])


def rows(count, seed=0):
    random = np.random.default_rng(seed)
    ids, texts = random.permutation(count), random.integers(0, 1 << 30, count)
    columns = {"id": pa.array(ids).cast(pa.string()), "p": pa.array(ids % 4).cast(pa.string())}
    columns["ts"] = pa.array(random.integers(0, 1 << 40, count))
    return pa.table(columns | {"b": pa.array(texts).cast(pa.string())})


def state(table):
    read = table.to_arrow(columns=["ts"])
    return read.num_rows, pc.sum(read["ts"]).as_py()


def make(kind, given):
    made = {"name": "t", "record_key": "id", "partition_by": "p", "ordering": "ts", "table_type": kind}
    table = hoodoo.Table.create(root, rows(1).schema, **made)
    table.bulk_insert(rows(given))
    return table


kind = "MERGE_ON_READ" if case in ("compact", "read", "append") else "COPY_ON_WRITE"
table = make(kind, 100 if case in ("bulk_insert", "input") else count)
if case in ("compact", "read"):
    table.upsert(rows(count, 1).slice(0, count // 2))
if case == "compact":
    table.schedule_compaction()
data = rows(count, 2)
if case == "bulk_insert":
    # It looks for no keys: others than those that are there.
    data = data.set_column(0, "id", pa.array(range(count, 2 * count)).cast(pa.string()))
half, other = data.slice(0, count // 2), rows(count, 3)
batches = (batch for n in range(20_000) for batch in rows(1000, n).to_batches())
calls = {
    "bulk_insert": lambda: table.bulk_insert(data, sort_by="b"),
    "upsert": lambda: table.upsert(half),
    "append": lambda: table.upsert(half),
    "delete": lambda: table.delete(half),
    "cluster": lambda: table.cluster(sort_by="b"),
    "compact": lambda: table.compact(),
    "input": lambda: table.upsert(batches),
    "read": lambda: table.to_arrow(),
    "verify": lambda: [table.verify() for _ in range(100)],
    "merge": lambda: hoodoo.merge(data, other, key="id", ordering="ts").read_all(),
}
before = state(table)
print("ready", flush=True)
said = {"end": "returned"}
try:
    calls[case]()
except KeyboardInterrupt as e:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    said = {"end": "KeyboardInterrupt", "commit": getattr(e, "commit", None) is not None}
except Exception as e:
    # A reader can only say that it was interrupted; the Ctrl-C comes again.
    try:
        time.sleep(5)
        said = {"end": repr(e)}
    except KeyboardInterrupt:
        said = {"end": "KeyboardInterrupt", "commit": False}
# From here on it comes too late.
signal.signal(signal.SIGINT, signal.SIG_IGN)
print(json.dumps(said), flush=True)
table = hoodoo.Table(root)
found = state(table)
table.upsert(rows(10, 5))
print(json.dumps({"same": found == before, "ok": table.verify().ok}), flush=True)
"""


def interrupted(root: Path, case: str, count: int, after: float) -> dict[str, Any]:
    """What becomes of a call in another process that gets a SIGINT after some seconds."""
    command = [sys.executable, "-c", CALL, str(root), case, str(count)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(after)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    said = json.loads(process.stdout.readline())
    took = time.monotonic() - begun
    then = json.loads(process.stdout.readline())
    assert process.wait(60) == 0
    return {**said, **then, "took": took}


def test_ctrl_c(tmp_path: Path) -> None:
    got = interrupted(tmp_path / "t", "input", 1000, 0.5)
    assert got.pop("took") < SOON
    assert got == {"end": "KeyboardInterrupt", "commit": False, "same": True, "ok": True}


CASES = ["bulk_insert", "upsert", "append", "delete", "cluster", "compact", "input", "read", "verify", "merge"]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_ctrl_c_at_any_moment(tmp_path: Path, case: str) -> None:
    for number in range(4):
        after = random.uniform(0.05, 3.0)
        got = interrupted(tmp_path / str(number), case, 1_500_000, after)
        told = f"{case} after {after:.2f} s: {got}"
        # A call may end before the signal comes, or its commit may stand by then.
        if got["end"] == "KeyboardInterrupt":
            assert got["took"] < SOON, told
            assert got["commit"] != got["same"] or case in ("cluster", "compact"), told
            assert got["same"] or got["commit"], told
        assert got["ok"], told
