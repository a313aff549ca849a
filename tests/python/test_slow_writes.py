"""Writes that take so long that they are archived as soon as they are complete: whoever reads on still sees them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from hoodoo import InvalidOptionError, Table, _native
from hoodoo.commit import Commit
from hoodoo.distributed.executor import Attempt
from hoodoo.distributed.write import prepare_write, write_rows
from hoodoo.sync.state import TableState
from tests.local_executor import LocalExecutor

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string())])
OPTIONS = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.enable": "false",
    # As if the slow writer were on another machine.
    "hoodoo.write.lease": "false",
}


def rows(key: str, part: str = "p") -> pa.Table:
    return pa.table({"id": [key], "part": [part]}, schema=SCHEMA)


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    uri, kind = tmp_path / "t", request.param
    made = Table.create(uri, SCHEMA, name="t", record_key="id", partition_by="part", table_type=kind, options=OPTIONS)
    made.insert(rows("first"))
    return made


def slow_insert(table: Table, given: pa.Table) -> Callable[[], Commit]:
    """Begin a write, write its files, and return what commits it."""
    begun = prepare_write(SCHEMA, table.uri, "bulk_insert", OPTIONS, {}).begin(SCHEMA, 1)
    written = begun.task.append(given.to_batches(), Attempt(0, "0-0-0"))
    reports = [report for batch in written for report in batch.column(0).to_pylist()]
    return lambda: begun.commit(reports)


def test_those_who_read_on_see_a_write_that_was_archived_at_once(table: Table) -> None:
    commit = slow_insert(table, rows("slow", "new"))
    seen = [table.insert(rows(f"k{n}")).completed for n in range(8)][-1]
    assert seen is not None
    synced = TableState(_native.NativeTable.open(table.uri, {}, {})).synced
    assert synced is not None
    done = commit()
    active = {instant.requested for instant in Table(table.uri).timeline.instants()}
    assert done.instant not in active
    assert done.completed > seen
    assert table.changes(seen, columns=["id"]).read_all()["id"].to_pylist() == ["slow"]
    assert table.changes(done.completed, columns=["id"]).read_all().num_rows == 0
    later = TableState(_native.NativeTable.open(table.uri, {}, {})).partition_changes(*synced, incremental=True)
    assert (later.present, later.complete) == (("new",), False)


def test_change_data_of_a_write_that_was_archived_at_once(table: Table) -> None:
    commit = slow_insert(table, rows("slow"))
    seen = [table.insert(rows(f"k{n}")).completed for n in range(8)][-1]
    assert seen is not None
    commit()
    changes = table.changes(seen, mode="cdc").read_all().to_pylist()
    assert [(change["op"], "slow" in str(change["after"])) for change in changes] == [("i", True)]


@pytest.mark.parametrize("retries", ["many", "-1", "1.5", ""])
def test_retries_that_are_no_number_are_named(table: Table, retries: str) -> None:
    options = {**OPTIONS, "hoodie.write.num.retries.on.conflict.failures": retries}
    with pytest.raises(InvalidOptionError, match=r"hoodie\.write\.num\.retries\.on\.conflict\.failures"):
        write_rows(LocalExecutor(), [rows("k")], table.uri, options=options)
