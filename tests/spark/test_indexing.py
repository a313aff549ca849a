"""Indexes of the metadata table in Spark's tasks: they have what the table has, and failed attempts leave nothing."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import hoodoo
import hoodoo.spark
from hoodoo.distributed import BatchFunction
from hoodoo.distributed.indexing import begin_index
from hoodoo.spark import executor
from tests.record_index import index_of, stored_keys
from tests.secondary_index import entries_of, stored_entries

OPTIONS = {
    "hoodie.metadata.enable": "true",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.compact.inline": "false",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "7",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "7",
}


def _rows(keys: range, v: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{key:05}" for key in keys],
            "v": pa.array([v] * len(keys), pa.int64()),
            "part": [f"p{key % 3}" for key in keys],
            "s": pa.array([None if key % 9 == 0 else f"ü{key * v % 13}" for key in keys], pa.string()),
        }
    )


def _make(path: Path, table_type: str) -> None:
    names: dict[str, Any] = {"name": "t", "record_key": "id", "partition_by": "part", "table_type": table_type}
    table = hoodoo.Table.create(str(path), _rows(range(1), 0).schema, **names, options=OPTIONS)
    for first in range(2):
        table.insert(_rows(range(first, 900, 2), 1))
    table.upsert(_rows(range(0, 900, 5), 2))


def _check(path: Path) -> None:
    assert not hoodoo.Table(path).verify().problems
    assert index_of(path) == stored_keys(path)
    assert entries_of(path, "secondary_index_s") == stored_entries(path, "s")
    assert not [file for file in (path / ".hoodie/.temp").rglob("*") if file.is_file()]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_indexes_are_built_in_tasks(spark: Any, tmp_path: Path, table_type: str) -> None:
    path = tmp_path / "t"
    _make(path, table_type)
    done = hoodoo.spark.index(spark, str(path), "secondary_index", "s", options=OPTIONS)
    assert {"record_index", "secondary_index_s"} <= set(done.partitions)
    done = hoodoo.spark.index(spark, str(path), "column_stats", ["v", "s"], options=OPTIONS)
    assert "column_stats" in done.partitions
    metadata = hoodoo.Table(path).metadata_table
    assert metadata is not None
    assert metadata.partitions["record_index"].shards == metadata.partitions["secondary_index_s"].shards == 7
    _check(path)
    hoodoo.Table(path, OPTIONS).upsert(_rows(range(890, 950), 3))
    _check(path)


def _fails_at_first(
    function: BatchFunction, folder: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Do the work, and fail once for each task after it."""
    from pyspark import TaskContext

    done = list(executor.run_task(function, batches))
    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber() == 0:
        Path(folder, f"{context.stageId()}-{context.partitionId()}").touch()
        raise RuntimeError("this attempt is lost")
    yield from done


def test_lost_attempts_leave_nothing(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, lost = tmp_path / "t", tmp_path / "lost"
    lost.mkdir()
    _make(path, "COPY_ON_WRITE")

    class Unlucky(executor.SparkExecutor):
        def map_batches(self, data: Any, function: BatchFunction, schema: pa.Schema) -> Any:
            failing = functools.partial(_fails_at_first, function, str(lost))
            return data.mapInArrow(failing, from_arrow_schema(schema))

    monkeypatch.setattr("hoodoo.spark.services.SparkExecutor", Unlucky)
    hoodoo.spark.index(spark, str(path), "secondary_index", "s", options=OPTIONS)
    assert len(list(lost.iterdir())) >= 4
    _check(path)


def test_an_index_that_fails_leaves_nothing(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    _make(path, "COPY_ON_WRITE")
    (base, *_) = (piece.base_file for piece in hoodoo.Table(path).file_slices())
    assert base is not None
    file = path / base
    content = file.read_bytes()

    def damage(*arguments: Any) -> Any:
        begun = begin_index(*arguments)
        file.write_bytes(content[:1000])
        return begun

    monkeypatch.setattr("hoodoo.spark.services.begin_index", damage)
    with pytest.raises(hoodoo.CorruptFileError):
        hoodoo.spark.index(spark, str(path), "record_index", options=OPTIONS)
    file.write_bytes(content)
    assert not [i for i in hoodoo.Table(path).timeline.instants() if i.action == "indexing"]
    assert not [file for file in (path / ".hoodie/.temp").rglob("*") if file.is_file()]
    monkeypatch.undo()
    hoodoo.spark.index(spark, str(path), "secondary_index", "s", options=OPTIONS)
    _check(path)
