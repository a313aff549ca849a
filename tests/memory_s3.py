"""A small S3 server that keeps objects in memory, in a process of its own: for runs of many thousand requests.

It knows what an `object_store` client asks of S3: objects with conditions (`If-None-Match`, `If-Match`) and metadata,
ranges, listings, deletes of many objects, and uploads in parts. It checks no signatures. `tests/s3_server.py` has moto,
which checks more and takes much longer for a request.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import subprocess
import sys
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from email.utils import formatdate
from time import time
from urllib.parse import parse_qs, unquote
from xml.sax.saxutils import escape, unescape

BUCKET = "lake"
_REASONS = {200: "OK", 204: "No Content", 206: "Partial Content", 404: "Not Found", 412: "Precondition Failed"}
"""Clients look at the numbers."""
_PAGE = 1000


@dataclass
class StoredObject:
    body: bytes
    metadata: dict[str, str]
    modified: float = field(default_factory=time)

    def __post_init__(self) -> None:
        self.etag = f'"{hashlib.md5(self.body, usedforsecurity=False).hexdigest()}-{self.modified:.6f}"'


class Bucket:
    """Objects by key, and keys in order."""

    def __init__(self) -> None:
        self.objects: dict[str, StoredObject] = {}
        self.keys: list[str] = []
        self.uploads: dict[str, dict[int, bytes]] = {}

    def put(self, key: str, item: StoredObject) -> None:
        if key not in self.objects:
            insort(self.keys, key)
        self.objects[key] = item

    def delete(self, key: str) -> None:
        if self.objects.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]

    def list(self, prefix: str, delimiter: str, after: str) -> tuple[list[str], list[str], str]:
        """Keys, common prefixes, and the last of them where there are more."""
        keys: list[str] = []
        folders: list[str] = []
        at = bisect_left(self.keys, max(prefix, after))
        while at < len(self.keys):
            key = self.keys[at]
            if not key.startswith(prefix):
                break
            at += 1
            if key <= after:
                continue
            if len(keys) + len(folders) == _PAGE:
                return keys, folders, max(keys[-1:] + folders[-1:])
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            if end < 0:
                keys.append(key)
                continue
            folder = key[: end + len(delimiter)]
            if folder > after:
                folders.append(folder)
            at = bisect_left(self.keys, folder + "\U0010ffff")
        return keys, folders, ""


Answer = tuple[int, dict[str, str], bytes]


class Connection(asyncio.Protocol):
    """One connection: requests come one after the other."""

    def __init__(self, bucket: Bucket, delay: float) -> None:
        self.bucket, self.delay = bucket, delay
        self.waiting = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.waiting += data
        while True:
            end = self.waiting.find(b"\r\n\r\n")
            if end < 0:
                return
            first, *lines = self.waiting[:end].decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            size = int(headers.get("content-length", "0"))
            if len(self.waiting) < end + 4 + size:
                return
            body, self.waiting = self.waiting[end + 4 : end + 4 + size], self.waiting[end + 4 + size :]
            method, target, _ = first.split(" ")
            status, more, answer = self.answer(method, target, headers, body)
            more.setdefault("Content-Length", str(len(answer)))
            head = "".join(f"{name}: {value}\r\n" for name, value in more.items())
            status_line = f"HTTP/1.1 {status} {_REASONS.get(status, 'Answer')}\r\n"
            answer = f"{status_line}{head}\r\n".encode("latin-1") + (b"" if method == "HEAD" else answer)
            asyncio.get_running_loop().call_later(self.delay, self.transport.write, answer)

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        path, _, query = target.partition("?")
        key = unquote(path).removeprefix(f"/{BUCKET}").removeprefix("/")
        arguments = {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}
        if method == "GET" and "list-type" in arguments:
            return self.listing(arguments)
        if method == "POST" and "delete" in arguments:
            found = re.findall(r"<Key>(.*?)</Key>", body.decode())
            for name in found:
                self.bucket.delete(unescape(name))
            deleted = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in found)
            return 200, {}, f'<?xml version="1.0"?><DeleteResult>{deleted}</DeleteResult>'.encode()
        if "uploadId" in arguments or "uploads" in arguments:
            return self.upload(method, key, arguments, headers, body)
        if method == "PUT":
            return self.put(key, headers, body)
        if method == "DELETE":
            return self.delete(key)
        return self.get(key, headers)

    def delete(self, key: str) -> Answer:
        self.bucket.delete(key)
        return 204, {}, b""

    def put(self, key: str, headers: dict[str, str], body: bytes) -> Answer:
        known = self.bucket.objects.get(key)
        absent, match = headers.get("if-none-match"), headers.get("if-match")
        if (absent == "*" and known) or (match and (known is None or known.etag != match)):
            return 412, {}, b"<Error><Code>PreconditionFailed</Code></Error>"
        metadata = {name: value for name, value in headers.items() if name.startswith("x-amz-meta-")}
        item = StoredObject(body, metadata)
        self.bucket.put(key, item)
        return 200, {"ETag": item.etag}, b""

    def get(self, key: str, headers: dict[str, str]) -> Answer:
        item = self.bucket.objects.get(key)
        if item is None:
            return 404, {}, b"<Error><Code>NoSuchKey</Code></Error>"
        more = {"ETag": item.etag, "Last-Modified": formatdate(item.modified, usegmt=True), **item.metadata}
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", headers.get("range", ""))
        if wanted is None:
            return 200, {**more, "Content-Length": str(len(item.body))}, item.body
        size = len(item.body)
        first, last = wanted.groups()
        begin = int(first) if first else max(0, size - int(last))
        end = min(int(last) + 1, size) if first and last else size
        part = item.body[begin:end]
        more |= {"Content-Range": f"bytes {begin}-{end - 1}/{size}", "Content-Length": str(len(part))}
        return 206, more, part

    def listing(self, arguments: dict[str, str]) -> Answer:
        prefix, delimiter = arguments.get("prefix", ""), arguments.get("delimiter", "")
        after = arguments.get("continuation-token", arguments.get("start-after", ""))
        keys, folders, last = self.bucket.list(prefix, delimiter, after)
        objects = self.bucket.objects

        def entry(key: str) -> str:
            item = objects[key]
            at = formatted(item.modified)
            tag, size = escape(item.etag), len(item.body)
            return (
                f"<Contents><Key>{escape(key)}</Key><LastModified>{at}</LastModified><ETag>{tag}</ETag>"
                f"<Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
            )

        more = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if last else ""
        prefixes = "".join(f"<CommonPrefixes><Prefix>{escape(p)}</Prefix></CommonPrefixes>" for p in folders)
        text = (
            f'<?xml version="1.0"?><ListBucketResult><Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix>'
            f"<KeyCount>{len(keys) + len(folders)}</KeyCount><MaxKeys>{_PAGE}</MaxKeys>"
            f"<IsTruncated>{'true' if last else 'false'}</IsTruncated>{more}"
            f"{''.join(map(entry, keys))}{prefixes}</ListBucketResult>"
        )
        return 200, {"Content-Type": "application/xml"}, text.encode()

    def upload(self, method: str, key: str, arguments: dict[str, str], headers: dict[str, str], body: bytes) -> Answer:
        uploads = self.bucket.uploads
        if "uploads" in arguments:
            name = f"upload-{len(uploads)}-{time()}"
            uploads[name] = {}
            text = f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
            return 200, {}, text.encode()
        name = arguments["uploadId"]
        if method == "PUT":
            uploads[name][int(arguments["partNumber"])] = body
            return 200, {"ETag": f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'}, b""
        parts = uploads.pop(name, {})
        if method == "DELETE":
            return 204, {}, b""
        status, more, answer = self.put(key, headers, b"".join(parts[n] for n in sorted(parts)))
        if status != 200:
            return status, more, answer
        tag = escape(more["ETag"])
        return 200, {}, f"<CompleteMultipartUploadResult><ETag>{tag}</ETag></CompleteMultipartUploadResult>".encode()


def formatted(at: float) -> str:
    """A time as listings have it."""
    from datetime import datetime, timezone

    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


class MemoryS3:
    """A running server with one bucket, in a process of its own."""

    def __init__(self, delay: float = 0.0) -> None:
        """`delay`: seconds until each answer, as a network has it."""
        command = [sys.executable, "-m", "tests.memory_s3", str(delay)]
        # It ends with its standard input, and so with this process.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.endpoint = f"http://127.0.0.1:{self._process.stdout.readline().strip()}"
        self.storage_options = {
            "aws_endpoint": self.endpoint,
            "aws_allow_http": "true",
            "aws_region": "us-east-1",
            "aws_access_key_id": "right",
            "aws_secret_access_key": "secret",
        }

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


async def main(delay: float) -> None:
    bucket = Bucket()
    server = await asyncio.get_running_loop().create_server(lambda: Connection(bucket, delay), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, ended.set)
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
