"""Tables with a metadata table that real Hudi writes: what is written, and what Hudi reads of the metadata table."""

from __future__ import annotations

import datetime as dt
import shutil
import uuid
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from hoodoo import Table
from tests.interop.hudi import Hudi

_INDEX = "hoodie.metadata.index"
_OPTIONS = {
    "hoodie.metadata.enable": "true",
    f"{_INDEX}.column.stats.enable": "true",
    f"{_INDEX}.bloom.filter.enable": "true",
    f"{_INDEX}.bloom.filter.file.group.count": "2",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "2",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.bloom.index.filter.type": "SIMPLE",
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.index.bloom.fpp": "0.01",
    "hoodie.clean.commits.retained": "3",
    "hoodie.keep.min.commits": "6",
    "hoodie.keep.max.commits": "8",
}

_COUNTS = ("valueCount", "nullCount", "totalSize", "totalUncompressedSize", "isTightBound")


@dataclass(frozen=True)
class Case:
    """A table, how many commits it gets, and after how many of them Hudi compacts its metadata table."""

    name: str
    table_type: str
    partitioned: bool
    version: str
    commits: int = 13
    compact_after: int = 10

    @property
    def options(self) -> dict[str, str]:
        """Options of Hudi's writer."""
        options = {
            **_OPTIONS,
            "hoodie.table.name": self.name,
            "hoodie.metadata.compact.max.delta.commits": str(self.compact_after),
            "hoodie.datasource.write.table.type": self.table_type,
            "hoodie.write.table.version": self.version,
            "hoodie.datasource.write.partitionpath.field": "part" if self.partitioned else "",
        }
        if not self.partitioned:
            options["hoodie.datasource.write.keygenerator.class"] = "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
        if self.table_type == "MERGE_ON_READ":
            options |= {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "4"}
        return options


def rows(keys: range, ts: int) -> pa.Table:
    """Make rows of keys; the values follow from key and time."""
    start = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    return pa.table(
        {
            "id": [f"k{key:04}" for key in keys],
            "ts": pa.array([ts] * len(keys), pa.int64()),
            "name": [None if key % 7 == 0 else f"n{key * ts}" for key in keys],
            "price": pa.array([key * 1.5 - ts for key in keys], pa.float64()),
            "amount": pa.array([Decimal(key - 20) / 4 for key in keys], pa.decimal128(10, 2)),
            "day": pa.array([key - ts for key in keys], pa.date32()),
            "at": pa.array([start + dt.timedelta(hours=key) for key in keys], pa.timestamp("us", "UTC")),
            "part": [f"p{key % 3}" for key in keys],
        }
    )


def write_table(hudi: Hudi, path: Path, case: Case) -> None:
    """Write a table: inserts, upserts, deletes, a clustering, cleans, a deleted partition and a rollback."""
    options = case.options
    clustering = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
    hudi.write(rows(range(40), 1), path, "insert", mode="overwrite", **options)
    for number in range(2, case.commits + 1):
        if number == 4:
            hudi.write(rows(range(3, 9), number), path, "delete", **options)
        elif number == 5:
            hudi.write(rows(range(40, 60), number), path, "insert", **options)
        elif number == 8:
            hudi.write(rows(range(10, 20), number), path, "upsert", **options, **clustering)
        elif number == 9 and case.partitioned:
            # Not where the metadata table is compacted meanwhile: Hudi rolls nothing back across that.
            hudi.write(rows(range(5, 9), number), path, "upsert", **options)
            roll_back(hudi, path)
        elif number == 10 and case.partitioned:
            partitions = {"hoodie.datasource.write.partitions.to.delete": "p1"}
            hudi.write(rows(range(1), number), path, "delete_partition", **options, **partitions)
        else:
            hudi.write(rows(range(number, number + 8), number), path, "upsert", **options)


def roll_back(hudi: Hudi, path: Path) -> None:
    """Roll the newest commit back."""
    commits = Table(path).timeline.instants(state="COMPLETED")
    newest = max(one.requested for one in commits if one.action in {"commit", "deltacommit", "replacecommit"})
    (done,) = hudi.call_by_name("rollback_to_instant", path, instant_time=newest)
    assert done["rollback_result"]


def remove_side_files(path: Path) -> None:
    """Remove the checksum files of Hadoop's file system, which only it reads."""
    for file in path.rglob("*.crc"):
        file.unlink()
    shutil.rmtree(path / ".hoodie" / ".temp", ignore_errors=True)


