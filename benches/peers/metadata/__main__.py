"""The command line: `python -m benches.peers.metadata [--only plan,filter,lookup,upsert,commit,entries] [--hudi]`."""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table as Grid

from benches.peers.metadata.tables import BY_KEYS, LISTED, QUIET, create, key, of_many_files, of_many_keys, rows
from hoodoo import Table
from tests.memory_s3 import BUCKET, MemoryS3

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.peers.metadata.hudi import Hudi

TIMES = 5
PAIRS = 20
"""Commits of each of two tables that are written in turns."""
DELAY = 0.02
"""Seconds that a request to the object store takes."""

Row = dict[str, Any]


def median(work: Callable[[], object], times: int = TIMES) -> float:
    """Gives the median seconds of some runs."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def slices(uri: str, options: dict[str, str], storage: dict[str, str] | None = None) -> int:
    """Plans a scan of everything; how many file slices it reads."""
    return len(Table(uri, options, storage).file_slices())


def agree(what: str, *found: object) -> None:
    """Compares what came out before any time counts."""
    if any(one != found[0] for one in found[1:]):
        message = f"{what}: not all found the same"
        raise RuntimeError(message)


class Bench:
    """What is measured, and the figures so far."""

    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self.given, self.folder = given, folder
        self.figures: list[Row] = []
        self._hudi: Hudi | None = None

    @property
    def hudi(self) -> Hudi | None:
        """Real Hudi, if it is wanted."""
        if self.given.hudi and self._hudi is None:
            from benches.peers.metadata.hudi import Hudi  # noqa: PLC0415 - Spark is not needed without it

            self._hudi = Hudi(2, self.given.java_memory, self.folder)
        return self._hudi

    def close(self) -> None:
        """Ends what was started."""
        if self._hudi is not None:
            self._hudi.close()

    def add(self, task: str, system: str, seconds: float, note: str = "") -> None:
        """Notes a figure."""
        self.figures.append({"task": task, "system": system, "seconds": seconds, "note": note})
        print(f"{task}: {system}: {seconds:.4f} s {note}", file=sys.stderr)

    def plan(self) -> None:
        """Plans a scan of all files, on a disk and on an object store."""
        for files in self.given.files:
            path = self.folder / f"plan-{files}"
            of_many_files(str(path), files, 1)
            found = [slices(str(path), options) for options in ({}, LISTED)]
            agree("plan", files, *found)
            for system, options in (("metadata table", {}), ("listing", LISTED)):
                seconds = median(partial(slices, str(path), options))
                self.add(f"plan a scan of {files:,} files, local", system, seconds)
            server = MemoryS3(DELAY)
            try:
                self.upload(path, server)
                for system, options in (("metadata table", {}), ("listing", LISTED)):
                    seconds = median(partial(slices, f"s3://{BUCKET}/t", options, server.storage_options), 3)
                    self.add(f"plan a scan of {files:,} files, object store of 20 ms a request", system, seconds)
            finally:
                server.close()
                shutil.rmtree(path)

    @staticmethod
    def upload(path: Path, server: MemoryS3) -> None:
        """Copies a table into the object store."""
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415
        from urllib.request import Request, urlopen  # noqa: PLC0415

        def put(file: Path) -> None:
            url = f"{server.endpoint}/{BUCKET}/t/{file.relative_to(path).as_posix()}"
            with urlopen(Request(url, file.read_bytes(), method="PUT")):  # noqa: S310 - the server is ours
                pass

        with ThreadPoolExecutor(64) as pool:
            list(pool.map(put, (file for file in path.rglob("*") if file.is_file())))

    def filter(self) -> None:
        """Reads some rows by a column that divides the files, and by one that does not."""
        files, path = self.given.files[0], self.folder / "filter"
        of_many_files(str(path), files, 4)
        unskipped = {"hoodie.enable.data.skipping": "false"}
        for name, filters in (("sorted", [("sorted", "=", 5_002)]), ("unsorted", [("mixed", "<", 20)])):
            systems = (("metadata table", {}), ("footers", unskipped), ("listing and footers", LISTED))
            found = [sorted(Table(path, o).to_arrow(["id"], filters=filters)["id"].to_pylist()) for _, o in systems]
            agree(f"filter by a {name} column", *found)
            for system, options in systems:
                seconds = median(lambda o=options, f=filters: Table(path, o).to_arrow(["id", "value"], filters=f))
                self.add(f"filter {files:,} files by a column that is {name}", system, seconds, f"{len(found[0])} rows")
            if self.hudi is not None:
                (column, operator, value) = filters[0]
                where = f"{column} {operator} {value}"
                agree("filter, Hudi", len(found[0]), self.hudi.read(path, where, {}))
                seconds = median(lambda w=where: self.hudi and self.hudi.read(path, w, {}), 3)
                self.add(f"filter {files:,} files by a column that is {name}", "Hudi", seconds)
        shutil.rmtree(path)

    def lookup(self) -> None:
        """Looks some keys up: by the record index, by bloom filters and ranges, and by Hudi's record index."""
        count, path = self.given.keys, self.folder / "lookup"
        of_many_keys(path, count, BY_KEYS | {"hoodie.metadata.index.bloom.filter.enable": "true"})
        keys = [key(number) for number in range(7, count, count // 100)]
        filters = [("id", "in", keys)]
        # Where reads ask neither index, all files are looked into.
        systems = (
            ("record index", BY_KEYS),
            ("bloom filters", {}),
            ("neither", {"hoodie.enable.data.skipping": "false"}),
        )
        found = [sorted(Table(path, o).to_arrow(["id"], filters=filters)["id"].to_pylist()) for _, o in systems]
        agree("lookup", sorted(keys), *found)
        for system, options in systems:
            seconds = median(lambda o=options: Table(path, o).to_arrow(["id", "value"], filters=filters))
            self.add(f"look up {len(keys)} of {count:,} keys", system, seconds)
        if self.hudi is not None:
            where = f"id in ({', '.join(repr(one) for one in keys)})"
            agree("lookup, Hudi", len(keys), self.hudi.read(path, where, BY_KEYS))
            seconds = median(lambda: self.hudi and self.hudi.read(path, where, BY_KEYS), 3)
            self.add(f"look up {len(keys)} of {count:,} keys", "Hudi, record index", seconds)
        changes = rows([number * (count // 1_000) for number in range(1_000)], 10, 2)
        for system, index, more in (
            ("record index", "GLOBAL_RECORD_LEVEL_INDEX", BY_KEYS),
            ("BLOOM", "GLOBAL_BLOOM", {}),
            (
                "BLOOM without the metadata table's filters",
                "GLOBAL_BLOOM",
                {"hoodie.bloom.index.use.metadata": "false"},
            ),
        ):
            options = QUIET | more | {"hoodie.index.type": index}
            seconds = median(lambda o=options: Table(path, o).upsert(changes), 3)
            self.add(f"upsert 1,000 of {count:,} keys", system, seconds)
        shutil.rmtree(path)

    def upsert(self) -> None:
        """Upserts 10,000 rows into a table of many file groups."""
        files, path = self.given.files[0], self.folder / "upsert"
        of_many_files(str(path), files, 10)
        numbers = list(range(0, files * 10, max(1, files * 10 // 10_000)))[:10_000]
        name = f"upsert {len(numbers):,} rows into {files:,} file groups"
        without = self.folder / "upsert-without"
        shutil.copytree(path, without)
        Table(without, LISTED).drop_metadata_table()
        for system, at, options in (("metadata table", path, {}), ("no metadata table", without, LISTED)):
            turn = iter(range(2, 100))
            seconds = median(
                lambda a=at, o=options, t=turn: Table(a, QUIET | o).upsert(rows(numbers, files, next(t))), 3
            )
            self.add(name, system, seconds)
        if self.hudi is not None:
            times = [self.hudi.upsert(path, rows(numbers, files, ts), {}) for ts in (200, 201, 202)]
            self.add(name, "Hudi", statistics.median(times))
            found = Table(path).to_arrow(["id", "value"], filters=[("ts", "=", 202)]).num_rows
            agree("upsert, Hudi", len(numbers), found)
        shutil.rmtree(path)
        shutil.rmtree(without)

    def commit(self) -> None:
        """What keeping it adds to a commit: two tables in turns, as the machine's pace differs by more."""
        count = 2_000_000
        systems: dict[str, dict[str, str]] = {"metadata table": {}, "no metadata table": LISTED}
        data, paths = rows(range(count), 10, 1), {system: self.folder / f"commit, {system}" for system in systems}
        for system, options in systems.items():
            create(str(paths[system]), options)
            Table(paths[system], QUIET | options).bulk_insert(data)
        seconds: dict[str, list[float]] = {system: [] for system in systems}
        for turn in range(PAIRS):
            # Of each file.
            changes = rows([number for number in range(count) if number // 10 % 10 == turn % 10], 10, turn + 2)
            for system, options in systems.items() if turn % 2 else reversed(systems.items()):
                begun = time.perf_counter()
                Table(paths[system], QUIET | options).upsert(changes)
                seconds[system].append(time.perf_counter() - begun)
        agree("commit", *(Table(path).to_arrow(["value"])["value"].to_numpy().sum() for path in paths.values()))
        for system, taken in seconds.items():
            self.add("upsert 10 % of 2,000,000 rows", system, statistics.median(taken), f"{PAIRS} in turns")
            shutil.rmtree(paths[system])
        with_it, without = seconds.values()
        added = statistics.median(one - other for one, other in zip(with_it, without, strict=True))
        self.add("the same, what the metadata table adds", "median of the pairs", added)

    def entries(self) -> None:
        """Reads the entries of an HFile of the record index."""
        count, path = self.given.entries, self.folder / "entries"
        one = {f"hoodie.metadata.global.record.level.index.{side}.filegroup.count": "1" for side in ("min", "max")}
        of_many_keys(path, count, BY_KEYS | one)
        # After a compaction all are in one HFile.
        Table(path, QUIET | {"hoodie.metadata.compact.max.delta.commits": "1"}).upsert(rows([1], 10, 2))
        (file,) = sorted((path / ".hoodie/metadata/record_index").glob("record-index-0000-0_*.hfile"))[-1:]
        metadata = Table(path).metadata_table
        if metadata is None:
            raise RuntimeError("there is no metadata table")
        agree("entries", count, metadata.to_arrow("record_index").num_rows)
        name = f"read {count:,} entries of an HFile of record_index"
        self.add(name, "hoodoo, into Arrow", median(lambda: metadata.to_arrow("record_index"), 3))
        if self.hudi is not None:
            for _ in range(3):
                found, seconds = self.hudi.entries(file)
            agree("entries, Hudi", count, found)
            self.add(name, "Hudi's reader, into Avro records", seconds)
        shutil.rmtree(path)


def show(figures: list[Row]) -> None:
    """Prints all figures; each task beside its first."""
    grid = Grid(title="The metadata table: medians", title_justify="left")
    for heading in ("task", "system", "seconds", "x first", ""):
        grid.add_column(heading)
    first: dict[str, float] = {}
    for row in figures:
        base = first.setdefault(row["task"], row["seconds"])
        grid.add_row(row["task"], row["system"], f"{row['seconds']:.4f}", f"{row['seconds'] / base:.2f}", row["note"])
    Console(width=160).print(grid)


def main() -> None:
    """Measures what is asked for."""
    tasks = ("plan", "filter", "lookup", "upsert", "commit", "entries")
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", default=",".join(tasks), help=f"some of {','.join(tasks)}")
    arguments.add_argument("--files", default="10000", help="numbers of files; the first counts for filter and upsert")
    arguments.add_argument("--keys", type=int, default=10_000_000)
    arguments.add_argument("--entries", type=int, default=1_000_000)
    arguments.add_argument("--hudi", action="store_true", help="real Hudi too")
    arguments.add_argument("--java-memory", default="8g", help="heap of Spark's JVM")
    arguments.add_argument("--json", type=Path, help="file for all figures")
    given = arguments.parse_args()
    given.files = [int(number) for number in given.files.split(",")]
    folder = Path(tempfile.mkdtemp(prefix="hoodoo-metadata-"))
    bench = Bench(given, folder)
    try:
        for task in given.only.split(","):
            getattr(bench, task)()
    finally:
        bench.close()
        shutil.rmtree(folder, ignore_errors=True)
    show(bench.figures)
    if given.json:
        given.json.write_text(json.dumps(bench.figures))


if __name__ == "__main__":
    main()
