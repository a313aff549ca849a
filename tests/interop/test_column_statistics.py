"""What Hudi and others take from the statistics in the footers of our files: they skip files by it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import hoodoo
from tests.interop.clustering import FLAT, clustering_options
from tests.interop.hudi import Hudi
from tests.interop.layouts import batch, row

_OPTIONS = clustering_options("cow", 9, FLAT)
_INDEXED = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.column.stats.column.list": "id,site,ts,val,amount",
}
_SKIPPING = {**_INDEXED, "hoodie.enable.data.skipping": "true"}


def _three_files(uri: str) -> None:
    for first in (1, 6, 11):
        rows = [row(n, 8 + n, f"text {n:02d}") for n in range(first, first + 5)]
        hoodoo.write(batch(rows), uri, operation="insert", options=_OPTIONS)


@pytest.mark.parametrize("column", ["id", "site", "ts", "val", "amount"])
def test_footers_tell_least_and_greatest_values(tmp_path: Path, column: str) -> None:
    _three_files(str(tmp_path / "table"))
    for file in (tmp_path / "table").glob("*.parquet"):
        figures = pq.read_metadata(file).row_group(0)
        (told,) = [
            figures.column(i).statistics
            for i in range(figures.num_columns)
            if figures.column(i).path_in_schema == column
        ]
        values = pq.read_table(file, columns=[column])[column].to_pylist()
        assert told.has_min_max
        assert (told.min, told.max) == (min(values), max(values))


@pytest.mark.parametrize("clustered", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "condition",
    [
        "ts > 14",
        pytest.param("val >= 'text 12'", marks=pytest.mark.slow),
        "amount > 5",
    ],
)
def test_hudi_skips_no_file_that_it_needs(hudi: Hudi, tmp_path: Path, condition: str, clustered: bool) -> None:
    """It builds its index of column statistics from the footers of files that are there."""
    uri = str(tmp_path / "table")
    _three_files(uri)
    if clustered:
        assert hoodoo.Table(uri, options=_OPTIONS).cluster(strategy="SINGLE_FILE", sort_by="amount") is not None
    hudi.write(batch([row(50, 50, "theirs")]), uri, "insert", **{**_OPTIONS, **_INDEXED})

    def matching(options: dict[str, str]) -> list[str]:
        frame = hudi.spark.read.format("hudi").options(**options).load(uri).where(condition)
        return sorted(r["id"] for r in frame.collect())

    expected = matching({"hoodie.metadata.enable": "false"})
    assert 4 <= len(expected) < 16
    assert matching(_SKIPPING) == expected
