"""Tables in catalogs: sync, and opening a table by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoodoo.options import string_options
from hoodoo.sync.after_commit import sync_after_commit
from hoodoo.sync.lookup import find_table
from hoodoo.sync.run import sync_table
from hoodoo.sync.settings import check_sync_options
from hoodoo.warning import warn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

    from hoodoo import _native
    from hoodoo.commit import Commit
    from hoodoo.options import Options
    from hoodoo.sync.report import SyncReport
    from hoodoo.table_ref import TableRef

__all__ = ["TableCatalogs"]


class TableCatalogs:
    """Registering a `Table` in a Hive Metastore or in AWS Glue, and finding it there."""

    _native: _native.NativeTable
    _ref: TableRef

    if TYPE_CHECKING:

        def __init__(
            self, uri: str, options: Options | None = None, storage_options: Mapping[str, str] | None = None
        ) -> None: ...

    @classmethod
    def from_catalog(
        cls,
        name: str,
        catalog: str | None = None,
        *,
        options: Options | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Open a table by its name in a catalog, whoever registered it.

        A read-optimized table (`trips_ro`) is opened so that reads return the rows of base files only, unless the
        options name a query (`hoodie.datasource.query.type`).

        Args:
            name: The table, such as `lake.trips`. Without a database: in that of the options of catalog sync, else in
                `default`.
            catalog: `thrift://host:port` of a Hive Metastore (several with commas), or `glue`. Default: what the
                options of catalog sync name, else `thrift://localhost:9083`.
            options: Hudi's options; see `Table`. `hoodie.aws.glue.region` and `hoodie.aws.glue.endpoint` are for Glue.
            storage_options: See `Table`.

        Returns:
            The table.

        Raises:
            TableNotFoundError: The catalog has no such table, or there is none at its location.
            UnsupportedError: It is not a Hudi table.
            InvalidOptionError: The name or the catalog is invalid.
            CatalogError: The catalog cannot be reached.
            MissingDependencyError: The package for the catalog is not installed (`pip install 'hoodoo[hive]'` or
                `'hoodoo[glue]'`).

        Examples:
            >>> import hoodoo
            >>> hoodoo.Table.from_catalog("lake.trips.fares", "thrift://localhost:9083")
            Traceback (most recent call last):
            ...
            hoodoo.exceptions.InvalidOptionError: invalid name 'lake.trips.fares': expected table or database.table
        """
        location, given = find_table(str(name), catalog, string_options(options))
        return cls(location, options=given, storage_options=storage_options)

    def sync(self, options: Options | None = None) -> SyncReport:
        """Register the table in the catalogs that options name, or bring what they have of it up to date.

        What is registered is what Hudi's sync tools register: one table, or `_ro`, `_rt` and one without a suffix for a
        merge-on-read table; columns, partitions, and the properties by which Spark reads the table. Only the partitions
        that were written since the last sync are compared, whoever synced. All are compared the first time, after a
        commit that the catalog knows was archived or undone, and with `hoodie.meta.sync.incremental=false`. Partitions
        that hold no files are dropped. Repeat a sync that failed.

        Writes sync by themselves when the table's options ask for it (`hoodie.datasource.hive_sync.enable`,
        `hoodie.datasource.meta.sync.enable`).

        Args:
            options: Hudi's options, which win over those of the table. A Hive Metastore needs
                `hoodie.datasource.hive_sync.mode=hms` and `hoodie.datasource.hive_sync.metastore.uris`; AWS Glue needs
                `hoodie.meta.sync.client.tool.class=org.apache.hudi.aws.sync.AwsGlueCatalogSyncTool`.

        Returns:
            What was created, changed and dropped.

        Raises:
            CatalogError: A catalog cannot be reached, or refused a request.
            UnsupportedError: A sync tool, a mode or an option is not supported.
            InvalidOptionError: An option is invalid, or the catalog has another table of that name.
            MissingDependencyError: The package for the catalog is not installed (`pip install 'hoodoo[hive]'` or
                `'hoodoo[glue]'`).

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-sync/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> try:
            ...     t.sync({"hoodie.datasource.hive_sync.mode": "hiveql"})
            ... except hoodoo.UnsupportedError as error:
            ...     print(str(error).split(":")[0])
            option hoodie.datasource.hive_sync.mode=hiveql is not supported
        """
        given = {**self._ref.options, **string_options(options)}
        for message in check_sync_options(given):
            warn(message)
        return sync_table(self._native, given)

    def _synced(self, commit: Commit) -> Commit:
        """Sync after a commit, if the options ask for it."""
        return sync_after_commit(commit, self._native, self._ref.options)
