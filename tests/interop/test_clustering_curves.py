"""Space-filling curves: the files that a query by a range of one column opens, after Hudi's clustering and ours."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hoodoo
from tests.interop.clustering import LAYOUT_STRATEGY, SORT_COLUMNS, TARGET, cluster_by_hudi, clustering_options
from tests.interop.hudi import Hudi
from tests.interop.layouts import Layout

_POINTS = Layout("points", partitions="")
_ROWS = 40_000
_FILES = 16
_QUERIES = 400
# A filter sized by default, for 60,000 keys, would outweigh the rows.
_FILTER = {"hoodie.bloom.index.filter.type": "SIMPLE", "hoodie.index.bloom.num_entries": "100"}
_ORDER = ["x", "y"]
_HUGE = 1 << 30

Range = tuple[Any, Any]


def _values(kind: str, rng: random.Random) -> tuple[pa.DataType, list[Any]]:
    """Values of a column; a query asks for those between two of them."""
    if kind == "grid":
        return pa.int32(), [rng.randrange(200) for _ in range(_ROWS)]
    if kind == "signed":
        return pa.int64(), [rng.randrange(-(10**12), 10**12) for _ in range(_ROWS)]
    return pa.float64(), [rng.gauss(0, 100) for _ in range(_ROWS)]


def _ranges(files: list[Path]) -> list[dict[str, Range]]:
    """Least and greatest values by the footers; by the rows where a footer does not tell."""
    found = []
    for file in files:
        with pq.ParquetFile(file) as opened:
            metadata = opened.metadata
            columns = [metadata.row_group(0).column(i).path_in_schema for i in range(metadata.num_columns)]
            per: dict[str, Range] = {}
            for name in _ORDER:
                groups = [metadata.row_group(g).column(columns.index(name)) for g in range(metadata.num_row_groups)]
                figures = [g.statistics for g in groups]
                if all(f is not None and f.has_min_max for f in figures):
                    per[name] = (min(f.min for f in figures), max(f.max for f in figures))
                else:
                    range_of = pc.min_max(opened.read(columns=[name])[name]).as_py()
                    per[name] = (range_of["min"], range_of["max"])
        found.append(per)
    return found


def _opened(ranges: list[dict[str, Range]], queries: list[tuple[str, Any, Any]]) -> float:
    """Files that a query has to open, on average."""
    hits = [bool(per[c][0] <= high and per[c][1] >= low) for c, low, high in queries for per in ranges]
    return sum(hits) / len(queries)


def _as_many(uri: str, options: dict[str, str], layout: str, count: int) -> list[Path]:
    """Clusters copies of a table until there are so many files: ours end at a size."""

    def clustered(target: int) -> list[Path]:
        copy = f"{uri}-{target}"
        shutil.copytree(uri, copy)
        cut = {LAYOUT_STRATEGY: layout, TARGET: str(target)}
        done = hoodoo.Table(copy, options=options).cluster(sort_by=_ORDER, options=cut)
        assert done is not None
        return [Path(copy) / f for f in done.files]

    target = clustered(_HUGE)[0].stat().st_size // count
    for _ in range(6):
        files = clustered(target)
        if len(files) == count:
            return files
        target = target * len(files) // count + 1
    pytest.fail(f"not {count} files, but {len(files)}")


@pytest.mark.parametrize(
    ("layout", "kind"),
    [
        pytest.param("HILBERT", "grid"),
        *(
            pytest.param(layout, kind, marks=pytest.mark.slow)
            for layout, kind in [
                ("ZORDER", "grid"),
                ("ZORDER", "signed"),
                ("HILBERT", "signed"),
                ("ZORDER", "bell"),
                ("HILBERT", "bell"),
            ]
        ),
    ],
)
def test_files_that_queries_open(hudi: Hudi, tmp_path: Path, layout: str, kind: str) -> None:
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    options = {**clustering_options("cow", 9, _POINTS), **_FILTER, "hoodie.table.ordering.fields": "x"}
    rng = random.Random(f"{layout} {kind}")
    columns = {name: pa.array(values, of) for name in _ORDER for of, values in [_values(kind, rng)]}
    data = pa.table({"id": [f"{n:06d}" for n in range(_ROWS)], **columns})
    for part in range(4):
        rows = data.slice(part * _ROWS // 4, _ROWS // 4)
        hoodoo.write(rows, ours, operation="insert", options=options)
    shutil.copytree(ours, theirs)
    size = sum(s.size for s in hoodoo.Table(ours).file_slices())
    # Hudi makes as many files as the plan says; what carries the plan out must not cut them again.
    # For curves it takes the columns from the options even then.
    cut = {TARGET: str(size // _FILES + 1), LAYOUT_STRATEGY: layout, SORT_COLUMNS: ",".join(_ORDER)}
    cluster_by_hudi(hudi, theirs, "schedule", cut)
    cluster_by_hudi(hudi, theirs, "execute", {**_FILTER, **cut, TARGET: str(_HUGE)})
    by_hudi = [tmp_path / "theirs" / str(s.base_file) for s in hoodoo.Table(theirs).file_slices()]
    by_us = _as_many(ours, options, layout, len(by_hudi))
    assert 0.9 * _FILES <= len(by_hudi) <= 1.2 * _FILES
    assert len(by_us) == len(by_hudi)
    rows_of = [pq.read_metadata(f).num_rows for f in by_us]
    assert sum(rows_of) == sum(pq.read_metadata(f).num_rows for f in by_hudi) == _ROWS
    queries = []
    values = {name: sorted(columns[name].to_pylist()) for name in _ORDER}
    for number in range(_QUERIES):
        name = _ORDER[number % 2]
        low = rng.randrange(_ROWS)
        high = min(low + rng.choice([1, _ROWS // 100, _ROWS // 20, _ROWS // 10]), _ROWS - 1)
        queries.append((name, values[name][low], values[name][high]))
    figures = {
        who: (len(files), *(_opened(_ranges(files), [q for q in queries if q[0] in of]) for of in ("xy", "x", "y")))
        for who, files in (("ours", by_us), ("theirs", by_hudi))
    }
    print(layout, kind, figures)
    assert figures["ours"][1] <= 1.1 * figures["theirs"][1], figures
    # Both columns help, and not just the first one.
    assert max(figures["ours"][2:]) < 0.7 * len(by_us), figures
