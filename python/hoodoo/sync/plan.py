"""What a catalog has to hold of a table, and what differs from what it holds. Pure: nothing is asked of anybody."""

from __future__ import annotations

import getpass
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from hoodoo.exceptions import InvalidOptionError
from hoodoo.sync.catalog import Column, Partition, TableEntry
from hoodoo.sync.partitions import same_place
from hoodoo.sync.report import ColumnChange
from hoodoo.sync.types import META_COLUMNS, hive_type, spark_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hoodoo.sync.settings import Names, SyncSettings
    from hoodoo.sync.state import PartitionChanges

__all__ = [
    "COMPLETED",
    "SYNCED",
    "WRITER",
    "PartitionPlan",
    "TableChange",
    "TableFacts",
    "View",
    "change_of",
    "checked_location",
    "entry_of",
    "is_hudi",
    "is_moved",
    "is_read_optimized",
    "not_ours",
    "plan_partitions",
    "views_of",
]

SYNCED = "last_commit_time_sync"
COMPLETED = "last_commit_completion_time_sync"
WRITER = "hudi_writer_version"
READ_OPTIMIZED = "hoodie.query.as.ro.table"

_INPUT = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
_REALTIME_INPUT = "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"
_OUTPUT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
_SCHEMA_PART = "spark.sql.sources.schema.part."


@dataclass(frozen=True)
class View:
    """One of the tables by which a catalog shows a Hudi table.

    Attributes:
        name: Its name.
        realtime: Whether it is read by the input format that merges log files.
        read_optimized: Whether Spark reads base files only.
    """

    name: str
    realtime: bool
    read_optimized: bool


@dataclass(frozen=True)
class TableFacts:
    """What a plan needs to know of a table.

    Attributes:
        schema: The columns, without the `_hoodie_*` columns.
        location: The location.
        is_merge_on_read: The type of the table.
        is_bootstrapped: Whether files are in another place.
    """

    schema: pa.Schema
    location: str
    is_merge_on_read: bool
    is_bootstrapped: bool = False


@dataclass(frozen=True)
class TableChange:
    """What differs between a table of a catalog and the one that it has to be.

    Attributes:
        columns: The columns that differ.
        properties: Names of table and serde parameters that differ.
        entry: The table as it has to be, with what others put into it.
    """

    columns: tuple[ColumnChange, ...]
    properties: tuple[str, ...]
    entry: TableEntry

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        return not (self.columns or self.properties)


@dataclass(frozen=True)
class PartitionPlan:
    """What to do with partitions, by their paths.

    Attributes:
        add: Partitions that the catalog does not have.
        change: Partitions with another location.
        drop: Values of partitions that hold no files.
    """

    add: dict[str, Partition]
    change: dict[str, Partition]
    drop: tuple[tuple[str, ...], ...]


def views_of(name: str, settings: SyncSettings, *, is_merge_on_read: bool) -> list[View]:
    """Return the tables of a catalog that show a Hudi table, in the order in which Hudi syncs them.

    Args:
        name: The table.
        settings: The settings of the sync.
        is_merge_on_read: The type of the table.

    Returns:
        One table, or up to three for a merge-on-read table.
    """
    if not is_merge_on_read:
        return [View(name, realtime=False, read_optimized=False)]
    optimized = View(name, realtime=False, read_optimized=True)
    snapshot = View(name, realtime=True, read_optimized=False)
    if settings.strategy != "ALL":
        return [optimized if settings.strategy == "RO" else snapshot]
    suffixed = [
        optimized if settings.skip_ro_suffix else replace(optimized, name=f"{name}_ro"),
        replace(snapshot, name=f"{name}_rt"),
    ]
    # Without its suffix the read-optimized table has the plain name, and keeps it, as with Hudi.
    return [*suffixed, snapshot] if settings.plain_snapshot_table and not settings.skip_ro_suffix else suffixed


