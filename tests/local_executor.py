"""An engine without a cluster: runs the tasks of `hoodoo.distributed` one after the other in this process.

Functions and their state pass through pickle, as they do on a real engine.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pyarrow as pa

from hoodoo.distributed import Attempt, BatchFunction
from hoodoo.distributed.executor import strings

Splits = list[pa.Table]


class LocalExecutor:
    """See `hoodoo.distributed.Executor`. A data set is a list of tables, one for each split."""

    def __init__(self, shuffle_partitions: int = 1) -> None:
        self._partitions = shuffle_partitions
        self.stages: list[str] = []

    @property
    def shuffle_partitions(self) -> int:
        return self._partitions

    @property
    def batch_rows(self) -> int:
        return 0

    def schema(self, data: Splits) -> pa.Schema:
        return data[0].schema

    def supported_schema(self, schema: pa.Schema) -> pa.Schema:
        return schema

    def from_units(self, units: Sequence[str]) -> Splits:
        return [pa.table({"value": [unit]}) for unit in units]

    def map_batches(self, data: Splits, function: BatchFunction, schema: pa.Schema) -> Splits:
        stage = len(self.stages)
        self.stages.append(getattr(function, "__name__", "?"))
        results = []
        for number, split in enumerate(data):
            task: BatchFunction = pickle.loads(pickle.dumps(function))
            batches = list(task(split.combine_chunks().to_batches(), Attempt(number, f"{number}-{stage}-{number}")))
            assert all((b.schema.names, b.schema.types) == (schema.names, schema.types) for b in batches), schema
            results.append(pa.Table.from_batches(batches, batches[0].schema if batches else schema))
        return results

    def shuffle(self, data: Splits, by: Sequence[str], sort_by: Sequence[str]) -> Splits:
        rows = pa.concat_tables(data, promote_options="permissive")
        keys = zip(*(rows[name].to_pylist() for name in by), strict=True)
        splits = pa.array([hash(key) % self._partitions for key in keys], pa.int64())
        parts = [rows.filter(pa.compute.equal(splits, number)) for number in range(self._partitions)]
        return [part.sort_by([(name, "ascending") for name in sort_by]) if sort_by else part for part in parts]

    def collect(self, data: Splits) -> list[str]:
        return strings(batch for split in data for batch in split.to_batches())
