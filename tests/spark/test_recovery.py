"""Cleans, rollbacks and restores in Spark's tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodoo
import hoodoo.spark

PARTITIONS = 1_050
OPTIONS = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.fileversions.retained": "1",
}


def _rows(v: int) -> pa.Table:
    return pa.table(
        {"id": list(range(PARTITIONS)), "v": [v] * PARTITIONS, "part": [f"p{k}" for k in range(PARTITIONS)]}
    )


def _state(path: Path) -> tuple[int, set[int]]:
    t = hoodoo.Table(str(path), OPTIONS)
    assert not t.verify().problems
    files = [file for file in path.rglob("*.parquet") if ".hoodie" not in file.parts]
    return len(files), set(t.to_arrow(columns=["v"])["v"].to_pylist())


def test_recovery_of_a_table_of_many_files(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "t"
    t = hoodoo.Table.create(str(path), _rows(0).schema, name="t", record_key="id", partition_by="part", options=OPTIONS)
    t.bulk_insert(_rows(0))
    saved = t.savepoint()
    newest = [t.upsert(_rows(v)).instant for v in (1, 2, 3)][-1]
    assert _state(path) == (4 * PARTITIONS, {3})

    done = hoodoo.spark.rollback(spark, str(path), newest, OPTIONS)
    assert (done.rolled_back, done.files) == (newest, PARTITIONS)
    assert _state(path) == (3 * PARTITIONS, {2})

    planned = hoodoo.spark.clean(spark, str(path), OPTIONS, dry_run=True)
    cleaned = hoodoo.spark.clean(spark, str(path), OPTIONS)
    assert (planned.files, len(cleaned.files)) == (cleaned.files, PARTITIONS)
    assert _state(path) == (2 * PARTITIONS, {2})

    restored = hoodoo.spark.restore(spark, str(path), saved.instant, OPTIONS)
    assert (restored.files, len(restored.undone)) == (PARTITIONS, 2)
    assert _state(path) == (PARTITIONS, {0})
    t.upsert(_rows(4))
    assert _state(path) == (2 * PARTITIONS, {4})
