"""Tables with columns of many types, of every kind of table, for tests of the libraries that read them."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from pathlib import Path

import pyarrow as pa

from hoodoo import Table

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("part", pa.string()),
        ("small", pa.int32()),
        ("name", pa.string()),
        ("score", pa.float64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(12, 2)),
        ("flag", pa.bool_()),
        ("raw", pa.binary()),
        ("inner", pa.struct([("x", pa.int64()), ("y", pa.string())])),
        ("tags", pa.list_(pa.string())),
    ]
)
KINDS = ("copy-on-write", "merge-on-read", "unpartitioned")
_ROWS, _PARTS = 240, 4
_DAY = dt.date(2024, 1, 1)
_AT = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)


def rows(numbers: range, shift: int = 0) -> pa.Table:
    """Rows of these numbers: nulls in all columns but the keys, NaN, both zeros, negative numbers."""
    scores = [math.nan, -0.0, 0.0, 1.5, -2.25]

    def value(n: int) -> dict[str, object]:
        m = n + shift
        return {
            "id": n,
            "part": f"p{n % _PARTS}",
            "small": None if m % 11 == 0 else m % 50 - 10,
            "name": None if m % 7 == 0 else f"name {m % 20:02d}",
            "score": None if m % 13 == 0 else scores[m % 9] if m % 9 < len(scores) else m / 4,
            "day": None if m % 17 == 0 else _DAY + dt.timedelta(days=m % 60),
            "at": None if m % 19 == 0 else _AT + dt.timedelta(hours=m),
            "price": None if m % 5 == 0 else decimal.Decimal(m * 25 - 1000) / 100,
            "flag": [True, False, None][m % 3],
            "raw": None if m % 8 == 0 else f"{m % 30}".encode(),
            "inner": None if m % 6 == 0 else {"x": None if m % 4 == 0 else m, "y": f"y{m % 3}"},
            "tags": None if m % 4 == 0 else [f"t{m % 2}"],
        }

    return pa.Table.from_pylist([value(n) for n in numbers], schema=SCHEMA)


def make_table(folder: Path, kind: str) -> Table:
    """A table of a kind in several files, and with log files where the kind has some."""
    table = Table.create(
        folder / kind,
        SCHEMA,
        name="t",
        record_key="id",
        partition_by=None if kind == "unpartitioned" else "part",
        table_type="MERGE_ON_READ" if kind == "merge-on-read" else "COPY_ON_WRITE",
        options={"hoodie.parquet.small.file.limit": "0", "hoodie.compact.inline": "false"},
    )
    for first in range(0, _ROWS, _ROWS // 3):
        table.insert(rows(range(first, first + _ROWS // 3)))
    table.upsert(rows(range(0, _ROWS, 5), shift=1))
    table.delete(list(range(5, _ROWS, 31)))
    assert any(s.log_files for s in table.file_slices()) == (kind == "merge-on-read")
    assert len(table.file_slices()) == 3 * (1 if kind == "unpartitioned" else _PARTS)
    return table
