"""Completed instants in an object store are fetched once by each handle of a table."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import hoodoo
from tests.s3_server import BUCKET, S3Server

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.close()


@pytest.mark.s3
def test_each_is_fetched_once(server: S3Server) -> None:
    uri = f"s3://{BUCKET}/kept/t"
    table = hoodoo.Table.create(uri, SCHEMA, name="t", record_key="id", storage_options=server.storage_options)
    for v in range(3):
        table.insert_overwrite(pa.table({"id": [1, 2], "v": [v, v]}, SCHEMA))
    reader = hoodoo.Table(uri, storage_options=server.storage_options)
    with server.recorded() as log:
        for _ in range(4):
            assert reader.to_arrow(columns=["v"])["v"].to_pylist() == [2, 2]
    fetched = [request.key for request in log if request.key.endswith(".replacecommit")]
    assert len(fetched) == 3
    assert len(set(fetched)) == 3
    # What others commit is seen all the same.
    table.insert_overwrite(pa.table({"id": [1, 2], "v": [9, 9]}, SCHEMA))
    assert reader.to_arrow(columns=["v"])["v"].to_pylist() == [9, 9]
    # Damage is looked for in what is there now.
    (name,) = [key for key in server.keys("kept/t/.hoodie/timeline/") if fetched[0].endswith(key.rsplit("/", 1)[-1])]
    server.client.put_object(Bucket=BUCKET, Key=name, Body=b"no instant")
    assert not reader.verify().ok


@pytest.mark.s3
def test_a_small_data_file_is_fetched_once_until_a_listing_shows_another(server: S3Server) -> None:
    uri = f"s3://{BUCKET}/kept/small"
    table = hoodoo.Table.create(uri, SCHEMA, name="t", record_key="id", storage_options=server.storage_options)
    (path,) = table.insert(pa.table({"id": [1, 2], "v": [3, 4]}, SCHEMA)).files
    reader = hoodoo.Table(uri, {"hoodie.metadata.enable": "false"}, server.storage_options)

    def fetched() -> int:
        with server.recorded() as log:
            assert reader.to_arrow(columns=["v"])["v"].to_pylist() == [3, 4]
        return sum(request.key.endswith(path) and request.method == "GET" for request in log)

    assert [fetched() for _ in range(3)] == [1, 0, 0]
    key = f"kept/small/{path}"
    content = server.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    # The same size, but damaged.
    server.client.put_object(Bucket=BUCKET, Key=key, Body=content[:-1] + b"?")
    with pytest.raises(hoodoo.CorruptFileError):
        reader.to_arrow(columns=["v"])
    server.client.put_object(Bucket=BUCKET, Key=key, Body=content)
    assert [fetched() for _ in range(2)] == [1, 0]
