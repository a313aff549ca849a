"""Log files that were completed after a compaction was planned, both archived: Hudi and hoodoo see one table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from tests.interop.hudi import Hudi
from tests.python.test_late_logs import SCHEMA, make
from tests.rows import arrow_rows

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.table.name": "t",
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "1",
}


@pytest.mark.parametrize("cleans", [False, True], ids=["kept", "cleaned"])
def test_hudi_reads_and_compacts_a_late_log(hudi: Hudi, tmp_path: Path, cleans: bool) -> None:
    uri = str(tmp_path / "t")
    make(tmp_path / "t", cleans=cleans)
    read = hudi.read(uri, meta=True)
    assert {row["id"]: row["v"] for row in read} == {1: 1, 2: 2, 3: 7}
    assert arrow_rows(hoodoo.Table(uri).to_arrow(), meta=True) == read
    hudi.write(pa.table({"id": [1], "part": ["a"], "v": [5]}, SCHEMA), uri, "upsert", **OPTIONS)
    read = hudi.read(uri, meta=True)
    assert {row["id"]: row["v"] for row in read} == {1: 5, 2: 2, 3: 7}
    assert arrow_rows(hoodoo.Table(uri).to_arrow(), meta=True) == read
    assert hoodoo.Table(uri).verify().ok
