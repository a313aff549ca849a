"""Tables: reading and writing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hoodoo import _native
from hoodoo.arguments import location, names_of, optional_text, storage_settings, text
from hoodoo.commit import Commit
from hoodoo.display import ListListing
from hoodoo.exceptions import InvalidOptionError
from hoodoo.extras import import_extra
from hoodoo.file_slice import FileSlice
from hoodoo.filters import Filters, LateFilter, late_filter
from hoodoo.metadata_table import MetadataTable
from hoodoo.options import (
    Columns,
    Options,
    SchemaEvolution,
    check_options,
    creation_options,
    split_list,
    string_options,
    write_options,
)
from hoodoo.progress import Progress, Watch, number_of_rows
from hoodoo.rows import Keys, Rows, SchemaLike, arrow_schema_of, has_types, record_batch_reader, rows_of_keys
from hoodoo.schema_update import TableSchemaUpdates
from hoodoo.table_catalogs import TableCatalogs
from hoodoo.table_dataframes import TableDataFrames
from hoodoo.table_figures import TableFigures
from hoodoo.table_indexes import TableIndexes
from hoodoo.table_recovery import TableRecovery
from hoodoo.table_ref import TableRef
from hoodoo.table_reporting import TableReporting
from hoodoo.table_services import TableServices
from hoodoo.table_statements import TableStatements
from hoodoo.table_upgrade import TableUpgrade
from hoodoo.timeline import Timeline

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    import pandas as pd
    import pyarrow as pa

    from hoodoo.statements.forms import Predicate

__all__ = ["Table"]


def _reopened(ref: TableRef) -> Table:
    """Return a table that was pickled or copied. Calls on it show progress as by default."""
    table = Table.__new__(Table)
    table._native, table._progress, table._ref = ref.open(), None, ref  # noqa: SLF001 - a constructor
    return table


class Table(
    TableServices,
    TableIndexes,
    TableRecovery,
    TableUpgrade,
    TableSchemaUpdates,
    TableStatements,
    TableFigures,
    TableCatalogs,
    TableReporting,
    TableDataFrames,
):
    """A Hudi table. hoodoo reads table versions 6, 8 and 9, and writes versions 8 and 9.

    Args:
        uri: A folder, or a URI such as `s3://bucket/path`.
        options: Hudi's options, as `df.write.format("hudi").options(**options)` takes them.
        storage_options: Settings of the storage, such as `aws_access_key_id` or `aws_endpoint`. Settings that are not
            given come from the environment (`AWS_*`, `GOOGLE_*`, `AZURE_*`).
        progress: A function of `(done, total, unit)`, or whether calls show a bar; see `hoodoo.progress.Progress`.

    Raises:
        TableNotFoundError: There is no table at the location.
        CorruptFileError: `hoodie.properties` is damaged.
        UnsupportedError: The table or an option is not supported.
        StorageError: The storage cannot be reached, or denies access.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> schema = pa.schema({"id": pa.string(), "ts": pa.int64(), "fare": pa.float64()})
        >>> t = hoodoo.Table.create("memory://docs-table/trips", schema, name="trips", record_key="id", ordering=["ts"])
        >>> t.upsert({"id": ["a", "b"], "ts": [1, 1], "fare": [1.0, 2.0]}).inserted
        2
        >>> t.upsert({"id": ["a", "b"], "ts": [2, 0], "fare": [9.0, 9.0]}).updated
        1
        >>> hoodoo.Table("memory://docs-table/trips").to_arrow(columns=["id", "fare"]).to_pylist()
        [{'id': 'a', 'fare': 9.0}, {'id': 'b', 'fare': 2.0}]
    """

    def __init__(
        self,
        uri: str | os.PathLike[str],
        options: Options | None = None,
        storage_options: Mapping[str, str] | None = None,
        *,
        progress: Progress = None,
    ) -> None:
        """Open an existing table, whoever wrote it."""
        given = string_options(options)
        check_options(given, "table")
        storage = storage_settings(storage_options)
        self._native = _native.NativeTable.open(location(uri), given, storage)
        self._progress = progress
        self._ref = TableRef(self._native.uri, given, storage)

    @classmethod
    def create(
        cls,
        uri: str | os.PathLike[str],
        schema: SchemaLike,
        *,
        name: str | None = None,
        record_key: Columns | None = None,
        partition_by: Columns | None = None,
        ordering: Columns | None = None,
        table_type: str | None = None,
        options: Options | None = None,
        storage_options: Mapping[str, str] | None = None,
        progress: Progress = None,
    ) -> Table:
        """Create an empty table of version 9, or of the version in `hoodie.write.table.version`.

        Args:
            uri: An empty or new folder, or a URI.
            schema: The columns, without Hudi's `_hoodie_*` columns.
            name: Name of the table (`hoodie.table.name`). Required, here or as an option.
            record_key: Columns that identify a row (`hoodie.table.recordkey.fields`). Default: hoodoo generates keys.
            partition_by: Partition columns (`hoodie.table.partition.fields`). Default: one partition.
            ordering: Columns that say which of two rows with the same key is newer (`hoodie.table.ordering.fields`).
                With them the merge mode is `EVENT_TIME_ORDERING`. Default: `COMMIT_TIME_ORDERING`, the later commit
                wins.
            table_type: `COPY_ON_WRITE`, the default, or `MERGE_ON_READ` (`hoodie.table.type`).
            options: More of Hudi's options.
            storage_options: See `Table`.
            progress: See `Table`.

        Returns:
            The table.

        Raises:
            InvalidOptionError: There is a table already, options contradict each other, or a value makes no sense.
            SchemaError: A column of the options is not in the schema, or Hudi does not support its type.
            UnsupportedError: hoodoo cannot write this kind of table, or not with these options.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> schema = {"id": pa.string(), "city": pa.string()}
            >>> t = hoodoo.Table.create("memory://docs-create/t", schema, name="t", partition_by="city")
            >>> t.options["hoodie.table.partition.fields"], t.version
            ('city', 9)
        """
        given = creation_options(options, name, record_key, partition_by, ordering, table_type)
        arrow_schema = arrow_schema_of(schema)
        table = cls.__new__(cls)
        storage = storage_settings(storage_options)
        table._native = _native.NativeTable.create(location(uri), arrow_schema, given, storage)  # noqa: SLF001 - a constructor
        table._progress = progress  # noqa: SLF001
        table._ref = TableRef(table.uri, given, storage)  # noqa: SLF001
        return table

    def __repr__(self) -> str:
        """Return the class and the location."""
        return f"Table({self.uri!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle how the table is opened, with the settings of the storage that were given."""
        return _reopened, (self._ref,)

    @property
    def uri(self) -> str:
        """Location of the table."""
        return self._native.uri

    @property
    def schema(self) -> pa.Schema:
        """The columns, without Hudi's `_hoodie_*` columns."""
        return self._native.schema()

    @property
    def options(self) -> dict[str, str]:
        """The table config: the content of `hoodie.properties`."""
        return self._native.properties()

    @property
    def version(self) -> int:
        """Table version: 6, 8 or 9 (`hoodie.table.version`)."""
        return self._native.version

    @property
    def timeline(self) -> Timeline:
        """The actions on the table."""
        return Timeline(self._native)

    @property
    def metadata_table(self) -> MetadataTable | None:
        """The metadata table as it is now, or None if the table has none (`hoodie.metadata.enable`).

        Raises:
            CorruptFileError: `hoodie.properties` of the metadata table is missing or damaged.
            UnsupportedError: The metadata table has another version than 8 or 9.
            StorageError: The storage cannot be read.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-metadata/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> t.metadata_table is None
            True
            >>> commit = t.insert({"id": [1]})
            >>> list(t.metadata_table.partitions)
            ['column_stats', 'files']
        """
        native = _native.NativeMetadataTable.open(self._native)
        return None if native is None else MetadataTable(native, self.uri)

    def file_slices(self, partition: str | None = None) -> list[FileSlice]:
        """Return the file slices of the newest snapshot.

        Args:
            partition: Only this partition path, such as `city=sf`. Default: all partitions.

        Returns:
            The slices, sorted by partition and file id.

        Raises:
            CorruptFileError: A file of the timeline cannot be read.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-slices/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> [(s.base_instant == commit.instant, s.log_files) for s in t.file_slices()]
            [(True, ())]
        """
        chosen = None if partition is None or partition == "" else text(partition, "partition", "'city=sf'")
        found = self._native.file_slices(chosen)
        return ListListing.of("file slices", (FileSlice.from_native(row) for row in found))

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filters: Filters | None = None,
        as_of: str | None = None,
        query: str | None = None,
    ) -> pa.RecordBatchReader:
        """Stream the rows of a snapshot. Several threads read files; the order of the rows is always the same.

        Args:
            columns: The columns, in this order. Default: all columns, Hudi's `_hoodie_*` columns first.
            filters: Return only rows that match; see `hoodoo.filters.Filters`. Partitions, row groups and pages that
                cannot have such rows are not read.
            as_of: Read the table as it was at this time: an instant (14 or 17 digits), `yyyy-MM-dd`,
                `yyyy-MM-dd HH:mm:ss[.SSS]`, or seconds or milliseconds since 1970 (`as.of.instant`).
            query: `snapshot`, or `read_optimized` to read base files only. Default: the query of the table's options
                (`hoodie.datasource.query.type`), else `snapshot`.

        Returns:
            A reader over the rows.

        Raises:
            SchemaError: A column does not exist, or a filter value does not have its column's type.
            InvalidOptionError: A filter, `as_of` or `query` is invalid, or the cleaner removed a file of that snapshot.
            UnsupportedError: The query is `cdc`, or the options do not name the custom record merger of the table.
            CorruptFileError: A file cannot be read. While streaming, this is an Arrow error with the same message.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-scan/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> first, second = t.insert({"id": [1, 2]}), t.insert({"id": [3]})
            >>> t.scan(columns=["id"], filters=[("id", ">=", 2)]).read_all().to_pylist()
            [{'id': 2}, {'id': 3}]
            >>> sum(batch.num_rows for batch in t.scan(as_of=first.instant))
            2
        """
        asked = optional_text(query, "query", "'snapshot'")
        return self._native.scan(*self._query(columns, filters), None if as_of is None else str(as_of), asked)

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        filters: Filters | None = None,
        as_of: str | None = None,
        query: str | None = None,
    ) -> pa.Table:
        """Read the rows of a snapshot into memory. Arguments and errors as those of `scan`.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-to-arrow/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1, 2]})
            >>> t.to_arrow().num_rows
            2
        """
        asked = optional_text(query, "query", "'snapshot'")
        with Watch(self._progress, "reading"):
            return self._native.read(*self._query(columns, filters), None if as_of is None else str(as_of), asked)

    def to_pandas(
        self,
        columns: Sequence[str] | None = None,
        filters: Filters | None = None,
        as_of: str | None = None,
        query: str | None = None,
    ) -> pd.DataFrame:
        """Read the rows of a snapshot into a pandas DataFrame. Arguments and errors as those of `scan`.

        Raises:
            MissingDependencyError: pandas is not installed (`pip install 'hoodoo[pandas]'`).

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-to-pandas/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1, 2]})
            >>> t.to_pandas(columns=["id"]).shape
            (2, 1)
        """
        import_extra("pandas", "pandas", "Table.to_pandas")
        return self.to_arrow(columns, filters, as_of, query).to_pandas()

    def changes(
        self,
        since: str,
        until: str | None = None,
        columns: Sequence[str] | None = None,
        filters: Filters | None = None,
        mode: str | None = None,
    ) -> pa.RecordBatchReader:
        """Stream what changed in a range of time: Hudi's incremental query.

        With the mode `latest_state`, the rows that were written: each key once, in its last version of the range.
        Deleted rows do not come. As in Hudi, the rows are those of the snapshot at the end of the range.

        With the mode `cdc`, every change of a row, commit after commit, deletes too. The columns are `op` (`i`, `u` or
        `d`), `ts_ms` (the requested time of the commit, as a string), and `before` and `after`: structs of the table's
        columns, null where there was no row. Changes come from change data logs where the table has them
        (`hoodie.table.cdc.enabled`), else from comparing the files before and after a commit.

        Args:
            since: Return commits with a completion time after this, such as a `Commit.completed`; `"0"` for all. Tables
                of version 6 compare requested times.
            until: Completion time of the last commit to return. Default: the newest.
            columns: See `scan`. With the mode `cdc`, the fields of `before` and `after`.
            filters: See `scan`. Not with the mode `cdc`.
            mode: `latest_state` or `cdc`. Default: that of the table's options
                (`hoodie.datasource.query.incremental.format`), else `latest_state`.

        Returns:
            A reader over the rows.

        Raises:
            UnsupportedError: The table has no `_hoodie_*` columns, which only the mode `cdc` can do without. With the
                mode `cdc`: the table has version 6, or drops partition columns.
            InvalidOptionError: A time is not digits, the mode is unknown, or the cleaner removed a file that the
                changes cannot be told without.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> schema = {"id": pa.int64(), "v": pa.string()}
            >>> options = {"hoodie.table.cdc.enabled": True}
            >>> t = hoodoo.Table.create("memory://docs-changes/t", schema, name="t", record_key="id", options=options)
            >>> first, second = t.insert({"id": [1], "v": ["x"]}), t.upsert({"id": [1, 2], "v": ["y", "z"]})
            >>> t.changes(since=first.completed, columns=["id"]).read_all().to_pylist()
            [{'id': 1}, {'id': 2}]
            >>> for change in t.changes(since=first.completed, columns=["v"], mode="cdc").read_all().to_pylist():
            ...     print(change["op"], change["before"], change["after"])
            u {'v': 'x'} {'v': 'y'}
            i None {'v': 'z'}
        """
        until = None if until is None else str(until)
        asked = optional_text(mode, "mode", "'cdc'")
        return self._native.changes(str(since), until, *self._query(columns, filters), asked)

    def upsert(self, data: Rows, partial: bool = False, *, schema_evolution: SchemaEvolution | None = None) -> Commit:
        """Insert new rows, and merge rows whose key exists by the table's merge mode.

        Args:
            data: The rows; see `hoodoo.rows.Rows`. A row whose `_hoodie_is_deleted` is true deletes its key.
            partial: The rows have only some columns: the key, partition and ordering columns, and the columns that
                change. Stored rows keep their values in the other columns; new rows get null. A merge-on-read table
                writes such rows to log files as they are, like Hudi's MERGE INTO, and refuses them once its fields
                have ids (see `update_schema`).
            schema_evolution: `allow`, the default: the write adds new columns, and widens a column when a value does
                not fit its type, as Hudi does (int to long to float to double, numbers to strings).
                `Commit.schema_changes` and a `HudiWarning` name the changes. `refuse`: such a write fails. Values that
                fit are always cast to the table's types. (`hoodoo.schema.evolution`)

        Returns:
            The commit.

        Raises:
            SchemaError: Columns or types do not match the table, or a key is null.
            UnsupportedError: hoodoo cannot write this table.
            ConflictError: Another writer changed the same file groups, and retries did not help.
            LockError: The write timed out while it waited for the table lock.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> schema = {"id": pa.int64(), "name": pa.string(), "city": pa.string()}
            >>> t = hoodoo.Table.create("memory://docs-upsert/t", schema, name="t", record_key="id")
            >>> commit = t.insert({"id": [1], "name": ["Ann"], "city": ["Rome"]})
            >>> t.upsert({"id": [1], "city": ["Oslo"]}, partial=True).updated
            1
            >>> t.to_arrow(columns=["name", "city"]).to_pylist()
            [{'name': 'Ann', 'city': 'Oslo'}]
        """
        return self._write("upsert", data, write_options(schema_evolution), partial=partial)

    def insert(self, data: Rows, *, schema_evolution: SchemaEvolution | None = None) -> Commit:
        """Add rows without looking up their keys. Small files are filled first (`hoodie.parquet.small.file.limit`).

        Arguments, result and errors as those of `upsert`.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-insert/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> t.insert([{"id": 1}, {"id": 2}]).inserted
            2
        """
        return self._write("insert", data, write_options(schema_evolution))

    def bulk_insert(
        self, data: Rows, sort_by: Columns | None = None, *, schema_evolution: SchemaEvolution | None = None
    ) -> Commit:
        """Add rows in new files of full size, without looking up their keys.

        Args:
            data: See `upsert`.
            sort_by: Sort the rows of each partition by these columns
                (`hoodie.bulkinsert.user.defined.partitioner.sort.columns`). Default: the order of the data.
            schema_evolution: See `upsert`.

        Returns:
            The commit.

        Raises:
            HudiError: As `upsert`.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-bulk-insert/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.bulk_insert({"id": [3, 1, 2]}, sort_by="id")
            >>> t.to_arrow(columns=["id"])["id"].to_pylist()
            [1, 2, 3]
        """
        return self._write("bulk_insert", data, write_options(schema_evolution, sort_by))

    def delete(self, data: Rows | Keys | None = None, *, where: Predicate | None = None) -> Commit:
        """Delete rows by key, or all rows for which a condition is true.

        A delete by condition reads the table after it has been planned. When another writer changes the same file
        groups meanwhile, it is done again, so that it deletes what it sees.

        Args:
            data: Rows with the key columns. When they have the partition columns too, only those partitions are
                searched. For a table with one key column, a list, tuple or set of key values.
            where: The condition; see `hoodoo.statements.forms.Predicate`. `True` deletes every row.

        Returns:
            The commit.

        Raises:
            SchemaError: A key column is missing, a column of the condition does not exist, or types do not go together.
            InvalidOptionError: Key values were given, and the table has several key columns; both or neither of `data`
                and `where` were given.
            UnsupportedError: The table has no key columns, or the condition has a function that is not supported.
            ConflictError: Other writers changed the same rows each time.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-delete/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1, 2, 3]})
            >>> t.delete([1]).deleted, t.delete({"id": [2]}).deleted, t.delete(where="id > 2").deleted
            (1, 1, 1)
        """
        if where is not None:
            return self._delete_where(data, where)
        if data is None:
            raise InvalidOptionError(
                "nothing says which rows to delete: give keys, or where=… (where=True for all rows)"
            )
        return self._write("delete", rows_of_keys(data, split_list(self.options.get("hoodie.table.recordkey.fields"))))

    def insert_overwrite(self, data: Rows, *, schema_evolution: SchemaEvolution | None = None) -> Commit:
        """Replace all rows of the partitions that the data have rows for.

        Arguments, result and errors as those of `upsert`.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> schema = {"id": pa.int64(), "p": pa.string()}
            >>> t = hoodoo.Table.create("memory://docs-overwrite/t", schema, name="t", partition_by="p")
            >>> commit = t.insert({"id": [1, 2], "p": ["a", "b"]})
            >>> commit = t.insert_overwrite({"id": [3], "p": ["b"]})
            >>> t.to_arrow(columns=["id"])["id"].to_pylist()
            [1, 3]
        """
        return self._write("insert_overwrite", data, write_options(schema_evolution))

    def insert_overwrite_table(self, data: Rows, *, schema_evolution: SchemaEvolution | None = None) -> Commit:
        """Replace all rows of the table.

        Arguments, result and errors as those of `upsert`.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-overwrite-all/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1, 2]})
            >>> commit = t.insert_overwrite_table({"id": [3]})
            >>> t.to_arrow(columns=["id"])["id"].to_pylist()
            [3]
        """
        return self._write("insert_overwrite_table", data, write_options(schema_evolution))

    def delete_partitions(self, partitions: Columns) -> Commit:
        """Delete all rows of partitions.

        Args:
            partitions: Partition paths such as `city=sf`; `*` matches any string.

        Returns:
            The commit.

        Raises:
            HudiError: As `upsert`.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> schema = {"id": pa.int64(), "p": pa.string()}
            >>> t = hoodoo.Table.create("memory://docs-partitions/t", schema, name="t", partition_by="p")
            >>> commit = t.insert({"id": [1, 2], "p": ["a", "b"]})
            >>> list(t.delete_partitions(["b"]).replaced), t.to_arrow().num_rows
            (['b'], 1)
        """
        if partitions is None:
            raise InvalidOptionError("nothing says which partitions to delete: give their paths, such as ['city=sf']")
        names = names_of(partitions, "partitions")
        with Watch(self._progress, "delete_partition", stages=True):
            done = self._native.write("delete_partition", None, names)
        return self._synced(Commit.from_native(done))

    def _query(
        self, columns: Sequence[str] | None, filters: Filters | None
    ) -> tuple[list[str] | None, LateFilter | None]:
        return None if columns is None else names_of(columns, "columns"), late_filter(filters)

    def _write(
        self, operation: str, data: Rows, options: dict[str, str] | None = None, partial: bool = False
    ) -> Commit:
        native = self._native.with_options(options) if options else self._native
        # A look at the table costs requests: only for rows that have no types of their own.
        schema = None if has_types(data) else native.schema()
        with Watch(self._progress, operation, stages=True) as watch:
            rows = watch.rows(record_batch_reader(data, schema), number_of_rows(data))
            done = native.write(operation, rows, partial=partial)
        return self._synced(Commit.from_native(done))
