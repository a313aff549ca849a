"""Every Arrow type that Hudi can hold goes through real Hudi and back; the others are refused by name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from tests.interop.hudi import Hudi
from tests.rows import arrow_rows

_UTC = dt.timezone.utc
_NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 123456)  # noqa: DTZ001  # local timestamps have no zone
_OLD = dt.datetime(1960, 1, 1, 0, 0, 0, 1000)  # noqa: DTZ001
_POINT = pa.struct([("x", pa.float64()), ("label", pa.string())])

HELD: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "int8": (pa.int8(), [-128, 127]),
    "int16": (pa.int16(), [-32768, 32767]),
    "int32": (pa.int32(), [-(2**31), 2**31 - 1]),
    "int64": (pa.int64(), [-(2**63), 2**63 - 1]),
    "float32": (pa.float32(), [1.5, float("inf")]),
    "float64": (pa.float64(), [0.1, float("nan")]),
    "string": (pa.string(), ["", "grüß \U0001f600"]),
    "large_string": (pa.large_string(), ["a", "b"]),
    "binary": (pa.binary(), [b"", b"\x00\xff"]),
    "large_binary": (pa.large_binary(), [b"a", b"b"]),
    "fixed": (pa.binary(4), [b"\x00\x01\x02\x03", b"abcd"]),
    "decimal_9": (pa.decimal128(9, 2), [Decimal("1234567.89"), Decimal("-0.01")]),
    "decimal_18": (pa.decimal128(18, 0), [Decimal(10**17), Decimal(-1)]),
    "decimal_38": (pa.decimal128(38, 10), [Decimal("1234567890123456789012345678.0123456789"), Decimal(-1)]),
    "date": (pa.date32(), [dt.date(2024, 2, 29), dt.date(1950, 1, 1)]),
    "timestamp_us": (pa.timestamp("us", "UTC"), [_NOON.replace(tzinfo=_UTC), _OLD.replace(tzinfo=_UTC)]),
    "timestamp_ms": (pa.timestamp("ms", "UTC"), [dt.datetime(2024, 1, 1, 1, 2, 3, 4000, _UTC)] * 2),
    "local_us": (pa.timestamp("us"), [_NOON, _OLD]),
    "local_ms": (pa.timestamp("ms"), [dt.datetime(2024, 1, 1, 1, 2, 3, 4000)] * 2),  # noqa: DTZ001
    "list": (pa.list_(pa.int32()), [[1, 2, 3], []]),
    "list_of_decimals": (pa.list_(pa.decimal128(20, 3)), [[Decimal("1.5")], [Decimal("2.25"), Decimal(0)]]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", 2)], []]),
    "map_of_structs": (pa.map_(pa.string(), _POINT), [[("k", {"x": 1.0, "label": None})], []]),
    "struct": (_POINT, [{"x": 1.0, "label": "one"}, {"x": None, "label": None}]),
    "deep": (
        pa.list_(pa.struct([("points", pa.list_(_POINT)), ("tags", pa.map_(pa.string(), pa.list_(pa.int32())))])),
        [[{"points": [{"x": 2.0, "label": "b"}], "tags": [("t", [1])]}], []],
    ),
}

REFUSED: dict[str, pa.DataType] = {
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "time32": pa.time32("s"),
    "time64": pa.time64("us"),
    "duration": pa.duration("s"),
    "interval": pa.month_day_nano_interval(),
    "decimal256": pa.decimal256(60, 2),
    "union": pa.dense_union([pa.field("a", pa.int32()), pa.field("b", pa.string())]),
}

OPTIONS = {
    "hoodie.table.name": "types",
    "hoodie.metadata.enable": "false",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.table.ordering.fields": "ts",
}


# Spark has no such types, so its rows differ from the table's schema: Hudi takes them when told to reconcile the two.
UNKNOWN_TO_SPARK = ("fixed", "local_ms", "timestamp_ms")


def _table(names: tuple[str, ...], order: list[int | None], ts: int) -> pa.Table:
    """A row for each position of a value; `None` is a row of nulls."""
    columns = {"id": pa.array([f"k{n}" for n in range(len(order))]), "ts": pa.array([ts] * len(order), pa.int64())}
    for name in names:
        kind, values = HELD[name]
        columns[f"value_{name}"] = pa.array([None if n is None else values[n] for n in order], kind)
    return pa.table(columns)


_KNOWN_TO_SPARK = tuple(n for n in sorted(HELD) if n not in UNKNOWN_TO_SPARK)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(_KNOWN_TO_SPARK, id="known to Spark"),
        pytest.param(UNKNOWN_TO_SPARK, id="unknown to Spark"),
        *(pytest.param((n,), id=n, marks=pytest.mark.slow) for n in sorted(HELD)),
    ],
)
def test_types_round_trip(hudi: Hudi, tmp_path: Path, names: tuple[str, ...]) -> None:
    """We write them and Hudi reads them; Hudi rewrites the file and we read it: values and types stay."""
    uri = str(tmp_path / "table")
    ours = _table(names, [0, 1, None], 1)
    hoodoo.write(ours, uri, operation="insert", options=OPTIONS)
    expected = arrow_rows(ours)
    table = hoodoo.Table(uri, options=OPTIONS)
    assert arrow_rows(table.to_arrow()) == expected
    assert hudi.read(uri) == expected

    changed = _table(names, [1, 0], 2)
    reconcile = {"hoodie.datasource.write.reconcile.schema": str(not {*names}.isdisjoint(UNKNOWN_TO_SPARK)).lower()}
    hudi.write(changed.slice(0, 1), uri, "upsert", **OPTIONS, **reconcile)
    expected = sorted([*arrow_rows(changed.slice(0, 1)), *expected[1:]], key=lambda r: r["id"])
    table = hoodoo.Table(uri, options=OPTIONS)
    assert arrow_rows(table.to_arrow()) == expected
    table.upsert(_table(names, [0], 3))
    expected[0] = arrow_rows(_table(names, [0], 3))[0]
    assert hudi.read(uri) == expected
    assert arrow_rows(hoodoo.Table(uri, options=OPTIONS).to_arrow()) == expected


def test_a_table_by_hudi_has_the_same_types_in_arrow(hudi: Hudi, tmp_path: Path) -> None:
    """All types in one table that Hudi made, by its Avro writer and by its row writer."""
    # Hudi's row writer refuses bytes ("Unsupported type: ByteType"), and Hudi cannot read the shorts that it wrote.
    names = [n for n in sorted(HELD) if n not in ("int8", "int16")]
    columns = {"id": pa.array(["a", "b"]), "ts": pa.array([1, 2], pa.int64())}
    columns.update({n: pa.array(HELD[n][1], HELD[n][0]) for n in names})
    source = pa.table(columns)
    read = []
    for operation in ("insert", "bulk_insert"):
        uri = str(tmp_path / operation)
        hudi.write(source, uri, operation, **OPTIONS)
        table = hoodoo.Table(uri, options=OPTIONS).to_arrow()
        assert arrow_rows(table) == hudi.read(uri) == arrow_rows(source)
        read.append(table.select(source.column_names).schema.remove_metadata())
    assert [f.type for f in read[0]] == [f.type for f in read[1]]


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_type_is_refused_by_name(tmp_path: Path, name: str) -> None:
    """The error names the column; nothing is created."""
    uri = tmp_path / "table"
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("odd_column", REFUSED[name])])
    with pytest.raises((hoodoo.UnsupportedError, hoodoo.SchemaError), match="odd_column"):
        hoodoo.Table.create(str(uri), schema, name="types", record_key="id", ordering=["ts"])
    assert not (uri / ".hoodie" / "hoodie.properties").exists()


@pytest.mark.parametrize("name", ["uint64", "time64", "duration"])
def test_refused_type_inside_a_struct(tmp_path: Path, name: str) -> None:
    schema = pa.schema([("id", pa.string()), ("outer", pa.list_(pa.struct([("odd_column", REFUSED[name])])))])
    with pytest.raises((hoodoo.UnsupportedError, hoodoo.SchemaError), match="odd_column"):
        hoodoo.Table.create(str(tmp_path / "table"), schema, name="types", record_key="id")
