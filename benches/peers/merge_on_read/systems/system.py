"""What a worker asks of a system."""

from __future__ import annotations

import abc
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from benches.peers.merge_on_read.job import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benches.peers.merge_on_read.job import Job


class System(abc.ABC):
    """A system that reads, changes or merges."""

    packages: tuple[str, ...] = ()
    """What it is made of: it runs where they are there, and their versions are told."""
    ended_peak = 0
    """Most memory of a process that the last run started, and that is gone when it is over; in bytes."""

    def missing(self, job: Job) -> str | None:
        """Says why it cannot run here; None when it can."""
        del job
        lacking = [package for package in self.packages if find_spec(package) is None]
        return f"not installed: {', '.join(lacking)}" if lacking else None

    def versions(self) -> dict[str, str]:
        """Names what runs."""
        return {
            package: str(getattr(import_module(package), "__version__", version(package))) for package in self.packages
        }

    def start(self, job: Job) -> None:  # noqa: B027  # most have nothing to start
        """Gets ready for all runs: a session, inputs in memory."""

    @abc.abstractmethod
    def prepare(self, job: Job, place: Path) -> Callable[[], Any]:
        """Prepares a run; what comes back does it, and is what is timed.

        Args:
            job: What to do.
            place: The table, a fresh copy where it is to be changed.
        """

    def save(self, job: Job, place: Path, result: Any) -> None:
        """Writes the rows of the last run down, as Parquet, at `job.result`.

        Args:
            job: What was done.
            place: The table.
            result: What the run gave: an Arrow table, unless the system says otherwise.
        """
        del place
        import pyarrow.parquet as pq  # noqa: PLC0415

        pq.write_table(result.select(list(COLUMNS)), job.result)

    def close(self) -> None:  # noqa: B027
        """Ends what `start` began."""
