"""A hostile Parquet file of a few kilobytes neither ends the process nor takes much memory: it is a typed error."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from hoodoo import Table

_MOST = 256 << 20
"""What reading may take, beyond what the process took before."""
_READ = """
import resource, sys
import hoodoo

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
before = peak()
for path in sys.argv[1:]:
    for call in (
        lambda table: table.to_arrow(),
        lambda table: table.to_arrow(filters=[("id", "=", "x")]),
        lambda table: table.upsert({"id": ["x"], "ts": [2], "filling": [None]}),
        lambda table: table.verify(),
        lambda table: table.timeline.instants(history=True),
    ):
        try:
            call(hoodoo.Table(path))
        except hoodoo.CorruptFileError as error:
            print(path, str(error).splitlines()[0], file=sys.stderr)
print(peak() - before)
"""
_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
_PLAIN, _DELTA_LENGTHS, _DELTA, _DICTIONARY = 0, 6, 7, 8
_BYTE_ARRAY, _INT64 = 6, 2
_NONE, _SNAPPY, _LZ4_RAW = 0, 1, 7


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _number(value: int) -> bytes:
    return _varint(value << 1)


def _binary(value: bytes) -> bytes:
    return _varint(len(value)) + value


def _list(kind: int, values: Sequence[bytes]) -> bytes:
    return bytes([0xF0 | kind]) + _varint(len(values)) + b"".join(values)


def _struct(*fields: tuple[int, int, bytes]) -> bytes:
    out, last = b"", 0
    for number, kind, value in fields:
        out += bytes([(number - last) << 4 | kind]) + value
        last = number
    return out + b"\0"


def _group(name: bytes, children: int) -> bytes:
    return _struct((3, _I32, _number(1)), (4, _BINARY, _binary(name)), (5, _I32, _number(children)))


def _leaf(name: bytes, kind: int) -> bytes:
    return _struct((1, _I32, _number(kind)), (3, _I32, _number(0)), (4, _BINARY, _binary(name)))


def _footer(schema: Sequence[bytes], row_groups: Sequence[bytes] = ()) -> bytes:
    footer = _struct(
        (1, _I32, _number(1)),
        (2, _LIST, _list(_STRUCT, schema)),
        (3, _I64, _number(1)),
        (4, _LIST, _list(_STRUCT, row_groups)),
    )
    return footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _page(kind: int, uncompressed: int, body: bytes, header: tuple[int, bytes]) -> bytes:
    sizes = [(1, _I32, _number(kind)), (2, _I32, _number(uncompressed)), (3, _I32, _number(len(body)))]
    return _struct(*sizes, (header[0], _STRUCT, header[1])) + body


def _data_header(encoding: int) -> tuple[int, bytes]:
    return 5, _struct(*((n, _I32, _number(value)) for n, value in ((1, 1), (2, encoding), (3, 3), (4, 3))))


def _file(kind: int, codec: int, dictionary: bytes, data: bytes) -> bytes:
    """A file of one row in one column, `id` or `ts`."""
    pages = dictionary + data
    name = b"id" if kind == _BYTE_ARRAY else b"ts"
    chunk = _struct(
        (1, _I32, _number(kind)),
        (2, _LIST, _list(_I32, [_number(_DICTIONARY if dictionary else _PLAIN)])),
        (3, _LIST, _list(_BINARY, [_binary(name)])),
        (4, _I32, _number(codec)),
        (5, _I64, _number(1)),
        (6, _I64, _number(len(pages))),
        (7, _I64, _number(len(pages))),
        (9, _I64, _number(4 + len(dictionary))),
        *([(11, _I64, _number(4))] if dictionary else []),
    )
    column = _struct((2, _I64, _number(4)), (3, _STRUCT, chunk))
    group = _struct((1, _LIST, _list(_STRUCT, [column])), (2, _I64, _number(len(pages))), (3, _I64, _number(1)))
    return b"PAR1" + pages + _footer([_group(b"t", 1), _leaf(name, kind)], [group])


def _entries(kind: int) -> bytes:
    """A dictionary that announces two billion entries."""
    value = b"\x01\0\0\0x" if kind == _BYTE_ARRAY else bytes(8)
    header = 7, _struct((1, _I32, _number(0x7FFF_FFF0)), (2, _I32, _number(_PLAIN)))
    dictionary = _page(2, len(value), value, header)
    return _file(kind, _NONE, dictionary, _page(0, 3, b"\x01\x02\0", _data_header(_DICTIONARY)))


def _bytes(codec: int) -> bytes:
    """A page that announces 2 GiB."""
    return _file(_BYTE_ARRAY, codec, b"", _page(0, 0x7FFF_FFF0, b"\xf0\xff\xff\xff\x07\0" + bytes(90), _data_header(0)))


def _lengths(count: int) -> bytes:
    """Lengths that announce a count, of which the first is there."""
    return _varint(128) + _varint(4) + _varint(count) + _number(1)


def _delta(encoding: int, lengths: bytes) -> bytes:
    body = lengths + b"x"
    return _file(_BYTE_ARRAY, _NONE, b"", _page(0, len(body), body, _data_header(encoding)))


_FILES = {
    "depth": lambda: b"PAR1" + _footer([_group(b"g", 1)] * 20_000 + [_leaf(b"x", 1)]),
    "children": lambda: b"PAR1" + _footer([_group(b"t", 0x7FFF_FFF0), _leaf(b"x", 1)]),
    "strings": lambda: _entries(_BYTE_ARRAY),
    "numbers": lambda: _entries(_INT64),
    "snappy": lambda: _bytes(_SNAPPY),
    "lz4": lambda: _bytes(_LZ4_RAW),
    "lengths": lambda: _delta(_DELTA_LENGTHS, _lengths(1 << 40)),
    "prefixes": lambda: _delta(_DELTA, _lengths(1 << 32)),
    "suffixes": lambda: _delta(_DELTA, _lengths(1) + _lengths(1 << 60)),
}


def _read(*paths: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", _READ, *map(str, paths)], capture_output=True, text=True, check=False)


def test_a_file_that_is_made_here_is_read(tmp_path: Path) -> None:
    value = b"\x01\0\0\0x"
    header = 7, _struct((1, _I32, _number(1)), (2, _I32, _number(_PLAIN)))
    dictionary = _page(2, len(value), value, header)
    file = _file(_BYTE_ARRAY, _NONE, dictionary, _page(0, 3, b"\x01\x02\0", _data_header(_DICTIONARY)))
    table = Table(_table(tmp_path, file))
    assert table.to_arrow().column("id").to_pylist() == ["x"]


@pytest.mark.parametrize("encoding", [_DELTA_LENGTHS, _DELTA])
def test_delta_encoded_strings_are_read(tmp_path: Path, encoding: int) -> None:
    none_shared = _varint(128) + _varint(4) + _varint(1) + _number(0)
    lengths = _lengths(1) if encoding == _DELTA_LENGTHS else none_shared + _lengths(1)
    table = Table(_table(tmp_path, _delta(encoding, lengths)))
    assert table.to_arrow().column("id").to_pylist() == ["x"]


def test_hostile_base_files_are_refused(tmp_path: Path) -> None:
    paths = [_table(tmp_path / name, make()) for name, make in _FILES.items()]
    done = _read(*paths)
    assert done.returncode == 0, done.stderr
    for path in paths:
        assert str(path) in done.stderr
    assert int(done.stdout) < _MOST


@pytest.mark.parametrize("name", ["depth", "children"])
def test_hostile_files_of_the_history_are_refused(tmp_path: Path, name: str) -> None:
    table = _table(tmp_path, None)
    for ts in range(2, 6):
        Table(table, {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}).upsert(
            {"id": ["a"], "ts": [ts], "filling": [None]}
        )
    Table(table, {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}).archive()
    (file,) = (table / ".hoodie/timeline/history").glob("*.parquet")
    file.write_bytes(_FILES[name]())
    done = _read(table)
    assert done.returncode == 0, done.stderr
    assert file.name in done.stderr
    assert int(done.stdout) < _MOST


def _table(path: Path, base_file: bytes | None) -> Path:
    options = {"hoodie.metadata.enable": "false", "hoodoo.storage.sync": "false", "hoodie.clean.automatic": "false"}
    schema = pa.schema({"id": pa.string(), "ts": pa.int64(), "filling": pa.string()})
    table = Table.create(str(path), schema, name="t", record_key="id", ordering="ts", options=options)
    table.insert({"id": ["x"], "ts": [1], "filling": [random.Random(1).randbytes(200_000).hex()]})
    if base_file is not None:
        (file,) = path.glob("*.parquet")
        # The commit knows the size of the file.
        length = 8 + int.from_bytes(base_file[-8:-4], "little")
        filling = bytes(file.stat().st_size - len(base_file))
        file.write_bytes(base_file[:-length] + filling + base_file[-length:])
    return path
