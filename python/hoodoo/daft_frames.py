"""Tables as DataFrames of Daft, whose tasks read file slices."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import daft
    import pyarrow as pa
    from daft.io.pushdowns import Pushdowns

    from hoodoo.pruning import Pruning
    from hoodoo.snapshot import Snapshot

__all__ = ["daft_frame"]


def daft_frame(snapshot: Snapshot) -> daft.DataFrame:
    """Return a DataFrame of Daft over a snapshot. Errors as those of `Table.to_daft`."""
    # Daft is no dependency of hoodoo, so that its base classes are known only here.
    from daft.io.source import DataSource, DataSourceTask  # noqa: PLC0415
    from daft.recordbatch import RecordBatch  # noqa: PLC0415
    from daft.schema import Schema  # noqa: PLC0415

    class SliceTask(DataSourceTask):  # type: ignore[misc]
        def __init__(self, columns: list[str], pruning: Pruning | None, unit: str) -> None:
            self._columns, self._pruning, self._unit = columns, pruning, unit

        @property
        def schema(self) -> Any:
            return Schema.from_pyarrow_schema(_columns(snapshot.schema, self._columns))

        async def read(self) -> AsyncIterator[Any]:
            with snapshot.errors():
                rows = await asyncio.to_thread(snapshot.stream, self._columns, self._pruning, [self._unit])
                while (batch := await asyncio.to_thread(next, rows, None)) is not None:
                    yield RecordBatch.from_arrow_record_batches([batch], rows.schema)

    class SnapshotSource(DataSource):  # type: ignore[misc]
        @property
        def name(self) -> str:
            return f"hoodoo: {snapshot.table.uri}"

        @property
        def schema(self) -> Any:
            return Schema.from_pyarrow_schema(snapshot.schema)

        async def get_tasks(self, pushdowns: Pushdowns) -> AsyncIterator[Any]:
            columns, pruning = _pushed_down(snapshot, pushdowns)
            for unit in await asyncio.to_thread(snapshot.pruned, pruning):
                yield SliceTask(columns, pruning, unit)

    return SnapshotSource().read()


def _columns(schema: pa.Schema, names: list[str]) -> pa.Schema:
    import pyarrow as pa  # noqa: PLC0415

    return pa.schema([schema.field(name) for name in names])


def _pushed_down(snapshot: Snapshot, pushdowns: Pushdowns) -> tuple[list[str], Pruning | None]:
    """The columns of a query and of its filter, and what a scan can prune by. Daft applies the filter itself."""
    from hoodoo.expressions import columns_of  # noqa: PLC0415 - imports pyarrow.dataset

    names = snapshot.schema.names
    wanted = set(names if pushdowns.columns is None else pushdowns.columns)
    pruning = None
    if pushdowns.filters is not None:
        wanted |= pushdowns.filter_required_column_names()
        try:
            condition = pushdowns.filters.to_arrow_expr()
        except Exception:  # noqa: BLE001 - Daft has expressions that pyarrow has not: nothing is pruned by these
            condition = None
        pruning = None if condition is None else columns_of(condition, snapshot.schema)[1]
    return [name for name in names if name in wanted], pruning
