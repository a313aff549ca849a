"""Metadata tables that real Hudi writes read the same in hoodoo and in Hudi."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodoo import MetadataTable, Table
from tests.interop.hudi import Hudi
from tests.interop.metadata_tables import (
    Case,
    hudis_bloom_filters,
    hudis_files,
    hudis_record_index,
    hudis_records,
    hudis_statistics,
    our_statistics,
    rows,
    stored_files,
    write_table,
)

CASES = (
    Case("cow_partitioned", "COPY_ON_WRITE", partitioned=True, version="9"),
    Case("mor_partitioned", "MERGE_ON_READ", partitioned=True, version="9"),
    Case("cow_flat", "COPY_ON_WRITE", partitioned=False, version="8"),
    Case("mor_flat", "MERGE_ON_READ", partitioned=False, version="8"),
)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(case, id=case.name, marks=() if case.name == "mor_partitioned" else pytest.mark.slow)
        for case in CASES
    ],
)
def path(request: pytest.FixtureRequest, hudi: Hudi, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a table that Hudi wrote with more commits than its metadata table keeps uncompacted."""
    folder: Path = tmp_path_factory.mktemp("metadata") / request.param.name
    write_table(hudi, folder, request.param)
    return folder


def metadata_of(path: Path) -> MetadataTable:
    metadata = Table(path).metadata_table
    assert metadata is not None
    return metadata


def files_of(metadata: MetadataTable) -> dict[str, int]:
    listed = metadata.to_arrow("files").to_pylist()
    return {f"{row['partition']}/{row['file_name']}".lstrip("/"): row["size"] for row in listed}


def test_all_partitions_are_what_hudi_reads(hudi: Hudi, path: Path) -> None:
    """Every record of every partition, by Hudi's own merge of the metadata table."""
    records, metadata = hudis_records(hudi, path), metadata_of(path)
    _, files = hudis_files(records)
    assert files_of(metadata) == files
    assert our_statistics(metadata.to_arrow("column_stats"), "file_name") == hudis_statistics(records, 3)
    if "partition_stats" in metadata.partitions:
        assert our_statistics(metadata.to_arrow("partition_stats"), "partition") == hudis_statistics(records, 6)
    index = {row["key"]: row for row in metadata.to_arrow("record_index").to_pylist()}
    found = {key: (row["partition"], row["file_id"], row["instant_time"]) for key, row in index.items()}
    assert found == hudis_record_index(records)
    filters = metadata.to_arrow("bloom_filters").to_pylist()
    assert {row["key"]: (row["type"], row["timestamp"], row["size"]) for row in filters} == hudis_bloom_filters(records)


def test_files_are_those_on_disk(path: Path) -> None:
    """Cleaned and rolled back files are neither there nor listed."""
    assert files_of(metadata_of(path)) == stored_files(path)


def test_statistics_name_the_partition_of_their_file(path: Path) -> None:
    """A key holds only a hash of it."""
    metadata = metadata_of(path)
    folders = {Path(file).name: Path(file).parent.as_posix() for file in files_of(metadata)}
    for row in metadata.to_arrow("column_stats").to_pylist():
        assert row["partition"] == folders[row["file_name"]].replace(".", "")


def test_the_metadata_table_was_compacted(path: Path) -> None:
    """Otherwise the tests would see log files only."""
    metadata = metadata_of(path)
    compactions = [file.name for file in (path / ".hoodie/metadata/.hoodie/timeline").glob("*.commit")]
    assert compactions
    assert all(partition.base_size > 0 for partition in metadata.partitions.values())
    assert {name: partition.shards for name, partition in metadata.partitions.items() if name != "partition_stats"} == {
        "files": 1,
        "column_stats": 2,
        "bloom_filters": 2,
        "record_index": 2,
    }


def test_nothing_is_found_in_what_hudi_wrote(path: Path) -> None:
    """Neither by the comparison alone, nor by that of the whole table."""
    alone = metadata_of(path).verify()
    assert alone.problems == ()
    assert {"metadata table files", "metadata table record index entries"} <= set(alone.checked)
    whole = Table(path).verify()
    assert [problem for problem in whole.problems if problem.severity == "error"] == []


def test_a_pending_instant_does_not_count(hudi: Hudi, path: Path, tmp_path: Path) -> None:
    """A writer was killed after it completed its instant in the metadata table, and before it did in the table."""
    hudi.write(rows(range(20, 24), 99), path, "upsert", **_options_of(path))
    timeline = path / ".hoodie/timeline"
    suffix = "deltacommit" if "mor" in path.name else "commit"
    newest = max(timeline.glob(f"*.{suffix}"), key=lambda file: file.name)
    requested = newest.name.split("_")[0]
    after = files_of(metadata_of(path))
    written = {file for file in after if requested in file}
    assert written
    hidden = tmp_path / newest.name
    newest.rename(hidden)
    try:
        assert set(files_of(metadata_of(path))) == set(after) - written
    finally:
        hidden.rename(newest)
    assert files_of(metadata_of(path)) == after


def _options_of(path: Path) -> dict[str, str]:
    (case,) = (case for case in CASES if case.name == path.name)
    # Neither compaction nor clean: the write is the only change.
    quiet = {"hoodie.compact.inline": "false", "hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
    return {**case.options, **quiet, "hoodie.metadata.compact.max.delta.commits": "1000"}
