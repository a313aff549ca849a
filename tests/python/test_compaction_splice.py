"""Compaction copies the columns that no log record changes, and gives the rows that the logs gave before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hoodoo
import hoodoo.mergers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Three row groups, the last of them too large to be filled up.
_ROWS = 300_000
# Two, the last of them small.
_FEW = 140_000
_OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.copyonwrite.insert.split.size": "10000000",
    "hoodie.copyonwrite.insert.auto.split": "false",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
}
_META = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path")


def _rows(ids: Sequence[int] | np.ndarray[Any, Any], ts: int, text: str) -> pa.Table:
    ids = np.asarray(ids)
    return pa.table(
        {
            "id": pa.array([f"key-{i:07d}" for i in ids.tolist()]),
            "ts": pa.array(np.full(len(ids), ts)),
            "kept": pa.array(ids * 7),
            "text": pa.array([f"{text} {i % 101}" for i in ids.tolist()]),
        }
    )


def _table(folder: Path, rows: int, **more: str) -> hoodoo.Table:
    options = _OPTIONS | more
    hoodoo.write(_rows(np.arange(rows), 10, "first"), folder, operation="bulk_insert", options=options)
    return hoodoo.Table(folder, options=options)


def _stored(table: hoodoo.Table, *, meta: bool) -> pa.Table:
    # The name of the file is the one thing that compaction changes.
    return table.to_arrow(columns=[*_META, *table.schema.names]) if meta else table.to_arrow()


def _base_file(table: hoodoo.Table, folder: Path) -> pq.ParquetFile:
    (piece,) = table.file_slices()
    assert piece.base_file is not None
    return pq.ParquetFile(folder / piece.base_file)


def _chunk(file: pq.ParquetFile, folder: Path, name: str, group: int, base: str) -> bytes:
    index = file.schema_arrow.names.index(name)
    column = file.metadata.row_group(group).column(index)
    start = column.dictionary_page_offset or column.data_page_offset
    with (folder / base).open("rb") as stream:
        stream.seek(start)
        return stream.read(column.total_compressed_size)


def _chunks(table: hoodoo.Table, folder: Path) -> dict[str, list[bytes]]:
    (piece,) = table.file_slices()
    base = str(piece.base_file)
    with _base_file(table, folder) as file:
        groups = range(file.metadata.num_row_groups)
        return {name: [_chunk(file, folder, name, g, base) for g in groups] for name in file.schema_arrow.names}


def _compacted(table: hoodoo.Table, *, meta: bool = True) -> None:
    before = _stored(table, meta=meta)
    assert any(piece.log_files for piece in table.file_slices())
    table.compact()
    assert not any(piece.log_files for piece in table.file_slices())
    after = _stored(table, meta=meta)
    assert after.num_rows == before.num_rows
    assert after.equals(before)


def test_what_no_record_changes_is_copied(tmp_path: Path) -> None:
    table = _table(tmp_path, _ROWS)
    first = _chunks(table, tmp_path)
    assert len(first["id"]) == 3
    # The second row group is not met at all.
    ids = np.concatenate([np.arange(5, 100_000, 3), np.arange(270_000, 280_000)])
    table.upsert(_rows(ids, 11, "second"))
    _compacted(table)
    then = _chunks(table, tmp_path)
    for name in ("_hoodie_record_key", "_hoodie_partition_path", "id", "kept"):
        assert then[name] == first[name], name
    for name in ("_hoodie_commit_time", "_hoodie_commit_seqno", "ts", "text"):
        assert [a == b for a, b in zip(then[name], first[name], strict=True)] == [False, True, False], name
    # Keys are still found.
    assert table.upsert(_rows([0, 299_999, 300_000], 12, "third")).inserted == 1


@pytest.mark.parametrize("meta", ["true", "false"])
@pytest.mark.parametrize("rows", [_FEW, _ROWS])
@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
def test_deletes_and_new_rows(tmp_path: Path, mode: str, rows: int, meta: str) -> None:
    more = {"hoodie.record.merge.mode": mode, "hoodie.populate.meta.fields": meta}
    table = _table(tmp_path, rows, **more)
    table.upsert(_rows(np.arange(0, rows, 10), 11, "second"))
    # By event time these are too late.
    table.upsert(_rows(np.arange(0, rows, 5), 9, "late"))
    table.delete(_rows(np.arange(100, 200), 20, "gone").select(["id", "ts"]))
    _compacted(table, meta=meta == "true")
    assert table.to_arrow().num_rows == rows - 100
    again = table.upsert(_rows(np.arange(0, 300), 21, "again"))
    assert again.inserted == 100
    assert table.to_arrow().num_rows == rows


def test_texts_that_are_numbers_in_the_file(tmp_path: Path) -> None:
    table = _table(tmp_path, _ROWS)
    ids = np.arange(0, _ROWS, 7)
    rows = _rows(ids, 11, "second")
    # Few texts of which some are there already, none, and as many as there are rows.
    few = pa.array([None if i % 5 == 0 else f"first {i % 3}" for i in ids.tolist()])
    table.upsert(rows.set_column(3, "text", few))
    _compacted(table)
    first = _chunks(table, tmp_path)
    table.upsert(rows.set_column(1, "ts", pa.array([12] * len(ids))).set_column(3, "text", few))
    _compacted(table)
    # The same texts once more.
    assert _chunks(table, tmp_path)["text"] == first["text"]
    many = pa.array([f"{i} of many" for i in ids.tolist()])
    table.upsert(rows.set_column(1, "ts", pa.array([13] * len(ids))).set_column(3, "text", many))
    _compacted(table)
    table.upsert(rows.set_column(1, "ts", pa.array([14] * len(ids))).set_column(3, "text", few))
    _compacted(table)


@pytest.mark.parametrize("rows", [_FEW, _ROWS])
@pytest.mark.parametrize(
    "rule",
    [
        {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"},
        {"hoodie.table.partial.update.mode": "FILL_UNAVAILABLE"},
        {
            "hoodie.record.merge.mode": "CUSTOM",
            "hoodie.write.record.merge.strategy.id": hoodoo.mergers.KeepNonNull.strategy_id,
            "hoodie.write.record.merge.custom.implementation.classes": "hoodoo.mergers.KeepNonNull",
        },
    ],
    ids=["defaults", "unavailable", "merger"],
)
def test_rules_that_put_records_together(tmp_path: Path, rule: dict[str, str], rows: int) -> None:
    table = _table(tmp_path, rows, **rule)
    first = _chunks(table, tmp_path)
    met = np.arange(0, 100_000, 10)
    given = _rows(met, 11, "second")
    without = given.set_column(3, "text", pa.nulls(len(met), pa.string()))
    table.upsert(without)
    table.delete(_rows(np.arange(100, 200), 20, "gone").select(["id", "ts"]))
    table.upsert(_rows(np.arange(rows // 2, rows // 2 + 10), 12, "third"))
    _compacted(table)
    found = table.to_arrow()
    assert found.num_rows == rows - 100
    kept = "first" if "IGNORE_DEFAULTS" in rule.values() or "CUSTOM" in rule.values() else None
    one = found.filter(pc.equal(found["id"], "key-0000300"))
    assert one["text"][0].as_py() == (f"first {300 % 101}" if kept else None)
    then = _chunks(table, tmp_path)
    # In the last row group nothing was met, or something that says what is stored.
    assert then["id"][-1] == first["id"][-1]
    assert then["kept"][-1] == first["kept"][-1]
    assert table.upsert(_rows(np.arange(0, 300), 21, "again")).inserted == 100
    # Without deletes, the filter grows from the one before.
    _compacted(table)
    assert table.upsert(_rows([5, 250, rows // 2 + 5], 22, "once more")).inserted == 0


@pytest.mark.parametrize("bloom", ["DYNAMIC_V0", "SIMPLE"])
def test_schemas_and_filters(tmp_path: Path, bloom: str) -> None:
    more = {"hoodie.bloom.index.filter.type": bloom}
    table = _table(tmp_path, _FEW, **more)
    wider = _rows(np.arange(0, _FEW, 1000), 11, "second").append_column("new", pa.array([1.5] * (_FEW // 1000)))
    table.upsert(wider)
    _compacted(table)
    rows = table.to_arrow()
    assert rows["new"].null_count == _FEW - _FEW // 1000
    first = _chunks(table, tmp_path)
    table.upsert(wider.set_column(1, "ts", pa.array([12] * wider.num_rows)))
    _compacted(table)
    then = _chunks(table, tmp_path)
    assert then["new"] == first["new"]
    assert then["text"] == first["text"]
    assert then["ts"] != first["ts"]


def test_values_that_compare_equal_but_differ_are_written(tmp_path: Path) -> None:
    options: dict[str, Any] = dict(_OPTIONS)
    ids = [f"k{i}" for i in range(100)]
    make = lambda ts, value: pa.table({"id": ids, "ts": [ts] * 100, "value": pa.array([value] * 100, pa.float64())})  # noqa: E731
    hoodoo.write(make(1, 0.0), tmp_path, operation="bulk_insert", options=options)
    table = hoodoo.Table(tmp_path, options=options)
    table.upsert(make(2, -0.0))
    _compacted(table)
    assert all(np.signbit(table.to_arrow()["value"].to_numpy()))
