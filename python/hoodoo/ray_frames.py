"""Tables as datasets of Ray Data, whose tasks read file slices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    import ray.data

    from hoodoo.snapshot import Snapshot

__all__ = ["ray_dataset"]


def ray_dataset(snapshot: Snapshot, columns: Sequence[str] | None) -> ray.data.Dataset:
    """Return a dataset of Ray Data over a snapshot. Arguments and errors as those of `Table.to_ray`."""
    # Ray is no dependency of hoodoo, so that its base class is known only here.
    import ray.data  # noqa: PLC0415
    from ray.data.block import BlockMetadata  # noqa: PLC0415
    from ray.data.datasource import Datasource, ReadTask  # noqa: PLC0415

    class SnapshotDatasource(Datasource):  # type: ignore[misc]
        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_name(self) -> str:
            return "Hoodoo"

        def get_read_tasks(
            self, parallelism: int, per_task_row_limit: int | None = None, **_context: Any
        ) -> list[ReadTask]:
            about = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
            limit = {} if per_task_row_limit is None else {"per_task_row_limit": per_task_row_limit}
            return [ReadTask(read, about, **limit) for read in _reads(snapshot, columns, parallelism)]

    return ray.data.read_datasource(SnapshotDatasource())


def _reads(
    snapshot: Snapshot, columns: Sequence[str] | None, parallelism: int
) -> list[Callable[[], Iterator[pa.Table]]]:
    """Functions that read some file slices each. One reads none, if there are none, for the columns."""
    count = max(1, min(parallelism, len(snapshot.units)))
    return [_Read(snapshot, columns, snapshot.units[number::count]) for number in range(count)]


class _Read:
    def __init__(self, snapshot: Snapshot, columns: Sequence[str] | None, units: Sequence[str]) -> None:
        self._snapshot, self._columns, self._units = snapshot, columns, units

    def __call__(self) -> Iterator[pa.Table]:
        with self._snapshot.errors():
            reader = self._snapshot.stream(self._columns, None, self._units)
            if not self._units:
                yield reader.schema.empty_table()
            for batch in reader:
                yield _table(batch)


def _table(batch: pa.RecordBatch) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415

    return pa.Table.from_batches([batch])
