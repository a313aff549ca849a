"""Table locks in services: ZooKeeper and DynamoDB. The core opens them by Hudi's class names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Lease", "ServiceLock", "open_lock"]


class Lease(Protocol):
    """A lock that is held."""

    def is_held(self) -> bool:
        """Return whether it is held as far as this process knows."""

    def is_confirmed(self) -> bool:
        """Ask the service whether it is held."""

    def release(self) -> None:
        """Release it."""


class ServiceLock(Protocol):
    """The lock of one table in a service."""

    place: str
    """Where it is, for messages."""

    def try_acquire(self, owner: str) -> Lease | None:
        """Try once, without waiting. None: another writer holds it."""


def open_lock(provider: str, settings: Mapping[str, str], uri: str) -> ServiceLock:
    """Open the lock of a table.

    Args:
        provider: Class name of Hudi's lock provider.
        settings: The options of the lock that are given.
        uri: Location of the table.

    Returns:
        The lock. Nothing is acquired yet.

    Raises:
        InvalidOptionError: An option is missing or has an invalid value.
        MissingDependencyError: The client of the service is not installed.
    """
    if "Zookeeper" in provider:
        from hoodoo.locks.zookeeper import zookeeper_lock  # noqa: PLC0415 - its client is optional

        return zookeeper_lock(settings, uri, implicit="Implicit" in provider)
    from hoodoo.locks.dynamodb import dynamodb_lock  # noqa: PLC0415 - its client is optional

    return dynamodb_lock(settings, uri, implicit="Implicit" in provider)
