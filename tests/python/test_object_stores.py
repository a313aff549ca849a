"""Tables in Google Cloud Storage and Azure, against servers that the tests start; `test_s3.py` has S3."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hoodoo import HudiError, InvalidOptionError, StorageError, Table
from tests import memory_azure, store_tables
from tests.many_writers import Plan, run
from tests.memory_azure import MemoryAzure
from tests.memory_gcs import MemoryGcs
from tests.memory_stores import BUCKET, MemoryStore, in_sequence

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


@pytest.fixture(params=["gcs", "azure"])
def store(request: pytest.FixtureRequest) -> Iterator[MemoryStore]:
    server: MemoryStore = request.getfixturevalue(request.param)
    yield server
    server.delay, server.fail = 0.0, None


@KINDS
def test_every_operation(store: MemoryStore, kind: str):
    table = store_tables.create(
        store, kind, **{"hoodie.clean.automatic": "false", "hoodie.clean.commits.retained": "1"}
    )
    first = table.insert(store_tables.rows(("a", "p 1", 1, "a1"), ("b", "p 1", 1, "b1"), ("c", "p%2", 1, "c1")))
    second = table.upsert(store_tables.rows(("a", "p 1", 2, "a2"), ("b", "p 1", 0, "late"), ("d", "p3", 1, "d1")))
    # Log files take all rows.
    assert (second.inserted, second.updated) == (1, 1 if kind == "COPY_ON_WRITE" else 2)
    assert table.delete(["c"]).deleted == 1
    now = {"a": "a2", "b": "b1", "d": "d1"}
    assert store_tables.values(table.to_arrow()) == now
    if kind == "MERGE_ON_READ":
        assert any(s.log_files for s in table.file_slices())
        assert table.compact() is not None
        assert not any(s.log_files for s in table.file_slices())
        assert store_tables.values(table.to_arrow()) == now
    assert table.cluster() is not None
    again = Table(table.uri, storage_options=store.storage_options)
    assert store_tables.values(again.to_arrow()) == now
    assert store_tables.values(again.to_arrow(filters=[("part", "=", "p3")])) == {"d": "d1"}
    assert store_tables.values(again.to_arrow(as_of=first.instant)) == {"a": "a1", "b": "b1", "c": "c1"}
    assert store_tables.values(again.changes(second.completed)) == {}
    saved = table.savepoint()
    table.insert_overwrite(store_tables.rows(("e", "p3", 1, "e1")))
    table.restore(saved.instant)
    table.delete_savepoint(saved.instant)
    assert store_tables.values(table.to_arrow()) == now
    table.upsert(store_tables.rows(("a", "p 1", 3, "a3")))
    assert table.clean().files
    assert store_tables.values(again.to_arrow()) == {**now, "a": "a3"}
    report = again.verify()
    assert not report.problems, report.problems


def test_a_large_file_is_uploaded_in_parts(store: MemoryStore):
    rng = np.random.default_rng(1)
    data = pa.table({"id": [f"{n:08d}" for n in range(120_000)], **{f"c{n}": rng.random(120_000) for n in range(12)}})
    uri = store.uri(f"{uuid.uuid4().hex}/t")
    table = Table.create(uri, data.schema, name="t", record_key="id", storage_options=store.storage_options)
    with store.recorded() as requests:
        table.insert(data)
    assert sum("partNumber=" in r.query or "comp=block&" in r.query for r in requests) >= 2
    assert table.to_arrow(columns=data.column_names).sort_by("id").equals(data)
    assert table.verify().ok


@pytest.mark.parametrize(
    ("kind", "locked"),
    [
        ("MERGE_ON_READ", True),
        pytest.param("MERGE_ON_READ", False, marks=pytest.mark.slow),
        pytest.param("COPY_ON_WRITE", True, marks=pytest.mark.slow),
        pytest.param("COPY_ON_WRITE", False, marks=pytest.mark.slow),
    ],
)
def test_two_processes_lose_nothing(store: MemoryStore, kind: str, locked: bool):
    """As if on two machines, beside one that clusters, compacts and reads."""
    options = {"hoodie.write.lock.provider": LOCK} if locked else {}
    services = ("cluster", "read") if kind == "COPY_ON_WRITE" else ("compact", "read")
    uri = store.uri(uuid.uuid4().hex)
    plan = Plan(uri, kind, store.storage_options, options, writers=2, upserts=3, services=services, apart=True)
    outcome = run(plan)
    assert outcome.ok, outcome
    assert outcome.acknowledged == 2 * 3


def test_one_of_eight_threads_creates_the_table(store: MemoryStore):
    uri, won, said = store.uri(f"{uuid.uuid4().hex}/t"), list[str](), list[str]()
    store.delay = 0.01

    def create(name: str) -> None:
        try:
            Table.create(uri, store_tables.SCHEMA, name=name, record_key="id", storage_options=store.storage_options)
            won.append(name)
        except HudiError as e:
            said.append(str(e))

    threads = [threading.Thread(target=create, args=(f"n{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(won) == 1, said
    assert all("already" in text or "there is" in text for text in said), said
    assert Table(uri, storage_options=store.storage_options).options["hoodie.table.name"] == won[0]


def test_an_object_is_written_once_in_a_while(gcs: MemoryGcs):
    """Google's store refuses writes to one object that come soon after each other, and the table lock is one."""
    table = store_tables.create(gcs)
    gcs.seconds_between_writes = 0.05
    try:
        for n in range(2):
            table.upsert(store_tables.rows(("a", "p1", n, f"a{n}")))
    finally:
        gcs.seconds_between_writes = 0.0
    assert any(r.status == 429 for r in gcs.log)
    assert store_tables.values(table.to_arrow()) == {"a": "a1"}
    assert table.verify().ok


