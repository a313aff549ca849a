"""An S3 server of the test's own: moto on a free port of this machine, which writes down what it is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

import boto3
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

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


class _Handler(WSGIRequestHandler):
    """Keeps a connection for the next request and answers by one write, as S3 does.

    Werkzeug's own makes a connection and a thread for each request, which takes longer than what moto does in it.
    """

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Says nothing."""

    def run_wsgi(self) -> None:
        environ = self.make_environ()
        if not environ.get("wsgi.input_terminated"):
            environ["wsgi.input"] = BytesIO(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        head: list[str] = []
        parts: list[bytes] = []

        def start(line: str, headers: list[tuple[str, str]], _error: Any = None, /) -> Callable[[bytes], object]:
            head[:] = [f"HTTP/1.1 {line}", *(f"{name}: {value}" for name, value in headers)]
            return parts.append

        parts.extend(self.server.app(environ, start))
        body = b"".join(parts)
        environ["wsgi.input"].read()
        if not any(line.lower().startswith("content-length:") for line in head):
            head.append(f"Content-Length: {len(body)}")
        self.wfile.write("\r\n".join([*head, "", ""]).encode("latin-1") + (b"" if self.command == "HEAD" else body))


class S3Server:
    """A running server with one bucket."""

    def __init__(self) -> None:
        self.log: list[Request] = []
        self.before: Callable[[str, str, str], None] | None = None
        """Called with method, key and query before a request is served."""
        self._changing = threading.Lock()
        # For a request to S3 the dispatcher would look for its service in the folders of moto, each time.
        self._s3 = create_backend_app("s3")
        self._services = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True, request_handler=_Handler)
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
        signed = environ.get("HTTP_AUTHORIZATION", "")
        if f"Credential={WRONG_KEY}/" in signed:
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [_REFUSAL]
        if self.before is not None:
            self.before(method, key, query)
        status = 0

        def started(line: str, headers: list[Any], exc_info: Any = None) -> Any:
            nonlocal status
            status = int(line[:3])
            return start_response(line, headers, exc_info)

        listed = _listing(query) if method == "GET" and not key else None
        if listed is not None:
            started("200 OK", [("Content-Type", "application/xml")])
        app = self._s3 if "/s3/aws4_request" in signed else self._services
        if listed is not None:
            body = listed
        else:
            # Moto looks whether a condition holds, and writes later: of two writers with the same condition both win.
            with nullcontext() if method in ("GET", "HEAD") else self._changing:
                body = b"".join(app(environ, started))
        sent = 0 if method == "HEAD" else len(body)
        self.log.append(Request(method, key, query, status, sent, environ.get("HTTP_IF_NONE_MATCH") == "*"))
        return [body]


def _listing(query: str) -> bytes | None:
    """Writes down what moto lists, which moto itself takes 0.2 ms a key for: with it, all else waits for listings."""
    asked = {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}
    known = {"list-type", "prefix", "delimiter", "continuation-token", "start-after", "max-keys"}
    if asked.get("list-type") != "2" or not asked.keys() <= known:
        return None
    s3 = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    wanted = (asked.get(name) for name in ("prefix", "delimiter", "continuation-token", "start-after"))
    most = int(asked.get("max-keys", "1000"))
    try:
        found, is_truncated, token = s3.list_objects_v2(s3.get_bucket(BUCKET), *wanted, most)
    except RuntimeError:
        # A key was added meanwhile; the server has one thread for each connection.
        return _listing(query)
    lines = []
    for item in found:
        if isinstance(item, str):
            lines.append(f"<CommonPrefixes><Prefix>{escape(item)}</Prefix></CommonPrefixes>")
        else:
            lines.append(
                f"<Contents><Key>{escape(item.name)}</Key><LastModified>{item.last_modified_ISO8601}</LastModified>"
                f"<ETag>{escape(item.etag)}</ETag><Size>{item.size}</Size><StorageClass>{item.storage_class}</StorageClass>"
                "</Contents>"
            )
    following = f"<NextContinuationToken>{escape(token)}</NextContinuationToken>" if token else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{BUCKET}</Name><Prefix>{escape(asked.get('prefix', ''))}</Prefix><KeyCount>{len(found)}</KeyCount>"
        f"<MaxKeys>{most}</MaxKeys><IsTruncated>{str(is_truncated).lower()}</IsTruncated>{following}{''.join(lines)}"
        "</ListBucketResult>"
    ).encode()
