"""Columns that writes widened before fields got ids: real Hudi reads the older files with the types that they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from tests.interop.hudi import Hudi
from tests.rows import arrow_rows

BY_IDS: dict[str, Any] = {"hoodie.schema.on.read.enable": "true"}
CHANGES: list[tuple[pa.DataType, pa.DataType, Any]] = [
    (pa.int32(), pa.int64(), 1 << 40),
    (pa.int32(), pa.float64(), 0.1),
    (pa.int32(), pa.string(), "text"),
    (pa.int64(), pa.float64(), 0.1),
    (pa.float64(), pa.string(), "text"),
]


def _rows(key: int, value: Any, changing: pa.DataType) -> pa.Table:
    schema = pa.schema({"id": pa.int32(), "c": changing, "n": pa.string(), "ts": pa.int64()})
    return pa.Table.from_pylist([{"id": key, "c": value, "n": f"n{key}", "ts": key}], schema)


def _table(path: Path, kind: str, before: pa.DataType) -> hoodoo.Table:
    options = {"hoodie.parquet.small.file.limit": "0"}
    columns = _rows(1, 7, before).schema
    table = hoodoo.Table.create(
        str(path), columns, name=path.name, record_key="id", ordering=["ts"], table_type=kind, options=options
    )
    table.insert(_rows(1, 7, before))
    return table


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hoodoo.HudiWarning")
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_hudi_reads_columns_that_were_widened_before(hudi: Hudi, tmp_path: Path, kind: str):
    for number, (before, after, value) in enumerate(CHANGES):
        path = tmp_path / f"widened{number}"
        table = _table(path, kind, before)
        table.insert(_rows(2, value, after))
        with table.update_schema() as update:
            update.rename_column("n", "nn")
        rows = arrow_rows(table.to_arrow())
        assert {row["nn"] for row in rows} == {"n1", "n2"}
        assert hudi.read(path, **BY_IDS) == rows, (before, after)
        if kind == "MERGE_ON_READ":
            logged = table.to_arrow(columns=["id", "c", "nn", "ts"], filters=[("id", "=", 1)])
            table.upsert(logged.set_column(3, "ts", pa.array([9])))
            assert hudi.read(path, **BY_IDS) == arrow_rows(table.to_arrow()), (before, after)


@pytest.mark.slow
def test_rows_with_some_columns_are_whole_before_fields_have_ids(hudi: Hudi, tmp_path: Path):
    table = _table(tmp_path / "partial", "MERGE_ON_READ", pa.int32())
    table.upsert(pa.table({"id": pa.array([1], pa.int32()), "c": pa.array([99], pa.int32()), "ts": [5]}), partial=True)
    with pytest.raises(hoodoo.UnsupportedError, match="compact"), table.update_schema() as update:
        update.rename_column("n", "nn")
    table.compact()
    with table.update_schema() as update:
        update.rename_column("n", "nn")
    table.update({"c": 100, "ts": 6}, where="id = 1")
    (row,) = hudi.read(tmp_path / "partial", **BY_IDS)
    assert (row["c"], row["nn"]) == (100, "n1")
