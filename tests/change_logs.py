"""Change data logs taken apart without hoodoo: the schema of their blocks, and their records."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CDC = 6
_INSTANT, _SCHEMA = 0, 2


@dataclass(frozen=True)
class Block:
    """One block: its number of a kind, the entries of its header, its records."""

    kind: int
    header: dict[int, str]
    records: list[dict[str, Any]]

    @property
    def schema(self) -> str:
        """The Avro schema of the records."""
        return self.header[_SCHEMA]

    @property
    def instant(self) -> str:
        """Requested time of the commit."""
        return self.header[_INSTANT]


def change_logs(table: Path | str) -> list[Path]:
    """Finds the change data logs of a table, by name."""
    return sorted(path for path in Path(table).rglob("*.cdc") if ".hoodie" not in path.parts)


def blocks(path: Path) -> list[Block]:
    """Reads a file block by block."""
    log, at, found = path.read_bytes(), 0, []
    while at < len(log):
        assert log[at : at + 6] == b"#HUDI#"
        (size,) = struct.unpack_from(">q", log, at + 6)
        _, kind, count = struct.unpack_from(">iii", log, at + 14)
        here, header = at + 26, {}
        for _ in range(count):
            key, length = struct.unpack_from(">ii", log, here)
            header[key] = log[here + 8 : here + 8 + length].decode()
            here += 8 + length
        (length,) = struct.unpack_from(">q", log, here)
        found.append(Block(kind, header, _records(log[here + 8 : here + 8 + length], header[_SCHEMA])))
        at += size + 14
    assert {block.kind for block in found} == {_CDC}
    return found


def records(path: Path) -> list[dict[str, Any]]:
    """Reads the records of a file, in an order that does not depend on who wrote them."""
    read = [{**record, "ts_ms": None} for block in blocks(path) for record in block.records]
    return sorted(read, key=repr)


def _records(content: bytes, schema: str) -> list[dict[str, Any]]:
    version, count = struct.unpack_from(">ii", content, 0)
    assert version == 3
    at, found, parsed = 8, [], json.loads(schema)
    for _ in range(count):
        (length,) = struct.unpack_from(">i", content, at)
        datum = _Datum(content[at + 4 : at + 4 + length])
        found.append(datum.read(parsed))
        assert datum.at == length
        at += 4 + length
    return found


class _Datum:
    """Decodes one datum of the types that the tests use."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.named: dict[str, Any] = {}

    def _long(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)

    def _bytes(self, length: int) -> bytes:
        self.at += length
        return self.data[self.at - length : self.at]

    def _name(self, schema: Any) -> None:
        if isinstance(schema, dict) and "name" in schema:
            self.named[schema["name"]] = schema
        inner = schema if isinstance(schema, list) else schema.get("fields", []) if isinstance(schema, dict) else []
        for item in inner:
            self._name(item["type"] if isinstance(item, dict) and "default" in item else item)

    def read(self, schema: Any) -> Any:
        self._name(schema)
        return self._value(schema)

    def _value(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return self._value(schema[self._long()])
        if isinstance(schema, dict) and schema["type"] == "record":
            return {field["name"]: self._value(field["type"]) for field in schema["fields"]}
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind in self.named:
            return self._value(self.named[kind])
        simple: dict[str, Callable[[], Any]] = {
            "null": lambda: None,
            "string": lambda: self._bytes(self._long()).decode(),
        }
        simple |= {"int": self._long, "long": self._long, "double": lambda: struct.unpack("<d", self._bytes(8))[0]}
        return simple[kind]()
