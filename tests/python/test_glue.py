"""Sync with AWS Glue, against a server of the test. It takes more than AWS does, so sizes of batches are checked."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest

import hoodoo
from hoodoo.sync import glue
from hoodoo.sync.settings import GLUE_TOOL
from tests.s3_server import S3Server

SCHEMA = {"id": pa.int64(), "p": pa.string(), "n": pa.int32()}
TOOL = {"hoodie.meta.sync.client.tool.class": GLUE_TOOL}
# What AWS takes in one request.
LIMITS = {
    "BatchCreatePartition": ("PartitionInputList", 100),
    "BatchUpdatePartition": ("Entries", 100),
    "BatchDeletePartition": ("PartitionsToDelete", 25),
    "BatchGetPartition": ("PartitionsToGet", 1000),
}


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    running = S3Server()
    yield running
    running.close()


@pytest.fixture
def options(server: S3Server, request: pytest.FixtureRequest) -> dict[str, str]:
    return {
        **TOOL,
        "hoodie.aws.glue.endpoint": server.endpoint,
        "hoodie.aws.glue.region": "us-east-1",
        "hoodie.aws.access.key": "right",
        "hoodie.aws.secret.key": "secret",
        "hoodie.datasource.hive_sync.database": request.node.name.split("[")[0],
    }


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[dict[str, Any]]]]:
    """The requests by their operation, each within the limits of AWS."""
    seen: dict[str, list[dict[str, Any]]] = defaultdict(list)
    connect = glue.connect

    def recorded(*arguments: Any, **keywords: Any) -> glue.Glue:
        made = connect(*arguments, **keywords)
        made.client.meta.events.register(
            "provide-client-params.glue", lambda params, model, **_: seen[model.name].append(params)
        )
        return made

    monkeypatch.setattr(glue, "connect", recorded)
    yield seen
    for operation, (key, most) in LIMITS.items():
        assert all(0 < len(params[key]) <= most for params in seen[operation]), operation


@pytest.fixture
def client(server: S3Server) -> Any:
    keys = {"aws_access_key_id": "right", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
    return boto3.client("glue", endpoint_url=server.endpoint, **keys)


Calls = dict[str, list[dict[str, Any]]]


def _create(folder: Path) -> hoodoo.Table:
    """Makes a table without a metadata table, which only costs time here."""
    given = {"hoodie.metadata.enable": "false"}
    return hoodoo.Table.create(folder / "t", SCHEMA, name="t", record_key="id", partition_by="p", options=given)


def _rows(partitions: list[str]) -> dict[str, list[Any]]:
    numbers = list(range(len(partitions)))
    return {"id": numbers, "p": partitions, "n": numbers}


def test_a_table_in_glue(tmp_path: Path, options: dict[str, str], client: Any, calls: Calls):
    database = options["hoodie.datasource.hive_sync.database"]
    table = _create(tmp_path)
    commit = table.insert(_rows(["a", "b"]))
    report = table.sync(options)
    (done,) = report.tables
    assert (done.catalog, done.name, done.created, done.complete) == ("glue", f"{database}.t", True, True)
    assert (done.partitions_added, done.synced, done.synced_completed) == (("a", "b"), commit.instant, commit.completed)
    found = client.get_table(DatabaseName=database, Name="t")["Table"]
    assert found["TableType"] == "EXTERNAL_TABLE"
    assert found["Parameters"]["EXTERNAL"] == "TRUE"
    assert found["Parameters"]["hudi.metadata-listing-enabled"] == "FALSE"
    assert found["Parameters"]["last_commit_time_sync"] == commit.instant
    assert found["PartitionKeys"] == [{"Name": "p", "Type": "string", "Comment": ""}]
    descriptor = found["StorageDescriptor"]
    assert [(c["Name"], c["Type"]) for c in descriptor["Columns"][5:]] == [("id", "bigint"), ("n", "int")]
    assert descriptor["Location"] == str(tmp_path / "t")
    assert descriptor["InputFormat"] == "org.apache.hudi.hadoop.HoodieParquetInputFormat"
    assert [params["SkipArchive"] for params in calls["UpdateTable"]] == [True]
    assert not table.sync(options).changed


def test_partitions_go_in_the_batches_that_aws_takes(tmp_path: Path, options: dict[str, str], calls: Calls):
    table = _create(tmp_path)
    names = [f"p{number:03d}" for number in range(230)]
    table.insert(_rows(names))
    assert table.sync(options).tables[0].partitions_added == tuple(names)
    assert [len(params["PartitionInputList"]) for params in calls["BatchCreatePartition"]] == [100, 100, 30]
    table.delete_partitions(names[:60])
    assert table.sync(options).tables[0].partitions_dropped == tuple(names[:60])
    assert [len(params["PartitionsToDelete"]) for params in calls["BatchDeletePartition"]] == [25, 25, 10]
    # Only what was written was asked for.
    assert [len(params["PartitionsToGet"]) for params in calls["BatchGetPartition"]] == [60]
    assert len(calls["GetPartitions"]) == 1


def test_partitions_in_other_places_are_changed(tmp_path: Path, options: dict[str, str], client: Any, calls: Calls):
    database = options["hoodie.datasource.hive_sync.database"]
    table = _create(tmp_path)
    table.insert(_rows([f"p{number:03d}" for number in range(120)]))
    table.sync(options)
    pages = client.get_paginator("get_partitions").paginate(DatabaseName=database, TableName="t")
    for one in [one for page in pages for one in page["Partitions"]]:
        descriptor = one["StorageDescriptor"] | {"Location": "/elsewhere"}
        client.update_partition(
            DatabaseName=database,
            TableName="t",
            PartitionValueList=one["Values"],
            PartitionInput={"Values": one["Values"], "StorageDescriptor": descriptor},
        )
    again = table.sync({**options, "hoodie.meta.sync.incremental": "false"}).tables[0]
    assert (len(again.partitions_changed), again.complete) == (120, True)
    assert [len(params["Entries"]) for params in calls["BatchUpdatePartition"]] == [100, 20]
    found = client.get_partition(DatabaseName=database, TableName="t", PartitionValues=["p007"])["Partition"]
    assert found["StorageDescriptor"]["Location"] == str(tmp_path / "t" / "p007")


def test_names_of_s3_and_glues_own_options(server: S3Server, options: dict[str, str], client: Any):
    table = hoodoo.Table.create(
        "s3://lake/glue/t",
        SCHEMA,
        name="t",
        record_key="id",
        partition_by="p",
        table_type="MERGE_ON_READ",
        storage_options=server.storage_options,
    )
    table.insert(_rows(["a"]))
    own = {
        "hoodie.datasource.meta.sync.glue.database_name": "Named_By_Glue",
        "hoodie.datasource.meta.sync.glue.table_name": "Trips",
        "hoodie.datasource.meta.sync.glue.metadata_file_listing": "true",
        "hoodie.datasource.meta.sync.base.path": "s3a://lake/glue/t",
    }
    report = table.sync({**options, **own})
    assert [done.name for done in report.tables] == [f"named_by_glue.trips{end}" for end in ("_ro", "_rt", "")]
    found = client.get_table(DatabaseName="named_by_glue", Name="trips_ro")["Table"]
    assert found["StorageDescriptor"]["Location"] == "s3://lake/glue/t"
    assert found["Parameters"]["hudi.metadata-listing-enabled"] == "TRUE"
    opened = hoodoo.Table.from_catalog(
        "named_by_glue.trips_ro", "glue", options=options, storage_options=server.storage_options
    )
    table.upsert({"id": [0], "p": ["a"], "n": [100]})
    assert opened.to_arrow(columns=["n"]).to_pylist() == [{"n": 0}]
    snapshot = hoodoo.Table.from_catalog("named_by_glue.trips", options=options, storage_options=server.storage_options)
    assert snapshot.to_arrow(columns=["n"]).to_pylist() == [{"n": 100}]


def test_a_schema_that_changed(tmp_path: Path, options: dict[str, str], client: Any):
    database = options["hoodie.datasource.hive_sync.database"]
    table = _create(tmp_path)
    table.insert(_rows(["a"]))
    table.sync(options)
    with pytest.warns(hoodoo.HudiWarning, match="schema"):
        table.upsert({"id": [1], "p": ["a"], "n": [1 << 40]})
    (done,) = table.sync(options).tables
    assert [str(change) for change in done.columns] == ["n: int → bigint"]
    found = client.get_table(DatabaseName=database, Name="t")["Table"]
    assert found["StorageDescriptor"]["Columns"][-1] == {"Name": "n", "Type": "bigint", "Comment": ""}


def test_writes_sync_with_glue_when_the_options_ask(tmp_path: Path, options: dict[str, str], client: Any):
    database = options["hoodie.datasource.hive_sync.database"]
    asked = {**options, "hoodie.datasource.meta.sync.enable": True, "hoodie.table.name": "t"}
    asked |= {"hoodie.table.recordkey.fields": "id", "hoodie.table.partition.fields": "p"}
    commit = hoodoo.write(_rows(["a"]), tmp_path / "t", options=asked)
    assert commit.warnings == ()
    found = client.get_table(DatabaseName=database, Name="t")["Table"]
    assert found["Parameters"]["last_commit_time_sync"] == commit.instant


def _failing(answer: Callable[[], Any]) -> Callable[..., Any]:
    def call(**_: Any) -> Any:
        return answer()

    return call


def test_refusals_of_glue_are_told(tmp_path: Path, options: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    table = _create(tmp_path)
    table.insert(_rows(["a", "b"]))
    connect = glue.connect
    answer = {"Errors": [_error("b", "InternalServiceException")]}

    def broken(*arguments: Any, **keywords: Any) -> glue.Glue:
        made = connect(*arguments, **keywords)
        made.client.batch_create_partition = _failing(lambda: answer)
        return made

    monkeypatch.setattr(glue, "connect", broken)
    with pytest.raises(hoodoo.CatalogError, match=r"InternalServiceException for \['b'\].*Table\.sync"):
        table.sync(options)
    # That somebody else was faster is no failure.
    answer["Errors"] = [_error("b", "AlreadyExistsException")]
    table.sync(options)
    no_database = {**options, "hoodie.datasource.hive_sync.auto_create_database": "false"}
    no_database["hoodie.datasource.hive_sync.database"] = "nowhere"
    with pytest.raises(hoodoo.CatalogError, match="no database nowhere: create it"):
        table.sync(no_database)


def _error(value: str, code: str) -> dict[str, Any]:
    return {"PartitionValues": [value], "ErrorDetail": {"ErrorCode": code, "ErrorMessage": json.dumps(value)}}


def test_a_glue_that_cannot_be_reached(tmp_path: Path, options: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    table = _create(tmp_path)
    with pytest.raises(hoodoo.CatalogError, match=r"127\.0\.0\.1"):
        table.sync({**options, "hoodie.aws.glue.endpoint": "http://127.0.0.1:1"})
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    without = {key: value for key, value in options.items() if key != "hoodie.aws.glue.region"}
    with pytest.raises(hoodoo.CatalogError, match=r"hoodie\.aws\.glue\.region"):
        table.sync(without)
