"""Tables as lazy frames of polars, by its IO sources."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from hoodoo.exceptions import InvalidOptionError
from hoodoo.polars_filter import pruning_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoodoo.snapshot import Snapshot

__all__ = ["SnapshotSource", "lazy_batches", "lazy_frame"]


class SnapshotSource:
    """What polars asks for the rows of a snapshot. Can be pickled.

    Args:
        snapshot: The snapshot.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        """Make a source of a snapshot."""
        self._snapshot = snapshot

    def __call__(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        """Stream rows.

        Args:
            with_columns: The columns; all columns when None.
            predicate: Return only rows for which this is true.
            n_rows: Stop after this many rows.
            batch_size: How many rows a frame has at most.

        Yields:
            Frames of the columns.
        """
        schema = self._snapshot.schema
        wanted = schema.names if with_columns is None else with_columns
        read = set(wanted) if predicate is None else {*wanted, *predicate.meta.root_names()}
        pruning = None if predicate is None else pruning_of(predicate, schema)
        left = n_rows
        for batch in self._snapshot.batches([name for name in schema.names if name in read], pruning):
            frame = _frame(batch)
            if predicate is not None:
                frame = frame.filter(predicate)
            frame = frame.select(wanted) if wanted != frame.columns else frame
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield from frame.iter_slices(batch_size) if batch_size else (frame,)
            if left == 0:
                return


def lazy_frame(snapshot: Snapshot) -> pl.LazyFrame:
    """Return a lazy frame of a snapshot.

    Args:
        snapshot: The snapshot.

    Returns:
        The frame. Its plan shows the table and the instant.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-lazy/t", {"id": pa.int64()}, name="t", record_key="id")
        >>> commit = t.insert({"id": [1, 2, 3]})
        >>> t.to_polars().select("id").head(2).collect()["id"].to_list()
        [1, 2]
    """
    # Pure: two mentions of the same frame are the same rows.
    return register_io_source(
        SnapshotSource(snapshot), schema=_frame(snapshot.schema.empty_table()).schema, is_pure=True
    )


def lazy_batches(frame: pl.LazyFrame) -> pa.RecordBatchReader:
    """Return the rows of a lazy frame as a reader. Versions of polars that can collect in batches do so.

    Args:
        frame: The lazy frame.

    Returns:
        The reader.

    Raises:
        InvalidOptionError: polars cannot collect the frame.

    Examples:
        >>> import polars as pl
        >>> lazy_batches(pl.LazyFrame({"id": [1, 2]})).read_all().to_pylist()
        [{'id': 1}, {'id': 2}]
    """
    with _polars_errors():
        if not hasattr(frame, "collect_batches"):
            return frame.collect().to_arrow().to_reader()
        schema = frame.collect_schema().to_frame().to_arrow().schema
    return pa.RecordBatchReader.from_batches(schema, _collected(frame, schema))


def _collected(frame: pl.LazyFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with _polars_errors():
        for rows in frame.collect_batches(maintain_order=True, lazy=True):
            yield from rows.to_arrow().cast(schema).to_batches()


@contextmanager
def _polars_errors() -> Iterator[None]:
    try:
        yield
    except pl.exceptions.PolarsError as error:
        raise InvalidOptionError(f"polars cannot collect the rows of the LazyFrame: {error}") from error


def _frame(rows: object) -> pl.DataFrame:
    frame: pl.DataFrame = pl.from_arrow(rows)
    return frame
