"""`Table.report`: sizes, overlap, and what each table service would do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Table, TableReport

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), ("p", pa.string())])


def rows(ids: list[str], n: int, p: str = "x") -> dict[str, list[Any]]:
    return {"id": ids, "n": [n] * len(ids), "p": [p] * len(ids)}


def make(path: Path, kind: str = "MERGE_ON_READ", **options: str) -> Table:
    given = {name.replace("__", "."): value for name, value in options.items()}
    made: dict[str, Any] = {"name": "t", "record_key": "id", "partition_by": "p", "ordering": "n", "table_type": kind}
    return Table.create(path, SCHEMA, options=given, **made)


def service(report: TableReport, name: str) -> hoodoo.NextService:
    (found,) = [one for one in report.services if one.service == name]
    return found


def test_the_numbers_are_those_of_the_file_slices(tmp_path: Path):
    table = make(tmp_path / "t")
    table.insert(rows(["a", "b"], 1))
    table.insert(rows(["c"], 1, "y"))
    table.upsert(rows(["a"], 2))
    slices, report = table.file_slices(), table.report()
    assert (report.file_slices, report.base_files, report.log_files) == (2, 2, 1)
    assert report.base_bytes == sum(one.size for one in slices)
    assert report.log_bytes == sum(one.log_size for one in slices) > 0
    assert report.log_ratio == report.log_bytes / report.base_bytes
    assert [(one.partition, one.file_slices, one.log_files) for one in report.partitions] == [("x", 1, 1), ("y", 1, 0)]
    assert sum(one.bytes for one in report.sizes) == report.base_bytes
    assert [one.files for one in report.sizes] == [2, 0, 0, 0, 0, 0]
    assert {one.name for one in report.metadata_partitions} >= {"files", "column_stats"}
    assert (report.completed, report.pending, report.savepoints) == (3, (), 0)
    assert (report.record_key, report.partition_by, report.ordering) == (("id",), ("p",), ("n",))


def test_services_do_what_the_report_says(tmp_path: Path):
    options = {"hoodie__clean__automatic": "false", "hoodie__clean__fileversions__retained": "1"}
    table = make(tmp_path / "t", **options)
    table.insert(rows(["a", "b"], 1))
    table.upsert(rows(["a"], 2))
    before = table.timeline.instants()
    compaction = service(table.report(), "compaction")
    assert (compaction.due, compaction.files) == (True, 1)
    assert compaction.command == f"hoodoo compact {table.uri}"
    assert table.timeline.instants() == before, "a report changes nothing"
    table.compact()
    report = table.report()
    assert not service(report, "compaction").due
    clean = service(report, "clean")
    assert clean.due
    assert len(table.clean().files) == clean.files > 0
    assert not service(table.report(), "clean").due
    clustering = service(table.report(), "clustering")
    assert clustering.due
    done = table.cluster()
    assert done is not None
    assert sum(map(len, done.replaced.values())) == clustering.files


def test_plans_that_wait_are_named(tmp_path: Path):
    table = make(tmp_path / "t")
    table.insert(rows(["a"], 1))
    table.upsert(rows(["a"], 2))
    planned = table.schedule_compaction()
    clustering = table.schedule_clustering()
    report = table.report()
    assert planned is not None
    assert planned in service(report, "compaction").note
    assert [one.requested for one in report.pending] == [one for one in (planned, clustering) if one]


def test_small_files_go_by_the_option(tmp_path: Path):
    make(tmp_path / "t").insert(rows(["a"], 1))
    assert Table(tmp_path / "t").report().small_files == 1
    small = Table(tmp_path / "t", {"hoodie.parquet.small.file.limit": 10}).report()
    assert (small.small_files, small.small_file_limit) == (0, 10)


def test_overlap_by_column(tmp_path: Path):
    table = make(tmp_path / "t", "COPY_ON_WRITE", hoodie__parquet__small__file__limit="0")
    for n in range(3):
        table.insert(rows([f"{n}", f"{n}z"], n))
    report = table.report(["id", "n"])
    assert [(one.column, one.max, one.files, one.unknown) for one in report.overlaps] == [
        ("id", 1, 3, 0),
        ("n", 1, 3, 0),
    ]
    table.insert(rows(["0", "9"], 9))
    assert table.report("id").overlaps[0].max == table.overlap("id").depth.max == 2
    assert table.report([]).overlaps == ()
    with pytest.raises(hoodoo.InvalidOptionError, match="nope"):
        table.report("nope")


def test_a_service_that_cannot_be_told_is_named(tmp_path: Path):
    make(tmp_path / "t")
    report = Table(tmp_path / "t", {"hoodie.keep.min.commits": "30", "hoodie.keep.max.commits": "20"}).report()
    assert "hoodie.keep" in service(report, "archival").note
    assert not service(report, "archival").due
    assert service(report, "clean").note == ""


def test_a_table_without_rows(tmp_path: Path):
    report = make(tmp_path / "t").report()
    assert (report.file_slices, report.log_ratio, report.partitions) == (0, 0.0, ())
    assert not any(one.due for one in report.services)