def stored_files(path: Path) -> dict[str, int]:
    """List the data files of a table on disk, with their sizes."""
    found = {}
    for file in path.rglob("*"):
        relative = file.relative_to(path).as_posix()
        is_data = file.is_file() and not relative.startswith(".hoodie/") and not file.name.endswith(".crc")
        if is_data and not file.name.startswith(".hoodie_partition"):
            found[relative] = file.stat().st_size
    return found


def hudis_records(hudi: Hudi, path: Path) -> list[dict[str, Any]]:
    """Read all records of the metadata table with Hudi."""
    frame = hudi.spark.read.format("hudi").load(str(path / ".hoodie" / "metadata"))
    return [row.asDict(recursive=True) for row in frame.collect()]


def hudis_files(records: list[dict[str, Any]]) -> tuple[set[str], dict[str, int]]:
    """Partitions, and files with their sizes, that Hudi reads."""
    partitions: set[str] = set()
    files: dict[str, int] = {}
    for record in records:
        present = {
            name: one["size"] for name, one in (record["filesystemMetadata"] or {}).items() if not one["isDeleted"]
        }
        if record["type"] == 1:
            partitions |= {"" if name == "." else name for name in present}
        elif record["type"] == 2:
            folder = "" if record["key"] == "." else f"{record['key']}/"
            files |= {f"{folder}{name}": size for name, size in present.items()}
    return partitions, files


def _bound(value: dict[str, Any] | None, info: str | None) -> Any:
    held = [one for one in (value or {}).values() if one is not None]
    if not held:
        return None
    found = held[0]["value"]
    if isinstance(found, bytes | bytearray) and info:
        return Decimal(int.from_bytes(found, "big", signed=True)).scaleb(-int(info.split(",")[1]))
    return found


def hudis_statistics(records: list[dict[str, Any]], kind: int) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Statistics that Hudi reads, by file or partition and column."""
    found = {}
    for record in (one for one in records if one["type"] == kind):
        stats = record["ColumnStatsMetadata"]
        if stats["isDeleted"]:
            continue
        info = (stats["valueType"] or {}).get("additionalInfo")
        found[stats["fileName"], stats["columnName"]] = (
            _bound(stats["minValue"], info),
            _bound(stats["maxValue"], info),
            *(stats[name] for name in _COUNTS),
        )
    return found


def _our_bound(row: dict[str, Any], which: str) -> Any:
    for form in ("long", "double"):
        if row[f"{which}_{form}"] is not None:
            return row[f"{which}_{form}"]
    text = row[which]
    return Decimal(text) if text is not None and row["value_type"] == "DECIMAL" else text


def our_statistics(table: pa.Table, name: str) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Return our rows in the same form; `name` is the column that names file or partition."""
    counts = ("value_count", "null_count", "total_size", "total_uncompressed_size", "is_tight_bound")
    return {
        (row[name], row["column_name"]): (
            _our_bound(row, "min"),
            _our_bound(row, "max"),
            *(row[count] for count in counts),
        )
        for row in table.to_pylist()
    }


def hudis_record_index(records: list[dict[str, Any]]) -> dict[str, tuple[str, str, str]]:
    """File groups and instants that Hudi reads of the record index, by key."""
    found = {}
    for record in (one for one in records if one["type"] == 5):
        place = record["recordIndexMetadata"]
        bits = place["fileIdHighBits"] % 2**64 << 64 | place["fileIdLowBits"] % 2**64
        at = dt.datetime.fromtimestamp(place["instantTime"] / 1000, dt.timezone.utc)
        instant = at.strftime("%Y%m%d%H%M%S") + f"{place['instantTime'] % 1000:03}"
        found[record["key"]] = (place["partitionName"], f"{uuid.UUID(int=bits)}-{place['fileIndex']}", instant)
    return found


def hudis_bloom_filters(records: list[dict[str, Any]]) -> dict[str, tuple[str, str, int]]:
    """Types, instants and sizes of bloom filters that Hudi reads, by key."""
    filters = {record["key"]: record["BloomFilterMetadata"] for record in records if record["type"] == 4}
    return {
        key: (one["type"], one["timestamp"], len(one["bloomFilter"]))
        for key, one in filters.items()
        if not one["isDeleted"]
    }
