"""Checksums of data files, beside real Hudi: it checks ours when it is told to, and passes over those of log blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodoo import CorruptFileError, Table
from tests.interop.hudi import Hudi
from tests.rows import arrow_rows

_VERIFY = "parquet.page.verify-checksum.enabled"
_OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.table.ordering.fields": "ts",
}


@pytest.fixture
def checking(hudi: Hudi) -> Iterator[Hudi]:
    """Hudi whose Parquet reader holds pages against their checksums."""
    hadoop = hudi.spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set(_VERIFY, "true")
    yield hudi
    hadoop.unset(_VERIFY)


def _rows(ids: range, ts: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{n:05d}" for n in ids],
            "ts": pa.array([ts] * len(ids), pa.int64()),
            "text": pa.array([None if n % 5 == 0 else f"text {n} of {ts}" for n in ids], pa.string()),
            "kind": pa.array(["xyz"[n % 3] for n in ids]),
            "price": pa.array([n / 7 for n in ids]),
            "list": pa.array([[n] * (n % 3) for n in ids], pa.list_(pa.int32())),
        }
    )


def _table(folder: Path, table_type: str, **options: str) -> Table:
    return Table.create(
        str(folder),
        _rows(range(1), 1).schema,
        name="t",
        record_key="id",
        ordering="ts",
        table_type=table_type,
        options={"hoodie.compact.inline": "false", **options},
    )


def _damage(file: Path) -> None:
    """Changes a bit in the last page of a column of the first row group."""
    chunk = pq.read_metadata(file).row_group(0).column(7)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    damaged = bytearray(file.read_bytes())
    damaged[start + chunk.total_compressed_size - 1] ^= 1
    file.write_bytes(damaged)
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("codec", ["zstd", "snappy"])
def test_hudi_accepts_the_checksums_of_pages(checking: Hudi, tmp_path: Path, codec: str) -> None:
    table = _table(tmp_path, "COPY_ON_WRITE", **{"hoodie.parquet.compression.codec": codec})
    table.insert(_rows(range(3000), 1))
    # Most of its columns are copied.
    table.upsert(_rows(range(5), 2))
    expected = arrow_rows(Table(str(tmp_path)).to_arrow())
    assert checking.read(tmp_path) == expected
    checking.write(_rows(range(5, 9), 3), tmp_path, "upsert", **_OPTIONS)
    assert len(checking.read(tmp_path)) == 3000
    for file in tmp_path.glob("*.parquet"):
        _damage(file)
    with pytest.raises(Exception, match="CRC checksum verification failed"):
        checking.read(tmp_path)
    # The newest file is Hudi's.
    with pytest.raises(CorruptFileError, match="does not match its checksum"):
        pa.table(Table(str(tmp_path)).to_arrow())


@pytest.mark.parametrize("form", ["avro", "parquet"])
def test_hudi_reads_and_compacts_log_blocks_with_checksums(checking: Hudi, tmp_path: Path, form: str) -> None:
    table = _table(tmp_path, "MERGE_ON_READ", **{"hoodie.logfile.data.block.format": form})
    table.insert(_rows(range(100), 1))
    table.upsert(_rows(range(10, 40), 2))
    table.delete(["k00001", "k00012", "k00099"])
    logs = b"".join(log.read_bytes() for log in tmp_path.glob(".*.log.*"))
    assert logs.count(b"HOODCRC\x01") == (2 if form == "avro" else 1)
    expected = arrow_rows(Table(str(tmp_path)).to_arrow())
    assert checking.read(tmp_path) == expected
    merge_on_read = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "true"}
    due = {"hoodie.compact.inline.max.delta.commits": "1"}
    checking.write(_rows(range(200, 201), 3), tmp_path, "upsert", **_OPTIONS, **merge_on_read, **due)
    assert list((tmp_path / ".hoodie/timeline").glob("*_*.commit"))
    assert [row for row in checking.read(tmp_path) if row["id"] != "k00200"] == expected
    assert arrow_rows(Table(str(tmp_path)).to_arrow()) == checking.read(tmp_path)
