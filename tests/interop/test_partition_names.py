"""Odd partition values that hoodoo takes: Hudi finds the rows too."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hoodoo import Table
from tests.interop.hudi import Hudi

_ODD = [".hoodie_x", ".tmp", "_x", "a/.hoodie", "a/.b", "x#1", "x.parquet", " ", ".hoodie_partition_metadata"]


@pytest.mark.parametrize(("hive", "more"), [("false", []), ("true", [".hoodie", ".x.crc", ".hoodie2/x"])])
def test_hudi_reads_odd_names(hudi: Hudi, tmp_path: Path, hive: str, more: list[str]) -> None:
    values = _ODD + more
    schema = pa.schema([("id", pa.string()), ("part", pa.string())])
    options = {"hoodie.datasource.write.hive_style_partitioning": hive}
    table = Table.create(str(tmp_path / "t"), schema, name="t", record_key="id", partition_by=["part"], options=options)
    table.upsert(pa.table({"id": values, "part": values}, schema=schema))
    assert sorted(row["part"] for row in hudi.read(tmp_path / "t")) == sorted(values)
