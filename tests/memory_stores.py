"""Small servers that keep objects in memory and speak as Google Cloud Storage and Azure do.

They know what an `object_store` client asks of these stores: objects with conditions and metadata, ranges, listings
page by page, deletes, copies, and uploads in parts. They check credentials, write down what they are asked, and can
fail as a test wants. They run in a thread of the test's process, for its other processes too. Where the answers of
the real services differ from S3's, these differ alike: `tests/memory_gcs.py` and `tests/memory_azure.py` have them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.memory_s3 import BUCKET, Answer, Bucket, Connection

__all__ = ["BUCKET", "MemoryStore", "Request", "StoreConnection"]


@dataclass(frozen=True)
class Request:
    """One request, after it was answered."""

    method: str
    path: str
    query: str
    status: int
    begun: float
    """By `time.perf_counter()`, as `ended` is."""
    ended: float


class StoreConnection(Connection):
    """One connection to a `MemoryStore`."""

    def __init__(self, server: MemoryStore) -> None:
        super().__init__(server.bucket, 0.0)
        self.server = server

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        server, (path, _, query) = self.server, target.partition("?")
        begun = time.perf_counter()
        failure = server.fail(method, path) if server.fail is not None else None
        answer = failure or self.refusal(method, target, headers) or self.serve(method, target, headers, body)
        self.delay = server.delay
        server.log.append(Request(method, path, query, answer[0], begun, begun + server.delay))
        return answer

    def serve(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        """Answers a request that may be made."""
        return super().answer(method, target, headers, body)

    def refusal(self, method: str, target: str, headers: dict[str, str]) -> Answer | None:
        """What is answered to a request without the right credentials, or to another bucket."""
        raise NotImplementedError


class MemoryStore:
    """A running server with one bucket, in a thread."""

    connection: type[StoreConnection]
    scheme: str

    def __init__(self) -> None:
        self.bucket = Bucket()
        self.log: list[Request] = []
        self.delay = 0.0
        """Seconds until each answer, as a network has it."""
        self.fail: Callable[[str, str], Answer | None] | None = None
        """Called with method and path before a request is served; what it returns is the answer."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        server = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(60)
        self.endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _start(self) -> asyncio.Server:
        return await self._loop.create_server(lambda: self.connection(self), "127.0.0.1", 0)

    @property
    def storage_options(self) -> dict[str, str]:
        """What a client needs."""
        raise NotImplementedError

    def uri(self, path: str) -> str:
        return f"{self.scheme}://{BUCKET}/{path}"

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)

    @contextmanager
    def recorded(self) -> Iterator[list[Request]]:
        """Gives the requests of a block, complete when the block is left."""
        begin, seen = len(self.log), list[Request]()
        yield seen
        seen.extend(self.log[begin:])

    @contextmanager
    def failing(self, fail: Callable[[str, str], Answer | None]) -> Iterator[None]:
        self.fail = fail
        try:
            yield
        finally:
            self.fail = None


def in_flight(requests: list[Request]) -> int:
    """The most requests that were under way at the same time."""
    # Of what ends and begins at the same moment, the end comes first.
    changes = sorted([(r.begun, 1) for r in requests] + [(r.ended, -1) for r in requests])
    now = most = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def in_sequence(requests: list[Request]) -> int:
    """The largest number of requests of which each began when the one before was answered."""
    count, last = 0, 0.0
    for request in sorted(requests, key=lambda r: r.ended):
        if request.begun >= last:
            count, last = count + 1, request.ended
    return count
