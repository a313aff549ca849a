"""Filters on tables that Hudi and hoodoo write in turns: neither passes over a row, with data skipping or without."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodoo
from hoodoo import Table
from tests.buckets import INDEX as BUCKETS
from tests.interop.hudi import Hudi
from tests.pairs import every_value

LISTED = {"hoodie.metadata.enable": "false"}
_TABLE_TYPES = ["COPY_ON_WRITE", "MERGE_ON_READ"]
TYPES = pytest.mark.parametrize("table_type", _TABLE_TYPES)


def _options(table_type: str, **more: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.write.table.version": "9",
        "hoodie.metadata.enable": "true",
        "hoodie.parquet.small.file.limit": "0",
        **more,
    }


def _ids(uri: Path, filters: Any, options: dict[str, str] | None = None) -> list[str]:
    return sorted(Table(uri, options=options).to_arrow(columns=["id"], filters=filters)["id"].to_pylist())


def _hudi_ids(hudi: Hudi, uri: Path, condition: str, skipping: bool, **more: str) -> list[str]:
    options = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": str(skipping).lower(), **more}
    frame = hudi.spark.read.format("hudi").options(**options).load(str(uri)).where(condition)
    return sorted(row[0] for row in frame.select("id").collect())


@TYPES
def test_long_strings_are_no_nulls(hudi: Hudi, tmp_path: Path, table_type: str) -> None:
    """Where strings are too long for bounds in Parquet, Hudi counts all rows of the row group as nulls."""
    columns = {"id": ["a", "b"], "ts": [1, 1], "s": ["x" * 5000, "short"], "n": [None, "y"], "part": ["p0", "p1"]}
    uri = tmp_path / "t"
    hudi.write(pa.table(columns), str(uri), "insert", mode="overwrite", **_options(table_type))
    for filters, right in [
        ([("s", "is not null")], ["a", "b"]),
        ([("s", "=", "x" * 5000)], ["a"]),
        ([("s", ">", "t")], ["a"]),
        ([("n", "is not null")], ["b"]),
    ]:
        assert _ids(uri, filters) == _ids(uri, filters, LISTED) == right, filters


def test_a_row_group_of_long_strings_among_others(hudi: Hudi, tmp_path: Path) -> None:
    rows = 3000
    columns = {
        "id": [f"k{n:05}" for n in range(rows)] + ["other"],
        "ts": [1] * (rows + 1),
        "s": [f"m{n * 7919 % rows:05}" for n in range(rows - 1)] + ["z" * 5000, "b"],
        "part": ["p0"] * rows + ["p1"],
    }
    uri = tmp_path / "t"
    small = {"hoodie.parquet.block.size": "20000", "hoodie.parquet.page.size": "4000"}
    hudi.write(pa.table(columns), str(uri), "bulk_insert", mode="overwrite", **_options("COPY_ON_WRITE", **small))
    for filters in ([("s", ">", "y")], [("s", "=", "z" * 5000)]):
        assert _ids(uri, filters) == [f"k{rows - 1:05}"], filters


@pytest.mark.parametrize(("table_type", "index"), every_value(_TABLE_TYPES, ["RECORD_INDEX", "GLOBAL_SIMPLE"]))
def test_rows_that_stay_in_their_partition_have_its_value(
    hudi: Hudi, tmp_path: Path, table_type: str, index: str
) -> None:
    """Hudi writes the new value into the file of the old partition, and shows the one of the path."""
    kind = "record" if index == "RECORD_INDEX" else "simple"
    options = _options(
        table_type,
        **{
            "hoodie.index.type": index,
            f"hoodie.{kind}.index.update.partition.path": "false",
            "hoodie.metadata.global.record.level.index.enable": str(kind == "record").lower(),
        },
    )
    # With another one, Hudi itself inserts the row a second time in a merge-on-read table with GLOBAL_SIMPLE.
    del options["hoodie.parquet.small.file.limit"]
    uri = tmp_path / "t"
    first = {"id": ["a", "b"], "ts": [1, 1], "v": [1, 1], "part": ["p0", "p1"]}
    hudi.write(pa.table(first), str(uri), "insert", mode="overwrite", **options)
    hudi.write(pa.table({"id": ["a"], "ts": [2], "v": [2], "part": ["p1"]}), str(uri), "upsert", **options)
    table = Table(uri)

    def theirs(condition: str = "true") -> list[tuple[str, int, str]]:
        frame = hudi.spark.read.format("hudi").load(str(uri)).select("id", "v", "part").where(condition)
        return sorted(tuple(row) for row in frame.collect())

    def rows(**query: Any) -> list[tuple[str, int, str]]:
        return sorted(tuple(row.values()) for row in table.to_arrow(columns=["id", "v", "part"], **query).to_pylist())

    assert rows() == theirs() == [("a", 2, "p0"), ("b", 1, "p1")]
    part, v = pc.field("part"), pc.field("v")
    cases: list[tuple[str, Any, pc.Expression]] = [
        ("part = 'p0'", [("part", "=", "p0")], part == "p0"),
        ("part = 'p1'", [("part", "=", "p1")], part == "p1"),
        (
            "part in ('p0', 'x') and v > 1",
            [("part", "in", ["p0", "x"]), ("v", ">", 1)],
            part.isin(["p0", "x"]) & (v > 1),
        ),
        ("part is null", [("part", "is null")], part.is_null()),
        ("not (part = 'p1') or v = 7", None, ~(part == "p1") | (v == 7)),
        ("part = 'p0' and v > 1 or part = 'p1' and v > 1", None, (part == "p0") & (v > 1) | (part == "p1") & (v > 1)),
    ]
    for condition, filters, expression in cases:
        wanted = theirs(condition)
        found = table.to_dataset().to_table(columns=["id", "v", "part"], filter=expression)
        assert sorted(tuple(row.values()) for row in found.to_pylist()) == wanted, condition
        assert table.count(condition) == len(wanted), condition
        if filters is not None:
            assert rows(filters=filters) == wanted, condition
            assert table.to_arrow(columns=["v"], filters=filters).num_rows == len(wanted), condition
    assert table.to_arrow(columns=["part"])["part"].to_pylist().count("p0") == 1
    assert table.update({"v": "v + 10"}, where="part = 'p0'").updated == 1
    assert rows() == theirs() == [("a", 12, "p0"), ("b", 1, "p1")]


@pytest.mark.parametrize(
    ("table_type", "creator", "how"), every_value(_TABLE_TYPES, ["hudi", "hoodoo"], ["insert", "update_schema"])
)
def test_hudi_finds_the_values_of_a_column_that_hoodoo_added(
    hudi: Hudi, tmp_path: Path, table_type: str, creator: str, how: str
) -> None:
    """Hudi's next write puts the column into the index, and its readers then pass over files without statistics."""
    uri, options = tmp_path / "t", _options(table_type)
    first = pa.table({"id": ["a", "b"], "ts": [1, 1], "a": [1, 2], "part": ["p0", "p1"]})
    if creator == "hudi":
        hudi.write(first, str(uri), "insert", mode="overwrite", **options)
    else:
        hoodoo.write(first, uri, operation="insert", options=options)
    table = Table(uri, options={"hoodie.parquet.small.file.limit": "0"})
    if how == "update_schema":
        with table.update_schema() as update:
            update.add_column("c", pa.int64())
    more = {"ts": [2, 2], "a": [5, 5], "part": ["p0", "p0"]}
    table.insert(pa.table({"id": ["c5", "cn"], "c": pa.array([5, None], pa.int64()), **more}))
    table.insert(pa.table({"id": ["c8", "c9"], "c": pa.array([8, 9], pa.int64()), **more}))
    theirs = pa.table({"id": ["c7"], "ts": [3], "a": [5], "c": pa.array([7], pa.int64()), "part": ["p1"]})
    hudi.write(theirs, str(uri), "insert", **options)
    for condition, filters, right in [
        ("c = 5", [("c", "=", 5)], ["c5"]),
        ("c > 7 and a > 0", [("c", ">", 7), ("a", ">", 0)], ["c8", "c9"]),
        ("c = 7", [("c", "=", 7)], ["c7"]),
        ("c is not null and a > 0", [("c", "is not null"), ("a", ">", 0)], ["c5", "c7", "c8", "c9"]),
    ]:
        assert _ids(uri, filters) == _ids(uri, filters, LISTED) == right, condition
        assert _hudi_ids(hudi, uri, condition, skipping=True) == right, condition
        assert _hudi_ids(hudi, uri, condition, skipping=False) == right, condition
    for filters in ([("c", "is null")], [("c", "is null"), ("a", ">", 0)]):
        assert _ids(uri, filters) == _ids(uri, filters, LISTED) == ["a", "b", "cn"]
    assert table.verify().ok


