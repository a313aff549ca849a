"""What a sync did."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CatalogTable", "ColumnChange", "SyncReport"]


@dataclass(frozen=True)
class ColumnChange:
    """A column that differs between a catalog and a table.

    Attributes:
        column: The column, in lower case.
        old: Its Hive type before; None for a new column.
        new: Its Hive type now; None for a column that the table has no more.
    """

    column: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        """Return the column with its types."""
        return f"{self.column}: {self.old or 'new'} → {self.new or 'dropped'}"


@dataclass(frozen=True)
class CatalogTable:
    """What a sync did to one table of a catalog.

    Attributes:
        catalog: URI of the Hive Metastore, or `glue`.
        name: Database and table, such as `lake.trips_ro`.
        created: Whether the table was not there.
        recreated: Whether it was dropped and created again: its location had changed, or
            `hoodie.datasource.hive_sync.recreate_table_on_error` asked for it.
        columns: Columns that were added, changed or dropped in a table that was there.
        properties: Names of table parameters and serde parameters that were changed in a table that was there, without
            those that each sync writes.
        partitions_added: Partition paths that were registered.
        partitions_changed: Partition paths whose location was changed.
        partitions_dropped: Values of the partitions that were dropped, such as `2026-01-01`; several with `, `.
        complete: Whether all partitions were compared, and not only those that were written since the last sync.
        synced: Requested time of the newest commit that the catalog knows (`last_commit_time_sync`); None for a table
            without commits.
        synced_completed: The newest completion time that the catalog knows (`last_commit_completion_time_sync`).
    """

    catalog: str
    name: str
    created: bool = False
    recreated: bool = False
    columns: tuple[ColumnChange, ...] = ()
    properties: tuple[str, ...] = ()
    partitions_added: tuple[str, ...] = ()
    partitions_changed: tuple[str, ...] = ()
    partitions_dropped: tuple[str, ...] = ()
    complete: bool = False
    synced: str | None = None
    synced_completed: str | None = None

    @property
    def changed(self) -> bool:
        """Whether anything but the time of the sync changed."""
        partitions = self.partitions_added or self.partitions_changed or self.partitions_dropped
        return bool(self.created or self.recreated or self.columns or self.properties or partitions)


@dataclass(frozen=True)
class SyncReport:
    """What a sync did.

    Attributes:
        tables: The tables of the catalogs, in the order in which they were synced.
        failures: Why a catalog could not be synced, where `hoodie.datasource.hive_sync.ignore_exceptions` is set; empty
            otherwise, for then a failure is an error.
    """

    tables: tuple[CatalogTable, ...]
    failures: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether anything but the time of the sync changed in a catalog."""
        return any(table.changed for table in self.tables)
