"""Upserts a few rows among many with each index type of hoodoo: `python -m benches.peers.index_types`."""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow as pa

import hoodoo
from hoodoo import Table

_BUILD = {"hoodie.metadata.global.record.level.index.enable": "true"}
_INDEXES = ("GLOBAL_RECORD_LEVEL_INDEX", "BLOOM", "SIMPLE", "GLOBAL_BLOOM", "GLOBAL_SIMPLE")
_PARTITIONS = 10


def rows(keys: range | list[int], ts: int) -> pa.Table:
    """Rows whose keys do not follow the order in which they are written."""
    return pa.table(
        {
            "id": [f"{key * 2_654_435_761 % 2**32:08x}-{key:08d}" for key in keys],
            "ts": pa.array([ts] * len(keys), pa.int64()),
            "value": pa.array([key * 0.5 + ts for key in keys], pa.float64()),
            "part": [f"p{key % _PARTITIONS}" for key in keys],
        }
    )


def main() -> None:
    """Write the table once, and copy it for each index type."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=2_000_000)
    arguments.add_argument("--changes", type=int, default=1_000)
    arguments.add_argument("--times", type=int, default=5)
    given = arguments.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hoodoo-indexes-"))
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.parquet.max.file.size": str(4 << 20),
        "hoodie.clean.automatic": "false",
    }
    try:
        for name, more in (("without", {}), ("with", _BUILD)):
            begun = time.perf_counter()
            data = rows(range(given.rows), 1)
            hoodoo.write(data, str(folder / name), operation="bulk_insert", options={**options, **more})
            print(f"bulk_insert of {given.rows:,} rows {name} record index: {time.perf_counter() - begun:.2f} s")
        step = given.rows // given.changes
        for index in _INDEXES:
            source = folder / ("with" if "RECORD" in index else "without")
            path = folder / index
            shutil.copytree(source, path)
            times = []
            for turn in range(given.times):
                # The keys of one file group in a thousand rows of one partition would make all of them look alike.
                changes = rows([(at * step + turn) % given.rows for at in range(given.changes)], turn + 2)
                begun = time.perf_counter()
                Table(path, {"hoodie.index.type": index, "hoodie.clean.automatic": "false"}).upsert(changes)
                times.append(time.perf_counter() - begun)
            print(f"upsert of {given.changes:,} rows by {index}: median {statistics.median(times):.3f} s of {times}")
            shutil.rmtree(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