@TYPES
def test_hudi_finds_rows_after_hoodoo_dropped_a_column(hudi: Hudi, tmp_path: Path, table_type: str) -> None:
    by_schema = {"hoodie.schema.on.read.enable": "true"}
    uri, options = tmp_path / "t", _options(table_type, **by_schema)
    first = {"id": ["a", "b"], "ts": [1, 1], "x": [1, 2], "y": ["q", "r"], "part": ["p0", "p1"]}
    hudi.write(pa.table(first), str(uri), "insert", mode="overwrite", **options)
    with Table(uri).update_schema() as update:
        update.drop_column("x")
    ours = pa.table({"id": ["c"], "ts": [20], "y": ["zzz"], "part": ["p0"]})
    Table(uri, options={"hoodie.parquet.small.file.limit": "0"}).insert(ours)
    theirs = pa.table({"id": ["e"], "ts": [3], "y": ["t"], "part": ["p0"]})
    hudi.write(theirs, str(uri), "insert", **options)
    for condition, filters in [("y = 'zzz'", [("y", "=", "zzz")]), ("ts = 20", [("ts", "=", 20)])]:
        assert _ids(uri, filters) == _ids(uri, filters, LISTED) == ["c"], condition
        assert _hudi_ids(hudi, uri, condition, skipping=True, **by_schema) == ["c"], condition


