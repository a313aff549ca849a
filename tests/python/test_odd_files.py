"""Base and log files with what other writers leave in them: bounds that are none, enumerations, structs of maps."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodoo import Table
from tests.stored_sizes import say_size, zigzag

_ALONE = {"hoodie.metadata.enable": "false", "hoodie.compact.inline": "false"}


def _base_file(folder: Path) -> Path:
    (found,) = folder.glob("*.parquet")
    return found


@pytest.mark.parametrize("column_statistics", [False, True])
def test_bounds_that_are_nan_are_unknown(tmp_path: Path, *, column_statistics: bool) -> None:
    # Some writers that meet NaN first leave it as minimum and maximum.
    folder, count = tmp_path / "t", 500
    values = [float("nan"), *(1000.125 + n for n in range(count - 1))]
    options = {**_ALONE, "hoodie.parquet.compression.codec": "UNCOMPRESSED"}
    table = Table.create(folder, {"id": pa.string(), "x": pa.float64()}, name="t", record_key="id", options=options)
    table.bulk_insert({"id": [f"k{n:05}" for n in range(count)], "x": values})
    base = _base_file(folder)
    size, file = base.stat().st_size, pq.ParquetFile(base)
    rows, kept = file.read(), {k: v for k, v in (file.metadata.metadata or {}).items() if k != b"ARROW:schema"}
    with pq.ParquetWriter(base, rows.schema, store_schema=False, use_dictionary=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(kept)
    content = bytearray(base.read_bytes())
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    bounds = [struct.pack("<d", value) for value in (values[1], values[-1])]
    patched = bytes(content[footer:])
    assert all(bound in patched for bound in bounds)
    for bound in bounds:
        patched = patched.replace(bound, struct.pack("<d", float("nan")))
    base.write_bytes(bytes(content[:footer]) + patched)
    say_size(folder, size, base.stat().st_size)
    table = Table(folder, options)
    if column_statistics:
        table = Table(folder, {"hoodie.metadata.enable": "true"})
        table.index("column_stats", ["x"])
    for comparison, value, expected in [
        ("<", 1010.0, 10),
        ("=", 1001.125, 1),
        ("<=", 1e9, count - 1),
        ("in", [1001.125], 1),
        (">", 1.0, count),
        ("!=", 5.0, count),
    ]:
        assert table.to_arrow(columns=["id"], filters=[("x", comparison, value)]).num_rows == expected


def test_bytes_that_are_strings_by_now_are_found(tmp_path: Path) -> None:
    # Bounds of bytes are cut anywhere, also within a letter.
    options = {**_ALONE, "hoodie.parquet.page.size": "4096", "hoodie.parquet.dictionary.enabled": "false"}
    values = ["x" + "ä" * 60 + f"{n:05}" for n in range(3000)]
    files = []
    for data_type in (pa.binary(), pa.string()):
        folder = tmp_path / str(data_type)
        table = Table.create(folder, {"id": pa.string(), "s": data_type}, name="t", record_key="id", options=options)
        given: list[Any] = values if data_type == pa.string() else [value.encode() for value in values]
        table.bulk_insert(pa.table({"id": [f"k{n:05}" for n in range(3000)], "s": pa.array(given, data_type)}))
        files.append(_base_file(folder))
    of_bytes, of_strings = files
    say_size(of_strings.parent, of_strings.stat().st_size, of_bytes.stat().st_size)
    of_strings.write_bytes(of_bytes.read_bytes())
    middle = values[1500]
    for comparison, value, expected in [
        ("=", middle, 1),
        ("<=", middle, 1501),
        ("<", middle, 1500),
        (">=", middle, 1500),
        ("in", [values[1], values[2]], 2),
    ]:
        rows = table.to_arrow(columns=["id", "s"], filters=[("s", comparison, value)])
        assert rows.num_rows == expected


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(
    "first", [pa.map_(pa.string(), pa.int32()), pa.list_(pa.map_(pa.string(), pa.int32()))], ids=["map", "list of maps"]
)
def test_a_struct_of_which_only_a_map_is_stored(tmp_path: Path, table_type: str, first: pa.DataType) -> None:
    old = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("st", pa.struct([("m", first)]))])
    table = Table.create(
        tmp_path / "t", old, name="t", record_key="id", ordering="ts", table_type=table_type, options=_ALONE
    )
    pairs = [("k", 1)]
    value = {"m": pairs if pa.types.is_map(first) else [pairs]}
    rows = [{"id": "a", "ts": 1, "st": value}, {"id": "b", "ts": 1, "st": None}]
    table.insert(pa.Table.from_pylist(rows, schema=old))
    with table.update_schema() as update:
        update.add_column("st.y", pa.int32())
        update.drop_column("st.m")
    columns = ["id", "st"]
    assert table.to_arrow(columns=columns).to_pylist() == [{"id": "a", "st": {"y": None}}, {"id": "b", "st": None}]
    new = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("st", pa.struct([("y", pa.int32())]))])
    table.upsert(pa.Table.from_pylist([{"id": "a", "ts": 2, "st": {"y": 1}}], schema=new))
    if table_type == "MERGE_ON_READ":
        table.compact()
    table.cluster()
    assert table.to_arrow(columns=columns).to_pylist() == [{"id": "a", "st": {"y": 1}}, {"id": "b", "st": None}]
    assert table.verify().ok


_ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
_NULLABLE: list[Any] = ["null", _ENUM]
_RECORD = {"type": "record", "name": "R", "fields": [{"name": "e", "type": _NULLABLE, "default": None}]}
_NESTED: dict[str, tuple[pa.DataType, Any, Any, Any, bytes]] = {
    "alone": (pa.string(), "A", "B", _NULLABLE, b"\x02\x02"),
    "struct": (pa.struct([("e", pa.string())]), {"e": "A"}, {"e": "B"}, ["null", _RECORD], b"\x02\x02\x02"),
    "list": (
        pa.list_(pa.string()),
        ["A"],
        ["B"],
        ["null", {"type": "array", "items": _NULLABLE}],
        b"\x02\x02\x02\x02\0",
    ),
    "map": (
        pa.map_(pa.string(), pa.string()),
        [("k", "A")],
        [("k", "B")],
        ["null", {"type": "map", "values": _NULLABLE}],
        b"\x02\x02\x02k\x02\x02\0",
    ),
}


@pytest.mark.parametrize("place", _NESTED)
def test_enumerations_in_log_files(tmp_path: Path, place: str) -> None:
    data_type, before, after, avro, encoded = _NESTED[place]
    folder = tmp_path / "t"
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("c", data_type)])
    table = Table.create(
        folder, schema, name="t", record_key="id", ordering="ts", table_type="MERGE_ON_READ", options=_ALONE
    )
    table.insert(pa.Table.from_pylist([{"id": "a", "ts": 1, "c": before}], schema=schema))
    table.upsert(pa.Table.from_pylist([{"id": "a", "ts": 2, "c": before}], schema=schema))
    (log,) = (file for file in folder.glob(".*.log.*") if not file.name.endswith(".crc"))
    old = log.read_bytes()
    headers, at = [], 26
    for _ in range(struct.unpack_from(">i", old, 22)[0]):
        kind, length = struct.unpack_from(">ii", old, at)
        headers.append((kind, old[at + 8 : at + 8 + length]))
        at += 8 + length
    instant = log.name.split("_")[1].split(".")[0]
    strings = {"_hoodie_commit_time": instant, "_hoodie_record_key": "a", "id": "a"}
    record, written = b"", []
    for kind, content in headers:
        known = json.loads(content) if content.startswith(b"{") else {}
        if known.get("type") != "record":
            written.append((kind, content))
            continue
        for field in known["fields"]:
            if field["name"] == "c":
                field["type"] = avro
                record += encoded
            elif field["name"] == "ts":
                record += b"\x02" + zigzag(5)
            else:
                string = strings.get(field["name"], "").encode()
                record += b"\x02" + zigzag(len(string)) + string
        written.append((kind, json.dumps(known).encode()))
    block = struct.pack(">iii", 3, 1, len(record)) + record
    header = struct.pack(">i", len(written)) + b"".join(struct.pack(">ii", k, len(c)) + c for k, c in written)
    inside = old[14:22] + header + struct.pack(">q", len(block)) + block + struct.pack(">i", 0)
    log.write_bytes(b"#HUDI#" + struct.pack(">q", len(inside) + 8) + inside + struct.pack(">q", len(inside) + 14))
    say_size(folder, len(old), log.stat().st_size)
    table = Table(folder, _ALONE)
    expected = [{"id": "a", "ts": 5, "c": after}]
    assert table.to_arrow(columns=schema.names).to_pylist() == expected
    table.compact()
    assert table.to_arrow(columns=schema.names).to_pylist() == expected
