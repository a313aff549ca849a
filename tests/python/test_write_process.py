"""A write that one process begins and another one commits: it is published once, or leaves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.distributed import Attempt
from hoodoo.distributed.executor import strings
from hoodoo.distributed.write_process import WriteProcess, begin_in_process

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
}
SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string()})


def _batch(numbers: range) -> pa.RecordBatch:
    return pa.record_batch({"id": list(numbers), "part": [f"p{n % 2}" for n in numbers]}, SCHEMA)


def _begin(uri: Path, operation: str = "insert", **options: str) -> WriteProcess:
    given = {**OPTIONS, **{name.replace("__", "."): value for name, value in options.items()}}
    return begin_in_process(SCHEMA, str(uri), operation, given, {})


def _ids(uri: Path) -> list[int]:
    return sorted(hoodoo.Table(str(uri)).to_arrow()["id"].to_pylist())


def test_tasks_write_and_one_commit_publishes(tmp_path: Path):
    uri = tmp_path / "t"
    write = _begin(uri)
    first = strings(write.task.append([_batch(range(4))], Attempt(0, "0-1-0")))
    second = strings(write.task.append([_batch(range(4, 6))], Attempt(1, "1-1-1")))
    strings(write.task.append([_batch(range(4, 6))], Attempt(1, "1-1-0")))  # an attempt that nobody waited for
    assert hoodoo.Table(str(uri)).to_arrow().num_rows == 0
    write.commit([*first, *second])
    assert _ids(uri) == list(range(6))
    assert not hoodoo.Table(str(uri)).verify().problems
    assert len(list(uri.glob("p*/*.parquet"))) == 4


@pytest.mark.parametrize(
    ("operation", "options", "reason"),
    [
        ("upsert", {}, "the operation upsert looks up keys"),
        ("insert", {"hoodie.index.type": "BUCKET"}, "a bucket index puts the rows"),
        ("insert", {"hoodie.combine.before.insert": "true"}, "the rows of a key become one"),
        ("bulk_insert", {"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}, "the options sort the rows"),
    ],
)
def test_a_refused_write_leaves_no_table(tmp_path: Path, operation: str, options: dict[str, str], reason: str):
    with pytest.raises(hoodoo.UnsupportedError, match=reason):
        begin_in_process(SCHEMA, str(tmp_path / "t"), operation, {**OPTIONS, **options}, {})
    assert not (tmp_path / "t").exists()


def test_a_new_table_with_its_locks_elsewhere(tmp_path: Path):
    locks = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
        "hoodie.write.lock.filesystem.path": str(tmp_path / "locks"),
    }
    write = begin_in_process(SCHEMA, str(tmp_path / "t"), "insert", {**OPTIONS, **locks}, {})
    write.commit(strings(write.task.append([_batch(range(4))], Attempt(0, "0-1-0"))))
    assert _ids(tmp_path / "t") == list(range(4))


def test_the_partitions_of_deleted_rows_are_replaced_too(tmp_path: Path):
    uri = tmp_path / "t"
    hoodoo.write(pa.table(_batch(range(6))), str(uri), operation="insert", options=OPTIONS)
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    rows = pa.record_batch({"id": [7, 8], "part": ["p0", "p1"], "_hoodie_is_deleted": [True, False]}, schema)
    write = begin_in_process(schema, str(uri), "insert_overwrite", OPTIONS, {})
    write.commit(strings(write.task.append_to_replaced([rows], Attempt(0, "0-1-0"))))
    assert _ids(uri) == [8]


@pytest.mark.parametrize(
    ("stored", "given"),
    [
        (pa.array([2023, 2024], pa.int32()), pa.array([2024.0])),
        (pa.array([0, 1_000], pa.timestamp("ms")), pa.array([1_000_000], pa.timestamp("us"))),
    ],
)
def test_partitions_of_another_type_are_replaced_and_deleted(tmp_path: Path, stored: pa.Array, given: pa.Array):
    uri = tmp_path / "t"
    rows = pa.table({"id": [1, 2, 3], "part": stored.take(pa.array([0, 1, 1]))})
    hoodoo.write(rows, str(uri), operation="insert", options=OPTIONS)
    new = pa.record_batch({"id": pa.array([9]), "part": given})
    write = begin_in_process(new.schema, str(uri), "insert_overwrite", OPTIONS, {})
    write.commit(strings(write.task.append_to_replaced([new], Attempt(0, "0-1-0"))))
    assert _ids(uri) == [1, 9]
    hoodoo.write(pa.table({"part": given}), str(uri), operation="delete_partition")
    assert _ids(uri) == [1]


def test_an_abort_leaves_nothing(tmp_path: Path):
    uri = tmp_path / "t"
    write = _begin(uri)
    strings(write.task.append([_batch(range(4))], Attempt(0, "0-1-0")))
    write.abort()
    assert list(uri.glob("p*/*.parquet")) == []
    assert [i.action for i in hoodoo.Table(str(uri)).timeline.instants()] == ["rollback"]
    with pytest.raises(hoodoo.InternalError, match="has ended"):
        write.commit([])


def test_errors_come_as_they_were_raised(tmp_path: Path):
    uri = tmp_path / "t"
    with pytest.raises(hoodoo.UnsupportedError, match=r"the operation upsert looks up keys: call hoodoo\.spark\.write"):
        _begin(uri, "upsert")
    with pytest.raises(hoodoo.UnsupportedError, match="bucket index"):
        _begin(uri, hoodie__index__type="BUCKET")
    for option, value in [("allow__duplicate__on__inserts", "false"), ("combine__before__insert", "true")]:
        prefix = "hoodie__merge__" if option.startswith("allow") else "hoodie__"
        with pytest.raises(hoodoo.UnsupportedError, match="rows of a key become one"):
            _begin(uri, **{prefix + option: value})
    with pytest.raises(hoodoo.InvalidOptionError, match="anything"):
        _begin(uri, "anything")
    write = _begin(uri)
    with pytest.raises(hoodoo.CorruptFileError, match="no report"):
        write.commit(["{}"])
    assert [i for i in hoodoo.Table(str(uri)).timeline.instants() if i.state != "COMPLETED"] == []
    nulls = pa.record_batch({"id": [None], "part": ["p"]}, SCHEMA)
    write = _begin(uri, "insert_overwrite")
    with pytest.raises(hoodoo.SchemaError, match="null"):
        strings(write.task.append_to_replaced([nulls], Attempt(0, "0-1-0")))
    write.abort()


def test_only_who_knows_the_key_is_heard(tmp_path: Path):
    uri = tmp_path / "t"
    write = _begin(uri)
    with pytest.raises(hoodoo.InternalError):
        replace(write, key="00").abort()
    write.commit(strings(write.task.append([_batch(range(2))], Attempt(0, "0-1-0"))))
    assert _ids(uri) == [0, 1]


def test_a_write_whose_owner_has_ended_is_rolled_back(tmp_path: Path):
    uri = tmp_path / "t"
    # The owner is the process above the one that begins the write: a shell, which is killed.
    code = (
        "import json, sys, time\n"
        "from tests.python.test_write_process import _begin, _batch\n"
        "from pathlib import Path\n"
        f"write = _begin(Path({str(uri)!r}))\n"
        "print(json.dumps({'instant': write.instant}), flush=True)\n"
        "time.sleep(600)\n"
    )
    root = Path(__file__).resolve().parents[2]
    shell = subprocess.Popen(
        ["sh", "-c", '"$0" -c "$1" & wait', sys.executable, code], cwd=root, stdout=subprocess.PIPE, text=True
    )
    assert shell.stdout is not None
    with shell.stdout:
        instant = json.loads(shell.stdout.readline())["instant"]
        assert [i.requested for i in hoodoo.Table(str(uri)).timeline.instants(state="INFLIGHT")] == [instant]
        children = Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text(encoding="utf-8").split()
        # Nobody asks for its status: a notebook whose Spark was killed goes on.
        shell.kill()
        os.kill(int(children[0]), 9)
    deadline = time.monotonic() + 30
    while hoodoo.Table(str(uri)).timeline.instants(state="INFLIGHT"):
        assert time.monotonic() < deadline, "the write was not rolled back"
        time.sleep(0.2)
    shell.wait()
    # The next write does not wait for a lease that nobody gives back.
    assert hoodoo.write(pa.table(_batch(range(2))), str(uri), operation="insert", options=OPTIONS).inserted == 2
