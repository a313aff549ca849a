"""Partitions of any name are found again: by listings, filters, changes, cleaning and verify."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hoodoo import Table

_ODD = ["plain", "with space", "a=b", "100%", "ü→漢", "x:y", "+1", "#3", "per%20cent", "two/levels"]
_ODD += ["end#12", ".hidden"]


@pytest.mark.parametrize("hive", ["true", "false"])
def test_odd_names(tmp_path: Path, hive: str) -> None:
    schema = pa.schema([("id", pa.string()), ("part", pa.string()), ("ts", pa.int64())])
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
