"""Bloom filters of the metadata table that real Hudi wrote: hoodoo leaves files out by them, and Hudi goes on."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pyarrow as pa
import pytest

from hoodoo import Table
from tests.interop.hudi import Hudi
from tests.rows import arrow_rows, spark_rows

FILES = 20
OPTIONS = {
    "hoodie.table.name": "blooms",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
    "hoodie.index.type": "BLOOM",
    # With Java 17, Hudi cannot send its view of the metadata table to its tasks.
    "hoodie.bloom.index.use.metadata": "false",
}


def rows(keys: range | list[int], ts: int) -> pa.Table:
    parts = [f"p{key % FILES:02}" for key in keys]
    return pa.table({"id": [f"k{key:03}" for key in keys], "ts": [ts] * len(keys), "part": parts})


def test_filters_that_hudi_wrote(hudi: Hudi, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "blooms"
    hudi.write(rows(range(60), 1), path, "insert", mode="overwrite", **OPTIONS)
    for key in (7, 59):
        caplog.clear()
        with caplog.at_level(logging.DEBUG, "hoodoo"):
            found = Table(path).to_arrow(["id", "ts"], filters=[("id", "=", f"k{key:03}")]).to_pylist()
        assert found == [{"id": f"k{key:03}", "ts": 1}]
        (said,) = [r.getMessage() for r in caplog.records if "planned a scan" in r.getMessage()]
        skipped = re.search(r"by_keys: (\d+)", said)
        assert skipped
        assert int(skipped[1]) == FILES - 1
    # Upserts ask the filters too.
    commit = Table(path, {"hoodie.index.type": "GLOBAL_BLOOM"}).upsert(rows([7, 59, 61], 2))
    assert (commit.updated, commit.inserted) == (2, 1)
    hudi.write(rows([7, 61, 62], 3), path, "upsert", **OPTIONS)
    read = hudi.spark.read.format("hudi").option("hoodie.metadata.enable", "true").load(str(path))
    expected = spark_rows(read)
    assert len(expected) == 62
    assert arrow_rows(Table(path).to_arrow()) == expected
    assert not Table(path).verify().problems
