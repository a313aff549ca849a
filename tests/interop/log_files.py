"""The frame of a log block: reading an entry of its header, putting another content into it."""

from __future__ import annotations

import struct


def header(log: bytes, key: int) -> str:
    """Gives an entry of the header of the first block."""
    at = 26
    for _ in range(struct.unpack_from(">i", log, 22)[0]):
        number, length = struct.unpack_from(">ii", log, at)
        if number == key:
            return log[at + 8 : at + 8 + length].decode()
        at += 8 + length
    raise AssertionError(key)


def with_content(log: bytes, content: bytes) -> bytes:
    """Gives the first block with another content."""
    at = 26
    for _ in range(struct.unpack_from(">i", log, 22)[0]):
        at += 8 + struct.unpack_from(">i", log, at + 4)[0]
    inside = log[14:at] + struct.pack(">q", len(content)) + content + struct.pack(">i", 0)
    size = len(inside) + 8
    return b"#HUDI#" + struct.pack(">q", size) + inside + struct.pack(">q", size + 6)
