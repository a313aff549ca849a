"""The interface of an engine that runs tasks, such as Spark, Ray or Dask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

import pyarrow as pa

__all__ = ["STRINGS", "Attempt", "BatchFunction", "DataT", "Executor", "string_batch", "strings"]

STRINGS = pa.schema([("value", pa.string())])
"""The schema of units that go to tasks, and of reports that come back."""

DataT = TypeVar("DataT")
"""A distributed data set of the engine, such as a DataFrame of Spark."""


@dataclass(frozen=True)
class Attempt:
    """One attempt of an engine to run a task.

    Attributes:
        number: Number of the task, from 0. Of rows with equal keys, those of a task with a larger number are later.
        token: The write token: `<task>-<stage>-<attempt>`. No two attempts of one job have the same.
    """

    number: int
    token: str


BatchFunction: TypeAlias = Callable[[Iterable[pa.RecordBatch], Attempt], Iterable[pa.RecordBatch]]
"""What a task runs: it takes the batches of one split, and returns batches. Functions can be pickled."""


class Executor(Protocol[DataT]):
    """What an engine has to offer.

    An engine may repeat a task that failed, and may run two attempts of a task at the same time: only the strings that
    `collect` returns decide which files are committed.
    """

    @property
    def shuffle_partitions(self) -> int:
        """The number of splits that `shuffle` makes."""

    @property
    def batch_rows(self) -> int:
        """The largest number of rows that a task gets in one batch, or 0 if there is no limit."""

    def schema(self, data: DataT) -> pa.Schema:
        """Return the schema of the batches that tasks get of a data set."""

    def supported_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema whose types the engine supports and that is closest to a schema."""

    def from_units(self, units: Sequence[str]) -> DataT:
        """Return a data set with a split of one row for each unit, in a column `value` (see `STRINGS`)."""

    def map_batches(self, data: DataT, function: BatchFunction, schema: pa.Schema) -> DataT:
        """Run a function that returns batches of a schema, in a task for each split. The engine may do this lazily."""

    def shuffle(self, data: DataT, by: Sequence[str], sort_by: Sequence[str]) -> DataT:
        """Bring rows with equal values in the columns `by` into one split, and sort each split ascending."""

    def collect(self, data: DataT) -> list[str]:
        """Return the column `value` of a data set (see `STRINGS`).

        Raises:
            HudiError: A task failed with this error, for good.
        """


def string_batch(values: Sequence[str]) -> pa.RecordBatch:
    """Return strings as a batch (see `STRINGS`)."""
    return pa.record_batch([pa.array(values, pa.string())], schema=STRINGS)


def strings(batches: Iterable[pa.RecordBatch]) -> list[str]:
    """Return the column `value` of batches (see `STRINGS`)."""
    return [value for batch in batches for value in batch.column("value").to_pylist()]
