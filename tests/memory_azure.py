"""A small server that speaks as Azure's blob storage does.

It checks the signature of each request by a shared key, or a SAS token or a bearer token. An account may have a
hierarchical namespace, as Data Lake Storage Gen2 has: then folders are there by themselves, stay when they are empty,
and are listed.
"""

from __future__ import annotations

import base64
import hmac
import re
from email.utils import formatdate
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.memory_s3 import Answer, StoredObject
from tests.memory_stores import BUCKET, MemoryStore, StoreConnection

ACCOUNT = "lakeaccount"
KEY = base64.b64encode(b"the key of the account, 32 bytes").decode()
TOKEN = "token-of-the-test"
SAS = "sv=2024-11-04&ss=b&srt=sco&sp=rwdlac&se=2099-01-01T00%3A00%3A00Z&sig=c2lnbmF0dXJlIG9mIHRoZSB0ZXN0"
_SIGNED = (
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
)
_FOLDER = "is-folder"
_MOST_IN_A_BATCH = 256


def _error(status: int, code: str) -> Answer:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>as the test wants</Message></Error>"
    return status, {"Content-Type": "application/xml", "x-ms-error-code": code}, body.encode()


def signature(method: str, target: str, headers: dict[str, str]) -> str:
    """What a request has to be signed with."""
    path, _, query = target.partition("?")
    values = {name: headers.get(name, "") for name in _SIGNED}
    if values["content-length"] == "0":
        values["content-length"] = ""
    of_azure = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers) if name.startswith("x-ms-"))
    arguments = "".join(f"\n{name}:{value}" for name, value in sorted(parse_qsl(query, keep_blank_values=True)))
    text = "\n".join([method, *values.values(), f"{of_azure}/{ACCOUNT}{path}{arguments}"])
    return base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), "sha256")).decode()


