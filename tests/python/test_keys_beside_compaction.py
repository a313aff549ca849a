"""Indexes of keys where a compaction carries out deletes, and readers of base files only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Table

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.string()), ("_hoodie_is_deleted", pa.bool_())])
BY_INDEX = {"hoodie.metadata.global.record.level.index.enable": "true"}
OPTIONS = {**BY_INDEX, "hoodie.compact.inline": "false", "hoodie.clean.automatic": "false"}


def _rows(*rows: tuple[str, int, str], deleted: bool = False) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": k, "ts": ts, "v": v, "_hoodie_is_deleted": deleted} for k, ts, v in rows], schema=SCHEMA
    )


def _table(path: Path, **more: str) -> Table:
    options = {**OPTIONS, **more}
    table = Table.create(
        path, SCHEMA, name="t", record_key="id", ordering="ts", table_type="MERGE_ON_READ", options=options
    )
    table = Table(path, options)
    table.upsert(_rows(("a", 1, "x"), ("b", 1, "y")))
    return table


def _column(table: Table, index: str, *names: str) -> list[tuple[Any, ...]]:
    found = table.metadata_table.to_arrow(index).to_pylist()  # type: ignore[union-attr]
    return sorted(tuple(row[name] for name in names) for row in found)


def test_an_older_row_that_a_compaction_brings_back_is_in_the_indexes(tmp_path: Path):
    table = _table(tmp_path / "t")
    table.index("secondary_index", "v")
    table.upsert(_rows(("a", 71, "gone"), deleted=True))
    planned = table.schedule_compaction()
    assert planned is not None
    # It loses to the delete, until the compaction carries that out.
    table.upsert(_rows(("a", 50, "late")))
    assert table.to_arrow(columns=["id"])["id"].to_pylist() == ["b"]
    table.compact()
    rows = sorted((row["id"], row["v"]) for row in table.to_arrow(columns=["id", "v"]).to_pylist())
    assert rows == [("a", "late"), ("b", "y")]
    assert _column(table, "record_index", "key") == [("a",), ("b",)]
    assert _column(table, "secondary_index_v", "value", "record_key") == [("late", "a"), ("y", "b")]
    assert table.to_arrow(columns=["id"], filters=[("id", "=", "a")])["id"].to_pylist() == ["a"]
    by_index = Table(tmp_path / "t", {**OPTIONS, "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"})
    assert by_index.upsert(_rows(("a", 99, "new"))).inserted == 0
    assert sorted(table.to_arrow(columns=["id"])["id"].to_pylist()) == ["a", "b"]
    assert table.verify().ok


def test_base_files_alone_are_not_read_by_the_keys_of_now(tmp_path: Path):
    table = _table(tmp_path / "t", **{"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"})
    table.index("secondary_index", "v")
    table.compact()
    table.upsert(_rows(("a", 5, "x"), deleted=True))
    table.upsert(_rows(("b", 5, "new")))

    def read(*condition: Any) -> list[str]:
        rows = table.scan(columns=["id"], filters=[condition], query="read_optimized").read_all()
        return rows["id"].to_pylist()  # type: ignore[no-any-return]

    found = sorted(table.scan(columns=["id"], query="read_optimized").read_all()["id"].to_pylist())
    for key in found:
        assert read("id", "=", key) == [key]
    if "b" in found:
        assert read("v", "=", "y") == ["b"]


def test_writers_that_do_not_wait_keep_no_index_of_keys(tmp_path: Path):
    options = {
        **OPTIONS,
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "1",
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    }
    Table.create(
        tmp_path / "t", SCHEMA, name="t", record_key="id", ordering="ts", table_type="MERGE_ON_READ", options=options
    )
    one = {**options, "hoodie.write.concurrency.mode": "SINGLE_WRITER"}
    Table(tmp_path / "t", one).upsert(_rows(("a", 1, "x")))
    with pytest.raises(hoodoo.UnsupportedError, match=r"cannot keep the index record_index.*drop_index"):
        Table(tmp_path / "t", options).upsert(_rows(("a", 2, "y")))
