"""Another process archives an instant between the listing of the timeline and the reading of its file."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import hoodoo
from tests.s3_server import BUCKET, S3Server

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
KEEP = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.close()


@pytest.mark.s3
@pytest.mark.parametrize("act", ["schema", "read", "write"])
def test_a_commit_that_is_archived_while_it_is_read(server: S3Server, act: str) -> None:
    uri, storage = f"s3://{BUCKET}/archived/{act}", server.storage_options
    options = KEEP | {
        "hoodie.archive.automatic": "false",
        "hoodoo.write.lease": "false",
        "hoodie.metadata.enable": "false",
    }
    table = hoodoo.Table.create(uri, SCHEMA, name="t", record_key="id", options=options, storage_options=storage)
    for v in range(5):
        table.insert_overwrite(pa.table({"id": [1], "v": [v]}, SCHEMA))
    # Several are fetched at a time: the oldest is one that is archived.
    oldest = min(key for key in server.keys(f"archived/{act}/.hoodie/timeline/") if key.endswith(".replacecommit"))
    other = hoodoo.Table(uri, KEEP, storage)
    mine = hoodoo.Table(uri, options, storage)
    acted: list[str] = []

    def before(method: str, key: str, _query: str) -> None:
        if method == "GET" and key == oldest and not acted:
            acted.append(key)
            other.insert_overwrite(pa.table({"id": [1], "v": [7]}, SCHEMA))

    server.before = before
    try:
        if act == "schema":
            assert mine.schema == SCHEMA
        elif act == "read":
            assert mine.to_arrow(columns=["v"])["v"].to_pylist() == [7]
        else:
            mine.upsert(pa.table({"id": [2], "v": [8]}, SCHEMA))
            assert sorted(mine.to_arrow(columns=["v"])["v"].to_pylist()) == [7, 8]
    finally:
        server.before = None
    assert acted
    assert acted[0] not in server.keys(f"archived/{act}/.hoodie/timeline/")
    assert mine.verify().ok