class _AzureConnection(StoreConnection):
    server: MemoryAzure

    def refusal(self, method: str, target: str, headers: dict[str, str]) -> Answer | None:
        query = parse_qs(urlsplit(target).query)
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind == "SharedKey":
            right = given == f"{ACCOUNT}:{signature(method, target, headers)}"
        elif kind == "Bearer":
            right = given == TOKEN
        else:
            right = query.get("sig") == parse_qs(SAS)["sig"]
        if not right:
            return _error(403, f"AuthenticationFailed of {given}")
        if re.split("[/?]", target)[2] != BUCKET:
            return _error(404, "ContainerNotFound")
        return None

    def serve(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        path, _, query = target.partition("?")
        key = unquote(path).removeprefix(f"/{ACCOUNT}/{BUCKET}").removeprefix("/")
        arguments = {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}
        kind = arguments.get("comp")
        if kind == "list":
            return self.listing(arguments)
        if kind == "batch":
            return self.batch(headers, body)
        if kind == "block":
            self.bucket.uploads.setdefault(key, {})[int.from_bytes(arguments["blockid"].encode(), "big")] = body
            return 201, {}, b""
        if kind == "blocklist":
            ids = re.findall(r"<(?:Latest|Uncommitted)>(.*?)</", body.decode())
            blocks = self.bucket.uploads.pop(key, {})
            return self.put(key, headers, b"".join(blocks[int.from_bytes(one.encode(), "big")] for one in ids))
        if method == "PUT":
            return self.put(key, headers, body)
        return self.delete(key) if method == "DELETE" else self.get(key, headers)

    def put(self, key: str, headers: dict[str, str], body: bytes) -> Answer:
        known = self.bucket.objects.get(key)
        if "x-ms-copy-source" in headers:
            path = unquote(urlsplit(headers["x-ms-copy-source"]).path).removeprefix(f"/{ACCOUNT}/{BUCKET}/")
            source = self.bucket.objects.get(path)
            if source is None:
                return _error(404, "BlobNotFound")
            body = source.body
        if headers.get("if-none-match") == "*" and known:
            return _error(409, "BlobAlreadyExists")
        if "if-match" in headers and (known is None or known.etag != headers["if-match"]):
            return _error(412, "ConditionNotMet")
        if self.server.hierarchical and not self.make_folders(key):
            return _error(409, "ResourceTypeMismatch")
        metadata = {name: value for name, value in headers.items() if name.startswith("x-ms-meta-")}
        item = StoredObject(body, metadata)
        self.bucket.put(key, item)
        more = {"x-ms-copy-status": "success"} if "x-ms-copy-source" in headers else {}
        return 202 if more else 201, {"ETag": item.etag, "Last-Modified": formatdate(usegmt=True), **more}, b""

    def make_folders(self, key: str) -> bool:
        """Makes the folders of a file; fails where a file or a folder is in the way."""
        parts = key.split("/")
        for folder in ("/".join(parts[:n]) for n in range(1, len(parts))):
            there = self.bucket.objects.get(folder)
            if there is None:
                self.bucket.put(folder, StoredObject(b"", {_FOLDER: "true"}))
            elif _FOLDER not in there.metadata:
                return False
        there = self.bucket.objects.get(key)
        return there is None or _FOLDER not in there.metadata

    def get(self, key: str, headers: dict[str, str]) -> Answer:
        there = self.bucket.objects.get(key)
        if there is None:
            return _error(404, "BlobNotFound")
        status, more, body = super().get(key, headers)
        more.pop(_FOLDER, None)
        kind = "directory" if _FOLDER in there.metadata else "file"
        return status, {**more, "x-ms-resource-type": kind} if self.server.hierarchical else more, body

    def delete(self, key: str) -> Answer:
        there = self.bucket.objects.get(key)
        if there is None:
            return _error(404, "BlobNotFound")
        if _FOLDER in there.metadata and self.bucket.list(f"{key}/", "", "")[0]:
            return _error(409, "DirectoryIsNotEmpty")
        self.bucket.delete(key)
        return 202, {}, b""

    def batch(self, headers: dict[str, str], body: bytes) -> Answer:
        """Deletes, each a request of its own that is signed by itself."""
        boundary = headers["content-type"].partition("boundary=")[2]
        parts = body.decode().split(f"--{boundary}")[1:-1]
        if len(parts) > _MOST_IN_A_BATCH:
            return _error(400, "ExceedsMaxBatchRequestCount")
        said = ""
        for part in parts:
            about, _, request = part.strip().partition("\r\n\r\n")
            first, *lines = request.split("\r\n")
            method, target, _ = first.split(" ")
            own = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
            number = re.findall(r"(?i)content-id: *(\d+)", about)[0]
            path = unquote(target.partition("?")[0]).removeprefix(f"/{ACCOUNT}/{BUCKET}/")
            status = (self.refusal(method, target, own) or self.delete(path))[0]
            said += (
                f"--answers\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n"
                f"HTTP/1.1 {status} Answer\r\nx-ms-version: 2024-11-04\r\n\r\n"
            )
        return 202, {"Content-Type": "multipart/mixed; boundary=answers"}, f"{said}--answers--\r\n".encode()

    def listing(self, arguments: dict[str, str]) -> Answer:
        delimiter = arguments.get("delimiter", "")
        keys, found, last = self.bucket.list(arguments.get("prefix", ""), delimiter, arguments.get("marker", ""))
        folders = set(found)
        text = ""
        for key in keys:
            item = self.bucket.objects[key]
            if _FOLDER in item.metadata and delimiter:
                folders.add(f"{key}/")
                continue
            kind = "directory" if _FOLDER in item.metadata else "file"
            text += (
                # Tags have no quotes in listings.
                f"<Blob><Name>{escape(key)}</Name><Properties><Last-Modified>{formatdate(item.modified, usegmt=True)}"
                f"</Last-Modified><Etag>{escape(item.etag.strip(chr(34)))}</Etag>"
                f"<Content-Length>{len(item.body)}</Content-Length><Content-Type>application/octet-stream</Content-Type>"
                + (f"<ResourceType>{kind}</ResourceType>" if self.server.hierarchical else "")
                + "</Properties></Blob>"
            )
        text += "".join(f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>" for name in sorted(folders))
        body = (
            f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="{BUCKET}">'
            f"<Blobs>{text}</Blobs><NextMarker>{escape(last)}</NextMarker></EnumerationResults>"
        )
        return 200, {"Content-Type": "application/xml"}, body.encode()


class MemoryAzure(MemoryStore):
    """A running server with one container."""

    connection = _AzureConnection
    scheme = "az"

    def __init__(self, hierarchical: bool = False) -> None:
        self.hierarchical = hierarchical
        super().__init__()

    def server_put(self, key: str) -> None:
        """Makes an empty file, as somebody else might."""
        assert _AzureConnection(self).put(key, {}, b"")[0] == 201

    @property
    def storage_options(self) -> dict[str, str]:
        return {**self.without_credentials, "azure_storage_account_key": KEY}

    @property
    def without_credentials(self) -> dict[str, str]:
        return {
            "azure_storage_account_name": ACCOUNT,
            "azure_storage_endpoint": f"{self.endpoint}/{ACCOUNT}",
            "azure_allow_http": "true",
        }
