"""A base file is merged by copying what did not change, or by streaming all of it: the rows are the same."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodoo

ROWS = 3000
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("ts", pa.int64()),
        ("price", pa.decimal128(12, 2)),
        ("ratio", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
# Row groups of the old file are then larger than those that would be written.
STREAM = {"hoodie.parquet.block.size": "2048"}
SPLICE: dict[str, str] = {}


def _row(key: int, ts: int, rng: random.Random, deleted: bool = False) -> dict[str, Any]:
    return {
        "id": key,
        "name": rng.choice([None, f"name {key % 7}", "ä" * (key % 50)]),
        "ts": ts,
        "price": None if key % 11 == 0 else f"{key}.{ts % 90 + 10}",
        "ratio": rng.choice([0.0, -0.0, float("nan"), key / 3]),
        "tags": rng.choice([None, [], ["a"], ["b", None, str(key)]]),
        "_hoodie_is_deleted": deleted,
    }


def _table(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> pa.Table:
    from decimal import Decimal

    typed = [{**row, "price": None if row["price"] is None else Decimal(row["price"])} for row in rows]
    return pa.Table.from_pylist(typed, schema=schema)


def _create(path: Path, merge_mode: str) -> hoodoo.Table:
    options = {"hoodie.table.name": "t", "hoodie.record.merge.mode": merge_mode, "hoodie.clean.automatic": "false"}
    table = hoodoo.Table.create(path, SCHEMA, name="t", record_key="id", ordering=["ts"], options=options)
    rng = random.Random(0)
    table.insert(_table([_row(key, 10, rng) for key in range(ROWS)]))
    return table


def _content(path: Path) -> list[tuple[Any, ...]]:
    """All rows in the order of the file, with the position that each was written at, without what differs by nature."""
    rows = hoodoo.Table(path).to_arrow().to_pylist()
    numbers = [row["_hoodie_commit_seqno"].split("_", 1)[1] for row in rows]
    left_out = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name")
    return [
        (number, *(repr(value) for name, value in row.items() if name not in left_out))
        for number, row in zip(numbers, rows, strict=True)
    ]


def _newest(path: Path) -> Path:
    return max(path.glob("*.parquet"), key=lambda file: file.name.rsplit("_", 1)[1])


def _is_copied(file: Path) -> bool:
    """Tells the way by the column of the file's name, which the encoder would compress."""
    group = pq.ParquetFile(file).metadata.row_group(0)
    names = [group.column(i) for i in range(group.num_columns) if group.column(i).path_in_schema == "_hoodie_file_name"]
    return [chunk.compression for chunk in names] == ["UNCOMPRESSED"]


def _chunks(file: Path) -> dict[str, list[bytes]]:
    metadata, content = pq.ParquetFile(file).metadata, file.read_bytes()
    found: dict[str, list[bytes]] = {}
    for group in range(metadata.num_row_groups):
        for i in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(i)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            found.setdefault(chunk.path_in_schema, []).append(content[start : start + chunk.total_compressed_size])
    return found


