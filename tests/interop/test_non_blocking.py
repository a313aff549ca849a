"""Writers that do not wait for each other, beside real Hudi: both append to the same file groups of a bucket index."""

from __future__ import annotations

import threading
from pathlib import Path

from hoodoo import Commit, Table
from tests.interop.hudi import Hudi
from tests.python.test_non_blocking import OPTIONS, rows
from tests.rows import arrow_rows


def test_hudi_and_hoodoo_write_at_once(hudi: Hudi, tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {
        **OPTIONS,
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        # Hudi looks here.
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.write.lock.wait_time_ms_between_retry": "200",
        "hoodie.write.lock.num_retries": "100",
        "hoodie.compact.inline.max.delta.commits": "4",
    }
    hudi.write(rows(range(6), 1), path, "upsert", mode="overwrite", **options)
    ours = Table(path, OPTIONS)
    ours.upsert(rows(range(3, 12), 2))
    assert hudi.read(path) == arrow_rows(Table(path).to_arrow())
    commits: list[Commit] = []

    def write() -> None:
        commits.extend(Table(path, OPTIONS).upsert(rows(range(n, n + 4), 100 + n)) for n in range(12))

    writer = threading.Thread(target=write)
    writer.start()
    for n in range(4):
        hudi.write(rows(range(2 * n, 2 * n + 5), 200 + n), path, "upsert", **options)
    writer.join()
    assert len(commits) == 12
    expected = {f"k{n}": (2 if n >= 3 else 1) for n in range(12)}
    for start, width, ts in [(n, 4, 100 + n) for n in range(12)] + [(2 * n, 5, 200 + n) for n in range(4)]:
        for key in range(start, start + width):
            expected[f"k{key}"] = max(ts, expected.get(f"k{key}", 0))
    found = arrow_rows(Table(path).to_arrow())
    assert {row["id"]: row["ts"] for row in found} == expected
    assert hudi.read(path) == found
    Table(path, OPTIONS).compact()
    hudi.write(rows(range(30, 33), 300), path, "upsert", **options)
    assert hudi.read(path) == arrow_rows(Table(path).to_arrow())
    assert not Table(path).verify().problems
