"""A hostile file of metadata, of 4 MB at most, is refused before it takes much memory."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from hoodoo import Table

_MOST = 192 << 20
"""What reading may take, beyond what the process took before."""
_READ = """
import resource, sys
import hoodoo

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

# What takes more than all that ends here, and not with the machine.
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
before, errors = peak(), []
for call in (
    lambda table: table.to_arrow(),
    lambda table: table.timeline.metadata(table.timeline.instants()[-1]),
):
    try:
        call(hoodoo.Table(sys.argv[1]))
    except hoodoo.CorruptFileError as error:
        errors.append(str(error))
assert errors, "nothing was refused"
print(peak() - before)
"""
_SYNC = b"0123456789abcdef"


def _long(number: int) -> bytes:
    number = number << 1 ^ number >> 63
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _container(schema: bytes, codec: bytes, block: bytes) -> bytes:
    entries = [b"avro.schema", schema, b"avro.codec", codec]
    header = b"Obj\x01" + _long(2) + b"".join(_long(len(text)) + text for text in entries) + _long(0) + _SYNC
    return header + _long(1) + _long(len(block)) + block + _SYNC


def _commit(item: object) -> bytes:
    """The schema of a commit with write stats of this type."""
    stats = {"type": "map", "values": {"type": "array", "items": item}}
    fields = [{"name": "partitionToWriteStats", "type": stats}]
    return json.dumps({"type": "record", "name": "HoodieCommitMetadata", "fields": fields}).encode()


def _record(*fields: object) -> dict[str, object]:
    named = [{"name": f"f{n}", "type": field} for n, field in enumerate(fields)]
    return {"type": "record", "name": "HoodieWriteStat", "fields": named}


def _items(count: int, item: bytes) -> bytes:
    items = item * count if item else b""
    return _long(1) + _long(1) + b"p" + _long(count) + items + _long(0) + _long(0)


def _deflate_bomb() -> bytes:
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    chunk = pack.compress(bytes(1 << 20)) + pack.flush(zlib.Z_FULL_FLUSH)
    return _container(_commit(_record("boolean")), b"deflate", chunk * ((4 << 20) // len(chunk)) + b"\x03\x00")


def _small_records() -> bytes:
    return _container(_commit(_record("boolean")), b"null", _items(4_000_000, b"\0"))


def _null_records() -> bytes:
    return _container(_commit(["null", _record("boolean")]), b"null", _items(4_000_000, b"\0"))


def _empty_records() -> bytes:
    return _container(_commit(_record()), b"null", _items(1 << 40, b""))


def _json_records() -> bytes:
    return b'{"partitionToWriteStats":{"p":[' + b"{}," * 1_390_000 + b"{}]}}"


def _large_schema() -> bytes:
    return _container(b"[" + b'{"":0},' * 590_000 + b"0]", b"null", b"\0")


def _deep_schema() -> bytes:
    return _container(b'{"type":' * 400_000 + b'"int"' + b"}" * 400_000, b"null", b"\0")


@pytest.mark.parametrize(
    "make",
    [_deflate_bomb, _small_records, _null_records, _empty_records, _json_records, _large_schema, _deep_schema],
)
def test_a_hostile_commit_takes_little_memory(tmp_path: Path, make: Callable[[], bytes]) -> None:
    rows = pa.table({"id": ["a"], "ts": pa.array([1], pa.int64())})
    table = Table.create(str(tmp_path), rows.schema, name="t", record_key="id", ordering="ts")
    table.insert(rows)
    (commit,) = (tmp_path / ".hoodie/timeline").glob("*_*.commit")
    hostile = make()
    assert len(hostile) <= 4.3 * (1 << 20)
    commit.write_bytes(hostile)
    done = subprocess.run([sys.executable, "-c", _READ, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < _MOST
