"""Storage options that no request can be made with are typed errors, and credentials are in no message."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pytest

from hoodoo import HudiError, HudiWarning, InvalidOptionError, Table, UnsupportedError
from hoodoo.spark.source_options import SourceOptions
from hoodoo.sync.settings import GLUE_TOOL, read_settings
from hoodoo.table_ref import TableRef

_KEYS = {
    "s3://bucket/t": ["aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_region", "aws_endpoint"],
    "gs://bucket/t": ["google_base_url", "google_bucket"],
    "az://container/t": [
        "azure_storage_account_name",
        "azure_storage_account_key",
        "azure_storage_sas_key",
        "azure_storage_token",
        "azure_endpoint",
    ],
}
_ALL = [(uri, key) for uri, keys in _KEYS.items() for key in [*keys, "user_agent", "proxy_url"]]
_BAD = ["hidden\n", "hidden\r\nHost: evil", "hidden\0", "hidd\u00e9n", "hidden\x7f", "\u2028"]


class _Echo(BaseHTTPRequestHandler):
    """Refuses each request, and says what was in it, as S3 does with signatures that are wrong."""

    def do_GET(self) -> None:
        body = f"<Error><Code>SignatureDoesNotMatch</Code><CanonicalRequest>{self.headers}</CanonicalRequest></Error>"
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body.encode())

    do_HEAD = do_PUT = do_GET  # noqa: N815  # names that the server looks for

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()


@pytest.mark.parametrize(("uri", "key"), _ALL)
def test_characters_that_no_header_has_are_refused(uri: str, key: str) -> None:
    for value in _BAD:
        with pytest.raises(InvalidOptionError, match=key) as error:
            Table(uri, storage_options={key: value})
        assert "hidd" not in str(error.value)
        assert "evil" not in str(error.value)


@pytest.mark.parametrize("value", ["", " ", "host", "http://", "ftp://host", "http://a b/"])
@pytest.mark.parametrize(("uri", "key"), [(uri, key) for uri, key in _ALL if "endpoint" in key or "url" in key])
def test_an_endpoint_is_a_url(uri: str, key: str, value: str) -> None:
    with pytest.raises(InvalidOptionError, match=key):
        Table(uri, storage_options={key: value})


def test_an_endpoint_has_no_credentials() -> None:
    with pytest.raises(InvalidOptionError, match="aws_endpoint") as error:
        Table("s3://bucket/t", storage_options={"aws_endpoint": "https://user:hidden@host"})
    assert "hidden" not in str(error.value)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://key:hidden@bucket/t",
        "s3://hidden@bucket/t",
        "s3://key:hid/hidden@bucket/t",
        "s3a://bucket/t?X-Amz-Signature=hidden",
        "gs://bucket/t#hidden",
        "az://container/t?sv=2024&sig=hidden",
        "abfss://container:hidden@account.dfs.core.windows.net/t",
        "https://user:hidden@host/t?sig=hidden",
    ],
)
def test_a_location_with_credentials_is_refused_without_showing_them(uri: str) -> None:
    with pytest.raises((InvalidOptionError, UnsupportedError)) as error:
        Table(uri)
    assert "hidden" not in str(error.value)
    assert "hidden" not in str(error.value.context)


def test_what_a_server_echoes_is_shown_without_secrets(endpoint: str) -> None:
    options = {
        "aws_access_key_id": "AKIA1234",
        "aws_secret_access_key": "secret-4711",
        "aws_session_token": "token-4712",
        "aws_region": "us-east-1",
        "aws_endpoint": endpoint,
        "aws_allow_http": "true",
    }
    with pytest.raises(HudiError, match="CanonicalRequest") as error:
        Table("s3://bucket/t", storage_options=options)
    assert "x-amz-security-token: ***" in str(error.value)
    assert "4711" not in str(error.value)
    assert "4712" not in str(error.value)


def test_secrets_are_in_no_text_of_a_table(tmp_path: Path) -> None:
    """Objects that end up in logs: references for tasks, datasets, the table itself."""
    secrets = {"aws_secret_access_key": "hush", "aws_access_key_id": "id"}
    Table.create(tmp_path / "t", {"id": pa.string()}, name="t", record_key="id").insert({"id": ["a"]})
    table = Table(tmp_path / "t", {"_note": "hush"}, storage_options=secrets)
    reference = TableRef(table.uri, {"hoodie.aws.secret.key": "hush"}, secrets)
    source = SourceOptions.parse(
        {"path": table.uri, "storage.aws_secret_access_key": "hush", "hoodie.aws.secret.key": "hush"}
    )
    glue = {
        "hoodie.datasource.meta.sync.enable": "true",
        "hoodie.meta.sync.client.tool.class": GLUE_TOOL,
        "hoodie.aws.secret.key": "hush",
    }
    sync = read_settings(glue, table.options)
    assert sync.glue_client == {"secret.key": "hush"}
    for shown in (table, reference, source, sync, table.to_dataset(), table.report(), table.to_dataset().instant):
        assert "hush" not in repr(shown)


def test_secrets_are_in_no_file_of_a_table(tmp_path: Path) -> None:
    secrets = {
        "hoodie.aws.access.key": "AKIA-4710",
        "hoodie.aws.secret.key": "secret-4711",
        "hoodie.aws.session.token": "token-4712",
        "hoodie.datasource.hive_sync.password": "password-4713",
    }
    # Each option with this prefix becomes an entry of the commit metadata.
    options = {**secrets, "hoodie.datasource.write.commitmeta.key.prefix": "hoodie.", "hoodie.note": "stored"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HudiWarning)
        table = Table.create(
            tmp_path, {"id": pa.string(), "ts": pa.int64()}, name="t", record_key="id", ordering="ts",
            table_type="MERGE_ON_READ", options=options,
        )  # fmt: skip
        for ts in range(3):
            commit = table.upsert({"id": ["a"], "ts": [ts]})
        table.compact()
        table.cluster()
        table.savepoint(commit.instant)
        table.clean()
    extra = table.timeline.metadata(commit.instant)["extraMetadata"]
    assert extra["hoodie.note"] == "stored"
    for file in tmp_path.rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        assert not re.search(rb"-471[0-3]", content), file
