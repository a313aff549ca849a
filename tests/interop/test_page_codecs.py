"""Pages of texts and numbers in every codec: Hudi reads them, skips by what their indexes say, and goes on writing."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodoo
from tests.interop.clustering import FLAT, TARGET, clustering_options
from tests.interop.hudi import Hudi
from tests.rows import arrow_rows

_ROWS = 45_000
"""Three pages of a column."""
_LONG = "the same beginning " * 20


def _rows(first: int, count: int) -> pa.Table:
    rng = random.Random(f"{first}")
    some = lambda value: None if rng.random() < 0.1 else value  # noqa: E731
    text = lambda n: rng.choice([f"text {rng.random()}", "", f"{_LONG}{n}", f"grüß \U0001f600 {n}"])  # noqa: E731
    ids = range(first, first + count)
    return pa.table(
        {
            "id": [f"key-{n:07d}" for n in ids],
            "ts": pa.array([1] * count, pa.int64()),
            "text": pa.array([some(text(n)) for n in ids], pa.string()),
            "amount": pa.array([some(rng.randrange(10**9)) for _ in ids], pa.int64()),
            "rising": pa.array(list(ids), pa.int64()),
        }
    )


@pytest.mark.parametrize(
    "codec", ["gzip", *(pytest.param(c, marks=pytest.mark.slow) for c in ("zstd", "snappy", "uncompressed"))]
)
def test_hudi_reads_what_was_compressed(hudi: Hudi, tmp_path: Path, codec: str) -> None:
    uri = str(tmp_path / "table")
    options = {
        **clustering_options("cow", 9, FLAT),
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.parquet.compression.codec": codec,
    }
    hoodoo.write(_rows(0, _ROWS), uri, operation="bulk_insert", options=options)
    expected = arrow_rows(hoodoo.Table(uri).to_arrow())
    assert len(expected) == _ROWS
    (file,) = (tmp_path / "table").glob("*.parquet")
    assert pq.read_metadata(file).row_group(0).column(2).compression.lower() == codec
    assert hudi.read(uri) == expected
    for condition in (
        "id = 'key-0031234'",
        "id >= 'key-0044990'",
        f"text > '{_LONG}'",
        "amount < 1000000",
        "rising = 25000",
    ):
        ours = hudi.spark.read.parquet(str(file)).where(condition).count()
        hudi.spark.conf.set("spark.sql.parquet.filterPushdown", "false")
        whole = hudi.spark.read.parquet(str(file)).where(condition).count()
        hudi.spark.conf.unset("spark.sql.parquet.filterPushdown")
        assert ours == whole > 0, condition
    table = hoodoo.Table(uri, options=options)
    assert table.cluster(
        sort_by="amount", options={TARGET: file.stat().st_size // 3, "hoodoo.clustering.rewrite.clustered": "true"}
    )
    assert len(list((tmp_path / "table").glob("*.parquet"))) > 3
    assert hudi.read(uri) == expected
    hudi.write(_rows(100, 50), uri, "upsert", **options)
    assert hudi.read(uri) == arrow_rows(hoodoo.Table(uri).to_arrow())
