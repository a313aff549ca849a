"""Outputs of a clustering have the size that they are to have, however small that is."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo

_TARGET = "hoodie.clustering.plan.strategy.target.file.max.bytes"
_OPTIONS = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.bloom.index.filter.type": "SIMPLE",
    "hoodie.index.bloom.num_entries": "100",
}


@pytest.mark.parametrize("target", [10_000, 20_000, 100_000])
def test_no_file_is_much_too_large(tmp_path: Path, target: int) -> None:
    rng = random.Random("HILBERT grid")
    rows = 40_000
    places = {name: pa.array([rng.randrange(200) for _ in range(rows)], pa.int32()) for name in "xy"}
    data = pa.table({"id": [f"{n:06d}" for n in range(rows)], **places})
    table = hoodoo.Table.create(tmp_path / "t", data.schema, name="t", record_key="id", options=_OPTIONS)
    for part in range(4):
        table.insert(data.slice(part * rows // 4, rows // 4))
    done = table.cluster(sort_by=["x", "y"], options={"hoodie.layout.optimize.strategy": "HILBERT", _TARGET: target})
    assert done is not None
    sizes = [(tmp_path / "t" / f).stat().st_size for f in done.files]
    assert max(sizes) < 1.2 * target, sizes


def test_a_target_below_an_empty_file(tmp_path: Path) -> None:
    rows = 5000
    data = pa.table({"id": [f"{n:06d}" for n in range(rows)], "x": [n * 7919 % rows for n in range(rows)]})
    table = hoodoo.Table.create(tmp_path / "t", data.schema, name="t", record_key="id", options=_OPTIONS)
    table.insert(data)
    done = table.cluster(sort_by="x", options={_TARGET: 100})
    assert done is not None
    assert len(done.files) < 100, "half of each file is rows"
    assert sorted(table.to_arrow(columns=["x"])["x"].to_pylist()) == list(range(rows))