def entry_of(view: View, names: Names, facts: TableFacts, settings: SyncSettings) -> TableEntry:
    """Return the table that a catalog has to hold.

    Args:
        view: Which of the tables.
        names: The database.
        facts: The table.
        settings: The settings of the sync.

    Returns:
        The table, without the times of a sync.
    """
    fields = {field.lower() for field in settings.partition_fields}
    kinds = {one.name.lower(): hive_type(one.type, timestamps=settings.support_timestamp) for one in facts.schema}
    meta = () if settings.omit_metadata_fields else META_COLUMNS
    columns = [Column(name, "string") for name in meta]
    columns += [Column(name, kind) for name, kind in kinds.items() if name not in fields]
    keys = [Column(field.lower(), kinds.get(field.lower(), "string")) for field in settings.partition_fields]
    parameters = {} if settings.managed else {"EXTERNAL": "TRUE"}
    parameters |= settings.table_properties
    serde_parameters = {**settings.serde_properties, "path": facts.location}
    # Spark cannot read log files of a table whose base files are elsewhere.
    if settings.for_spark and not (facts.is_bootstrapped and view.realtime):
        parameters |= _spark_parameters(facts.schema, settings)
        serde_parameters[READ_OPTIMIZED] = "true" if view.read_optimized else "false"
    return TableEntry(
        database=names.database,
        name=view.name,
        columns=tuple(columns),
        partition_keys=tuple(keys),
        location=facts.location,
        input_format=_REALTIME_INPUT if view.realtime else _INPUT,
        output_format=_OUTPUT,
        serde=_SERDE,
        serde_parameters=serde_parameters | {"serialization.format": "1"},
        parameters=parameters,
        owner=user_name(),
    )


def _spark_parameters(schema: pa.Schema, settings: SyncSettings) -> dict[str, str]:
    names = {field.lower() for field in settings.partition_fields}
    meta = [] if settings.omit_metadata_fields else [pa.field(name, pa.string()) for name in META_COLUMNS]
    last = [field for field in schema if field.name.lower() in names]
    fields = [*meta, *(field for field in schema if field.name.lower() not in names), *last]
    text, length = spark_schema(fields), settings.schema_part_length
    parts = [text[begin : begin + length] for begin in range(0, len(text), length)]
    found = {"spark.sql.sources.provider": "hudi", "spark.sql.sources.schema.numParts": str(len(parts))}
    if settings.spark_version:
        found["spark.sql.create.version"] = settings.spark_version
    found |= {f"{_SCHEMA_PART}{number}": part for number, part in enumerate(parts)}
    if settings.partition_fields:
        found["spark.sql.sources.schema.numPartCols"] = str(len(settings.partition_fields))
    return found | {
        f"spark.sql.sources.schema.partCol.{number}": field for number, field in enumerate(settings.partition_fields)
    }


def is_hudi(entry: TableEntry) -> bool:
    """Return whether a table of a catalog is one of Hudi."""
    provider = entry.parameters.get("spark.sql.sources.provider", "").lower()
    return provider == "hudi" or "hudi" in entry.input_format.lower() or SYNCED in entry.parameters


def is_read_optimized(entry: TableEntry) -> bool:
    """Return whether a table of a catalog shows base files only."""
    return entry.serde_parameters.get(READ_OPTIMIZED, "").lower() == "true"


def change_of(old: TableEntry, wanted: TableEntry) -> TableChange:
    """Return what differs between a table of a catalog and the one that it has to be.

    Args:
        old: The table of the catalog.
        wanted: The table as it has to be.

    Returns:
        The differences. Parameters and comments that others put there stay.

    Raises:
        InvalidOptionError: The partition columns differ, which no catalog can change.
    """
    if [key.name for key in old.partition_keys] != [key.name for key in wanted.partition_keys]:
        before, after = ([key.name for key in entry.partition_keys] for entry in (old, wanted))
        raise InvalidOptionError(
            f"{old.full_name} is partitioned by {before} in the catalog, and the table by {after}; a catalog cannot "
            "change partition columns. Drop the table in the catalog, or set "
            "hoodie.datasource.hive_sync.recreate_table_on_error=true"
        )
    before_by_name = {column.name.lower(): column for column in old.columns}
    after_by_name = {column.name: column for column in wanted.columns}
    columns = _column_changes(before_by_name, after_by_name)
    stale = {key for key in old.parameters if key.startswith(_SCHEMA_PART) and key not in wanted.parameters}
    stale = stale if _SCHEMA_PART + "0" in wanted.parameters else set()
    changed = {key for key, value in wanted.parameters.items() if old.parameters.get(key) != value} | stale
    serde = {key for key, value in wanted.serde_parameters.items() if old.serde_parameters.get(key) != value}
    formats = {name for name in ("input_format", "output_format") if getattr(old, name) != getattr(wanted, name)}
    scheme = "://" in wanted.location and wanted.location.split(":")[0] != old.location.split(":")[0]
    formats |= {"location"} if scheme else set()
    kept = {key: value for key, value in old.parameters.items() if key not in stale}
    entry = replace(
        old,
        columns=tuple(
            replace(column, comment=before_by_name[column.name].comment) if column.name in before_by_name else column
            for column in wanted.columns
        )
        if columns
        else old.columns,
        location=wanted.location if scheme else old.location,
        input_format=wanted.input_format,
        output_format=wanted.output_format,
        serde=wanted.serde if serde or formats else old.serde,
        serde_parameters=dict(wanted.serde_parameters) if serde or formats else old.serde_parameters,
        parameters=kept | wanted.parameters,
    )
    return TableChange(columns, tuple(sorted(changed | serde | formats)), entry)


