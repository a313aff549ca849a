"""Writers that do not wait for each other: merge-on-read tables with a bucket index."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Table
from hoodoo.distributed.write import prepare_write
from hoodoo.statements import planned_write
from tests.local_executor import LocalExecutor

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("ts", pa.int64()), ("v", pa.string())])
OPTIONS = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "4",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
}
_SHARED = "-0000-0000-0000-000000000000-0"


def rows(keys: range, ts: int) -> pa.Table:
    """Rows in two partitions."""
    return pa.table(
        {
            "id": [f"k{key}" for key in keys],
            "part": [f"p{key % 2}" for key in keys],
            "ts": [ts] * len(keys),
            "v": [f"v{key}-{ts}" for key in keys],
        },
        SCHEMA,
    )


def _table(path: Path, options: dict[str, str] | None = None) -> Table:
    return Table.create(
        path,
        SCHEMA,
        name="t",
        record_key="id",
        partition_by="part",
        ordering="ts",
        table_type="MERGE_ON_READ",
        options=OPTIONS | (options or {}),
    )


def _read(path: Path) -> dict[str, str]:
    return {row["id"]: row["v"] for row in Table(path).to_arrow(columns=["id", "v"]).to_pylist()}


def test_first_writes_make_log_files(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    commit = table.insert(rows(range(8), 1))
    assert (commit.inserted, commit.updated) == (8, 0)
    assert all(".log.1_" in file for file in commit.files)
    assert {s.file_id[8:] for s in table.file_slices()} == {_SHARED}
    commit = table.upsert(rows(range(4, 12), 2))
    table.delete({"id": ["k0"], "part": ["p0"]})
    expected = {f"k{n}": f"v{n}-{2 if n >= 4 else 1}" for n in range(1, 12)}
    assert _read(tmp_path / "t") == expected
    table.compact()
    assert _read(tmp_path / "t") == expected
    table.upsert(rows(range(3), 3))
    assert _read(tmp_path / "t") == expected | {f"k{n}": f"v{n}-3" for n in range(3)}
    assert not table.verify().problems


@pytest.mark.parametrize("begun", [False, True], ids=["new buckets", "known buckets"])
@pytest.mark.parametrize("compacts", [False, True])
def test_writers_meet(tmp_path: Path, begun: bool, compacts: bool) -> None:
    """One has begun and reads its rows; others write the same keys, compact, and complete first. Nobody fails."""
    path = tmp_path / "t"
    table = _table(path)
    if begun:
        table.upsert(rows(range(20), 1))
    waits, goes_on = threading.Event(), threading.Event()

    def slow() -> Iterator[pa.RecordBatch]:
        yield rows(range(10), 5).to_batches()[0]
        waits.set()
        assert goes_on.wait(60)

    done: list[hoodoo.Commit] = []

    def write() -> None:
        done.append(Table(path, OPTIONS).upsert(pa.RecordBatchReader.from_batches(SCHEMA, slow())))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert waits.wait(60)
        Table(path, OPTIONS).upsert(rows(range(5, 15), 3))
        Table(path, OPTIONS).upsert(rows(range(8, 12), 9))
        if compacts:
            Table(path, OPTIONS).compact()
    finally:
        goes_on.set()
        writer.join()
    assert len(done) == 1
    expected = {f"k{n}": f"v{n}-1" for n in range(20)} if begun else {}
    for keys, ts in ((range(5, 15), 3), (range(10), 5), (range(8, 12), 9)):
        expected |= {f"k{n}": f"v{n}-{ts}" for n in keys}
    assert _read(path) == expected
    Table(path, OPTIONS).compact()
    assert _read(path) == expected
    assert not Table(path).verify().problems


def test_many_writers(tmp_path: Path) -> None:
    path = tmp_path / "t"
    _table(path)
    failures: list[BaseException] = []

    def write(name: int) -> None:
        try:
            for n in range(6):
                Table(path, OPTIONS).upsert(rows(range(n, n + 6), 10 * n + name))
        except hoodoo.HudiError as error:
            failures.append(error)

    writers = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert not failures
    assert _read(path) == {f"k{key}": f"v{key}-{10 * min(key, 5) + 3}" for key in range(11)}
    assert not Table(path).verify().problems


def test_tasks_of_an_engine(tmp_path: Path) -> None:
    """The same by tasks, as on Spark, with another writer in their middle."""
    path = tmp_path / "t"
    _table(path)
    begun = prepare_write(SCHEMA, str(path), "upsert", OPTIONS, {}).begin(SCHEMA, 2)
    Table(path, OPTIONS).upsert(rows(range(4, 8), 1))
    reports = begun.execute(LocalExecutor(2), [rows(range(6), 2), rows(range(8, 12), 2)], "upsert", OPTIONS)
    commit = begun.commit(reports)
    assert all(".log.1_" in file for file in commit.files)
    assert _read(path) == {f"k{n}": f"v{n}-{1 if n in (6, 7) else 2}" for n in range(12)}
    assert not Table(path).verify().problems


def test_a_partition_that_was_deleted(tmp_path: Path) -> None:
    """Its file ids are hidden for good: Hudi's rows would not be seen. New ones are made."""
    path = tmp_path / "t"
    table = _table(path)
    table.insert(rows(range(8), 1))
    table.delete_partitions(["p0"])
    table.upsert(rows(range(4), 2))
    assert _read(path) == {"k0": "v0-2", "k2": "v2-2", "k1": "v1-2", "k3": "v3-2", "k5": "v5-1", "k7": "v7-1"}
    assert not table.verify().problems


