"""Rows that exceed the memory budget go to the disk, and the table is the same."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from tests.rows import arrow_rows

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("ts", pa.int64()),
        ("tags", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
BASE = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.table.ordering.fields": "ts",
}


def _batches(seed: int, count: int = 20) -> pa.RecordBatchReader:
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        rows: list[dict[str, Any]] = []
        for _ in range(50):
            tags = rng.choice([None, [], [{"a": rng.randrange(9), "b": rng.choice([None, "x"])}]])
            key = rng.randrange(600)
            rows.append(
                {
                    "id": f"k{key}",
                    "part": f"p{key % 3}",
                    "ts": rng.randrange(20),
                    "tags": tags,
                    "_hoodie_is_deleted": rng.random() < 0.1,
                }
            )
        made.append(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    return pa.RecordBatchReader.from_batches(SCHEMA, made)


@pytest.mark.parametrize("index", ["BLOOM", "GLOBAL_SIMPLE"])
def test_the_table_is_the_same(tmp_path: Path, index: str):
    folder = tmp_path / "spill"
    folder.mkdir()
    tables = {}
    for budget in ("0", "20000", None):
        options = {**BASE, "hoodie.index.type": index, "hoodoo.spill.folder": str(folder)}
        if budget is not None:
            options["hoodoo.memory.budget"] = budget
        uri = str(tmp_path / f"budget-{budget}")
        for seed, operation in enumerate(("bulk_insert", "upsert", "insert", "upsert", "insert_overwrite")):
            changed = {**options, "hoodie.bulkinsert.sort.mode": "PARTITION_SORT"}
            hoodoo.write(_batches(seed), uri, operation=operation, options=changed)
        table = hoodoo.Table(uri, options)
        table.delete(
            pa.table({"id": [f"k{n}" for n in range(0, 600, 7)], "part": [f"p{n % 3}" for n in range(0, 600, 7)]})
        )
        tables[budget] = arrow_rows(table.to_arrow())
        # `insert` may store a key twice: that is the same for all.
        assert all("in more than one row" in p.message for p in table.verify().problems)
    assert tables["0"] == tables["20000"] == tables[None]
    assert len(tables[None]) > 100
    assert list(folder.iterdir()) == []


def test_a_spill_folder_that_is_not_there(tmp_path: Path):
    options = {**BASE, "hoodoo.memory.budget": "0", "hoodoo.spill.folder": str(tmp_path / "none")}
    uri = str(tmp_path / "t")
    hoodoo.write(_batches(0), uri, operation="upsert", options=BASE)
    before = arrow_rows(hoodoo.Table(uri).to_arrow())
    with pytest.raises(hoodoo.StorageError, match=r"hoodoo\.spill\.folder"):
        hoodoo.write(_batches(1), uri, operation="upsert", options=options)
    assert arrow_rows(hoodoo.Table(uri).to_arrow()) == before
    assert hoodoo.Table(uri).timeline.instants(state="requested") == []
    with pytest.raises(hoodoo.InvalidOptionError, match="a number"):
        hoodoo.write(_batches(1), uri, operation="upsert", options={**BASE, "hoodoo.memory.budget": "lots"})