@pytest.mark.parametrize("status", [429, 503])
def test_what_passes_is_tried_again(store: MemoryStore, status: int):
    table = store_tables.create(store)
    failed, fail = store_tables.status(status, 3)
    with store.failing(fail):
        table.upsert(store_tables.rows(("a", "p1", 1, "a1")))
    assert len(failed) == 3
    assert store_tables.values(table.to_arrow()) == {"a": "a1"}
    assert table.verify().ok


_WRONG = {
    "gcs": {"google_bearer_token": "wrong-secret"},
    "azure": {"azure_storage_account_key": "d3Jvbmctc2VjcmV0"},
    "azure-token": {"azure_storage_account_key": "", "azure_storage_token": "wrong-secret"},
    "azure-sas": {"azure_storage_account_key": "", "azure_storage_sas_token": "sv=2024-11-04&sig=wrong-secret"},
}


@pytest.mark.parametrize("case", _WRONG)
def test_wrong_credentials(request: pytest.FixtureRequest, case: str):
    server: MemoryStore = request.getfixturevalue(case.partition("-")[0])
    uri = store_tables.create(server).uri
    given = {key: value for key, value in {**server.storage_options, **_WRONG[case]}.items() if value}
    for act in (
        Table,
        lambda uri, **more: Table.create(f"{uri}2", store_tables.SCHEMA, name="t", record_key="id", **more),
    ):
        with pytest.raises(StorageError, match=r"(?s)Check.*credentials in storage_options") as error:
            act(uri, storage_options=given)
        assert "wrong-secret" not in str(error.value)
        assert "d3Jvbmct" not in str(error.value)


@pytest.mark.parametrize(
    "secret",
    [
        {"azure_storage_sas_token": memory_azure.SAS},
        {"azure_storage_sas_key": f"?{memory_azure.SAS}"},
        {"azure_storage_token": memory_azure.TOKEN},
        {"AZURE_STORAGE_ACCESS_KEY": memory_azure.KEY},
    ],
    ids=lambda secret: next(iter(secret)),
)
def test_kinds_of_credentials_of_azure(azure: MemoryAzure, secret: Mapping[str, str]):
    table = store_tables.create(azure)
    table = Table(table.uri, storage_options={**azure.without_credentials, **secret})
    table.upsert(store_tables.rows(("a", "p1", 1, "a1"), ("b", "p2", 1, "b1")))
    assert store_tables.values(table.to_arrow()) == {"a": "a1", "b": "b1"}
    assert table.verify().ok


def test_settings_from_the_environment(gcs: MemoryGcs, azure: MemoryAzure, monkeypatch: pytest.MonkeyPatch):
    for server in (gcs, azure):
        for key, value in server.storage_options.items():
            monkeypatch.setenv(key.upper(), value)
        table = store_tables.create(server)
        table.upsert(store_tables.rows(("a", "p1", 1, "a1")))
        assert store_tables.values(Table(table.uri).to_arrow()) == {"a": "a1"}
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "another")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "YW5vdGhlcg==")
    for server in (gcs, azure):
        uri = store_tables.create(server).uri
        assert Table(uri, storage_options=server.storage_options).to_arrow().num_rows == 0
        with pytest.raises(StorageError):
            Table(uri)


def test_a_service_account(gcs: MemoryGcs, tmp_path: Path):
    table = store_tables.create(gcs)
    without = {key: value for key, value in gcs.storage_options.items() if key != "google_bearer_token"}
    for option, value in (
        ("google_service_account_path", str(tmp_path / "none.json")),
        ("google_service_account_key", '{"private_key": "hidden-secret"}'),
    ):
        with pytest.raises(InvalidOptionError, match="the storage cannot be set up") as error:
            Table(table.uri, storage_options={**without, option: value})
        assert "hidden-secret" not in str(error.value)


def test_a_write_into_many_files_makes_few_requests_in_sequence(store: MemoryStore):
    table = store_tables.create(store, **{"hoodie.metadata.enable": "false", "hoodie.clean.automatic": "false"})
    table.insert(store_tables.rows(*[(f"k{n}", f"p{n}", 1, "v") for n in range(60)]))
    table.upsert(store_tables.rows(("k7", "p7", 2, "w")))
    store.delay = 0.02
    with store.recorded() as requests:
        table.upsert(store_tables.rows(("k8", "p8", 2, "w")))
    assert in_sequence(requests) <= 15, [(r.method, r.path, r.query) for r in requests]


def test_spellings_of_azure(azure: MemoryAzure):
    """The endpoint of the options stands for the account's."""
    table = store_tables.create(azure)
    table.upsert(store_tables.rows(("a", "p1", 1, "a1")))
    path = table.uri.removeprefix(f"az://{BUCKET}/")
    host = f"{memory_azure.ACCOUNT}.dfs.core.windows.net"
    for location in (f"abfss://{BUCKET}@{host}/{path}", f"abfs://{BUCKET}@{host}/{path}/", f"abfs://{BUCKET}/{path}"):
        Table(location, storage_options=azure.storage_options).upsert(store_tables.rows(("b", "p1", 1, location)))
        read = Table(table.uri, storage_options=azure.storage_options).to_arrow()
        assert store_tables.values(read) == {"a": "a1", "b": location}
    assert table.verify().ok