def test_what_it_needs(tmp_path: Path) -> None:
    plain = {key: value for key, value in OPTIONS.items() if "index" not in key}
    table = Table.create(tmp_path / "a", SCHEMA, name="a", record_key="id", ordering="ts", table_type="MERGE_ON_READ")
    with pytest.raises(hoodoo.InvalidOptionError, match="bucket index"):
        Table(table.uri, plain).upsert(rows(range(2), 1))
    table = Table.create(tmp_path / "b", SCHEMA, name="b", record_key="id", ordering="ts")
    with pytest.raises(hoodoo.InvalidOptionError, match="merge-on-read"):
        Table(table.uri, OPTIONS).upsert(rows(range(2), 1))
    unlocked = {key: value for key, value in OPTIONS.items() if "lock" not in key}
    table = Table.create(tmp_path / "c", SCHEMA, name="c", record_key="id", ordering="ts", table_type="MERGE_ON_READ")
    with pytest.raises(hoodoo.InvalidOptionError, match=r"lock\.provider"):
        Table(table.uri, unlocked).upsert(rows(range(2), 1))
    for operation in ("insert_overwrite", "insert_overwrite_table"):
        with pytest.raises(hoodoo.UnsupportedError, match="NON_BLOCKING"):
            getattr(Table(table.uri, OPTIONS), operation)(rows(range(2), 1))


def test_statements_need_conflicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement computes rows from those that it read: what others append meanwhile must not be lost."""
    path = tmp_path / "t"
    table = _table(path)
    table.insert(rows(range(4), 1))
    before = _read(path)
    for run in (
        lambda: table.update({"v": "v || '!'"}),
        lambda: table.delete(where="id = 'k1'"),
        lambda: table.merge({"id": ["k1"]}, on=["id"]).when_matched_delete().execute(),
    ):
        with pytest.raises(hoodoo.UnsupportedError, match="NON_BLOCKING_CONCURRENCY_CONTROL"):
            run()
    assert _read(path) == before
    run_once = planned_write._run
    runs: list[list[str]] = []

    def meanwhile(*arguments: Any) -> list[str]:
        reports = run_once(*arguments)
        if not runs:
            # The same ordering value: the later log file would win.
            table.upsert(rows(range(2), 1).set_column(3, SCHEMA.field("v"), pa.array(["theirs", "theirs"])))
        runs.append(reports)
        return reports

    monkeypatch.setattr(planned_write, "_run", meanwhile)
    blocking = OPTIONS | {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodoo.write.lease": "false",
    }
    Table(path, blocking).update({"v": "v || '!'"})
    assert len(runs) == 2
    assert _read(path) == {"k0": "theirs!", "k1": "theirs!", "k2": "v2-1!", "k3": "v3-1!"}
    assert not table.verify().problems
