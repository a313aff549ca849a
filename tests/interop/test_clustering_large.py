"""Clusterings of files with many rows, met by Hudi: filters that are joined, texts that keep their dictionaries."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodoo
from tests.interop.hudi import Hudi
from tests.rows import arrow_rows

ROWS = 33_000
"""Rows of a file: so many that its row group is copied, and texts take two pages."""
FILES = 3
SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("same", pa.string()), ("v", pa.float64())])
HUDI = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.index.type": "BLOOM",
}


def rows(ids: range | list[int], value: float | None = None) -> pa.Table:
    return pa.table(
        {
            "id": list(ids),
            "kind": [None if i % 5 == 2 else f"kind {i * 7919 % 11} of {i // ROWS}" for i in ids],
            "same": ["the same"] * len(ids),
            "v": [i * 7919 % ROWS / 3 if value is None else value for i in ids],
        },
        schema=SCHEMA,
    )


@pytest.mark.parametrize("sort_by", [pytest.param(None, marks=pytest.mark.slow), "v"])
def test_hudi_finds_every_key(hudi: Hudi, tmp_path: Path, sort_by: str | None) -> None:
    uri = tmp_path / "t"
    # A file stays one, and none becomes another's part.
    options = {"hoodie.parquet.small.file.limit": "0"}
    table = hoodoo.Table.create(uri, SCHEMA, name="t", record_key="id", options=options)
    for part in range(FILES):
        table.insert(rows(range(part * ROWS, (part + 1) * ROWS)))
    done = table.cluster(sort_by=sort_by)
    assert done is not None
    (piece,) = table.file_slices()
    assert piece.base_file is not None
    metadata = pq.read_metadata(uri / piece.base_file)
    footer = metadata.metadata
    keys = [str(i).encode() for i in range(FILES * ROWS)]
    assert (footer[b"hoodie_min_record_key"], footer[b"hoodie_max_record_key"]) == (min(keys), max(keys))
    *_, filters = struct.unpack_from(">iibiiii", base64.b64decode(footer[b"org.apache.hudi.bloomfilter"]))
    assert filters == (FILES if sort_by is None else 1)
    places = {metadata.row_group(0).column(i).path_in_schema: i for i in range(metadata.num_columns)}
    texts = [metadata.row_group(0).column(places[name]) for name in ("kind", "same", "_hoodie_commit_time")]
    assert all(column.dictionary_page_offset for column in texts)
    expected = arrow_rows(table.to_arrow())
    assert len(expected) == FILES * ROWS
    assert hudi.read(uri) == expected
    # Statistics and page indexes lead Spark to the rows.
    frame = hudi.spark.read.format("hudi").load(str(uri))
    for kind in ("kind 3 of 1", "kind 10 of 2", "kind 11 of 0"):
        found = frame.where(frame["kind"] == kind).count()
        assert found == sum(row["kind"] == kind for row in expected)
    assert frame.where("kind is null").count() == sum(row["kind"] is None for row in expected)
    # One key of each file, and one that there is not.
    changed = [5, ROWS + 5, 3 * ROWS - 1, 10**6]
    hudi.write(rows(changed, -1.0), uri, "upsert", **HUDI)
    after = hudi.read(uri)
    assert len(after) == FILES * ROWS + 1
    assert sorted(row["id"] for row in after if row["v"] == -1.0) == changed
    assert arrow_rows(hoodoo.Table(uri).to_arrow()) == after
