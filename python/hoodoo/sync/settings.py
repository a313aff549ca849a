"""What the options of a sync and the properties of the table say: inferred values, refused and ignored options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hoodoo.exceptions import InvalidOptionError, UnsupportedError
from hoodoo.sync.keys import BOTH_SWITCHES, GLUE, HIVE, KEYS, META, items_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["GLUE_TOOL", "HIVE_TOOL", "Names", "SyncSettings", "check_sync_options", "read_settings", "tools_of"]

HIVE_TOOL = "org.apache.hudi.hive.HiveSyncTool"
GLUE_TOOL = "org.apache.hudi.aws.sync.AwsGlueCatalogSyncTool"
_OLD_GLUE_TOOL = "org.apache.hudi.aws.sync.AWSGlueCatalogSyncTool"
_STRATEGIES = ("ALL", "RO", "RT")


@dataclass(frozen=True)
class Names:
    """Where in a catalog a table is registered.

    Attributes:
        database: The database, in lower case as catalogs keep it.
        table: The table without suffixes, in lower case.
    """

    database: str
    table: str


@dataclass(frozen=True)
class SyncSettings:
    """The settings of a sync; see `hoodoo.sync.keys` for what each of them does."""

    tools: tuple[str, ...]
    metastore_uris: tuple[str, ...]
    hive: Names
    glue: Names
    partition_fields: tuple[str, ...]
    extractor: str
    location: str | None
    strategy: str
    spark_version: str
    schema_part_length: int
    batch_size: int
    table_properties: dict[str, str]
    serde_properties: dict[str, str]
    create_database: bool
    ignore_exceptions: bool
    skip_ro_suffix: bool
    support_timestamp: bool
    for_spark: bool
    managed: bool
    omit_metadata_fields: bool
    recreate_on_error: bool
    only_if_changed: bool
    incremental: bool
    plain_snapshot_table: bool
    glue_metadata_listing: bool
    glue_skip_archive: bool
    glue_recreate_on_error: bool
    # It may have a secret key, which belongs in no log.
    glue_client: dict[str, str] = field(repr=False)


def tools_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the sync tools that options name, as Hudi's writers choose them.

    Args:
        options: The options.

    Returns:
        The class names of Hudi, each once.

    Raises:
        UnsupportedError: A tool is not supported; the error names it.

    Examples:
        >>> tools_of({})
        ('org.apache.hudi.hive.HiveSyncTool',)
    """
    key = f"{META}client.tool.class"
    asked = items_of(options.get(key)) or [HIVE_TOOL]
    if options.get(BOTH_SWITCHES[0], "").strip().lower() == "true":
        asked.append(HIVE_TOOL)
    named = list(dict.fromkeys(GLUE_TOOL if tool == _OLD_GLUE_TOOL else tool for tool in asked))
    missing = [tool for tool in named if tool not in {HIVE_TOOL, GLUE_TOOL}]
    if missing:
        raise UnsupportedError(
            f"option {key}: the sync tool {', '.join(missing)} is not supported. Name {HIVE_TOOL} or {GLUE_TOOL}, and "
            "run other tools of Hudi yourself"
        )
    return tuple(named)


def check_sync_options(options: Mapping[str, str]) -> list[str]:
    """Refuse options of a sync that are not supported or invalid.

    Args:
        options: The options.

    Returns:
        Warnings of options that have no effect.

    Raises:
        UnsupportedError: A tool, a mode or an option is not supported.
        InvalidOptionError: An option has an invalid value.

    Examples:
        >>> check_sync_options({"hoodie.datasource.hive_sync.mode": "hms"})
        []
    """
    tools = tools_of(options)
    if HIVE_TOOL in tools:
        _check_mode(options)
    asked = [one for key in options if (one := KEYS.get(key)) is not None and _differs(options[key], one.default)]
    refused = [f"{one.key}={options[one.key]}: {one.about}" for one in asked if one.support == "refused"]
    if refused:
        raise UnsupportedError(f"options of catalog sync are not supported: {'; '.join(refused)}")
    _Reader(options, {}).check()
    return [f"{one.key}={options[one.key]} has no effect: {one.about}" for one in asked if one.support == "warned"]


def _check_mode(options: Mapping[str, str]) -> None:
    key = f"{HIVE}mode"
    mode = options.get(key, "").strip().lower()
    if mode == "hms":
        return
    if mode in {"jdbc", "hiveql", ""}:
        named = (
            f"{key}={mode} is not supported"
            if mode
            else f"{key} is not set, and Hudi's default, JDBC, is not supported"
        )
        raise UnsupportedError(
            f"option {named}: hoodoo syncs with the metastore itself. Set {key}=hms and {HIVE}metastore.uris, or leave "
            f"{BOTH_SWITCHES[0]} out"
        )
    raise InvalidOptionError(f"invalid value {mode!r} for {key}: expected hms")


