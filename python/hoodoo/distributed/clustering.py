"""Clusterings in tasks, one or more for each group of a plan."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from hoodoo import _native
from hoodoo.distributed.task import BegunService, ServiceTask, TableRef
from hoodoo.exceptions import InvalidOptionError, SchemaError, UnsupportedError
from hoodoo.options import Columns, Options, clustering_request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hoodoo.commit import Commit
    from hoodoo.distributed.executor import DataT, Executor

__all__ = ["ClusteringTask", "begin_clusterings", "execute_clusterings"]

_log = logging.getLogger(__name__)


class ClusteringTask(ServiceTask):
    """Executes one group of a clustering plan, or a range of a large group."""

    def execute(self, unit: str, token: str) -> str:
        """Rewrite one group. See `ServiceTask.execute`."""
        return _native.cluster_group(self.table.open(), self.instant, unit, token)


def begin_clusterings(
    uri: str,
    sort_by: Columns | None = None,
    strategy: str | None = None,
    instant: str | None = None,
    *,
    options: Options | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Iterator[BegunService]:
    """Begin clusterings, one after the other. Arguments and errors as those of `hoodoo.spark.cluster`.

    Commit or release a clustering before you ask for the next one.
    """
    given, new_plan = clustering_request(sort_by, strategy, instant, options)
    table, ref = TableRef.resolve(uri, given, storage_options)
    instants: list[str | None] = [instant]
    if instant is None and not new_plan:
        instants = [row[0] for row in _native.pending_clusterings(table)] or [None]
    for one in instants:
        begun = _begin(table, ref, one, new_plan=new_plan)
        if begun is not None:
            yield begun


def _begin(table: _native.NativeTable, ref: TableRef, instant: str | None, *, new_plan: bool) -> BegunService | None:
    # A function of its own: a suspended generator must not hold the native object, see `BegunService.release`.
    native = _native.NativeClustering.begin(table, instant, new_plan)
    if native is None:
        return None
    return BegunService(native, native.groups, ClusteringTask(ref, native.instant), is_new=instant is None)


def execute_clusterings(executor: Executor[DataT], plans: Iterable[BegunService]) -> Commit | None:
    """Execute clusterings one after the other, and return the commit of the last one."""
    last = None
    for begun in plans:
        try:
            last = _execute(executor, begun)
        finally:
            begun.release()
    return last


def _execute(executor: Executor[DataT], begun: BegunService) -> Commit:
    instant, table, count, began = begun.task.instant, begun.task.table, len(begun.units), time.monotonic()
    _log.info("clustering %s of %s begins: %d tasks", instant, table.uri, count)
    try:
        reports = begun.run(executor)
    except (InvalidOptionError, SchemaError, UnsupportedError):
        begun.release()
        if begun.is_new:
            # A plan that cannot be executed must not stay.
            _native.roll_back_clustering(table.open(), instant)
        raise
    commit = begun.commit(reports)
    _log.info("clustering %s is done: %d tasks in %.1f s", instant, count, time.monotonic() - began)
    return commit
