"""Writes on Spark are synced with a catalog when the options ask, and tell it Spark's version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

import hoodoo
import hoodoo.spark
from hoodoo.sync.settings import GLUE_TOOL
from tests.s3_server import S3Server


@pytest.fixture
def server() -> Iterator[S3Server]:
    running = S3Server()
    yield running
    running.close()


def test_a_write_is_synced(spark: Any, server: S3Server, tmp_path: Path):
    keys = {"aws_access_key_id": "right", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
    options = {
        "hoodie.table.name": "t",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "p",
        "hoodie.datasource.meta.sync.enable": "true",
        "hoodie.meta.sync.client.tool.class": GLUE_TOOL,
        "hoodie.aws.glue.endpoint": server.endpoint,
        "hoodie.aws.glue.region": "us-east-1",
        "hoodie.aws.access.key": "right",
        "hoodie.aws.secret.key": "secret",
    }
    commit = hoodoo.spark.write(spark.sql("select 1L as id, 'a' as p"), str(tmp_path / "t"), options=options)
    client = boto3.client("glue", endpoint_url=server.endpoint, **keys)
    parameters = client.get_table(DatabaseName="default", Name="t")["Table"]["Parameters"]
    assert commit.warnings == ()
    assert parameters["last_commit_time_sync"] == commit.instant
    assert parameters["spark.sql.create.version"] == spark.version
    down = {**options, "hoodie.aws.glue.region": "not a region"}
    with pytest.warns(hoodoo.HudiWarning, match="the catalog sync after it failed"):
        second = hoodoo.spark.write(spark.sql("select 2L as id, 'b' as p"), str(tmp_path / "t"), options=down)
    assert len(second.warnings) == 1
    assert hoodoo.spark.read(spark, str(tmp_path / "t")).count() == 2
