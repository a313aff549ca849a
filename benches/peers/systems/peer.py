"""What the benches ask of a peer."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from benches.peers.case import Case
    from benches.peers.duck import Digest


class Peer(abc.ABC):
    """A system that changes a table."""

    label: str
    """What the report calls it."""
    changes_rows = True
    """False for the floor, which only copies."""

    def missing(self) -> str | None:
        """Says why it cannot run here; None when it can."""
        return None

    @abc.abstractmethod
    def versions(self) -> dict[str, str]:
        """Names what runs."""

    @abc.abstractmethod
    def prepare(self, case: Case) -> None:
        """Makes the table as it is before the change, unless it is there."""

    def start(self, case: Case) -> None:
        """Gets ready for all runs: a session, for instance."""
        del case

    @abc.abstractmethod
    def table(self, case: Case) -> Path:
        """Gives the folder of the table before the change."""

    @abc.abstractmethod
    def upsert(self, case: Case, table: Path) -> None:
        """Applies the changes to a copy of the table. This is what is timed."""

    @abc.abstractmethod
    def digest(self, case: Case, table: Path) -> Digest:
        """Reads the rows of a changed table, with the system's own reader where it has one."""

    def close(self) -> None:  # noqa: B027  # most have nothing to end
        """Ends what `start` began."""
