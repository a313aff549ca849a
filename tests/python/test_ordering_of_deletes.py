"""Deletes in log files whose ordering values are null in part, or of a type of before."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Table

NO_SERVICES = {"hoodie.compact.inline": "false"}


def schema(kind: pa.DataType) -> pa.Schema:
    return pa.schema({"id": pa.string(), "ts": pa.int64(), "seq": kind, "_hoodie_is_deleted": pa.bool_()})


def rows(kind: pa.DataType, *given: tuple[str, int, Any, bool]) -> pa.Table:
    names = schema(kind).names
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in given], schema(kind))


def ids(table: Table) -> list[str]:
    return sorted(table.to_arrow(columns=["id"])["id"].to_pylist())


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int32(), 1),
        (pa.int64(), 1),
        (pa.float64(), 1.0),
        (pa.string(), "a"),
        (pa.bool_(), True),
        (pa.date32(), dt.date(2024, 1, 1)),
        (pa.timestamp("us", "UTC"), dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)),
        (pa.decimal128(10, 2), Decimal("1.50")),
        (pa.binary(), b"a"),
    ],
    ids=str,
)
def test_a_delete_with_a_null_among_its_ordering_values_wins(
    tmp_path: Path, table_type: str, kind: pa.DataType, value: Any
) -> None:
    uri, ordering = tmp_path / "t", ["ts", "seq"]
    table = Table.create(
        uri, schema(kind), name="t", record_key="id", ordering=ordering, table_type=table_type, options=NO_SERVICES
    )
    table.insert(rows(kind, ("a", 1, value, False), ("b", 1, value, False), ("c", 3, value, False)))
    table.upsert(rows(kind, ("a", 2, None, True), ("b", 2, value, True)))
    assert ids(table) == ["c"]
    assert table.verify().ok
    table.upsert(rows(kind, ("a", 3, value, False)))
    assert ids(table) == ["a", "c"]
    if table_type == "MERGE_ON_READ":
        table.compact()
        assert ids(table) == ["a", "c"]


@pytest.mark.filterwarnings("ignore:the write changed the table's schema")
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    ("kind", "old", "wide", "new"),
    [
        (pa.int32(), 5, pa.int64(), 2**40),
        (pa.int32(), 5, pa.float64(), 6.5),
        (pa.int32(), 5, pa.float32(), 6.5),
        (pa.int64(), 5, pa.float64(), 6.5),
        (pa.float32(), 0.1, pa.float64(), 1e300),
        (pa.int64(), 5, pa.string(), "x"),
        (pa.decimal128(9, 2), Decimal("5.00"), pa.decimal128(12, 2), Decimal("1234567890.12")),
    ],
    ids=str,
)
def test_deletes_from_before_their_ordering_column_became_wider(
    tmp_path: Path, several: bool, kind: pa.DataType, old: Any, wide: pa.DataType, new: Any
) -> None:
    ordering = ["seq", "ts"] if several else ["seq"]
    table = Table.create(
        tmp_path / "t", schema(kind), name="t", record_key="id", ordering=ordering, table_type="MERGE_ON_READ",
        options=NO_SERVICES,
    )  # fmt: skip
    table.insert(rows(kind, ("a", 1, old, False), ("b", 1, old, False), ("c", 1, old, False)))
    table.upsert(rows(kind, ("a", 1, old, True)))
    table.upsert(rows(wide, ("b", 1, new, False)), schema_evolution="allow")
    assert table.schema.field("seq").type == wide
    assert ids(table) == ["b", "c"]
    table.compact()
    assert ids(table) == ["b", "c"]
    assert hoodoo.Table(table.uri).verify().ok
