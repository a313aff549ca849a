"""A reader between whose look at the timeline and whose listing another process compacts and cleans, or restores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from tests.s3_server import BUCKET, S3Server

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("v", pa.int64())])
OPTIONS = {
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.clean.commits.retained": "1",
    # Nothing is listed where there is one.
    "hoodie.metadata.enable": "false",
}


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.close()


def _rows(v: int) -> pa.Table:
    return pa.table({"id": range(4), "part": ["a", "a", "b", "b"], "v": [v] * 4}, SCHEMA)


def _compact_and_clean(table: hoodoo.Table) -> int:
    assert table.compact() is not None
    table.upsert(_rows(2))
    assert table.compact() is not None
    table.upsert(_rows(3))
    assert table.timeline.instants(action="clean")
    return 3


def _cluster_and_clean(table: hoodoo.Table) -> int:
    assert table.cluster() is not None
    table.upsert(_rows(2))
    table.upsert(_rows(3))
    assert table.timeline.instants(action="clean")
    return 3


@pytest.mark.s3
@pytest.mark.parametrize("change", [_compact_and_clean, _cluster_and_clean])
@pytest.mark.parametrize("act", ["read", "write"])
def test_between_the_timeline_and_the_listing(
    server: S3Server, act: str, change: Callable[[hoodoo.Table], int]
) -> None:
    uri = f"s3://{BUCKET}/racing/{act}{change.__name__}"
    given: dict[str, Any] = {
        "options": OPTIONS | {"hoodoo.write.lease": "false"},
        "storage_options": server.storage_options,
    }
    table = hoodoo.Table.create(
        uri, SCHEMA, name="t", record_key="id", partition_by="part", table_type="MERGE_ON_READ", **given
    )
    table.insert(_rows(0))
    table.upsert(_rows(1))
    cleans = given["options"] | {"hoodie.clean.automatic": "true"}
    other, mine = hoodoo.Table(uri, **(given | {"options": cleans})), hoodoo.Table(uri, **given)
    expected: list[int] = []

    def before(method: str, _key: str, query: str) -> None:
        # The first listing of a folder of data.
        if method == "GET" and "list-type" in query and ".hoodie" not in query and not expected:
            expected.append(-1)
            expected.append(change(other))

    server.before = before
    try:
        if act == "read":
            found = mine.to_arrow(columns=["id", "v"]).to_pylist()
        else:
            assert mine.upsert(_rows(9).slice(0, 1)).updated == 1
            found = hoodoo.Table(uri, **given).to_arrow(columns=["id", "v"]).to_pylist()
    finally:
        server.before = None
    assert len(expected) == 2
    wanted = dict.fromkeys(range(4), expected[1]) | ({0: 9} if act == "write" else {})
    assert {row["id"]: row["v"] for row in found} == wanted
    assert len(found) == 4
    assert hoodoo.Table(uri, **given).verify().ok
