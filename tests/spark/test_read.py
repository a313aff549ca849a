"""DataFrames of a table have the rows that `Table.to_arrow` has."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hoodoo
import hoodoo.spark
from tests.interop.layouts import SCHEMA, SIMPLE, batch, row
from tests.rows import arrow_rows, spark_rows

Frame = Callable[..., Any]
GOLDEN = Path(__file__).resolve().parents[1] / "fixtures" / "tables"


@pytest.fixture
def table(frame: Frame, tmp_path: Path) -> tuple[str, list[hoodoo.Commit]]:
    uri = str(tmp_path / "table")
    first = hoodoo.spark.write(frame(batch([row(n, 10, "a") for n in range(60)])), uri, options=SIMPLE.options())
    second = hoodoo.spark.write(frame(batch([row(n, 11, "b") for n in range(40, 90)])), uri, options=SIMPLE.options())
    return uri, [first, second]


def test_whole_table(spark: Any, table: Any):
    uri, _ = table
    frame = hoodoo.spark.read(spark, uri)
    assert spark_rows(frame, meta=True) == arrow_rows(hoodoo.Table(uri).to_arrow(), meta=True)
    assert frame.columns == hoodoo.Table(uri).to_arrow().schema.names
    assert frame.count() == 90


@pytest.mark.parametrize("columns", [["val"], ["amount", "id"], ["part", "_hoodie_record_key"], SCHEMA.names[::-1]])
def test_columns(columns: list[str], spark: Any, table: Any):
    uri, _ = table
    frame = hoodoo.spark.read(spark, uri, columns=columns)
    assert frame.columns == columns
    assert spark_rows(frame, meta=True) == arrow_rows(hoodoo.Table(uri).to_arrow(columns=columns), meta=True)


@pytest.mark.parametrize(
    "filters",
    [
        [("part", "=", "p 1")],
        [("part", "!=", "p 1"), ("amount", ">", 40.0)],
        [[("val", "=", "a"), ("site", "=", 1)], [("id", "in", ["key-050", "key-088", "none"])]],
        [("val", "is null")],
        [("ts", ">=", 11), ("day", "=", "2024-02-17")],
    ],
)
def test_filters(filters: Any, spark: Any, table: Any):
    uri, _ = table
    expected = arrow_rows(hoodoo.Table(uri).to_arrow(filters=filters), meta=True)
    assert spark_rows(hoodoo.spark.read(spark, uri, filters=filters), meta=True) == expected
    assert len(expected) < 90
    some = hoodoo.spark.read(spark, uri, columns=["id"], filters=filters)
    assert sorted(r.id for r in some.collect()) == sorted(r["id"] for r in expected)


def test_as_of(spark: Any, table: Any):
    uri, commits = table
    for commit, count in zip(commits, (60, 90), strict=True):
        frame = hoodoo.spark.read(spark, uri, as_of=commit.instant)
        assert frame.count() == count
        assert spark_rows(frame) == arrow_rows(hoodoo.Table(uri).to_arrow(as_of=commit.instant))


def test_a_read_is_a_snapshot(spark: Any, frame: Frame, table: Any):
    uri, _ = table
    planned = hoodoo.spark.read(spark, uri)
    before = arrow_rows(hoodoo.Table(uri).to_arrow())
    wider = [{**row(n, 12, "c")} for n in range(100)]
    hoodoo.spark.write(frame(batch(wider)), uri, options=SIMPLE.options())
    assert spark_rows(planned) == before


def test_another_table_at_the_same_place(spark: Any, frame: Frame, table: Any):
    """Workers live on between jobs: what they know of a table must not."""
    uri, _ = table
    assert hoodoo.spark.read(spark, uri).count() == 90
    shutil.rmtree(uri)
    rows = batch([row(n, 1, "other") for n in range(7)])
    other = {"hoodie.table.name": "other", "hoodie.datasource.write.recordkey.field": "val,id"}
    hoodoo.spark.write(frame(rows), uri, options=other)
    assert spark_rows(hoodoo.spark.read(spark, uri), meta=True) == arrow_rows(hoodoo.Table(uri).to_arrow(), meta=True)
    assert hoodoo.spark.read(spark, uri).count() == 7


def test_empty_table(spark: Any, frame: Frame, tmp_path: Path):
    uri = str(tmp_path / "table")
    hoodoo.spark.write(frame(batch([])), uri, options=SIMPLE.options())
    read = hoodoo.spark.read(spark, uri)
    assert read.count() == 0
    assert set(SCHEMA.names) <= set(read.columns)


@pytest.mark.parametrize(
    "name",
    [
        "sample_table__cow__v6_complexkeygen_hivestyle",
        "sample_table__cow__v6_simplekeygen_hivestyle_no_metafields",
        "sample_table__cow__v9_timebasedkeygen_epochmillis",
        "sample_table__cow__v9_txns_simple_overwrite",
        "sample_table__mor__parquet__v6_simplekeygen_nonhivestyle",
    ],
)
def test_tables_of_hudi(name: str, spark: Any, tmp_path: Path):
    with zipfile.ZipFile(GOLDEN / f"{name}.zip") as archive:
        archive.extractall(tmp_path)
    (properties,) = (p for p in tmp_path.rglob("hoodie.properties") if p.parent.parent.name != "metadata")
    uri, query = str(properties.parent.parent), "read_optimized" if "__mor__" in name else "snapshot"
    expected = arrow_rows(hoodoo.Table(uri).to_arrow(query=query), meta=True)
    assert expected
    assert spark_rows(hoodoo.spark.read(spark, uri, query=query), meta=True) == expected


def test_bad_requests(spark: Any, table: Any, tmp_path: Path):
    uri, _ = table
    with pytest.raises(hoodoo.SchemaError, match="nothing"):
        hoodoo.spark.read(spark, uri, columns=["nothing"])
    with pytest.raises(hoodoo.SchemaError, match="nothing"):
        hoodoo.spark.read(spark, uri, filters=[("nothing", "=", 1)])
    with pytest.raises(hoodoo.TableNotFoundError):
        hoodoo.spark.read(spark, str(tmp_path / "no-table"))


def test_log_files_are_merged(spark: Any, tmp_path: Path):
    """A merge-on-read table: a task reads a file slice with its log files."""
    uri = str(tmp_path / "merge_on_read")
    options = {
        **SIMPLE.options(),
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.parquet.small.file.limit": "0",
    }
    hoodoo.write(batch([row(n, 10, "a") for n in range(60)]), uri, operation="insert", options=options)
    hoodoo.write(batch([row(n, 11, "b") for n in range(40, 90)]), uri, options=options)
    hoodoo.write(batch([row(n, 0, "") for n in range(5)]), uri, operation="delete", options=options)
    table = hoodoo.Table(uri)
    assert any(s.log_files for s in table.file_slices())
    frame = hoodoo.spark.read(spark, uri)
    assert spark_rows(frame, meta=True) == arrow_rows(table.to_arrow(), meta=True)
    assert frame.count() == 85
    filters = [("val", "=", "a"), ("part", "=", "p 1")]
    filtered = hoodoo.spark.read(spark, uri, columns=["id"], filters=filters)
    assert spark_rows(filtered) == arrow_rows(table.to_arrow(columns=["id"], filters=filters))
    base = hoodoo.spark.read(spark, uri, query="read_optimized")
    assert spark_rows(base) == arrow_rows(table.to_arrow(query="read_optimized"))
