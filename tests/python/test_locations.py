"""Locations: the schemes that Hadoop's file systems have are served, or refused by name with a way out."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import HudiError, InvalidOptionError, Table, TableNotFoundError, UnsupportedError
from hoodoo.distributed.read import read_table
from tests.local_executor import LocalExecutor

_REFUSED = {
    "hdfs://namenode:8020/warehouse/t": ("HDFS", "conditional updates", "distcp"),
    "hdfs:///warehouse/t": ("HDFS", "conditional updates", "distcp"),
    "HDFS://nameservice/t": ("HDFS", "conditional updates", "distcp"),
    "viewfs://cluster/t": ("HDFS", "conditional updates", "distcp"),
    "webhdfs://namenode:9870/t": ("HDFS", "conditional updates", "distcp"),
    "ofs://om/volume/bucket/t": ("Ozone", "no client", "s3://"),
    "dbfs:/mnt/t": ("Databricks", "from within", "abfss://"),
    "dbfs:///mnt/t": ("Databricks", "from within", "abfss://"),
    "alluxio://master:19998/t": ("Alluxio", "no client", "s3://"),
    "oss://bucket/t": ("OSS", "own protocol", "aws_endpoint"),
    "cosn://bucket-1250000000/t": ("COS", "own protocol", "aws_endpoint"),
    "obs://bucket/t": ("OBS", "own protocol", "aws_endpoint"),
}


@pytest.mark.parametrize("uri", _REFUSED)
def test_file_systems_that_are_not_supported(uri: str):
    what, why, way_out = _REFUSED[uri]
    scheme = uri.partition(":")[0].lower()
    for act in (Table, lambda uri: Table.create(uri, {"id": pa.string()}, name="t", record_key="id")):
        with pytest.raises(UnsupportedError, match=rf"(?s)'{scheme}' is not supported.*{what}.*{why}") as error:
            act(uri)
        assert way_out in str(error.value)
        assert uri in str(error.value)


@pytest.mark.parametrize("uri", ["ftp://host/t", "https://host/t", "gcs://bucket/t", "nothing://x/t"])
def test_schemes_that_nobody_knows(uri: str):
    with pytest.raises(UnsupportedError, match=rf"'{uri.partition(':')[0]}' is not supported.*Use a local folder"):
        Table(uri)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("s3://", "not a table location"),
        ("s3:/bucket/t", "not a table location"),
        ("gs:///t", "not a table location"),
        ("az:/container/t", "not a table location"),
        ("adl://account.azuredatalakestore.net/t", "names no container and account of Azure"),
        ("abfss://account.dfs.core.windows.net/t", "names no container and account of Azure"),
        ("abfss://container@account/t", "names no container and account of Azure"),
        ("wasbs://container@example.com/t", "names no container and account of Azure"),
        ("az://container/t", "azure_storage_account_name"),
        ("file:data/t", "begins with a slash"),
        ("file://elsewhere/data/t", "another machine"),
        ("file://elsewhere", "another machine"),
    ],
)
def test_locations_that_are_wrong(uri: str, said: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(InvalidOptionError, match=said):
        Table(uri)


def test_spellings_of_a_local_folder(tmp_path: Path):
    root = tmp_path / "t"
    Table.create(f"file://{root}", {"id": pa.string()}, name="t", record_key="id").insert({"id": ["a"]})
    for uri in (root, f"{root}/", f"file:{root}", f"file://{root}", f"file://localhost{root}", f"file://{root}/"):
        table = Table(uri)
        assert table.uri == str(root)
        assert table.to_arrow(columns=["id"]).to_pydict() == {"id": ["a"]}


@pytest.mark.parametrize("uri", ["S3://bucket/t", "S3A://bucket/t", "s3n://bucket/t", "GS://bucket/t"])
def test_a_scheme_is_a_scheme_in_any_case(uri: str):
    """Nobody answers there: what matters is who is asked."""
    options = {
        "max_retries": "0",
        "aws_endpoint": "http://127.0.0.1:9",
        "google_base_url": "http://127.0.0.1:9",
        "google_bearer_token": "t",
        "aws_access_key_id": "a",
        "aws_secret_access_key": "b",
        "allow_http": "true",
    }
    with pytest.raises(HudiError, match=r"table=(s3|gs)://bucket/t.*127\.0\.0\.1:9") as error:
        Table(uri, storage_options=options)
    assert not isinstance(error.value, UnsupportedError | TableNotFoundError)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_retries", "many"),
        ("max_retries", "-1"),
        ("retry_timeout", "soon"),
        ("MAX_RETRIES", ""),
        ("retry_timeout", ""),
    ],
)
def test_retries_are_numbers(key: str, value: str):
    with pytest.raises(InvalidOptionError, match=f"storage option {key.lower()}"):
        Table("s3://bucket/t", storage_options={key: value})


def test_folders_above_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for folder in ("work/here", "data", "elsewhere/linked"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "work/link").symlink_to(tmp_path / "elsewhere/linked")
    monkeypatch.chdir(tmp_path / "work")
    rows, options = {"id": [1]}, {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    for uri, place in (("../data/t", "data/t"), ("here/../../data/u", "data/u"), ("link/../v", "elsewhere/v")):
        hoodoo.write(rows, uri, options=options)
        assert (tmp_path / place / ".hoodie").is_dir()
        assert Table(uri).count() == Table(Path(uri)).count() == 1
        splits = read_table(LocalExecutor(), uri)
        assert sum(one.num_rows for one in splits) == 1
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Table("~/data/t").count() == Table(Path("~/data/t")).count() == 1
