"""Checksums of data files: a bit that is wrong where a checksum covers it is an error, and never a wrong row."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodoo
from hoodoo import CorruptFileError, HudiError, Table

_CODECS = ("zstd", "snappy", "gzip", "uncompressed")
_FLIPS = [
    pytest.param(40, id="some"),
    pytest.param(1000, id="many", marks=pytest.mark.slow),
]


def _rows(count: int, value: int = 0) -> pa.Table:
    rng = random.Random(value)
    ids = range(count)
    return pa.table(
        {
            "id": [f"k{n:06d}" for n in ids],
            "ts": pa.array([value] * count, pa.int64()),
            "amount": pa.array([rng.randrange(10**9) for _ in ids], pa.int64()),
            "text": pa.array([None if n % 5 == 0 else f"text {rng.random()}" for n in ids], pa.string()),
            "kind": pa.array([rng.choice("xyz") for _ in ids]),
            "price": pa.array([rng.random() for _ in ids]),
            "list": pa.array([[rng.randrange(9)] * (n % 3) for n in ids], pa.list_(pa.int32())),
        }
    )


def _table(folder: Path, table_type: str = "COPY_ON_WRITE", **options: str) -> Table:
    return Table.create(
        str(folder),
        _rows(1).schema,
        name="t",
        record_key="id",
        ordering="ts",
        table_type=table_type,
        options={"hoodie.compact.inline": "false", **options},
    )


def _chunks(file: Path) -> list[range]:
    """Where the column chunks of a file are."""
    groups = pq.read_metadata(file)
    chunks = [groups.row_group(g).column(c) for g in range(groups.num_row_groups) for c in range(groups.num_columns)]
    starts = [chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks]
    return [range(start, start + chunk.total_compressed_size) for start, chunk in zip(starts, chunks, strict=True)]


def _content(log: bytes) -> range:
    """Where the content of the first block of a log file is."""
    at = 26
    for _ in range(struct.unpack_from(">i", log, 22)[0]):
        at += 8 + struct.unpack_from(">i", log, at + 4)[0]
    (length,) = struct.unpack_from(">q", log, at)
    return range(at + 8, at + 8 + length)


def _assert_no_wrong_rows(folder: Path, file: Path, covered: list[range], flips: int) -> int:
    """Changes one bit at a time somewhere in these bytes; returns how often that was found."""
    expected = pa.table(Table(str(folder)).to_arrow())
    whole = file.read_bytes()
    rng = random.Random(flips)
    weights = [len(part) for part in covered]
    found = 0
    for _ in range(flips):
        place, bit = rng.choice(rng.choices(covered, weights)[0]), rng.randrange(8)
        damaged = bytearray(whole)
        damaged[place] ^= 1 << bit
        file.write_bytes(damaged)
        try:
            rows = pa.table(Table(str(folder)).to_arrow())
        except HudiError:
            found += 1
        else:
            assert rows == expected, f"bit {bit} of byte {place}"
    file.write_bytes(whole)
    return found


@pytest.mark.parametrize("flips", _FLIPS)
@pytest.mark.parametrize("codec", _CODECS)
def test_a_wrong_bit_in_a_base_file_is_found(tmp_path: Path, codec: str, flips: int) -> None:
    _table(tmp_path, **{"hoodie.parquet.compression.codec": codec}).insert(_rows(1500))
    (file,) = tmp_path.glob("*.parquet")
    assert _assert_no_wrong_rows(tmp_path, file, _chunks(file), flips) > flips * 0.95


@pytest.mark.parametrize("flips", _FLIPS)
@pytest.mark.parametrize("form", ["avro", "parquet"])
def test_a_wrong_bit_in_a_log_block_is_found(tmp_path: Path, form: str, flips: int) -> None:
    table = _table(tmp_path, "MERGE_ON_READ", **{"hoodie.logfile.data.block.format": form})
    table.insert(_rows(300))
    table.upsert(_rows(200, 1))
    (log,) = tmp_path.glob(".*.log.*")
    content = _content(log.read_bytes())
    if form == "parquet":
        parquet = tmp_path / "content"
        parquet.write_bytes(log.read_bytes()[content.start : content.stop])
        covered = [range(content.start + part.start, content.start + part.stop) for part in _chunks(parquet)]
        parquet.unlink()
    else:
        covered = [range(log.stat().st_size)]
    assert _assert_no_wrong_rows(tmp_path, log, covered, flips) > flips * 0.95


def test_a_wrong_bit_in_a_delete_block_is_found(tmp_path: Path) -> None:
    table = _table(tmp_path, "MERGE_ON_READ")
    table.insert(_rows(300))
    table.delete([f"k{n:06d}" for n in range(50)])
    (log,) = tmp_path.glob(".*.log.*")
    assert _assert_no_wrong_rows(tmp_path, log, [range(log.stat().st_size)], 100) > 90


def test_the_error_names_the_file_and_what_is_wrong(tmp_path: Path) -> None:
    _table(tmp_path).insert(_rows(100))
    (file,) = tmp_path.glob("*.parquet")
    damaged = bytearray(file.read_bytes())
    damaged[_chunks(file)[7].stop - 1] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(CorruptFileError, match=r"does not match its checksum.*restore it") as error:
        pa.table(Table(str(tmp_path)).to_arrow())
    assert file.name in str(error.value)


def test_pyarrow_accepts_the_checksums(tmp_path: Path) -> None:
    table = _table(tmp_path, **{"hoodie.parquet.page.size": "2000"})
    table.insert(_rows(2000))
    # Most of its columns are copied.
    table.upsert(_rows(2000).slice(5, 3))
    for file in tmp_path.glob("*.parquet"):
        assert pq.ParquetFile(file, page_checksum_verification=True).read().num_rows == 2000
        damaged = bytearray(file.read_bytes())
        damaged[_chunks(file)[7].stop - 1] ^= 1
        file.write_bytes(damaged)
        with pytest.raises(OSError, match="CRC"):
            pq.ParquetFile(file, page_checksum_verification=True).read()


def test_files_without_checksums_can_be_written(tmp_path: Path) -> None:
    sizes = []
    for flag in ("true", "false"):
        hoodoo.write(
            _rows(100),
            str(tmp_path / flag),
            options={
                "hoodie.table.name": "t",
                "hoodie.datasource.write.recordkey.field": "id",
                "hoodoo.parquet.page.checksums": flag,
            },
        )
        (file,) = (tmp_path / flag).glob("*.parquet")
        sizes.append(sum(len(part) for part in _chunks(file)))
    with_checksums, without = sizes
    assert 3 * 12 < with_checksums - without < 40 * 6
