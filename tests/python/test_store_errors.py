"""Tables in Google Cloud Storage and Azure, against servers that the tests start; `test_s3.py` has S3."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

import pytest

import hoodoo
from hoodoo import InvalidOptionError, StorageError, Table
from tests import memory_azure, store_tables
from tests.memory_azure import MemoryAzure
from tests.memory_gcs import MemoryGcs
from tests.memory_stores import BUCKET, MemoryStore, Request, in_flight

LOCK = "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider"
KINDS = pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])


@pytest.fixture(scope="module")
def gcs() -> Iterator[MemoryGcs]:
    server = MemoryGcs()
    yield server
    server.close()


@pytest.fixture(scope="module")
def azure() -> Iterator[MemoryAzure]:
    server = MemoryAzure()
    yield server
    server.close()


@pytest.fixture(scope="module")
def folders() -> Iterator[MemoryAzure]:
    server = MemoryAzure(hierarchical=True)
    yield server
    server.close()


@pytest.fixture(params=["gcs", "azure", "folders"])
def store(request: pytest.FixtureRequest) -> Iterator[MemoryStore]:
    server: MemoryStore = request.getfixturevalue(request.param)
    yield server
    server.delay, server.fail = 0.0, None


def test_folders_do_not_stay(folders: MemoryAzure):
    """Those of markers: each write would look at all of them."""
    table = store_tables.create(folders)
    for n in range(3):
        table.upsert(store_tables.rows(("a", "p1", n, f"a{n}"), ("b", "p2", n, "b")))
    prefix = table.uri.removeprefix(f"az://{BUCKET}/")
    assert not [key for key in folders.bucket.keys if key.startswith(f"{prefix}/.hoodie/.temp/")]
    # What a writer left that was killed, and one whose files somebody else deleted.
    for left in ("20200101000000000/p1/x.parquet.marker.CREATE", "20200101000000001/p1/deep/x.parquet.marker.CREATE"):
        key = f"{prefix}/.hoodie/.temp/{left}"
        folders.server_put(key)
        if "deep" in left:
            folders.bucket.delete(key)
    assert len(table.verify().problems) == 2
    Table(table.uri, storage_options=folders.storage_options).upsert(store_tables.rows(("a", "p1", 9, "a9")))
    assert not [key for key in folders.bucket.keys if key.startswith(f"{prefix}/.hoodie/.temp/")]
    assert not table.verify().problems


def test_an_account_without_folders_is_asked_once(azure: MemoryAzure):
    table = store_tables.create(azure)
    table.upsert(store_tables.rows(("a", "p1", 1, "a1")))
    batches = []
    for n in range(2, 5):
        with azure.recorded() as requests:
            table.upsert(store_tables.rows(("a", "p1", n, f"a{n}")))
        batches.append(sum("comp=batch" in r.query for r in requests))
    assert batches == [1, 1, 1]


@pytest.mark.parametrize("status", [429, 503])
def test_what_does_not_pass_is_an_error(store: MemoryStore, status: int):
    uri = store_tables.create(store).uri
    few = {**store.storage_options, "max_retries": "2", "retry_timeout": "20s"}
    table = Table(uri, storage_options=few)
    failed, fail = store_tables.status(status, 1_000_000)
    with store.failing(fail):
        with pytest.raises(StorageError, match=str(status)) as error:
            table.to_arrow()
        assert error.value.retryable
        assert len(failed) == 3
        with pytest.raises(StorageError, match=str(status)):
            table.upsert(store_tables.rows(("a", "p1", 1, "a1")))
    table.upsert(store_tables.rows(("a", "p1", 2, "a2")))
    assert store_tables.values(table.to_arrow()) == {"a": "a2"}
    assert table.verify().ok


def test_no_such_bucket(store: MemoryStore):
    uri = store.uri("t").replace(BUCKET, "nowhere")
    for act in (Table, lambda uri, **more: Table.create(uri, store_tables.SCHEMA, name="t", record_key="id", **more)):
        with pytest.raises(StorageError, match=r"(?s)no such bucket or container.*nowhere/t.*Create it"):
            act(uri, storage_options=store.storage_options)
    with pytest.raises(hoodoo.TableNotFoundError):
        Table(store.uri("nothing-here"), storage_options=store.storage_options)


def test_an_endpoint_without_encryption_is_asked_for(store: MemoryStore):
    plain = {key: value for key, value in store.storage_options.items() if not key.endswith("allow_http")}
    with pytest.raises(InvalidOptionError, match=r"not encrypted.*(google|azure)_allow_http=true"):
        Table(store.uri("t"), storage_options=plain)


def test_spellings_of_azure(azure: MemoryAzure):
    """The endpoint of the options stands for the account's."""
    table = store_tables.create(azure)
    table.upsert(store_tables.rows(("a", "p1", 1, "a1")))
    path = table.uri.removeprefix(f"az://{BUCKET}/")
    for location in (
        f"abfss://{BUCKET}@{memory_azure.ACCOUNT}.dfs.core.windows.net/{path}",
        f"ABFS://{BUCKET}@{memory_azure.ACCOUNT}.dfs.core.windows.net/{path}/",
        f"wasbs://{BUCKET}@{memory_azure.ACCOUNT}.blob.core.windows.net/{path}",
        f"wasb://{BUCKET}@{memory_azure.ACCOUNT}.blob.core.windows.net/{path}",
        f"abfss://{BUCKET}@{memory_azure.ACCOUNT}.dfs.core.usgovcloudapi.net/{path}",
        f"abfss://{BUCKET}@{memory_azure.ACCOUNT}.z01.dfs.storage.azure.net/{path}",
        f"azure://{BUCKET}/{path}",
        f"abfs://{BUCKET}/{path}",
    ):
        own = Table(location, storage_options=azure.storage_options)
        assert own.uri.split(":")[0] == location.split(":")[0].lower()
        own.upsert(store_tables.rows(("b", "p1", 1, location)))
        assert store_tables.values(Table(own.uri, storage_options=azure.storage_options).to_arrow()) == {
            "a": "a1",
            "b": location,
        }
    assert table.verify().ok


def is_data_file(request: Request) -> bool:
    return unquote(request.path).endswith(".parquet")


def test_a_scan_keeps_sixteen_requests_in_flight(store: MemoryStore):
    table = store_tables.create(store, **{"hoodie.metadata.enable": "false"})
    table.insert(store_tables.rows(*[(f"k{n}", f"p{n}", 1, "v") for n in range(60)]))
    store.delay = 0.02
    table = Table(table.uri, {"hoodoo.threads": "1"}, store.storage_options)
    with store.recorded() as requests:
        assert table.to_arrow().num_rows == 60
    files = [r for r in requests if is_data_file(r)]
    assert len(files) == 60
    assert in_flight(files) >= 16
    # A reader that has enough leaves the rest.
    table = Table(table.uri, {"hoodoo.threads": "1"}, store.storage_options)
    with store.recorded() as requests:
        next(iter(table.scan()))
    assert sum(is_data_file(r) for r in requests) < 40
