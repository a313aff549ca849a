"""A table in the hands of other libraries: Arrow streams, datasets, lazy frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hoodoo.exceptions import SchemaError
from hoodoo.extras import import_extra
from hoodoo.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    import daft
    import polars as pl
    import ray.data

    from hoodoo import _native
    from hoodoo.dataset import TableDataset
    from hoodoo.table_ref import TableRef

__all__ = ["TableDataFrames"]

_META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)


class TableDataFrames:
    """What other libraries read a `Table` by."""

    _native: _native.NativeTable
    _ref: TableRef

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Export the rows of the newest snapshot as an `ArrowArrayStream`. Data files are read with the first batch.

        Args:
            requested_schema: Types to cast the columns to, as a capsule.

        Returns:
            A capsule.

        Raises:
            HudiError: As `scan`.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-capsule/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1, 2]})
            >>> pa.table(t).num_rows
            2
        """
        return Snapshot.pin(self._ref, None, None).reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        """Export the columns of the newest snapshot as an `ArrowSchema`.

        Returns:
            A capsule.

        Raises:
            HudiError: As `scan`.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-capsule-2/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> pa.schema(t).names[4:]
            ['_hoodie_file_name', 'id']
        """
        native = self._ref.open()
        schema = native.schema()
        if native.properties().get("hoodie.populate.meta.fields", "true").lower() == "true":
            meta = [pa.field(name, pa.string()) for name in _META_COLUMNS]
            schema = pa.schema([*meta, *schema], schema.metadata)
        return schema.__arrow_c_schema__()

    def to_dataset(self, as_of: str | None = None, query: str | None = None) -> TableDataset:
        """Return one snapshot as a `pyarrow.dataset.Dataset`, which DuckDB, polars and DataFusion can query.

        They push the columns and filters of a query down to it: other columns are not read, and files, row groups and
        pages without matching rows are skipped as in `scan`. The dataset stays at its snapshot, whatever is committed,
        until the cleaner removes files of it: from then on, reading them is an error.

        Args:
            as_of: See `scan`.
            query: See `scan`.

        Returns:
            The dataset. It can be pickled.

        Raises:
            InvalidOptionError: `as_of` or `query` is invalid, or the cleaner removed a file of that snapshot.
            UnsupportedError: The query is `cdc`.

        Examples:
            >>> import hoodoo, pyarrow as pa, pyarrow.compute as pc
            >>> t = hoodoo.Table.create("memory://docs-to-dataset/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1, 2]})
            >>> dataset = t.to_dataset()
            >>> commit = t.insert({"id": [3]})
            >>> dataset.count_rows(), t.to_dataset().count_rows(filter=pc.field("id") > 1)
            (2, 2)
        """
        # Takes as long to import as all of hoodoo.
        from hoodoo.dataset import TableDataset  # noqa: PLC0415

        return TableDataset(Snapshot.pin(self._ref, None if as_of is None else str(as_of), query))

    def to_polars(self, as_of: str | None = None, query: str | None = None) -> pl.LazyFrame:
        """Return one snapshot as a `polars.LazyFrame`.

        polars reads the columns that a query needs, batch by batch, and stops after the rows of a `head`. Filters skip
        files, row groups and pages as in `scan`. The frame stays at its snapshot; see `to_dataset`.

        Args:
            as_of: See `scan`.
            query: See `scan`.

        Returns:
            The lazy frame.

        Raises:
            HudiError: As `to_dataset`.
            MissingDependencyError: polars is not installed (`pip install 'hoodoo[polars]'`).

        Examples:
            >>> import hoodoo, polars as pl, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-to-polars/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1, 2, 3]})
            >>> t.to_polars().filter(pl.col("id") > 1).select("id").collect()["id"].to_list()
            [2, 3]
        """
        import_extra("polars", "polars", "Table.to_polars")
        from hoodoo.polars_frames import lazy_frame  # noqa: PLC0415 - imports polars

        return lazy_frame(Snapshot.pin(self._ref, None if as_of is None else str(as_of), query))

    def to_ray(
        self, columns: Sequence[str] | None = None, as_of: str | None = None, query: str | None = None
    ) -> ray.data.Dataset:
        """Return one snapshot as a dataset of Ray Data, whose tasks read file slices.

        Args:
            columns: The columns. Default: all columns.
            as_of: See `scan`.
            query: See `scan`.

        Returns:
            The dataset. Filters of Ray are applied by Ray, after the read.

        Raises:
            SchemaError: A column does not exist.
            HudiError: As `to_dataset`.
            MissingDependencyError: Ray Data is not installed (`pip install 'hoodoo[ray]'`).

        Examples:
            >>> def of_ray(table):
            ...     return table.to_ray(columns=["id"]).count()
        """
        import_extra("ray.data", "ray", "Table.to_ray")
        from hoodoo.ray_frames import ray_dataset  # noqa: PLC0415 - as the others

        snapshot = Snapshot.pin(self._ref, None if as_of is None else str(as_of), query)
        missing = [name for name in columns or () if name not in snapshot.schema.names]
        if missing:
            raise SchemaError(
                f"the table has no columns {', '.join(map(repr, missing))}. Columns: {', '.join(snapshot.schema.names)}"
            )
        return ray_dataset(snapshot, None if columns is None else list(columns))

    def to_daft(self, as_of: str | None = None, query: str | None = None) -> daft.DataFrame:
        """Return one snapshot as a DataFrame of Daft, whose tasks read file slices.

        Daft pushes the columns of a query down, and filters skip files, row groups and pages as in `scan`.

        Args:
            as_of: See `scan`.
            query: See `scan`.

        Returns:
            The lazy DataFrame.

        Raises:
            HudiError: As `to_dataset`.
            MissingDependencyError: Daft is not installed (`pip install 'hoodoo[daft]'`).

        Examples:
            >>> def of_daft(table):
            ...     return table.to_daft().where("id > 1").select("id").to_pydict()
        """
        import_extra("daft", "daft", "Table.to_daft")
        from hoodoo.daft_frames import daft_frame  # noqa: PLC0415 - as the others

        return daft_frame(Snapshot.pin(self._ref, None if as_of is None else str(as_of), query))
