"""What grows, and what is done to tables of each size. A step is timed; what lies between steps is not."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import hoodoo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Step = tuple[str, "Callable[[], Any]"]

ALONE = {
    "hoodie.metadata.enable": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
}
"""One thing at a time: no service runs behind a write."""
UPDATED_FILES = 950
"""Files that an upsert meets, however many there are."""


def rows_of(numbers: range, ts: int, parts: int) -> pa.Table:
    """Makes a row for each number, spread over so many partitions."""
    return pa.table(
        {
            "id": pa.array([f"k{n:07}" for n in numbers]),
            "ts": pa.array([ts] * len(numbers), pa.int64()),
            "part": pa.array([f"p{n % parts:05}" for n in numbers]),
            "val": pa.array([f"v{n}-{ts}" for n in numbers]),
        }
    )


def create(place: Path, schema: pa.Schema, **options: str) -> hoodoo.Table:
    """Creates a table of rows like those of `rows_of`; options are written with two underscores for each dot."""
    given = {key.replace("__", "."): value for key, value in options.items()}
    partition_by = ["part"] if "part" in schema.names else None
    return hoodoo.Table.create(
        str(place),
        schema,
        name="growth",
        record_key="id",
        partition_by=partition_by,
        ordering=["ts"],
        options={**ALONE, **given},
    )


def reopened(place: Path, **options: str) -> hoodoo.Table:
    """Opens a table with options."""
    return hoodoo.Table(str(place), options={**ALONE, **{k.replace("__", "."): v for k, v in options.items()}})


def fail_last_write(place: Path) -> None:
    """Makes a failed write of the last commit: its instant stays inflight, and its files are marked."""
    timeline = place / ".hoodie" / "timeline"
    completed = max(timeline.glob("*_*.*commit"))
    instant = completed.name.split("_")[0]
    completed.unlink()
    for file in place.rglob(f"*_{instant}.parquet"):
        marker = place / ".hoodie" / ".temp" / instant / f"{file.relative_to(place)}.marker.MERGE"
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()


def partitions(place: Path, n: int) -> Iterator[Step]:
    """A row in each of n partitions."""
    table = create(place, rows_of(range(1), 1, 1).schema)
    some = min(n, UPDATED_FILES)
    yield "bulk_insert", lambda: table.bulk_insert(rows_of(range(n), 1, n))
    yield "upsert 950", lambda: table.upsert(rows_of(range(some), 2, n))
    yield "upsert all", lambda: table.upsert(rows_of(range(n), 3, n))
    yield "insert", lambda: table.insert(rows_of(range(n, 2 * n), 3, n))
    yield "scan", lambda: check(table.to_arrow(), 2 * n)
    yield "incremental", lambda: table.changes("000").read_all()
    first = table.timeline.instants()[0].requested
    yield "time travel", lambda: check(table.to_arrow(as_of=first), n)
    yield "verify", table.verify
    yield "delete", lambda: table.delete(rows_of(range(n), 3, n))
    fail_last_write(place)
    yield "rollback", lambda: reopened(place).upsert(rows_of(range(1), 4, n))
    cleaning = reopened(place, hoodie__clean__automatic="true", hoodie__clean__commits__retained="1")
    yield "clean", lambda: cleaning.upsert(rows_of(range(1), 5, n))
    yield "plan clustering", lambda: reopened(place, **CLUSTERING).schedule_clustering()
    yield "cluster", lambda: reopened(place, **CLUSTERING).cluster()
    yield "insert_overwrite", lambda: table.insert_overwrite(rows_of(range(n), 6, n))
    names = [f"p{p:05}" for p in range(n)]
    yield "delete_partitions", lambda: reopened(place).delete_partitions(names)


CLUSTERING = {
    "hoodie__clustering__plan__strategy__max__num__groups": "100000",
    "hoodie__clustering__plan__strategy__small__file__limit": str(300 << 20),
}


def log_partitions(place: Path, n: int) -> Iterator[Step]:
    """A row in each of n partitions of a merge-on-read table."""
    table = create(
        place,
        rows_of(range(1), 1, 1).schema,
        hoodie__table__type="MERGE_ON_READ",
        hoodie__compact__inline="false",
    )
    table.bulk_insert(rows_of(range(n), 1, n))
    yield "upsert", lambda: table.upsert(rows_of(range(n), 2, n))
    yield "scan", lambda: check(table.to_arrow(), n)
    yield "incremental", lambda: table.changes("000").read_all()
    yield "verify", table.verify
    yield "plan compaction", table.schedule_compaction
    yield "compact", table.compact


def files(place: Path, n: int) -> Iterator[Step]:
    """N file groups of a row each in one partition."""
    one = {"hoodie__copyonwrite__insert__auto__split": "false", "hoodie__copyonwrite__insert__split__size": "1"}
    table = create(place, rows_of(range(1), 1, 1).schema, **one)
    yield "insert", lambda: table.insert(rows_of(range(n), 1, 1))
    yield "upsert 1", lambda: table.upsert(rows_of(range(1), 2, 1))
    yield "upsert all", lambda: table.upsert(rows_of(range(n), 3, 1))
    yield "scan", lambda: check(table.to_arrow(), n)
    yield "verify", table.verify
    yield "delete 1", lambda: table.delete(rows_of(range(1), 4, 1))
    small = reopened(place, hoodie__parquet__small__file__limit=str(100 << 20))
    yield "fill small", lambda: small.upsert(rows_of(range(n, 2 * n), 5, 1))
    cleaning = reopened(place, hoodie__clean__automatic="true", hoodie__clean__commits__retained="1")
    yield "clean", lambda: cleaning.upsert(rows_of(range(1), 5, 1))
    yield "plan clustering", lambda: reopened(place, **CLUSTERING).schedule_clustering()
    yield "cluster", lambda: reopened(place, **CLUSTERING).cluster()
    yield "overwrite_table", lambda: table.insert_overwrite_table(rows_of(range(1), 6, 1))


def wide(n: int, ts: int) -> pa.Table:
    """Two rows of n columns."""
    given = {"id": pa.array(["a", "b"]), "ts": pa.array([ts, ts], pa.int64())}
    return pa.table({**given, **{f"c{i}": pa.array([i, ts], pa.int64()) for i in range(n)}})


def columns(place: Path, n: int) -> Iterator[Step]:
    """N columns beside key and ordering column."""
    table = create(place, wide(n, 1).schema)
    yield "insert", lambda: table.insert(wide(n, 1))
    yield "upsert", lambda: table.upsert(wide(n, 2))
    some = wide(n, 3).select(["id", "ts", f"c{n - 1}"])
    yield "partial upsert", lambda: table.upsert(some, partial=True)
    yield "scan", lambda: check(table.to_arrow(), 2)
    yield "scan 1", lambda: table.to_arrow(columns=[f"c{n - 1}"])
    yield "incremental", lambda: table.changes("000").read_all()
    yield "verify", table.verify
    grown = wide(n, 4).append_column("more", pa.array([1, 2]))
    yield "new column", lambda: table.upsert(grown)
    yield "delete", lambda: table.delete(grown.slice(0, 1))


def log_columns(place: Path, n: int) -> Iterator[Step]:
    """The same in a merge-on-read table."""
    options = {"hoodie__table__type": "MERGE_ON_READ", "hoodie__compact__inline": "false"}
    table = create(place, wide(n, 1).schema, **options)
    table.insert(wide(n, 1))
    yield "upsert", lambda: table.upsert(wide(n, 2))
    some = wide(n, 3).select(["id", "ts", f"c{n - 1}"])
    yield "partial upsert", lambda: table.upsert(some, partial=True)
    yield "scan", lambda: check(table.to_arrow(), 2)
    yield "verify", table.verify
    yield "plan compaction", table.schedule_compaction
    yield "compact", table.compact


def logs(place: Path, n: int) -> Iterator[Step]:
    """N log files of one file slice."""
    options = {"hoodie__table__type": "MERGE_ON_READ", "hoodie__compact__inline": "false"}
    table = create(place, rows_of(range(1), 1, 1).schema, **options)
    table.insert(rows_of(range(100), 1, 1))
    for ts in range(n):
        table.upsert(rows_of(range(ts % 100, ts % 100 + 1), ts + 2, 1))
    yield "upsert", lambda: table.upsert(rows_of(range(1), n + 2, 1))
    yield "scan", lambda: check(table.to_arrow(), 100)
    yield "incremental", lambda: table.changes("000").read_all()
    yield "verify", table.verify
    yield "plan compaction", table.schedule_compaction
    yield "compact", table.compact


def instants(place: Path, n: int) -> Iterator[Step]:
    """N commits on the active timeline."""
    yield from forged(place, n, "commit")


def replacecommits(place: Path, n: int) -> Iterator[Step]:
    """N replacecommits on the active timeline."""
    yield from forged(place, n, "replacecommit")


def forged(place: Path, n: int, action: str) -> Iterator[Step]:
    """Copies of one commit, on the active timeline of a table of one file."""
    table = create(place, rows_of(range(1), 1, 1).schema)
    table.insert(rows_of(range(10), 1, 1))
    if action == "replacecommit":
        table.insert_overwrite(rows_of(range(10), 2, 1))
    timeline = place / ".hoodie" / "timeline"
    (completed,) = timeline.glob(f"*_*.{action}")
    files = {suffix: next(timeline.glob(f"{completed.name[:17]}*.{suffix}")) for suffix in ("requested", "inflight")}
    begin = datetime(2025, 1, 1, tzinfo=timezone.utc)
    for i in range(n):
        at, done = ((begin + timedelta(seconds=10 * i + s)).strftime("%Y%m%d%H%M%S%f")[:17] for s in (0, 3))
        for file in files.values():
            shutil.copyfile(file, timeline / file.name.replace(completed.name[:17], at))
        shutil.copyfile(completed, timeline / f"{at}_{done}.{action}")
    table = reopened(place)
    yield "scan", lambda: check(table.to_arrow(), 10)
    yield "upsert", lambda: table.upsert(rows_of(range(10), 3, 1))
    yield "incremental", lambda: table.changes("000").read_all()
    yield "verify", table.verify
    cleaning = reopened(place, hoodie__clean__automatic="true", hoodie__clean__commits__retained="1")
    yield "clean", lambda: cleaning.upsert(rows_of(range(10), 4, 1))
    yield "cluster", lambda: reopened(place, **CLUSTERING).cluster()
    kept = {
        "hoodie__clean__commits__retained": "1",
        "hoodie__keep__min__commits": "2",
        "hoodie__keep__max__commits": "3",
    }
    yield "archive", lambda: reopened(place, **kept).archive()


def copies(place: Path, n: int) -> Iterator[Step]:
    """N rows of one key in a write, and n keys of one."""
    table = create(place, rows_of(range(1), 1, 1).schema)
    same = rows_of(range(n), 1, 1)
    same = same.set_column(0, "id", pa.array(["a"] * n))
    yield "insert copies", lambda: table.bulk_insert(same)
    yield "upsert copies", lambda: table.upsert(same)
    yield "delete copies", lambda: table.delete(same)
    yield "insert", lambda: table.insert(rows_of(range(n), 1, 1))
    yield "delete", lambda: table.delete(rows_of(range(n), 1, 1))


def log_deletes(place: Path, n: int) -> Iterator[Step]:
    """N deletes in a log file."""
    table = create(place, rows_of(range(1), 1, 1).schema, hoodie__table__type="MERGE_ON_READ")
    table.insert(rows_of(range(n), 1, 1))
    yield "delete", lambda: table.delete(rows_of(range(n), 2, 1))
    yield "scan", lambda: check(table.to_arrow(), 0)


def check(data: pa.Table, rows: int) -> None:
    """Fails unless a table has so many rows."""
    if data.num_rows != rows:
        message = f"{data.num_rows} rows and not {rows}"
        raise RuntimeError(message)


AXES: dict[str, tuple[Callable[[Path, int], Iterator[Step]], tuple[int, ...]]] = {
    "partitions": (partitions, (10, 100, 1_000, 10_000)),
    "log_partitions": (log_partitions, (10, 100, 1_000, 10_000)),
    "files": (files, (10, 100, 1_000, 10_000)),
    "columns": (columns, (10, 100, 1_000, 10_000, 20_000)),
    "log_columns": (log_columns, (10, 100, 1_000, 10_000)),
    "logs": (logs, (10, 100, 1_000)),
    "instants": (instants, (10, 100, 1_000, 10_000)),
    "replacecommits": (replacecommits, (10, 100, 1_000, 10_000)),
    "copies": (copies, (10, 1_000, 100_000, 1_000_000)),
    "log_deletes": (log_deletes, (10, 1_000, 100_000, 1_000_000)),
}
"""What each axis does, and its sizes."""
