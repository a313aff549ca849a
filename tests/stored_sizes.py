"""Sizes of files in the commits of a table, for tests that put another file in the place of one."""

from __future__ import annotations

from pathlib import Path


def zigzag(number: int) -> bytes:
    """Encode a long as Avro does."""
    left, out = number << 1, b""
    while left >= 0x80:
        out += bytes([left & 0x7F | 0x80])
        left >>= 7
    return out + bytes([left])


def say_size(folder: Path, old: int, new: int) -> None:
    """Let the commits of a table say that a file has another size."""
    changed = 0
    for file in (folder / ".hoodie" / "timeline").glob("*commit"):
        content = file.read_bytes()
        changed += content.count(zigzag(old))
        file.write_bytes(content.replace(zigzag(old), zigzag(new)))
    assert changed >= 1
