"""Tables of many files, and tables of many keys."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pyarrow as pa

import hoodoo

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS = 100
LISTED = {"hoodie.metadata.enable": "false"}
"""Options of a handle that does without the metadata table."""
BY_KEYS = {"hoodie.metadata.global.record.level.index.enable": "true"}
"""Options that build a record index, and by which reads ask it."""
QUIET = {"hoodie.clean.automatic": "false", "hoodie.parquet.small.file.limit": "0"}


def key(number: int) -> str:
    """Gives keys in no order."""
    return f"{number * 2_654_435_761 % 2**32:08x}-{number:08d}"


def rows(numbers: range | list[int], files: int, ts: int) -> pa.Table:
    """Gives rows that go into so many files, each with a range of `sorted` of its own and any value of `mixed`."""
    count = len(numbers)
    file = [number % files for number in numbers]
    return pa.table(
        {
            "id": [key(number) for number in numbers],
            "ts": pa.array([ts] * count, pa.int64()),
            "sorted": pa.array(
                [one * 1_000 + number // files % 1_000 for one, number in zip(file, numbers, strict=True)]
            ),
            "mixed": pa.array([number * 7_919 % 1_000_003 for number in numbers], pa.int64()),
            "value": pa.array([number * 0.5 + ts for number in numbers], pa.float64()),
            "part": [f"p{one % PARTITIONS:03}" for one in file],
        }
    )


def create(uri: str, options: dict[str, str], storage: dict[str, str] | None = None) -> hoodoo.Table:
    """Creates a table for these rows."""
    schema = rows([0], 1, 1).schema
    return hoodoo.Table.create(
        uri,
        schema,
        name="t",
        record_key="id",
        partition_by="part",
        ordering="ts",
        options=QUIET | options,
        storage_options=storage,
    )


def of_many_files(
    uri: str, files: int, each: int, options: dict[str, str] | None = None, storage: dict[str, str] | None = None
) -> hoodoo.Table:
    """Makes a table of so many file groups, with so many rows in each, by commits of one file for each partition."""
    given = QUIET | (options or {})
    create(uri, given, storage)
    # No file takes rows of a later commit, and none is archived or compacted meanwhile.
    more = {"hoodie.keep.min.commits": "1000000", "hoodie.keep.max.commits": "1000001"}
    for first in range(0, files, PARTITIONS):
        some = range(first, min(first + PARTITIONS, files))
        numbers = [file + files * row for file in some for row in range(each)]
        hoodoo.Table(uri, given | more, storage).bulk_insert(rows(numbers, files, 1))
    return hoodoo.Table(uri, QUIET, storage)


def of_many_keys(path: Path, keys: int, options: dict[str, str]) -> hoodoo.Table:
    """Makes a table of so many keys in ten partitions, some thirty files in each."""
    shutil.rmtree(path, ignore_errors=True)
    given = QUIET | options | {"hoodie.parquet.max.file.size": str(4 << 20)}
    create(str(path), given)
    step = 2_000_000
    for first in range(0, keys, step):
        hoodoo.Table(path, given).bulk_insert(rows(range(first, min(first + step, keys)), 10, 1))
    return hoodoo.Table(path, QUIET)