def read_settings(options: Mapping[str, str], properties: Mapping[str, str]) -> SyncSettings:
    """Return the settings of a sync.

    Args:
        options: The options.
        properties: The table config (`hoodie.properties`), from which missing options are inferred.

    Returns:
        The settings.

    Raises:
        InvalidOptionError: An option has an invalid value.
        UnsupportedError: An option is not supported.
    """
    check_sync_options(options)
    read = _Reader(options, properties)
    hive = Names(read.inferred(f"{HIVE}database", "hoodie.database.name"), _table_name(read))
    glue = Names(read.text(f"{GLUE}database_name") or hive.database, read.text(f"{GLUE}table_name") or hive.table)
    fields = tuple(items_of(read.text(f"{HIVE}partition_fields"))) or _partition_fields(read)
    keys = ("region", "endpoint"), ("access.key", "secret.key", "session.token")
    client = {name: read.text(f"hoodie.aws.glue.{name}") for name in keys[0]}
    client |= {name: read.text(f"hoodie.aws.{name}") for name in keys[1]}
    return SyncSettings(
        tools=tools_of(options),
        metastore_uris=tuple(items_of(read.text(f"{HIVE}metastore.uris"))),
        hive=Names(hive.database.lower(), hive.table.lower()),
        glue=Names(glue.database.lower(), glue.table.lower()),
        partition_fields=fields,
        extractor=read.text(f"{HIVE}partition_extractor_class", given_only=True) or _extractor(read, fields),
        location=read.text("hoodie.datasource.meta.sync.base.path") or None,
        strategy=read.text(f"{HIVE}table.strategy").upper(),
        spark_version=read.text("hoodie.meta_sync.spark.version"),
        schema_part_length=read.number(f"{HIVE}schema_string_length_thresh"),
        batch_size=read.number(f"{HIVE}batch_num"),
        table_properties=read.pairs(f"{HIVE}table_properties"),
        serde_properties=read.pairs(f"{HIVE}serde_properties"),
        create_database=read.flag(f"{HIVE}auto_create_database"),
        ignore_exceptions=read.flag(f"{HIVE}ignore_exceptions"),
        skip_ro_suffix=read.flag(f"{HIVE}skip_ro_suffix"),
        support_timestamp=read.flag(f"{HIVE}support_timestamp"),
        for_spark=read.flag(f"{HIVE}sync_as_datasource"),
        managed=read.flag(f"{HIVE}create_managed_table"),
        omit_metadata_fields=read.flag(f"{HIVE}omit_metadata_fields"),
        recreate_on_error=read.flag(f"{HIVE}recreate_table_on_error"),
        only_if_changed=read.flag("hoodie.datasource.meta_sync.condition.sync"),
        incremental=read.flag(f"{META}incremental"),
        plain_snapshot_table=read.flag(f"{META}sync_snapshot_with_table_name"),
        glue_metadata_listing=read.flag(f"{GLUE}metadata_file_listing"),
        glue_skip_archive=read.flag(f"{GLUE}skip_table_archive"),
        glue_recreate_on_error=read.flag(f"{GLUE}recreate_table_on_error"),
        glue_client={name: value for name, value in client.items() if value},
    )


def _differs(value: str, default: str) -> bool:
    return value.strip().lower() not in {default.lower(), ""}


def _table_name(read: _Reader) -> str:
    names = (f"{HIVE}table", "hoodie.table.name", "hoodie.datasource.write.table.name")
    given = next((read.options[name].strip() for name in names if read.options.get(name, "").strip()), "")
    name = given or read.properties.get("hoodie.table.name", "")
    if not name:
        raise InvalidOptionError(f"the table has no name: set {names[0]}")
    return name


def _partition_fields(read: _Reader) -> tuple[str, ...]:
    # Custom key generators say after a colon how a field is written.
    return tuple(field.split(":", 1)[0] for field in items_of(read.properties.get("hoodie.table.partition.fields")))


def _extractor(read: _Reader, fields: tuple[str, ...]) -> str:
    kept = read.properties.get("hoodie.table.partition_extractor_class")
    if kept and fields:
        return kept
    hive_style = read.properties.get("hoodie.datasource.write.hive_style_partitioning", "").lower() == "true"
    name = {0: "NonPartitionedExtractor", 1: "HiveStylePartitionValueExtractor" if hive_style else ""}.get(
        len(fields), ""
    )
    if len(fields) == 1 and not hive_style:
        name = "SinglePartPartitionValueExtractor"
    return f"org.apache.hudi.hive.{name or 'MultiPartKeysValueExtractor'}"


@dataclass(frozen=True)
class _Reader:
    """Values of options by their types."""

    options: Mapping[str, str]
    properties: Mapping[str, str]

    def check(self) -> None:
        for key in KEYS:
            default = KEYS[key].default
            if default in {"true", "false"}:
                self.flag(key)
            elif default.isdigit():
                self.number(key)
            elif key.endswith("_properties"):
                self.pairs(key)
        key = f"{HIVE}table.strategy"
        if self.text(key).upper() not in _STRATEGIES:
            raise InvalidOptionError(f"invalid value {self.text(key)!r} for {key}: expected {', '.join(_STRATEGIES)}")

    def text(self, key: str, *, given_only: bool = False) -> str:
        value = self.options.get(key, "").strip()
        return value or ("" if given_only else KEYS[key].default)

    def inferred(self, key: str, other: str) -> str:
        found = (self.options.get(key, ""), self.options.get(other, ""), self.properties.get(other, ""))
        return next((value.strip() for value in found if value.strip()), KEYS[key].default)

    def flag(self, key: str) -> bool:
        value = self.text(key).lower()
        if value not in {"true", "false"}:
            raise InvalidOptionError(f"invalid value {value!r} for {key}: expected true or false")
        return value == "true"

    def number(self, key: str) -> int:
        value = self.text(key)
        if not (value.isdecimal() and int(value) > 0):
            raise InvalidOptionError(f"invalid value {value!r} for {key}: expected a number of at least 1")
        return int(value)

    def pairs(self, key: str) -> dict[str, str]:
        found = {}
        for line in self.text(key).splitlines():
            name, equals, value = (part.strip() for part in line.partition("="))
            if line.strip() and not (name and equals):
                raise InvalidOptionError(f"invalid line {line.strip()!r} in {key}: expected key=value")
            if line.strip():
                found[name] = value
        return found