def _column_changes(before: dict[str, Column], after: dict[str, Column]) -> tuple[ColumnChange, ...]:
    changes = []
    for name, column in after.items():
        old = before[name].kind.lower() if name in before else None
        if old is None or old.replace(" ", "") != column.kind:
            changes.append(ColumnChange(name, old, column.kind))
    changes += [ColumnChange(name, column.kind, None) for name, column in before.items() if name not in after]
    return tuple(changes)


def plan_partitions(
    changes: PartitionChanges,
    registered: Iterable[Partition],
    location: str,
    extract: Callable[[str], tuple[str, ...]],
) -> PartitionPlan:
    """Return what to do with partitions.

    Args:
        changes: The partitions of the table to compare.
        registered: Those of the catalog.
        location: The location of the table.
        extract: Takes the values from a partition path.

    Returns:
        The plan.

    Examples:
        >>> from hoodoo.sync.state import PartitionChanges
        >>> changes = PartitionChanges(("a", "b"), (), complete=True)
        >>> there = [Partition(("b",), "/old/b"), Partition(("c",), "/t/c")]
        >>> plan = plan_partitions(changes, there, "/t", lambda path: (path,))
        >>> list(plan.add), list(plan.change), plan.drop
        (['a'], ['b'], (('c',),))
    """
    known = {partition.values: partition.location for partition in registered}
    add, change, seen = dict[str, Partition](), dict[str, Partition](), set[tuple[str, ...]]()
    for path in changes.present:
        partition = Partition(extract(path), f"{location}/{path}")
        seen.add(partition.values)
        if partition.values not in known:
            add[path] = partition
        elif not same_place(known[partition.values], partition.location):
            change[path] = partition
    if changes.complete:
        drop = sorted(values for values in known if values not in seen)
    else:
        drop = sorted({extract(path) for path in changes.gone} & set(known) - seen)
    return PartitionPlan(add, change, tuple(drop))


def is_moved(old: TableEntry, wanted: TableEntry) -> bool:
    """Return whether the table of a catalog has another location, whatever the schemes are."""
    return not same_place(old.location, wanted.location)


def checked_location(asked: str | None, location: str) -> str:
    """Return the location to register.

    Args:
        asked: That of the options, which may have another scheme.
        location: That of the table.

    Returns:
        The location.

    Raises:
        InvalidOptionError: They are different places.

    Examples:
        >>> checked_location("s3a://lake/t/", "s3://lake/t")
        's3a://lake/t'
    """
    if asked is None:
        return location
    if not same_place(asked, location):
        raise InvalidOptionError(
            f"hoodie.datasource.meta.sync.base.path={asked} is not the location of the table, {location}: leave it "
            "out, or name the same path with another scheme"
        )
    return asked.rstrip("/")


def user_name() -> str:
    """Return the name of the user, who may have none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        # A user without a name, as in some containers.
        return "hoodoo"


def not_ours(old: TableEntry, names: Sequence[str]) -> InvalidOptionError:
    """Return the error about a table of a catalog that has the name and is another table."""
    return InvalidOptionError(
        f"{old.full_name} in the catalog is another table, at {old.location}: set {' or '.join(names)} to another "
        "name, or drop it there"
    )
