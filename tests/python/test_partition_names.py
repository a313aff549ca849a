"""Partitions of any name are found again: by listings, filters, changes, cleaning and verify."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Table

_ODD = ["plain", "with space", "a=b", "100%", "ü→漢", "a/x:y", "+1", "#3", "per%20cent", "two/levels"]
_ODD += ["end#12", ".hidden", ".hoodie_x", ".tmp", "_x", "below/.hoodie", "below/.b"]
_REFUSED = [".hoodie", ".hoodie/x", "a/.hoodie/b", ".x.crc", ".", "..", "../x", "/a", "a//b", "a\nb"]
_SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("ts", pa.int64())])
_HIVE = "hoodie.datasource.write.hive_style_partitioning"
_ENCODED = "hoodie.datasource.write.partitionpath.urlencode"
_SLASHES = "hoodie.datasource.write.slash.separated.date.partitioning"


def _table(path: Path, table_type: str = "COPY_ON_WRITE", **options: str) -> Table:
    keys = {"record_key": "id", "partition_by": ["part"], "ordering": ["ts"]}
    return Table.create(str(path), _SCHEMA, name="t", table_type=table_type, options=options, **keys)  # type: ignore[arg-type]


def _rows(*values: str) -> pa.Table:
    return pa.table({"id": list(values), "part": list(values), "ts": [1] * len(values)}, schema=_SCHEMA)


@pytest.mark.parametrize("hive", ["true", "false"])
def test_odd_names(tmp_path: Path, hive: str) -> None:
    schema = _SCHEMA
    options = {"hoodie.datasource.write.hive_style_partitioning": hive, "hoodie.clean.commits.retained": "1"}
    table = Table.create(
        str(tmp_path / "t"), schema, name="t", record_key="id", partition_by=["part"], ordering=["ts"], options=options
    )

    def rows(ts: int) -> pa.Table:
        return pa.table({"id": _ODD, "part": _ODD, "ts": [ts] * len(_ODD)}, schema=schema)

    for ts in range(4):
        table.upsert(rows(ts))
    assert sorted(table.to_arrow()["part"].to_pylist()) == sorted(_ODD)
    assert table.changes("0").read_all().num_rows == len(_ODD)
    assert {s.partition.removeprefix("part=") for s in table.file_slices()} == set(_ODD)
    for name in _ODD:
        assert table.to_arrow(filters=[("part", "=", name)])["id"].to_pylist() == [name]
    report = table.verify()
    assert report.ok, report.problems
    assert report.checked["partitions"] == len(_ODD)


@pytest.mark.parametrize(
    "value", [".hoodie", ".hoodie/x", "a/.hoodie/b", ".x.crc", ".", "..", "../x", "/a", "a//b", "a\nb"]
)
@pytest.mark.parametrize("operation", ["bulk_insert", "upsert"])
def test_folders_in_which_nobody_looks(tmp_path: Path, value: str, operation: str) -> None:
    """The rows would be acknowledged and never be read again."""
    table = _table(tmp_path / "t", "MERGE_ON_READ" if operation == "upsert" else "COPY_ON_WRITE")
    with pytest.raises(hoodoo.SchemaError, match="partition") as caught:
        hoodoo.write(_rows("good", value), str(tmp_path / "t"), operation=operation)
    assert "row=1" in str(caught.value)
    assert "hive_style" in str(caught.value)
    assert table.to_arrow().num_rows == 0
    hoodoo.write(_rows("good"), str(tmp_path / "t"), operation=operation)
    assert table.verify().ok
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t"]


@pytest.mark.parametrize(
    ("options", "good", "bad"),
    [
        ({}, ["a/x:y"], ["x:y", "x:y/a", ":"]),
        ({_HIVE: "true"}, [".hoodie", ".hoodie/x", ".x.crc", "/a"], ["a/.hoodie/b", "a//b", "x:y"]),
        ({_ENCODED: "true"}, [".hoodie/x", "a/.hoodie/b", "a//b", "../x", "x:y"], [".hoodie", ".x.crc", ".."]),
        ({_SLASHES: "true"}, ["2024-01-02"], [".hoodie-01-02", "a-.hoodie-x", "..-x"]),
    ],
)
def test_what_counts_is_the_folder(tmp_path: Path, options: dict[str, str], good: list[str], bad: list[str]) -> None:
    table = _table(tmp_path / "t", **options)
    for value in bad:
        with pytest.raises(hoodoo.SchemaError):
            table.upsert(_rows(value))
    table.upsert(_rows(*good))
    assert sorted(table.to_arrow()["part"].to_pylist()) == sorted(good)
    assert table.verify().ok


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        (pa.float64(), [0.5, -1.25, 1e300, 0.1]),
        (pa.float32(), [0.5, -1.25, 1e20, 3.0]),
        (pa.decimal128(10, 3), [Decimal("0.250"), Decimal("-7.000"), Decimal("1234567.891")]),
        (pa.date32(), [dt.date(2024, 1, 2), dt.date(1969, 12, 31)]),
        (pa.bool_(), [True, False]),
    ],
)
def test_values_that_only_the_path_has(tmp_path: Path, table_type: str, data_type: pa.DataType, values: list[Any]):
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.drop.partition.columns": "true",
    }
    column = pa.array([*values, None], data_type)
    rows = pa.table({"id": list(range(len(column))), "v": [1] * len(column), "p": column})
    hoodoo.write(rows, tmp_path / "t", "upsert", options=options)
    hoodoo.write(rows.slice(0, 1), tmp_path / "t", "upsert", options=options)
    table = hoodoo.Table(tmp_path / "t")
    found = table.to_arrow(columns=["id", "p"]).sort_by("id")
    assert found["p"].to_pylist() == column.to_pylist()
    for key, value in enumerate(column.to_pylist()):
        condition = [("p", "is null")] if value is None else [("p", "=", value)]
        assert table.to_arrow(columns=["id"], filters=condition)["id"].to_pylist() == [key]
    table.update({"v": "v + 1"}, where="id = 1")
    assert table.to_arrow(columns=["id", "p"]).sort_by("id")["p"].to_pylist() == column.to_pylist()


@pytest.mark.parametrize("data_type", [pa.timestamp("us", "UTC"), pa.binary()])
def test_values_that_no_path_tells_stay_in_the_files(tmp_path: Path, data_type: pa.DataType):
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.datasource.write.drop.partition.columns": "true",
    }
    rows = pa.table({"id": [1], "p": pa.array([b"x" if data_type == pa.binary() else 5], data_type)})
    with pytest.raises(hoodoo.HudiError, match=r"lack its partition column 'p'|partition"):
        hoodoo.write(rows, tmp_path / "t", "upsert", options=options)
