"""What a record index says, and what it has to say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoodoo import Table

if TYPE_CHECKING:
    from pathlib import Path

# Hudi's own insert_overwrite fails beside a record index as long as there are statistics of partitions.
WITHOUT_STATISTICS = {
    "hoodie.metadata.index.partition.stats.enable": "false",
    "hoodie.metadata.index.column.stats.enable": "false",
}
# Options by which a write builds a record index of few shards, by the index type that asks it.
BUILD = {
    "GLOBAL_RECORD_LEVEL_INDEX": {
        "hoodie.metadata.global.record.level.index.enable": "true",
        "hoodie.metadata.global.record.level.index.min.filegroup.count": "3",
        "hoodie.metadata.global.record.level.index.max.filegroup.count": "3",
    },
    "RECORD_LEVEL_INDEX": {
        "hoodie.metadata.global.record.level.index.enable": "false",
        "hoodie.metadata.record.level.index.enable": "true",
        "hoodie.metadata.record.level.index.min.filegroup.count": "2",
        "hoodie.metadata.record.level.index.max.filegroup.count": "2",
    },
}

# File group by key and partition.
Keys = dict[tuple[str, str], str]


def index_of(path: Path | str) -> Keys:
    """The file group of each key and partition, by the record index."""
    metadata = Table(path).metadata_table
    assert metadata is not None
    found = metadata.to_arrow("record_index").to_pylist()
    keys = {(row["key"], row["partition"]): row["file_id"] for row in found}
    assert len(keys) == len(found)
    return keys


def stored_keys(path: Path | str) -> Keys:
    """The same, by the rows of the table."""
    meta = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]
    found = Table(path, {"hoodie.metadata.enable": "false"}).to_arrow(columns=meta).to_pylist()
    keys = {(key, partition): name.split("_")[0] for key, partition, name in (row.values() for row in found)}
    assert len(keys) == len(found), "keys are there twice"
    return keys