@pytest.mark.parametrize("merge_mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
@pytest.mark.parametrize("seed", range(4))
def test_both_ways_give_the_same_rows(tmp_path: Path, merge_mode: str, seed: int):
    copied, streamed = tmp_path / "copied", tmp_path / "streamed"
    _create(copied, merge_mode)
    shutil.copytree(copied, streamed)
    rng = random.Random(seed)
    for step in range(5):
        changed = [_row(key, rng.choice([5, 10, 20 + step]), rng) for key in rng.sample(range(ROWS), 200)]
        if step % 2:
            changed += [_row(key, 99, rng, deleted=True) for key in rng.sample(range(ROWS), 30)]
        if step != 2:
            changed += [_row(ROWS * (step + 1) + n, 10, rng) for n in range(rng.choice([1, 500]))]
        for path, options in ((copied, SPLICE), (streamed, STREAM)):
            hoodoo.Table(path, {**options, "hoodie.clean.automatic": "false"}).upsert(_table(changed))
        assert _content(copied) == _content(streamed)
        assert _is_copied(_newest(copied))
        assert not _is_copied(_newest(streamed))
    for path in (copied, streamed):
        assert hoodoo.Table(path).verify().ok


def test_what_does_not_change_is_copied_to_the_byte(tmp_path: Path):
    table = _create(tmp_path / "t", "EVENT_TIME_ORDERING")
    before = _chunks(_newest(tmp_path / "t"))
    rows = [row for row in table.to_arrow(columns=SCHEMA.names).to_pylist() if row["id"] % 10 == 0]
    assert table.upsert(_table([{**row, "ts": 11, "name": f"new {row['id']}"} for row in rows])).updated == len(rows)
    after = _chunks(_newest(tmp_path / "t"))
    same = {column for column in before if before[column] == after[column]}
    expected = {"_hoodie_record_key", "id", "price", "ratio", "_hoodie_is_deleted"}
    assert {column for column in same if not column.startswith("tags")} == expected
    names = dict(table.to_arrow(columns=["id", "name"]).to_pandas().itertuples(index=False))
    assert [key for key, name in names.items() if name == f"new {key}"] == [row["id"] for row in rows]


def test_late_rows_change_nothing_but_the_name_of_the_file(tmp_path: Path):
    table = _create(tmp_path / "t", "EVENT_TIME_ORDERING")
    before, rows = _chunks(_newest(tmp_path / "t")), table.to_arrow()
    rng = random.Random(1)
    assert table.upsert(_table([_row(key, 1, rng) for key in range(100)])).updated == 0
    after = _chunks(_newest(tmp_path / "t"))
    assert {c for c in before if before[c] != after[c]} == {"_hoodie_file_name", "_hoodie_partition_path"}
    names = ["_hoodie_file_name"]
    # As text: NaN is not equal to itself.
    assert repr(table.to_arrow().drop_columns(names).to_pylist()) == repr(rows.drop_columns(names).to_pylist())


def test_a_negative_zero_is_a_change(tmp_path: Path):
    schema = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("xs", pa.list_(pa.float64()))])
    table = hoodoo.Table.create(tmp_path / "t", schema, name="t", record_key="id")
    table.insert(pa.table({"id": [1, 2], "x": [0.0, 1.0], "xs": [[0.0], [1.0]]}, schema=schema))
    table.upsert(pa.table({"id": [1], "x": [-0.0], "xs": [[-0.0]]}, schema=schema))
    row = table.to_arrow(filters=[("id", "=", 1)]).to_pylist()[0]
    assert (str(row["x"]), str(row["xs"])) == ("-0.0", "[-0.0]")


def test_a_column_that_was_added_since(tmp_path: Path):
    table = _create(tmp_path / "t", "EVENT_TIME_ORDERING")
    wider = SCHEMA.append(pa.field("added", pa.string()))
    rng = random.Random(2)
    table.upsert(_table([{**_row(key, 11, rng), "added": "x"} for key in range(5)], wider))
    added = dict(table.to_arrow(columns=["id", "added"]).to_pandas().itertuples(index=False))
    assert {key for key, value in added.items() if value == "x"} == set(range(5))
    assert len(added) == ROWS


@pytest.mark.parametrize("inserts", [0, 40])
def test_a_low_cardinality_column_stays_one_of_dictionary_keys(tmp_path: Path, inserts: int):
    path = tmp_path / "t"
    table = _create(path, "EVENT_TIME_ORDERING")
    names = [None, "name 3", "brand new"]
    changed = [{**_row(key, 11, random.Random(key)), "name": names[key % 3]} for key in range(0, ROWS, 3)]
    new = [{**_row(ROWS + n, 11, random.Random(n)), "name": f"late {n % 4}"} for n in range(inserts)]
    expected = {row["id"]: row["name"] for row in table.to_arrow(columns=["id", "name"]).to_pylist()}
    expected |= {row["id"]: row["name"] for row in changed + new}
    table.upsert(_table(changed + new))
    assert {row["id"]: row["name"] for row in table.to_arrow(columns=["id", "name"]).to_pylist()} == expected
    file = pq.ParquetFile(_newest(path), read_dictionary=["name"])
    assert _is_copied(_newest(path))
    columns = [column for batch in file.iter_batches(columns=["name"]) for column in batch.columns]
    # Strings that no row has any more are gone from the dictionary.
    strings = {name for name in expected.values() if name is not None}
    assert {name for column in columns for name in column.dictionary.to_pylist()} == strings
    chunk = next(c for i in range(20) if (c := file.metadata.row_group(0).column(i)).path_in_schema == "name")
    assert (chunk.statistics.min, chunk.statistics.max) == (min(strings), max(strings))
    assert table.verify().ok
