"""The worked examples of Hudi's page on record mergers, by the payload classes as users name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hoodoo

if TYPE_CHECKING:
    from pathlib import Path

_SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("name", pa.string()), ("price", pa.string())])
_STORED = ("1", 2, "name_2", "price_2")
_LATE = ("1", 1, "name_1", "price_1")
_ROW = tuple[str, int, str | None, str | None]

_EXAMPLES: dict[str, tuple[str, _ROW, _ROW, _ROW]] = {
    "the latest write wins": ("OverwriteWithLatestAvroPayload", _STORED, _LATE, _LATE),
    "the ordering field is honoured": ("DefaultHoodieRecordPayload", _STORED, _LATE, _STORED),
    "late data, by event time": ("EventTimeAvroPayload", _STORED, _LATE, _STORED),
    "only what is no default overwrites": (
        "OverwriteNonDefaultsWithLatestAvroPayload",
        _STORED,
        ("1", 3, None, "price_3"),
        ("1", 3, "name_2", "price_3"),
    ),
    "only certain fields": (
        "PartialUpdateAvroPayload",
        ("1", 2, "name_1", None),
        ("1", 1, None, "price_1"),
        ("1", 2, "name_1", "price_1"),
    ),
}


def _rows(row: _ROW) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(_SCHEMA.names, row, strict=True))], schema=_SCHEMA)


@pytest.mark.parametrize("version", ["9", "8"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("example", _EXAMPLES)
def test_an_example(tmp_path: Path, example: str, table_type: str, version: str) -> None:
    payload, stored, incoming, result = _EXAMPLES[example]
    options = {
        "hoodie.table.name": "t",
        "hoodie.write.table.version": version,
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.payload.class": f"org.apache.hudi.common.model.{payload}",
        "hoodie.compact.inline": "false",
    }
    hoodoo.write(_rows(stored), tmp_path, operation="insert", options=options)
    hoodoo.write(_rows(incoming), tmp_path, operation="upsert", options=options)
    table = hoodoo.Table(tmp_path, options=options)
    assert table.to_arrow(columns=_SCHEMA.names).to_pylist() == _rows(result).to_pylist()
    if table_type == "MERGE_ON_READ":
        assert any(piece.log_files for piece in table.file_slices())
        table.compact()
        assert not any(piece.log_files for piece in table.file_slices())
        assert table.to_arrow(columns=_SCHEMA.names).to_pylist() == _rows(result).to_pylist()
