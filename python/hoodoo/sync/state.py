"""What a sync has to know of a table: its schema, its newest commits, its partitions."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from hoodoo.commit_stats import WRITE_ACTIONS
from hoodoo.instant_time import parse_instant
from hoodoo.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from hoodoo import _native
    from hoodoo.timeline import Instant

__all__ = ["PartitionChanges", "TableState", "absolute_location"]

_HAS_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True)
class PartitionChanges:
    """The partitions that a sync has to compare.

    Attributes:
        present: Partition paths that hold files.
        gone: Partition paths that hold none any more; empty when all partitions are compared.
        complete: Whether `present` is all partitions of the table.
    """

    present: tuple[str, ...]
    gone: tuple[str, ...]
    complete: bool


def absolute_location(uri: str) -> str:
    """Return the location of a table as others can find it.

    Args:
        uri: The location, which may be a relative path.

    Returns:
        An absolute path, or the URI.

    Examples:
        >>> absolute_location("s3://lake/trips/")
        's3://lake/trips'
    """
    return (uri if _HAS_SCHEME.match(uri) else os.path.abspath(uri)).rstrip("/")  # noqa: PTH100 - no URI is a Path


class TableState:
    """A table as a sync reads it, once: what it looks at first it looks at for all tables of all catalogs.

    Args:
        native: The table.
    """

    def __init__(self, native: _native.NativeTable) -> None:
        """Read nothing yet."""
        self._native = native
        self._timeline = Timeline(native)

    @cached_property
    def properties(self) -> dict[str, str]:
        """The table config."""
        return self._native.properties()

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, without the `_hoodie_*` columns."""
        return self._native.schema()

    @cached_property
    def location(self) -> str:
        """The location, absolute."""
        return absolute_location(self._native.uri)

    @property
    def is_merge_on_read(self) -> bool:
        """Whether the table has log files."""
        return self.properties.get("hoodie.table.type", "").upper() == "MERGE_ON_READ"

    @property
    def is_bootstrapped(self) -> bool:
        """Whether files of the table are in another place."""
        return bool(self.properties.get("hoodie.bootstrap.base.path"))

    @cached_property
    def commits(self) -> list[Instant]:
        """The completed writes of the active timeline, by requested time."""
        found = self._timeline.instants(state="COMPLETED")
        return [instant for instant in found if instant.action in WRITE_ACTIONS]

    @property
    def synced(self) -> tuple[str, str] | None:
        """Requested time of the newest commit, and the newest completion time; None without commits."""
        # Read before the partitions: what is written meanwhile belongs to the next sync.
        if not self.commits:
            return None
        return self.commits[-1].requested, max(commit.completed or "" for commit in self.commits)

    def partition_changes(
        self, synced: str | None, synced_completed: str | None, *, incremental: bool
    ) -> PartitionChanges:
        """Return the partitions to compare with a catalog.

        Args:
            synced: Requested time of the newest commit that the catalog knows.
            synced_completed: The newest completion time that it knows.
            incremental: Whether the partitions written since then are enough.

        Returns:
            The partitions. They are all of the table when the catalog knows no commit, or one that is not on the active
            timeline: archived, rolled back or undone by a restore.
        """
        known = synced is not None and any(commit.requested == synced for commit in self.commits)
        if not (incremental and known):
            return PartitionChanges(self._all_partitions, (), complete=True)
        commits = {commit.requested: commit for commit in [*self._archived_since(synced_completed), *self.commits]}
        later = [commit for commit in commits.values() if _is_later(commit, synced or "", synced_completed)]
        written, suspects = self._touched(later)
        # Only a partition without files is gone: rows may have come back into one that was deleted.
        gone = {path for path in suspects if not self._native.file_slices(path)}
        return PartitionChanges(tuple(sorted(written - gone)), tuple(sorted(gone)), complete=False)

    def _archived_since(self, completed: str | None) -> list[Instant]:
        """Return archived writes that may have completed after a time: one that took long is archived at once."""
        time = None if completed is None else parse_instant(completed)
        if time is None:
            return []
        # As incremental reads, by Hudi's own assumption: no write takes longer than a day.
        since = (time - timedelta(days=1)).strftime("%Y%m%d%H%M%S")
        found = self._timeline.instants(state="COMPLETED", since=since, until=self.commits[-1].requested, history=True)
        return [instant for instant in found if instant.action in WRITE_ACTIONS]

    @cached_property
    def _all_partitions(self) -> tuple[str, ...]:
        return tuple(sorted({row[0] for row in self._native.file_slices(None)}))

    def _touched(self, commits: Sequence[Instant]) -> tuple[set[str], set[str]]:
        """Return the partitions that commits touched, and those of them that may have no files any more."""
        touched, suspects = set[str](), set[str]()
        for commit in commits:
            metadata = self._timeline.metadata(commit)
            written = {path for path, stats in (metadata.get("partitionToWriteStats") or {}).items() if stats}
            replaced = set(metadata.get("partitionToReplaceFileIds") or {})
            touched |= written | replaced
            suspects |= replaced - written
        return touched, suspects


def _is_later(commit: Instant, synced: str, synced_completed: str | None) -> bool:
    """Return whether a catalog does not know a commit: one that began earlier may have completed later."""
    return commit.requested > synced or (synced_completed is not None and (commit.completed or "") > synced_completed)
