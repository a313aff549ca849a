"""What tasks carry: a table, and the units of a plan of a compaction or a clustering."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hoodoo import _native
from hoodoo.arguments import storage_settings
from hoodoo.commit import Commit
from hoodoo.distributed.executor import STRINGS, Attempt, DataT, Executor, string_batch, strings
from hoodoo.exceptions import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

__all__ = ["BegunService", "ServiceTask", "TableRef"]


@dataclass(frozen=True)
class TableRef:
    """How to open a table in another process. Can be pickled.

    Attributes:
        uri: Location of the table.
        options: Hudi's options.
        storage_options: Settings of the storage.
    """

    uri: str
    options: dict[str, str]
    storage_options: dict[str, str]

    @classmethod
    def resolve(
        cls, uri: str, options: dict[str, str], storage_options: Mapping[str, str] | None
    ) -> tuple[_native.NativeTable, TableRef]:
        """Open a table, and return it with a reference to it: a relative path is made absolute."""
        storage = storage_settings(storage_options)
        table = _native.NativeTable.open(uri, options, storage)
        return table, cls(table.uri, options, storage)

    def open(self) -> _native.NativeTable:
        """Open the table.

        Each task opens it again: a worker process outlives a job, and the location may hold another table by then.
        """
        return _native.NativeTable.open(self.uri, self.options, self.storage_options)


@dataclass(frozen=True)
class ServiceTask:
    """What the tasks of a service run. Can be pickled.

    Attributes:
        table: The table.
        instant: Requested time of the plan.
    """

    table: TableRef
    instant: str

    def execute(self, unit: str, token: str) -> str:
        """Execute one unit of the plan.

        Args:
            unit: The unit, as the plan has it.
            token: Write token of the attempt.

        Returns:
            The report for the driver.
        """
        raise NotImplementedError

    def run(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:
        """Execute the units of a split."""
        for batch in batches:
            yield string_batch([self.execute(unit, attempt.token) for unit in strings([batch])])


@dataclass
class BegunService:
    """A service whose plan is inflight, on the driver.

    Attributes:
        native: The service; None when it is over.
        units: The units of its plan.
        task: What the tasks run.
        is_new: Whether the plan was made for this execution.
    """

    native: _native.NativeCompaction | _native.NativeClustering | None
    units: list[str]
    task: ServiceTask
    is_new: bool = False

    def run(self, executor: Executor[DataT]) -> list[str]:
        """Execute the units in tasks, and return their reports."""
        return executor.collect(executor.map_batches(executor.from_units(self.units), self.task.run, STRINGS))

    def commit(self, reports: Sequence[str]) -> Commit:
        """Commit the files that tasks report.

        Raises:
            InvalidOptionError: The service was committed or released before.
        """
        if self.native is None:
            raise InvalidOptionError(f"the service {self.task.instant} is over: it was committed or released before")
        return Commit.from_native(self.native.commit(list(reports)))

    def release(self) -> None:
        """Release the plan. Unless it was committed it stays pending, and any process can execute it."""
        # The heartbeat lives as long as the native object, which a traceback may hold for a long time.
        self.native = None