@pytest.mark.parametrize("payload", [None, "PartialUpdateAvroPayload"])
def test_hudi_finds_updates_that_are_merged_value_by_value(hudi: Hudi, tmp_path: Path, payload: str | None) -> None:
    more = (
        {} if payload is None else {"hoodie.datasource.write.payload.class": f"org.apache.hudi.common.model.{payload}"}
    )
    uri, options = tmp_path / "t", _options("MERGE_ON_READ", **more)
    first = {"id": ["a", "b"], "ts": [1, 1], "v": [1, 2], "w": [1, 2], "part": ["p0", "p1"]}
    hudi.write(pa.table(first), str(uri), "insert", mode="overwrite", **options)
    update = {"id": ["a"], "ts": [2], "v": [100], "part": ["p0"]}
    if payload is None:
        Table(uri).upsert(pa.table(update), partial=True)
    else:
        Table(uri).upsert(pa.table({**update, "w": pa.array([None], pa.int64())}))
    theirs = {"id": ["e"], "ts": [3], "v": [5], "w": [5], "part": ["p0"]}
    hudi.write(pa.table(theirs), str(uri), "insert", **options)
    for condition, filters, right in [
        ("v = 100", [("v", "=", 100)], ["a"]),
        ("v > 50 and w > 0", [("v", ">", 50), ("w", ">", 0)], ["a"]),
        ("v = 5", [("v", "=", 5)], ["e"]),
    ]:
        assert _ids(uri, filters) == _ids(uri, filters, LISTED) == right, condition
        assert _hudi_ids(hudi, uri, condition, skipping=True) == right, condition
    assert Table(uri).verify().ok


@pytest.mark.parametrize(("version", "table_type"), every_value(["8", "9"], _TABLE_TYPES))
def test_decimals_of_partitions_whose_files_are_emptied(
    hudi: Hudi, tmp_path: Path, table_type: str, version: str
) -> None:
    columns = {
        "id": [f"k{n}" for n in range(8)],
        "ts": [1] * 8,
        "price": pa.array([Decimal(n) / 4 for n in range(8)], pa.decimal128(10, 2)),
        "part": [f"p{n % 2}" for n in range(8)],
    }
    rows, uri = pa.table(columns), tmp_path / "t"
    options = _options(table_type, **{"hoodie.write.table.version": version, **BUCKETS})
    Table.create(uri, rows.schema, options=options)
    Table(uri, options).insert(rows)
    Table(uri, options).upsert(rows.slice(3, 4))
    Table(uri, options).delete(rows.filter(pc.field("part") == "p1"))
    Table(uri, options).upsert(rows.slice(0, 1))
    for condition, filters in [
        ("price > 1", [("price", ">", 1)]),
        ("price < 0.5", [("price", "<", Decimal("0.5"))]),
    ]:
        right = _ids(uri, filters, LISTED)
        assert right
        assert _ids(uri, filters) == right
        assert _hudi_ids(hudi, uri, condition, True) == _hudi_ids(hudi, uri, condition, False) == right
    assert Table(uri).verify().problems == ()
