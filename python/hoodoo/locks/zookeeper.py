"""Table locks in ZooKeeper, the same as those of Hudi's `ZookeeperBasedLockProvider`: Curator's inter-process mutex."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from hoodoo.exceptions import InvalidOptionError, LockError
from hoodoo.extras import import_extra
from hoodoo.locks.settings import hash_of, positive, required

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ZookeeperLease", "ZookeeperLock", "zookeeper_lock"]

_PREFIX = "hoodie.write.lock.zookeeper."
# Curator names its nodes so; who has the smallest number behind it holds the lock.
_NODE = "-lock-"

_clients: dict[tuple[int, str, int], Any] = {}
_guard = threading.Lock()


def zookeeper_lock(settings: Mapping[str, str], uri: str, *, implicit: bool) -> ZookeeperLock:
    """Open the lock of a table, as `open_lock` does. `implicit`: its place follows from the URI."""
    import_extra("kazoo", "zookeeper", "a lock in ZooKeeper")
    hosts = required(settings, f"{_PREFIX}url")
    port = settings.get(f"{_PREFIX}port")
    if port:
        hosts = ",".join(host if ":" in host else f"{host}:{port.strip()}" for host in hosts.split(","))
    if implicit:
        place = f"/tmp/{hash_of(uri)}/lock_key"  # noqa: S108 - a path of ZooKeeper
    else:
        base = required(settings, f"{_PREFIX}base_path").rstrip("/")
        if not base.startswith("/"):
            message = f"invalid value {base!r} for {_PREFIX}base_path: expected a path of ZooKeeper, beginning with /"
            raise InvalidOptionError(message)
        place = f"{base}/{required(settings, f'{_PREFIX}lock_key', settings.get('hoodie.table.name'))}"
    session = positive(settings, f"{_PREFIX}session_timeout_ms", 60_000)
    connecting = positive(settings, f"{_PREFIX}connection_timeout_ms", 15_000)
    return ZookeeperLock(hosts, place, session, connecting)


class ZookeeperLock:
    """The lock of one table."""

    def __init__(self, hosts: str, path: str, session_ms: int, connecting_ms: int) -> None:
        """Make the lock; nothing is asked yet."""
        self.place = f"zookeeper://{hosts}{path}"
        self._hosts, self._path, self._session_ms, self._connecting_ms = hosts, path, session_ms, connecting_ms

    def try_acquire(self, owner: str) -> ZookeeperLease | None:
        """Try once, without waiting.

        Raises:
            LockError: ZooKeeper does not answer.
        """
        from kazoo.exceptions import KazooException  # noqa: PLC0415 - optional

        client = None
        try:
            client = self._client()
            created = client.create(
                f"{self._path}/{os.urandom(16).hex()}{_NODE}",
                owner.encode(),
                ephemeral=True,
                sequence=True,
                makepath=True,
            )
            if self._first(client) == created.rsplit("/", 1)[1]:
                return ZookeeperLease(client, created)
            client.delete(created)
        except (KazooException, client_timeout()) as error:
            _end_session(client)
            raise self._failed(error) from error
        return None

    def _first(self, client: Any) -> str | None:
        """The node of the holder: of all names that Curator and others sort by what is behind the last `lock-`."""
        nodes = [node for node in client.get_children(self._path) if _NODE in node]
        return min(nodes, key=lambda node: node.rsplit(_NODE, 1)[1], default=None)

    def _client(self) -> Any:
        """A client of this process, which all tables share that have the same ZooKeeper."""
        from kazoo.client import KazooClient  # noqa: PLC0415 - optional

        key = (os.getpid(), self._hosts, self._session_ms)
        with _guard:
            client = _clients.get(key)
            if client is None or not client.connected:
                if client is not None:
                    client.stop()
                    client.close()
                client = KazooClient(hosts=self._hosts, timeout=self._session_ms / 1000)
                client.start(timeout=self._connecting_ms / 1000)
                _clients[key] = client
            return client

    def _failed(self, error: BaseException) -> LockError:
        return LockError(f"ZooKeeper does not answer ({type(error).__name__}: {error}) [lock={self.place}]")


def _end_session(client: Any) -> None:
    """End the session of a client that failed: a node that it left would lock the table as long as it lasts."""
    if client is None:
        return
    with _guard:
        for key in [key for key, known in _clients.items() if known is client]:
            del _clients[key]
    client.stop()
    client.close()


def client_timeout() -> type[Exception]:
    """Return the class of the errors by which kazoo's client says that nobody answers."""
    from kazoo.handlers.threading import KazooTimeoutError  # noqa: PLC0415 - optional

    timeout: type[Exception] = KazooTimeoutError
    return timeout


class ZookeeperLease:
    """A node that exists as long as the session of its client."""

    def __init__(self, client: Any, node: str) -> None:
        """Watch the session."""
        self._client, self._node, self._lost = client, node, False
        client.add_listener(self._changed)

    def _changed(self, state: str) -> None:
        # SUSPENDED: the session may end before the connection is back.
        if state != "CONNECTED":
            self._lost = True

    def is_held(self) -> bool:
        """Return whether the session has lasted."""
        return not self._lost and bool(self._client.connected)

    def is_confirmed(self) -> bool:
        """Ask whether the node exists, and is of this session.

        Raises:
            LockError: ZooKeeper does not answer.
        """
        from kazoo.exceptions import KazooException  # noqa: PLC0415 - optional

        try:
            found = self._client.exists(self._node)
        except (KazooException, client_timeout()) as error:
            raise LockError(f"ZooKeeper does not answer ({type(error).__name__}: {error})") from error
        return self.is_held() and found is not None and found.ephemeralOwner == self._client.client_id[0]

    def release(self) -> None:
        """Delete the node.

        Raises:
            LockError: ZooKeeper does not answer; the node goes with the session, which ends.
        """
        from kazoo.exceptions import KazooException, NoNodeError  # noqa: PLC0415 - optional

        self._client.remove_listener(self._changed)
        try:
            self._client.delete(self._node)
        except NoNodeError:
            pass
        except (KazooException, client_timeout()) as error:
            _end_session(self._client)
            raise LockError(f"ZooKeeper does not answer ({type(error).__name__}: {error})") from error
