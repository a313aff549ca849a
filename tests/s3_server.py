"""An S3 server of the test's own: moto on a free port of this machine, which writes down what it is asked."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

BUCKET = "lake"
WRONG_KEY = "wrong"
"""An access key that the server refuses, which moto by itself does not."""

_REFUSAL = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>InvalidAccessKeyId</Code>'
    b"<Message>The AWS Access Key Id you provided does not exist in our records.</Message></Error>"
)


@dataclass(frozen=True)
class Request:
    """One request, after it was answered."""

    method: str
    key: str
    """Key of the object; empty for a request to the bucket."""
    query: str
    status: int
    sent: int
    """Bytes of the answer."""
    only_if_absent: bool


class S3Server:
    """A running server with one bucket."""

    def __init__(self) -> None:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self.log: list[Request] = []
        self.before: Callable[[str, str, str], None] | None = None
        """Called with method, key and query before a request is served."""
        self._app = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self.storage_options = {
            "aws_endpoint": self.endpoint,
            "aws_allow_http": "true",
            "aws_region": "us-east-1",
            "aws_access_key_id": "right",
            "aws_secret_access_key": "secret",
        }
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id="right",
            aws_secret_access_key="secret",
        )
        self.client.create_bucket(Bucket=BUCKET)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def keys(self, prefix: str) -> list[str]:
        """Lists the objects below a prefix."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", [])]

    @contextmanager
    def recorded(self) -> Iterator[list[Request]]:
        """Gives the requests of a block, complete when the block is left."""
        begin, seen = len(self.log), list[Request]()
        yield seen
        seen.extend(self.log[begin:])

    def _serve(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, query = environ["REQUEST_METHOD"], environ.get("QUERY_STRING", "")
        key = environ["PATH_INFO"].removeprefix(f"/{BUCKET}").strip("/")
        if f"Credential={WRONG_KEY}/" in environ.get("HTTP_AUTHORIZATION", ""):
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [_REFUSAL]
        if self.before is not None:
            self.before(method, key, query)
        status = 0

        def started(line: str, headers: list[Any], exc_info: Any = None) -> Any:
            nonlocal status
            status = int(line[:3])
            return start_response(line, headers, exc_info)

        body = b"".join(self._app(environ, started))
        sent = 0 if method == "HEAD" else len(body)
        self.log.append(Request(method, key, query, status, sent, environ.get("HTTP_IF_NONE_MATCH") == "*"))
        return [body]
