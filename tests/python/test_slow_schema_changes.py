"""Writes that change columns, and take so long that writes which begin later are complete before them.

Of all commits, the one that was requested last tells the columns of the table, for real Hudi too. So a commit that
changes them must not come to stand before one with the old columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from hoodoo import ConflictError, Table
from hoodoo.distributed.executor import Attempt
from hoodoo.distributed.write import BegunWrite, prepare_write, write_rows
from tests.local_executor import LocalExecutor
from tests.s3_server import BUCKET, S3Server

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int32())])
ADDED = SCHEMA.append(pa.field("extra", pa.string()))
WIDE = SCHEMA.set(2, pa.field("v", pa.int64()))
OPTIONS = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.enable": "false",
    # As if the writers were on several machines.
    "hoodoo.write.lease": "false",
}


def rows(key: str, schema: pa.Schema = SCHEMA, part: str = "p") -> pa.Table:
    values = {"id": key, "part": part, "v": 2**40 if schema == WIDE else 1, "extra": "kept"}
    return pa.table({name: [values[name]] for name in schema.names}, schema=schema)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(tmp_path / "t", SCHEMA, name="t", record_key="id", partition_by="part", options=OPTIONS)
    made.insert(rows("first"))
    return made


def begin(table: Table, given: pa.Table, operation: str = "bulk_insert") -> tuple[BegunWrite, list[str]]:
    """Begin a write and write its files."""
    widened = ["v"] if given.schema == WIDE else []
    begun = prepare_write(given.schema, table.uri, operation, OPTIONS, {}).begin(given.schema, 1, widened=widened)
    write = begun.task.append if operation == "bulk_insert" else begun.task.append_to_replaced
    written = write(given.to_batches(), Attempt(0, "0-0-0"))
    return begun, [report for batch in written for report in batch.column(0).to_pylist()]


def types(table: Table) -> dict[str, pa.DataType]:
    schema = Table(table.uri, options=OPTIONS).schema
    return dict(zip(schema.names, schema.types, strict=True))


@pytest.mark.parametrize("schema", [ADDED, WIDE])
@pytest.mark.parametrize("operation", ["bulk_insert", "insert_overwrite"])
def test_a_later_write_that_is_complete_first(table: Table, operation: str, schema: pa.Schema) -> None:
    begun, reports = begin(table, rows("slow", schema), operation)
    table.insert(rows("other", part="q"))
    with pytest.raises(ConflictError, match="changes the columns") as refused:
        begun.commit(reports)
    assert refused.value.outdated_plan
    assert types(table) == dict(zip(SCHEMA.names, SCHEMA.types, strict=True))
    assert len(table.to_arrow()) == 2
    assert table.verify().ok


def test_a_later_service_that_is_complete_first(table: Table) -> None:
    table.insert(rows("second"))
    begun, reports = begin(table, rows("slow", ADDED))
    # Its commit names the columns, and they do not count.
    assert table.cluster() is not None
    begun.commit(reports)
    assert "extra" in types(table)
    assert sorted(found["extra"] or "" for found in Table(table.uri).to_arrow().to_pylist()) == ["", "", "kept"]


def test_one_that_keeps_the_columns_is_not_hindered(table: Table) -> None:
    begun, reports = begin(table, rows("slow"))
    table.insert(rows("other"))
    begun.commit(reports)
    assert len(table.to_arrow()) == 3


@pytest.mark.parametrize("operation", ["bulk_insert", "insert_overwrite"])
def test_a_later_write_that_is_complete_last(table: Table, operation: str) -> None:
    slow, its_reports = begin(table, rows("slow", ADDED))
    begun, reports = begin(table, rows("other", part="q"), operation)
    slow.commit(its_reports)
    with pytest.raises(ConflictError, match="changed the columns"):
        begun.commit(reports)
    begun.abort()
    assert "extra" in types(table)


def test_tasks_run_again(table: Table) -> None:
    class Slow(LocalExecutor):
        """Another write begins and ends while the tasks run, once."""

        def collect(self, data: list[pa.Table]) -> list[str]:
            if len(self.stages) == 1:
                table.insert(rows("other"))
            return super().collect(data)

    done = write_rows(Slow(), [rows("slow", ADDED)], table.uri, "bulk_insert", OPTIONS)
    assert [change.column for change in done.schema_changes] == ["extra"]
    assert "extra" in types(table)
    assert len(Table(table.uri).to_arrow()) == 3


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.close()


@contextmanager
def meanwhile(server: S3Server, act: Callable[[], object], is_then: Callable[[str, str, str], bool]) -> Iterator[None]:
    """Do something before the first request that is of a kind."""
    done: list[str] = []

    def before(method: str, key: str, query: str) -> None:
        if not done and is_then(method, key, query):
            done.append(key)
            act()

    server.before = before
    try:
        yield
    finally:
        server.before = None
    assert done


@pytest.mark.s3
def test_writes_of_one_process(server: S3Server) -> None:
    uri, storage = f"s3://{BUCKET}/slow-schema/write", server.storage_options
    Table.create(uri, SCHEMA, name="t", record_key="id", partition_by="part", options=OPTIONS, storage_options=storage)
    table = Table(uri, options=OPTIONS, storage_options=storage)
    other = Table(uri, options=OPTIONS, storage_options=storage)
    table.insert(rows("first"))
    with meanwhile(server, lambda: other.insert(rows("other")), lambda m, key, _: m == "PUT" and "parquet" in key):
        done = table.bulk_insert(rows("slow", ADDED))
    assert [change.column for change in done.schema_changes] == ["extra"]
    found = Table(uri, storage_options=storage).to_arrow()
    assert sorted(zip(found["id"].to_pylist(), (x or "" for x in found["extra"].to_pylist()), strict=True)) == [
        ("first", ""),
        ("other", ""),
        ("slow", "kept"),
    ]


@pytest.mark.s3
def test_a_delete_of_partitions_that_is_planned_anew(server: S3Server) -> None:
    uri, storage = f"s3://{BUCKET}/slow-schema/delete", server.storage_options
    Table.create(uri, SCHEMA, name="t", record_key="id", partition_by="part", options=OPTIONS, storage_options=storage)
    table = Table(uri, options=OPTIONS, storage_options=storage)
    other = Table(uri, options=OPTIONS, storage_options=storage)
    table.insert(pa.concat_tables([rows("first"), rows("stays", part="q")]))
    lists = lambda method, _key, query: method == "GET" and "list-type" in query and ".hoodie" not in query  # noqa: E731
    with meanwhile(server, lambda: other.upsert(rows("first", ADDED)), lists):
        table.delete_partitions(["p"])
    assert Table(uri, storage_options=storage).schema.names == ADDED.names
    assert Table(uri, storage_options=storage).to_arrow()["id"].to_pylist() == ["stays"]
