"""HFiles: real Hudi reads what the crate `hoodoo-hfile` writes, and the crate reads what real Hudi writes."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.interop.hudi import Hudi

_ROOT = Path(__file__).resolve().parents[2]
_CREATED = 1_700_000_000_000
_FOUND, _IN_RANGE, _END = 0, 1, 2
"""What Hudi's reader answers to a seek."""

Entries = list[tuple[bytes, bytes]]
Tool = Callable[..., str]


@pytest.fixture(scope="module")
def tool() -> Tool:
    """Gives the command line of the crate, `rust/hfile/examples/hfile.rs`."""
    cargo = shutil.which("cargo")
    if cargo is None:
        if os.environ.get("HOODOO_REQUIRE_INTEROP") == "1":
            pytest.fail("HOODOO_REQUIRE_INTEROP=1, but there is no cargo")
        pytest.skip("there is no cargo")
    # Of the whole workspace: for one package, cargo would compile the dependencies again, with fewer features.
    build = [cargo, "build", "--release", "--locked", "--workspace", "--example", "hfile", "--quiet"]
    built = subprocess.run(
        [*build, "--message-format=json-render-diagnostics"], cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    messages = [json.loads(line) for line in built.stdout.splitlines()]
    (program,) = [message["executable"] for message in messages if message.get("executable")]

    def run(*arguments: str, lines: Iterable[str] = ()) -> str:
        text = "".join(f"{line}\n" for line in lines)
        return subprocess.run([program, *arguments], check=True, input=text, stdout=subprocess.PIPE, text=True).stdout

    return run


@dataclass
class _File:
    """What an HFile holds."""

    entries: Entries
    info: dict[str, bytes] = field(default_factory=dict)
    meta: dict[str, bytes] = field(default_factory=dict)


def _write(tool: Tool, path: Path, file: _File, codec: str, block: int) -> None:
    lines = [f"entry {key.hex()} {value.hex()}" for key, value in file.entries]
    lines += [f"info {name} {value.hex()}" for name, value in file.info.items()]
    lines += [f"meta {name} {value.hex()}" for name, value in file.meta.items()]
    tool("write", str(path), codec, str(block), str(_CREATED), lines=lines)


def _entries(lines: str) -> Entries:
    pairs = [line.split(" ") for line in lines.splitlines()]
    return [(bytes.fromhex(key), bytes.fromhex(value)) for key, value in pairs]


class _HudiFiles:
    """Hudi's own reader and writer."""

    def __init__(self, hudi: Hudi) -> None:
        self._jvm = hudi.spark._jvm
        self._hfile = self._jvm.org.apache.hudi.io.hfile
        self._codecs = self._jvm.org.apache.hudi.io.compress.CompressionCodec

    def write(self, path: Path, file: _File, codec: str, block: int) -> None:
        """Writes an HFile."""
        context = self._hfile.HFileContext.builder().blockSize(block).fileCreationTime(_CREATED)
        context = context.compressionCodec(getattr(self._codecs, codec.upper())).build()
        writer = self._hfile.HFileWriterImpl(context, self._jvm.java.io.FileOutputStream(str(path)))
        for key, value in file.entries:
            writer.append(key.decode(), value)
        for name, value in file.info.items():
            writer.appendFileInfo(name, value)
        for name, value in file.meta.items():
            writer.appendMetaInfo(name, value)
        writer.close()

    def open(self, path: Path) -> Any:
        """Opens a reader, before the first entry."""
        io = self._jvm.org.apache.hudi.io
        content = path.read_bytes()
        stream = io.ByteArraySeekableDataInputStream(io.ByteBufferBackedInputStream(content))
        reader = self._hfile.HFileReaderImpl(stream, len(content))
        reader.initializeMetadata()
        return reader

    def read(self, path: Path) -> Entries:
        """Reads all entries."""
        reader = self.open(path)
        more, found = reader.seekTo(), []
        while more:
            found.append(self.entry(reader))
            more = reader.next()
        assert len(found) == reader.getNumKeyValueEntries()
        return found

    def entry(self, reader: Any) -> tuple[bytes, bytes]:
        """Gives the entry at which a reader stands."""
        pair = reader.getKeyValue().get()
        block = bytes(pair.getBytes())
        key, value = pair.getKeyContentOffset(), pair.getValueOffset()
        return block[key : key + pair.getKeyContentLength()], block[value : value + pair.getValueLength()]

    def keys(self, path: Path) -> list[str]:
        """Reads all keys."""
        reader = self.open(path)
        more, found = reader.seekTo(), []
        while more:
            found.append(reader.getKeyValue().get().getKey().getContentInString())
            more = reader.next()
        return found

    def key(self, key: bytes) -> Any:
        """Gives what a reader looks up."""
        return self._hfile.UTF8StringKey(key.decode())


@pytest.fixture
def hudi_files(hudi: Hudi) -> _HudiFiles:
    """Gives Hudi's reader and writer."""
    return _HudiFiles(hudi)


def _some(count: int, seed: int) -> _File:
    """Entries with short, long and non-ASCII keys, and all that a base file of the metadata table has."""
    chosen = random.Random(seed)
    keys = {f"key-{n:06d}".encode() for n in range(0, 3 * count, 3)}
    keys |= {("k" * length).encode() for length in (1, 124, 125, 126, 127, 128, 253, 254, 255, 256, 3000)}
    keys |= {"é".encode(), "\ue000".encode(), "\U00010000 beyond Java's char".encode(), b"."}
    entries = [(key, chosen.randbytes(chosen.choice([0, 1, 20, 300]))) for key in sorted(keys)]
    info = {"schema": '{"type": "record", "name": "é"}'.encode(), "minRecordKey": b"a", "maxRecordKey": b"z" * 300}
    return _File(entries, info, {"bloomFilter": chosen.randbytes(5000).hex().encode()})


@pytest.mark.parametrize("codec", ["gzip", "none"])
@pytest.mark.parametrize("block", [1, 4096, 1 << 20])
def test_hudi_reads_what_is_written(tool: Tool, hudi_files: _HudiFiles, tmp_path: Path, codec: str, block: int) -> None:
    path, file = tmp_path / "ours.hfile", _some(30 if block == 1 << 20 else 300, block)
    _write(tool, path, file, codec, block)
    assert hudi_files.read(path) == file.entries
    reader = hudi_files.open(path)
    for name, value in {**file.info, "hfile.CREATE_TIME_TS": _CREATED.to_bytes(8, "big")}.items():
        assert bytes(reader.getMetaInfo(hudi_files.key(name.encode())).get()) == value
    assert not reader.getMetaInfo(hudi_files.key(b"no such name")).isPresent()
    for name, value in file.meta.items():
        content = reader.getMetaBlock(name).get()
        start = content.arrayOffset() + content.position()
        assert bytes(content.array())[start : start + content.remaining()] == value
    assert not reader.getMetaBlock("no such name").isPresent()
    # Seeks go forward.
    assert reader.seekTo()
    for key, value in file.entries[::7]:
        assert reader.seekTo(hudi_files.key(key)) == _FOUND
        assert hudi_files.entry(reader) == (key, value)
        assert reader.seekTo(hudi_files.key(key + b"!")) != _FOUND
    assert reader.seekTo(hudi_files.key("\U0010ffff".encode())) == _END


def test_hudi_reads_many_blocks(tool: Tool, hudi_files: _HudiFiles, tmp_path: Path) -> None:
    path = tmp_path / "ours.hfile"
    file = _File([(f"{n:07d}".encode(), f"value {n}".encode() * 20) for n in range(20_000)])
    _write(tool, path, file, "gzip", 1 << 20)
    reader = hudi_files.open(path)
    assert reader.getNumKeyValueEntries() == len(file.entries)
    assert reader.seekTo()
    for key, _ in file.entries[5::997]:
        assert reader.seekTo(hudi_files.key(key)) == _FOUND
        assert reader.getKeyValue().get().getKey().getContentInString() == key.decode()
        assert reader.seekTo(hudi_files.key(key + b"x")) == (_IN_RANGE if key < file.entries[-1][0] else _END)


@pytest.mark.parametrize("codec", ["gzip", pytest.param("none", marks=pytest.mark.slow)])
def test_hudi_finds_the_last_entries_of_large_blocks(
    tool: Tool, hudi_files: _HudiFiles, tmp_path: Path, codec: str
) -> None:
    """Of blocks with many checksums Hudi's reader loses the last entries if they are small; those of its writer too."""
    path, chosen = tmp_path / "file.hfile", random.Random(1)
    per_block = (1 << 20) // (21 + 10 + 8)
    file = _File([(f"{n:010d}".encode(), chosen.randbytes(8)) for n in range(3 * per_block)])
    ends = [block * per_block + n for block in (1, 2, 3) for n in (-3, -2, -1)]

    def missing() -> list[int]:
        reader = hudi_files.open(path)
        assert reader.seekTo()
        return [n for n in ends if reader.seekTo(hudi_files.key(file.entries[n][0])) != _FOUND]

    _write(tool, path, file, codec, 1 << 20)
    assert missing() == []
    hudi_files.write(path, file, codec, 1 << 20)
    assert missing() != []
    assert _entries(tool("scan", str(path))) == file.entries


def test_hudi_reads_a_file_without_entries(tool: Tool, hudi_files: _HudiFiles, tmp_path: Path) -> None:
    path = tmp_path / "ours.hfile"
    for codec in ("gzip", "none"):
        _write(tool, path, _File([], {"schema": b"{}"}), codec, 1 << 20)
        assert hudi_files.read(path) == []
        assert bytes(hudi_files.open(path).getMetaInfo(hudi_files.key(b"schema")).get()) == b"{}"


@pytest.mark.parametrize("codec", ["gzip", "none"])
@pytest.mark.parametrize("block", [1, 4096, 1 << 20])
def test_what_hudi_writes_is_read(tool: Tool, hudi_files: _HudiFiles, tmp_path: Path, codec: str, block: int) -> None:
    path, file = tmp_path / "hudi.hfile", _some(500, block)
    hudi_files.write(path, file, codec, block)
    assert _entries(tool("scan", str(path))) == file.entries
    some = file.entries[::11]
    keys = sorted([key for key, _ in some] + [key + b"!" for key, _ in some])
    assert _entries(tool("get", str(path), *(key.hex() for key in keys))) == some
    prefixes = [b"key-0001", b"kkkk", "\ue000".encode()]
    expected = [entry for entry in file.entries if entry[0].startswith(tuple(prefixes))]
    assert _entries(tool("prefix", str(path), *(prefix.hex() for prefix in prefixes))) == expected
    for name, value in file.info.items():
        assert bytes.fromhex(tool("info", str(path), name)) == value
    assert bytes.fromhex(tool("meta", str(path), "bloomFilter")) == file.meta["bloomFilter"]


@pytest.mark.parametrize("meta", [{}, {"bloomFilter": b"a filter"}])
def test_the_bytes_are_those_of_hudi(
    tool: Tool, hudi_files: _HudiFiles, tmp_path: Path, meta: dict[str, bytes]
) -> None:
    """With one data block: from the second on, Hudi writes a block's own offset as that of the block before it."""
    file = _File([(f"key-{n}".encode(), b"v" * n) for n in range(9)], {"schema": b"{}"}, meta)
    _write(tool, tmp_path / "ours.hfile", file, "none", 1 << 20)
    hudi_files.write(tmp_path / "hudi.hfile", file, "none", 1 << 20)
    assert (tmp_path / "ours.hfile").read_bytes() == (tmp_path / "hudi.hfile").read_bytes()


def test_base_files_of_a_metadata_table(tool: Tool, hudi: Hudi, hudi_files: _HudiFiles, tmp_path: Path) -> None:
    table = tmp_path / "table"
    rows = pa.table(
        {
            "id": [f"id {n:05d}" for n in range(1000)],
            "part": [f"p{n % 7}" for n in range(1000)],
            "ts": pa.array([1] * 1000, pa.int64()),
        }
    )
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.global.record.level.index.enable": "true",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.compact.max.delta.commits": "2",
    }
    for _ in range(3):
        hudi.write(rows, table, "upsert", **options)
    files = sorted((table / ".hoodie" / "metadata").rglob("*.hfile"))
    found: dict[str, set[str]] = {}
    for path in files:
        entries = _entries(tool("scan", str(path)))
        keys = [key.decode() for key, _ in entries]
        assert keys == hudi_files.keys(path)
        assert b"HoodieMetadataRecord" in bytes.fromhex(tool("info", str(path), "schema"))
        found.setdefault(path.parent.name, set()).update(keys)
        if keys:
            some = [keys[0], keys[len(keys) // 2], keys[-1]]
            hexed = (key.encode().hex() for key in sorted(set(some)))
            assert [key.decode() for key, _ in _entries(tool("get", str(path), *hexed))] == sorted(set(some))
    assert found["files"] == {"__all_partitions__", *(f"p{n}" for n in range(7))}
    assert found["record_index"] == set(rows["id"].to_pylist())
    assert len(found["column_stats"]) >= 7 * 3
