"""Clusterings that are cut into tasks of several processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hoodoo import _native
from hoodoo.commit import Commit
from hoodoo.distributed import TableTask
from hoodoo.exceptions import HudiError, InvalidOptionError, SchemaError, UnsupportedError
from hoodoo.options import clustering_request

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["ClusteringTask", "DistributedClustering"]


@dataclass(frozen=True)
class ClusteringTask(TableTask):
    """What the tasks of one clustering do. Can be pickled.

    Attributes:
        instant: Requested time of the clustering.
    """

    instant: str

    def cluster(self, group: str, token: str) -> str:
        """Rewrites one group, or a part of one.

        Args:
            group: The group, as text.
            token: Tells this attempt from others.

        Returns:
            What the driver has to know.
        """
        return _native.cluster_group(self.table(), self.instant, group, token)


class DistributedClustering:
    """The driver's side of a clustering."""

    def __init__(self, native: _native.NativeClustering, task: ClusteringTask, *, is_new: bool) -> None:
        """Takes a clustering that was begun; `is_new`: its plan was made for that."""
        self._native: _native.NativeClustering | None = native
        self._is_new = is_new
        self.groups = native.groups
        self.task = task

    @classmethod
    def begin_each(
        cls,
        uri: str,
        sort_by: str | Sequence[str] | None,
        strategy: str | None,
        instant: str | None,
        *,
        options: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Iterator[DistributedClustering]:
        """Begins what `Table.cluster` would carry out, one plan after the other.

        Yields:
            A clustering. It has to be committed before the next one is asked for.

        Raises:
            InvalidOptionError: As `Table.cluster`.
        """
        given, anew = clustering_request(sort_by, strategy, instant, options)
        storage = dict(storage_options or {})
        table = _native.NativeTable.open(uri, given, storage)
        wanted: list[str | None] = [instant]
        if instant is None and not anew:
            wanted = [row[0] for row in _native.pending_clusterings(table)] or [None]
        pairs = tuple(sorted(given.items())), tuple(sorted(storage.items()))
        for one in wanted:
            begun = cls._begin(table, one, pairs, anew=anew)
            if begun is not None:
                yield begun

    @classmethod
    def _begin(
        cls,
        table: _native.NativeTable,
        instant: str | None,
        pairs: tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]],
        *,
        anew: bool,
    ) -> DistributedClustering | None:
        native = _native.NativeClustering.begin(table, instant, anew)
        if native is None:
            return None
        return cls(native, ClusteringTask(table.uri, *pairs, native.instant), is_new=instant is None)

    def commit(self, files: Sequence[str]) -> Commit:
        """Publishes what the tasks wrote.

        Args:
            files: What they gave back.

        Returns:
            The clustering.

        Raises:
            InvalidOptionError: It was committed or left before.
        """
        if self._native is None:
            raise InvalidOptionError("this clustering is over")
        return Commit.from_native(self._native.commit(files))

    def leave(self) -> None:
        """Lets go of the plan. Unless it was committed it stays planned, and whoever comes next begins it anew."""
        # As long as the object lives, its heartbeat keeps others away; a traceback may keep it alive for long.
        self._native = None

    def give_up(self, error: HudiError) -> None:
        """Lets go of the plan after an error of a task. A new plan that nobody can carry out does not stay.

        Args:
            error: Why the task failed.
        """
        self.leave()
        if self._is_new and isinstance(error, (InvalidOptionError, SchemaError, UnsupportedError)):
            _native.roll_back_clustering(self.task.table(), self.task.instant)
