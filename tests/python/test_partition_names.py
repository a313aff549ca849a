"""Partitions of any name are found again: by listings, filters, changes, cleaning and verify."""

from __future__ import annotations

from pathlib import Path

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
