"""Others write and clean between a look at the timeline and a listing: nothing that is in the table is passed over.

Without a metadata table the folders are listed later than the timeline is loaded. What was cleaned meanwhile is not in
the listing, and what took its place is not on the timeline.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodoo import ConflictError, Table
from hoodoo.distributed.write import prepare_write, write_rows
from tests.local_executor import LocalExecutor
from tests.s3_server import BUCKET, S3Server

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
OPTIONS = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.enable": "false",
    # As if the writers were on several machines.
    "hoodoo.write.lease": "false",
}


def row(key: str, part: str, v: int) -> pa.Table:
    return pa.table({"id": [key], "part": [part], "v": [v]}, schema=SCHEMA)


def create(uri: Path | str, kind: str, **given: Any) -> Table:
    given.setdefault("options", OPTIONS)
    table = Table.create(
        uri, SCHEMA, name="t", record_key="id", partition_by="part", ordering=["v"], table_type=kind, **given
    )
    table.insert(row("hot", "zz", 0))
    # The newest commit, whose files are looked for, is of another partition.
    table.insert(row("cold", "aa", 0))
    return Table(uri, **given)


def update(uri: Path | str, times: int = 3, **given: Any) -> None:
    """Update the row so often that its file at first is cleaned."""
    given.setdefault("options", OPTIONS)
    for v in range(1, times + 1):
        Table(uri, **given).upsert(row("hot", "zz", v))


def hot(table: Table) -> list[int]:
    return sorted(found["v"] for found in table.to_arrow().to_pylist() if found["id"] == "hot")


def slowly(table: Table, given: pa.Table, times: int = 3, **options: Any) -> pa.RecordBatchReader:
    """Rows that come when others have updated and cleaned."""

    def batches() -> Iterator[pa.RecordBatch]:
        update(table.uri, times, **options)
        yield from given.to_batches()

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


@pytest.mark.parametrize("kind", KINDS)
def test_an_upsert_finds_the_key(tmp_path: Path, kind: str) -> None:
    table = create(tmp_path / "t", kind)
    done = table.upsert(slowly(table, row("hot", "zz", 100)))
    assert (done.inserted, done.updated) == (0, 1)
    assert hot(table) == [100]
    assert table.verify().ok


def test_an_upsert_finds_the_key_where_much_is_retained(tmp_path: Path) -> None:
    options = {key: value for key, value in OPTIONS.items() if key != "hoodie.clean.commits.retained"}
    table = create(tmp_path / "t", "COPY_ON_WRITE", options=options)
    done = table.upsert(slowly(table, row("hot", "zz", 100), 12, options=options))
    assert (done.inserted, done.updated, hot(table)) == (0, 1, [100])


@pytest.mark.parametrize("kind", KINDS)
def test_a_delete_finds_the_key(tmp_path: Path, kind: str) -> None:
    table = create(tmp_path / "t", kind)
    assert table.delete(slowly(table, row("hot", "zz", 100))).deleted == 1
    assert hot(table) == []


@pytest.mark.parametrize("enable", ["false", "true"])
@pytest.mark.parametrize("operation", ["upsert", "delete"])
@pytest.mark.parametrize("kind", KINDS)
def test_tasks_that_begin_late(tmp_path: Path, kind: str, operation: str, enable: str) -> None:
    # By commits the cleaner keeps what pending writes began with.
    policy = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}
    options = {**OPTIONS, **policy, "hoodie.metadata.enable": enable}
    table = create(tmp_path / "t", kind, options=options)
    given = row("hot", "zz", 100)
    begun = prepare_write(SCHEMA, table.uri, operation, options, {}).begin(SCHEMA, 1)
    update(table.uri, options=options)
    with pytest.raises(ConflictError) as refused:
        begun.commit(begun.execute(LocalExecutor(), [given], operation, options))
    assert refused.value.outdated_plan
    begun.abort()
    assert hot(table) == [3]

    class Slow(LocalExecutor):
        """Others write and clean before the first task runs."""

        def map_batches(self, *asked: Any) -> list[pa.Table]:
            if not self.stages:
                update(table.uri, options=options)
            return super().map_batches(*asked)

    done = write_rows(Slow(), [given], table.uri, operation, options)
    assert (done.inserted, done.updated, done.deleted) == (0, *((1, 0) if operation == "upsert" else (0, 1)))
    assert hot(table) == ([100] if operation == "upsert" else [])
    assert table.verify().ok


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.close()


@pytest.mark.s3
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("act", ["read", "changes", "slices", "upsert", "delete_partitions"])
def test_a_listing_after_a_clean(server: S3Server, act: str, kind: str) -> None:
    uri = f"s3://{BUCKET}/stale/{act}-{kind}"
    given: dict[str, Any] = {"options": OPTIONS, "storage_options": server.storage_options}
    table = create(uri, kind, **given)
    begun: list[str] = []

    def before(method: str, _key: str, query: str) -> None:
        # The first listing of a folder of data.
        if method == "GET" and "list-type" in query and ".hoodie" not in query and not begun:
            begun.append(query)
            update(uri, **given)

    server.before = before
    try:
        if act == "read":
            assert hot(table) == [3]
        elif act == "changes":
            assert sorted(table.changes("0").read_all()["id"].to_pylist()) == ["cold", "hot"]
        elif act == "slices":
            assert sorted(found.partition for found in table.file_slices()) == ["aa", "zz"]
        elif act == "upsert":
            assert table.upsert(row("hot", "zz", 100)).updated == 1
        else:
            table.delete_partitions(["zz"])
    finally:
        server.before = None
    assert begun
    assert hot(Table(uri, **given)) == {"upsert": [100], "delete_partitions": []}.get(act, [3])
