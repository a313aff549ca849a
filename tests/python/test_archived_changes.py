"""Changes of a range whose commits were archived, and the order of the changes of one commit."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from hoodoo import InvalidOptionError, Table

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("ts", pa.int64()), ("v", pa.string())])
TYPES = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])


def _rows(*rows: tuple[int, str, int, str]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


@TYPES
def test_a_service_behind_archived_writes_does_not_have_the_rows_of_before(table_type: str) -> None:
    options = {
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.parquet.small.file.limit": "0",
    }
    keys: dict[str, Any] = {"record_key": "id", "partition_by": "p", "ordering": "ts"}
    table = Table.create(
        f"memory://archived-changes/{table_type}", SCHEMA, name="t", table_type=table_type, options=options, **keys
    )
    first = table.upsert(_rows((1, "a", 1, "one")))
    second = table.upsert(_rows((2, "b", 2, "two"), (3, "b", 2, "two")))
    table.delete_partitions(["b"])
    table.upsert(_rows((1, "a", 4, "four")))
    table.upsert(_rows((4, "c", 5, "five")))
    service = table.cluster(sort_by=["ts"]) if table_type == "COPY_ON_WRITE" else table.compact()
    assert service is not None
    table.upsert(_rows((100, "d", 9, "later")))
    table.clean()
    for n in range(4):
        with pytest.raises(InvalidOptionError, match="cleaned"):
            table.changes(first.completed, second.completed).read_all()
        table.archive()
        table.upsert(_rows((101 + n, "d", 9, "later")))


@TYPES
def test_what_a_commit_replaced_comes_before_what_it_wrote(table_type: str) -> None:
    table = Table.create(
        f"memory://order-of-changes/{table_type}",
        SCHEMA,
        name="t",
        record_key="id",
        partition_by="p",
        table_type=table_type,
        options={"hoodie.table.cdc.enabled": "true"},
    )
    table.insert(_rows((1, "a", 1, "old"), (2, "a", 1, "old")))
    table.insert_overwrite(_rows((1, "a", 2, "new"), (2, "a", 2, "new")))
    state: dict[int, str] = {}
    for change in table.changes("0", mode="cdc").read_all().to_pylist():
        key = (change["after"] or change["before"])["id"]
        if change["op"] == "d":
            state.pop(key, None)
        else:
            state[key] = change["after"]["v"]
    assert state == {1: "new", 2: "new"}
