"""Writes what the targets begin with into `fuzz/corpus`: log files of `tests/fixtures`, and what their blocks hold."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FUZZ = Path(__file__).parent
FIXTURES = FUZZ.parent / "tests" / "fixtures" / "logs"
HFILES = FUZZ.parent / "tests" / "fixtures" / "hfiles"
MAGIC = b"#HUDI#"
MOST = 10_000
"""Bytes of a log file: larger ones make for few runs, and have nothing that the others lack."""
TARGETS = {1: "delete_block", 3: "avro_block", 4: "hfile_block", 5: "parquet_block"}
"""By the number of the block's kind."""
HFILE_BLOCK = 4
HUDI_SCHEMA = 5
"""The number of the schema that the fixtures' blocks have, in `fuzz/schemas`."""


def blocks(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Gives the kind and the content of each block of a whole log file."""
    at = 0
    while data[at : at + 6] == MAGIC:
        (size,) = struct.unpack_from(">Q", data, at + 6)
        _, kind, entries = struct.unpack_from(">iii", data, at + 14)
        place = at + 26
        for _ in range(entries):
            (length,) = struct.unpack_from(">i", data, place + 4)
            place += 8 + length
        (length,) = struct.unpack_from(">Q", data, place)
        yield kind, data[place + 8 : place + 8 + length]
        at += 14 + size


def avro_records(*records: bytes) -> bytes:
    """Gives the content of an Avro data block."""
    parts = [struct.pack(">II", 3, len(records))]
    for record in records:
        parts += [struct.pack(">I", len(record)), record]
    return b"".join(parts)


def keep(target: str, data: bytes) -> None:
    """Writes a seed, by the name of what is in it."""
    folder = FUZZ / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)


def main() -> None:
    """Writes the seeds of all targets."""
    for path in sorted(FIXTURES.rglob("*.hudi_log")):
        data = path.read_bytes()
        if len(data) < MOST:
            keep("log_file", data)
        for kind, content in blocks(data):
            if target := TARGETS.get(kind):
                lead = bytes([HUDI_SCHEMA]) if target in {"avro_block", "hfile_block"} else b""
                keep(target, lead + content)
            if kind == HFILE_BLOCK:
                keep("hfile_file", content)
    for path in sorted(HFILES.glob("*.hfile")):
        data = path.read_bytes()
        if len(data) < MOST:
            keep("hfile_file", data)
    keep("hfile_write", b"\x03" + b"".join(bytes([3, 20]) + f"k{n:02d}".encode() + bytes(20) for n in range(20)))
    flat = avro_records(b"\x02k\x02\x08\x00\x0e\x02\x7f", b"\x00\x00\x02\x04\x80\x00")
    flat_too = avro_records(b"\x01" + b"\0" * 4 + b"\x00" + b"xyz" + b"\x02" + b"\0" * 9 + b"\x04\x02y")
    nested = avro_records(b"\x02k\x04\x02\x0e\x00\x00\x02\x02\x02a\x02b\x00\x06", b"\x00\x01\x02\x00\x00\x00\x00")
    union = avro_records(b"\x00\x08\x0a", b"\x02\x02s\x0b")
    keyed = avro_records(b"\x02\x02k\x00", b"\x00\x02\x00")
    for number, content in enumerate((flat, flat_too, nested, union, keyed)):
        keep("avro_block", bytes([number]) + content)
    rollback = b"\x021/-/-/-\0\x011/-/-/-\0\x002/1/0/-\0\x023"
    compaction = b"\x021\0\x022\0\x023/-/-/1,2\0\x034\0\x025/-/-/3,4"
    for headers in (rollback, compaction):
        keep("command_block", headers)


if __name__ == "__main__":
    main()
