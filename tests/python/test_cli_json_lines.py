"""JSON lines that `hoodoo scan --out` writes and `hoodoo load` reads, and conditions on times and decimals."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import InvalidOptionError
from hoodoo.cli import files
from hoodoo.cli.conditions import conditions

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "raw": pa.binary(),
        "two": pa.binary(2),
        "price": pa.decimal128(10, 2),
    }
)
ROWS = pa.table(
    {
        "id": [1, 2],
        "day": [dt.date(2024, 1, 1), None],
        "at": [dt.datetime(2024, 1, 1, 5, tzinfo=dt.timezone.utc), None],
        "raw": [b"plain", b"\xff\x00"],
        "two": [b"ab", None],
        "price": [Decimal("1.50"), None],
    },
    schema=SCHEMA,
)


def _read(path: Path, schema: pa.Schema = SCHEMA) -> pa.Table:
    return files.open_rows(path, None, schema).read_all()


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert files.write_rows(path, None, SCHEMA, ROWS.to_batches()) == 2
    assert _read(path).select(SCHEMA.names).equals(ROWS)
    table = hoodoo.Table.create(tmp_path / "t", SCHEMA, name="t", record_key="id")
    table.insert(files.open_rows(path, None, SCHEMA))
    assert table.to_arrow(columns=SCHEMA.names).sort_by("id").equals(ROWS)


def test_days_since_1970_are_dates_too(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": 3, "day": 19723}\n', encoding="utf-8")
    assert _read(path).to_pylist() == [{"id": 3, "day": dt.date(2024, 1, 1)}]


def test_bytes_that_are_no_base64_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": 4, "raw": "no base64!"}\n', encoding="utf-8")
    with pytest.raises(InvalidOptionError, match="column 'raw' holds bytes, which JSON has in base64"):
        _read(path)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_json_has_no_nan(tmp_path: Path, value: float) -> None:
    path, fine = tmp_path / "rows.jsonl", pa.table({"id": [1, 2], "x": [1.5, None]})
    assert files.write_rows(path, None, fine.schema, fine.to_batches()) == 2
    rows = pa.table({"id": [1, 2], "x": [value, None]})
    with pytest.raises(InvalidOptionError, match="column 'x' holds NaN or an infinity"):
        files.write_rows(path, None, rows.schema, rows.to_batches())


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("at>=2024-01-01", [1]),
        ("at>=2024-01-01 05:00:00", [1]),
        ("at>2024-01-01 05:00:00", []),
        ("at=2024-01-01T05:00:00Z", [1]),
        ("day>='2024-01-01 05:00'", []),
        ("day>='2023-12-31 05:00'", [1]),
        ("price>=1.495", [1]),
        ("price>=1.505", []),
        ("price in ()", []),
        ("id not in ()", [1, 2]),
    ],
)
def test_conditions(tmp_path: Path, condition: str, ids: list[int]) -> None:
    table = hoodoo.Table.create(tmp_path / "t", SCHEMA, name="t", record_key="id")
    table.insert(ROWS)
    found = table.to_arrow(columns=["id"], filters=conditions([condition], SCHEMA))
    assert sorted(found["id"].to_pylist()) == ids


@pytest.mark.parametrize("condition", ["at>=noon", "price=1.5.5", "day=24-01-01"])
def test_values_of_another_type(condition: str) -> None:
    with pytest.raises(InvalidOptionError, match="which is the type of column"):
        conditions([condition], SCHEMA)
