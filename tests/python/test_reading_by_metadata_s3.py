"""What a read through the metadata table asks of an object store: no folder of the table is listed."""

from __future__ import annotations

import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hoodoo import Table
from tests.s3_server import BUCKET, Request, S3Server

pytestmark = pytest.mark.s3

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "metadata_table"
LISTED = {"hoodie.metadata.enable": "false"}


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.close()


def uploaded(server: S3Server, name: str) -> str:
    prefix = f"{uuid.uuid4().hex}/{name}"
    with zipfile.ZipFile(FIXTURES / f"{name}.zip") as archive:
        for entry in archive.infolist():
            if not entry.is_dir():
                server.client.put_object(Bucket=BUCKET, Key=f"{prefix}/{entry.filename}", Body=archive.read(entry))
    return prefix


def lists(log: list[Request], prefix: str) -> list[str]:
    """Folders of data that were listed."""
    listed = [request.query for request in log if request.method == "GET" and "list-type" in request.query]
    return [query for query in listed if f"{prefix}/.hoodie".replace("/", "%2F") not in query]


@pytest.mark.parametrize("name", ["cow", "mor"])
@pytest.mark.parametrize("filters", [None, [("ts", ">", 4)]], ids=str)
def test_no_folder_of_data_is_listed(server: S3Server, name: str, filters: Any) -> None:
    prefix = uploaded(server, name)
    uri = f"s3://{BUCKET}/{prefix}"
    counts, rows = {}, []
    for options in (None, LISTED):
        table = Table(uri, options=options, storage_options=server.storage_options)
        with server.recorded() as log:
            rows.append(sorted(table.to_arrow(filters=filters)["_hoodie_record_key"].to_pylist()))
        assert bool(lists(log, prefix)) == (options is not None), [request.query for request in log]
        counts[options is None] = len(log)
    print(f"{name} {filters}: {counts[True]} requests with the metadata table, {counts[False]} without")
    assert rows[0] == rows[1] != []
