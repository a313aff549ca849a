"""The stream reader of the data source `hoodoo`: commits in the order in which they completed."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader

from hoodoo.commit_stats import WRITE_ACTIONS, CommitStats, commit_stats
from hoodoo.exceptions import InvalidOptionError, UnsupportedError
from hoodoo.spark.data_source import partitions_of, read_partition
from hoodoo.spark.source_options import checked_start
from hoodoo.table import Table

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        ReadMaxFiles,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before Spark 4.2
    ReadAllAvailable = ReadMaxBytes = ReadMaxFiles = ReadMaxRows = SupportsTriggerAvailableNow = None

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from hoodoo.spark.source_options import SourceOptions
    from hoodoo.timeline import Instant

__all__ = ["TableStreamReader"]

Offset = dict[str, str]

_COMPLETED = "completed"
_BEGINNING = "0"
# The first table version that keeps completion times.
_WITH_COMPLETION_TIMES = 8
_LIMITS = {"maxfilespertrigger": ReadMaxFiles, "maxbytespertrigger": ReadMaxBytes, "maxrowspertrigger": ReadMaxRows}


class _StreamReader(DataSourceStreamReader):
    """Offsets are completion times: a commit that began early and completed late is not missed.

    Tables of version 6 have none. There, offsets are requested times, and a stream waits for pending writes.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        """Take the options and the columns that Spark wants."""
        if options.limits and ReadAllAvailable is None:
            raise UnsupportedError(
                f"Spark before 4.2 asks no source for a part of what is new: leave out {', '.join(options.limits)}"
            )
        if len(options.limits) > 1:
            raise InvalidOptionError(f"the options {', '.join(options.limits)} exclude each other: pass one of them")
        options.check_stream()
        self._options = options
        self._schema = schema
        self._initial: str | None = None
        self._last: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave the open table out: tasks need none."""
        return {key: value for key, value in vars(self).items() if key != "_table"}

    @functools.cached_property
    def _table(self) -> Table:
        return Table(self._options.uri, options=self._options.hudi, storage_options=self._options.storage)

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return the offset before the first commit that a new stream reads."""
        if self._initial is None:
            start = checked_start(self._options.arguments.get("since", self._options.start))
            self._initial = {"earliest": _BEGINNING, "latest": self._newest()}.get(start, start)
        return {_COMPLETED: self._initial}

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:  # noqa: N802 - Spark's name
        """Return the offset of the last commit for the next micro-batch. Spark before 4.2 passes no arguments."""
        begin = (start or self.initialOffset())[_COMPLETED]
        end = self._newest() if self._last is None else self._last
        if end <= begin:
            return {_COMPLETED: begin}
        if begin == _BEGINNING or limit is None or isinstance(limit, ReadAllAvailable):
            # The first snapshot comes whole: what its commits wrote may have been cleaned since.
            return {_COMPLETED: end}
        return {_COMPLETED: self._limited(begin, end, limit)}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Plan what changed between two offsets. A restart plans the same micro-batch again."""
        columns = self._options.columns_of(self._schema.names)
        planned = self._options.plan(columns, since=start[_COMPLETED], until=end[_COMPLETED])
        return partitions_of(planned, self._schema, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Stream the rows of a partition."""
        return read_partition(partition)

    def commit(self, end: Offset) -> None:
        """Do nothing: what a stream has read is in its checkpoint alone."""

    def _newest(self) -> str:
        times = [self._time(instant) for instant in self._writes()]
        return max(times, default=_BEGINNING)

    def _writes(self, *, history: bool = False) -> list[Instant]:
        """Completed writes, up to the first pending one where requested times count."""
        found = self._table.timeline.instants(state="COMPLETED", history=history)
        writes = [instant for instant in found if instant.action in WRITE_ACTIONS and instant.completed]
        if self._table.version >= _WITH_COMPLETION_TIMES:
            return sorted(writes, key=self._time)
        hollow = self._table.timeline.hollow_commits()
        return [instant for instant in writes if not hollow or instant.requested < hollow[0].requested]

    def _time(self, instant: Instant) -> str:
        completed = instant.completed if self._table.version >= _WITH_COMPLETION_TIMES else None
        return completed or instant.requested

    def _limited(self, begin: str, end: str, limit: Any) -> str:
        """The time of the last commit that a limit lets in: of one commit at least."""
        writes = self._writes()
        if not writes or self._time(writes[0]) > begin:
            writes = self._writes(history=True)
        most = _most(limit)
        total, last = 0, begin
        for instant in writes:
            time = self._time(instant)
            if not begin < time <= end:
                continue
            stats = commit_stats(instant.action, self._table.timeline.metadata(instant.requested))
            total += _amount(stats, limit)
            if total > most and last != begin:
                break
            last = time
        return last


def _most(limit: Any) -> int:
    return int(next(value for name, value in vars(limit).items() if name.startswith("max_")))


def _amount(stats: CommitStats, limit: Any) -> int:
    """How much of what a limit counts a commit wrote."""
    if isinstance(limit, ReadMaxFiles):
        return stats.files or 0
    if isinstance(limit, ReadMaxBytes):
        return stats.size or 0
    return (stats.inserted or 0) + (stats.updated or 0)


if ReadAllAvailable is None:
    TableStreamReader = _StreamReader
else:

    class TableStreamReader(_StreamReader, SupportsTriggerAvailableNow):  # type: ignore[no-redef]
        """Reads a part of what is new at a time, from Spark 4.2 on."""

        def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's name
            """Return the limit of the options."""
            for key, most in self._options.limits.items():
                return _LIMITS[key](most)
            return ReadAllAvailable()

        def reportLatestOffset(self) -> Offset:  # noqa: N802 - Spark's name
            """Return the offset of the newest commit."""
            return {_COMPLETED: self._newest()}

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
            """Remember the newest commit: a stream with this trigger ends there."""
            self._last = self._newest()
