"""Tables and partitions as catalogs have them, and what a client of a catalog does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["CatalogClient", "Column", "Partition", "TableEntry"]


@dataclass(frozen=True)
class Column:
    """A column of a catalog.

    Attributes:
        name: Its name, in lower case.
        kind: Its Hive type.
        comment: A comment.
    """

    name: str
    kind: str
    comment: str = ""


@dataclass(frozen=True)
class Partition:
    """A partition of a catalog.

    Attributes:
        values: The values of the partition columns.
        location: Its folder.
    """

    values: tuple[str, ...]
    location: str


@dataclass(frozen=True)
class TableEntry:
    """A table of a catalog.

    Attributes:
        database: The database.
        name: The table.
        columns: The columns, without partition columns.
        partition_keys: The partition columns.
        location: The folder of the table.
        input_format: Class that reads files.
        output_format: Class that writes files.
        serde: Class that reads rows.
        serde_parameters: Settings of that class.
        parameters: Properties of the table.
        owner: Who owns it.
        kind: The type of the table, such as `EXTERNAL_TABLE`.
        raw: What the catalog answered, for the client; None for a table that a plan asks for.
    """

    database: str
    name: str
    columns: tuple[Column, ...]
    partition_keys: tuple[Column, ...]
    location: str
    input_format: str
    output_format: str
    serde: str
    serde_parameters: dict[str, str]
    parameters: dict[str, str]
    owner: str = ""
    kind: str = "EXTERNAL_TABLE"
    raw: Any = field(default=None, compare=False, repr=False)

    @property
    def full_name(self) -> str:
        """Database and table."""
        return f"{self.database}.{self.name}"


class CatalogClient(Protocol):
    """What a sync asks of a catalog. Failures are `CatalogError`s."""

    @property
    def name(self) -> str:
        """URI of the metastore, or `glue`."""

    def ensure_database(self, database: str, *, create: bool) -> None:
        """Create a database that is missing, or raise an error."""

    def table(self, database: str, name: str) -> TableEntry | None:
        """Return a table, or None."""

    def create_table(self, table: TableEntry) -> None:
        """Create a table."""

    def alter_table(self, old: TableEntry, new: TableEntry, *, cascade: bool) -> None:
        """Change a table; with `cascade`, the columns of its partitions too."""

    def drop_table(self, table: TableEntry) -> None:
        """Drop a table, and never its data."""

    def partitions(self, table: TableEntry, wanted: Sequence[tuple[str, ...]] | None) -> Iterable[Partition]:
        """Return the partitions of a table: all, or those with certain values that are there."""

    def add_partitions(self, table: TableEntry, partitions: Sequence[Partition]) -> None:
        """Add partitions; those that are there already stay."""

    def change_partitions(self, table: TableEntry, partitions: Sequence[Partition]) -> None:
        """Give partitions other locations."""

    def drop_partitions(self, table: TableEntry, values: Sequence[tuple[str, ...]]) -> None:
        """Drop partitions, and never their data."""

    def close(self) -> None:
        """Close the connection."""
