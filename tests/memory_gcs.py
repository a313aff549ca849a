"""A small server that speaks as Google Cloud Storage does: its XML API, which `object_store` uses.

It is that of S3 but for versions: an object has a generation, and writes are made under the condition of one. Deleting
what is not there is an error. A limit for writes to one object can be set, which the service has too.
"""

from __future__ import annotations

import itertools
import re
import time
from urllib.parse import unquote

from tests.memory_s3 import Answer, StoredObject
from tests.memory_stores import BUCKET, MemoryStore, StoreConnection

TOKEN = "token-of-the-test"


def _error(status: int, code: str) -> Answer:
    return (
        status,
        {"Content-Type": "application/xml"},
        f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode(),
    )


class _GcsConnection(StoreConnection):
    server: MemoryGcs

    def refusal(self, method: str, target: str, headers: dict[str, str]) -> Answer | None:
        del method
        if headers.get("authorization") != f"Bearer {TOKEN}":
            # The service repeats what it was sent here and there; no message may show it.
            return _error(401, f"AuthenticationRequired of {headers.get('authorization')}")
        if re.split("[/?]", target)[1] != BUCKET:
            return _error(404, "NoSuchBucket")
        return None

    def put(self, key: str, headers: dict[str, str], body: bytes) -> Answer:
        server, known = self.server, self.bucket.objects.get(key)
        if "x-goog-copy-source" in headers:
            source = self.bucket.objects.get(unquote(headers["x-goog-copy-source"]).removeprefix(f"{BUCKET}/"))
            if source is None:
                return _error(404, "NoSuchKey")
            body = source.body
        wanted = headers.get("x-goog-if-generation-match")
        if wanted is not None and wanted != (known.metadata["x-goog-generation"] if known else "0"):
            return _error(412, "PreconditionFailed")
        if known and time.time() - known.modified < server.seconds_between_writes:
            return _error(429, "SlowDown")
        metadata = {name: value for name, value in headers.items() if name.startswith("x-goog-meta-")}
        item = StoredObject(body, {**metadata, "x-goog-generation": str(next(server.generations))})
        self.bucket.put(key, item)
        answer = {"ETag": item.etag, "x-goog-generation": item.metadata["x-goog-generation"]}
        copied = b"<CopyObjectResult></CopyObjectResult>" if "x-goog-copy-source" in headers else b""
        return 200, answer, copied

    def delete(self, key: str) -> Answer:
        return super().delete(key) if key in self.bucket.objects else _error(404, "NoSuchKey")


class MemoryGcs(MemoryStore):
    """A running server with one bucket."""

    connection = _GcsConnection
    scheme = "gs"

    def __init__(self) -> None:
        self.generations = itertools.count(1_700_000_000_000_001)
        self.seconds_between_writes = 0.0
        """Seconds in which an object is written once; the service has one."""
        super().__init__()

    @property
    def storage_options(self) -> dict[str, str]:
        return {
            "google_base_url": self.endpoint,
            "google_allow_http": "true",
            "google_bearer_token": TOKEN,
        }
