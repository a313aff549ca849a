"""Tables that Hudi wrote with its defaults, read and changed by both: `python -m benches.peers.hudi_tables`."""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hoodoo import Table

from .spark_session import hudi_settings, missing_hudi, start

if TYPE_CHECKING:
    from collections.abc import Callable

_PARTITIONS = 4
_TEXT = 64
_OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.operation": "upsert",
}
_COLUMNS = ["id", "part", "ts", "amount", "count", "text"]


def rows(keys: np.ndarray[Any, Any], ts: int, seed: int) -> pa.Table:
    """Rows of six columns, one of which hardly compresses."""
    random = np.random.default_rng(seed)
    letters = random.integers(97, 123, size=len(keys) * _TEXT, dtype=np.uint8).tobytes()
    offsets = pa.py_buffer(np.arange(0, len(letters) + 1, _TEXT, dtype=np.int32))
    text = pa.StringArray.from_buffers(len(keys), offsets, pa.py_buffer(letters))
    numbers = pa.array(keys)
    return pa.table(
        {
            "id": pc.binary_join_element_wise("key", pc.utf8_lpad(numbers.cast(pa.string()), 10, "0"), "-"),
            "part": pc.binary_join_element_wise("p", pa.array(keys % _PARTITIONS).cast(pa.string()), ""),
            "ts": pa.array(np.full(len(keys), ts)),
            "amount": pa.array(random.random(len(keys))),
            "count": pa.array(random.integers(0, 1000, size=len(keys))),
            "text": text,
        }
    )


def same(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables have the same rows."""
    tables = (table.select(_COLUMNS).sort_by("id").combine_chunks() for table in (one, other))
    first, second = (pa.table({n: t[n].cast(pa.string()) for n in _COLUMNS}) for t in tables)
    return bool(first.equals(second))


class Comparison:
    """Hudi's tables, and what both do with them.

    Args:
        spark: A session with Hudi.
        folder: Where tables are made.
        count: Rows of a table.
        runs: Timed runs of each.
    """

    def __init__(self, spark: Any, folder: Path, count: int, runs: int) -> None:
        self._spark, self._folder, self._runs = spark, folder, runs
        keys = np.arange(count)
        self._base = self._saved("base", rows(keys, 1, 1))
        changed = np.random.default_rng(9).permutation(count)
        share = count // 10
        self._deltas = [
            self._saved(f"delta-{n}", rows(np.sort(changed[n * share : (n + 1) * share]), 2 + n, 2 + n))
            for n in range(4)
        ]

    def _saved(self, name: str, table: pa.Table) -> Path:
        path = self._folder / f"{name}.parquet"
        pq.write_table(table, path)
        return path

    def make(self, name: str, deltas: int, **more: str) -> Path:
        """Lets Hudi write a table."""
        path = self._folder / name
        self.hudi_write(path, self._base, {**more, "hoodie.datasource.write.operation": "bulk_insert"})
        for delta in self._deltas[:deltas]:
            self.hudi_write(path, delta, more)
        return path

    def hudi_write(self, path: Path, file: Path, more: dict[str, str]) -> None:
        """Writes the rows of a file with Hudi."""
        frame = self._spark.read.parquet(str(file))
        frame.write.format("hudi").options(**{**_OPTIONS, **more}).mode("append").save(str(path))

    def read_by_hudi(self, path: Path) -> pa.Table:
        """Reads a table with Hudi."""
        rows = self._folder / "read-by-hudi"
        frame = self._spark.read.format("hudi").load(str(path)).select(*_COLUMNS)
        frame.write.mode("overwrite").parquet(str(rows))
        return pq.read_table(rows)

    def timed(self, work: Callable[[Path], object], table: Path, *, copies: bool, warm: int) -> float:
        """Gives the median of some runs, each on a copy of the table where it changes it."""
        times = []
        for run in range(warm + self._runs):
            path = table
            if copies:
                path = self._folder / "copy"
                shutil.rmtree(path, ignore_errors=True)
                shutil.copytree(table, path)
            begun = time.perf_counter()
            work(path)
            times.append(time.perf_counter() - begun if run >= warm else 0)
        return statistics.median(times[warm:])

    def upsert(self, name: str, **more: str) -> None:
        """Changes 10 % of the rows, all columns of them."""
        table = self.make(name, 0, **more)
        delta = self._deltas[0]
        changes = pq.read_table(delta)
        ours = self.timed(lambda path: Table(path, options=more).upsert(changes), table, copies=True, warm=1)
        found = self.read_by_hudi(self._folder / "copy")
        hudi = self.timed(lambda path: self.hudi_write(path, delta, more), table, copies=True, warm=2)
        if not same(found, Table(self._folder / "copy").to_arrow()):
            raise SystemExit(f"{name}: the rows differ")
        print(f"{name}: upsert of 10 %: hoodoo {ours:.2f} s, Hudi {hudi:.2f} s, {hudi / ours:.1f} x", flush=True)

    def read(self, name: str) -> None:
        """Reads a merge-on-read table with four deltas."""
        more = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
        table = self.make(name, 4, **more)
        ours = self.timed(lambda path: Table(path).to_arrow(), table, copies=False, warm=1)

        def decode(path: Path) -> None:
            self._spark.read.format("hudi").load(str(path)).write.format("noop").mode("overwrite").save()

        hudi = self.timed(decode, table, copies=False, warm=2)
        if not same(Table(table).to_arrow(), self.read_by_hudi(table)):
            raise SystemExit(f"{name}: the rows differ")
        print(f"{name}: snapshot: hoodoo {ours:.2f} s, Hudi, decoding {hudi:.2f} s, {hudi / ours:.1f} x", flush=True)


def main() -> None:
    """Compare upserts and reads."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=2_000_000)
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--cores", type=int, default=2)
    arguments.add_argument("--java-memory", default="8g", help="heap of Spark's JVM")
    given = arguments.parse_args()
    missing = missing_hudi()
    if missing:
        raise SystemExit(missing)
    with tempfile.TemporaryDirectory(prefix="hoodoo-hudi-tables-") as scratch:
        spark, _ = start(given.cores, given.java_memory, scratch, hudi_settings())
        comparison = Comparison(spark, Path(scratch), given.rows, given.runs)
        comparison.upsert("copy-on-write, gzip")
        comparison.upsert("copy-on-write, zstd", **{"hoodie.parquet.compression.codec": "zstd"})
        comparison.read("merge-on-read, gzip")
        spark.stop()


if __name__ == "__main__":
    main()
