"""Hudi's options of catalog sync: keys, defaults, and what is done about each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "BOTH_SWITCHES",
    "KEYS",
    "SyncKey",
    "is_sync_asked",
    "items_of",
    "without_sync_options",
]

HIVE = "hoodie.datasource.hive_sync."
META = "hoodie.meta.sync."
GLUE = "hoodie.datasource.meta.sync.glue."

BOTH_SWITCHES = (f"{HIVE}enable", "hoodie.datasource.meta.sync.enable")
"""The options that ask for a sync after each write."""


@dataclass(frozen=True)
class SyncKey:
    """An option of catalog sync.

    Attributes:
        key: The key.
        default: Hudi's default.
        support: `yes`: honoured. `refused`: other values than the default raise an `UnsupportedError`. `warned`: they
            have no effect, and a warning names them. `none`: it tunes what works differently here.
        about: For honoured options what they do; for others what to do instead.
    """

    key: str
    default: str
    support: Literal["yes", "refused", "warned", "none"]
    about: str


def _yes(key: str, default: str, about: str) -> SyncKey:
    return SyncKey(key, default, "yes", about)


_ALL = (
    _yes(BOTH_SWITCHES[0], "false", "sync with a Hive Metastore after each write"),
    _yes(BOTH_SWITCHES[1], "false", "sync after each write with the tools of `hoodie.meta.sync.client.tool.class`"),
    _yes(
        f"{META}client.tool.class",
        "org.apache.hudi.hive.HiveSyncTool",
        "what to sync with, several with commas: `org.apache.hudi.hive.HiveSyncTool`, "
        "`org.apache.hudi.aws.sync.AwsGlueCatalogSyncTool`",
    ),
    _yes(f"{HIVE}mode", "", "`hms`: talk to the metastore; needed. `jdbc` and `hiveql` are refused"),
    _yes(
        f"{HIVE}metastore.uris",
        "thrift://localhost:9083",
        "URI of the metastore; several with commas are tried in turn",
    ),
    _yes(f"{HIVE}database", "default", "the database; inferred from `hoodie.database.name` if that is set"),
    _yes(f"{HIVE}table", "", "the table; inferred from `hoodie.table.name`"),
    _yes(f"{HIVE}partition_fields", "", "partition columns of the catalog; inferred from the table"),
    _yes(
        f"{HIVE}partition_extractor_class",
        "org.apache.hudi.hive.MultiPartKeysValueExtractor",
        "how values are taken from partition paths; inferred from the table (`hoodie.table.partition_extractor_class`)",
    ),
    _yes(f"{HIVE}auto_create_database", "true", "create the database when there is none"),
    _yes(f"{HIVE}ignore_exceptions", "false", "`Table.sync` returns a failure in its report, and does not raise it"),
    _yes(f"{HIVE}skip_ro_suffix", "false", "merge-on-read: the read-optimized table gets no `_ro`"),
    _yes(f"{HIVE}support_timestamp", "false", "register timestamps as `timestamp` instead of `bigint`"),
    _yes(f"{HIVE}table_properties", "", "more table parameters, a `key=value` on each line"),
    _yes(f"{HIVE}serde_properties", "", "more serde parameters, a `key=value` on each line"),
    _yes(
        f"{HIVE}sync_as_datasource", "true", "write the properties by which Spark reads the table with its Hudi source"
    ),
    _yes(f"{HIVE}schema_string_length_thresh", "4000", "length of the strings that Spark's schema is cut into"),
    _yes(f"{HIVE}create_managed_table", "false", "create the table without `EXTERNAL`: dropping it deletes the data"),
    _yes(f"{HIVE}omit_metadata_fields", "false", "register the table without the `_hoodie_*` columns"),
    _yes(f"{HIVE}batch_num", "1000", "partitions of one request to a metastore"),
    _yes(f"{HIVE}table.strategy", "ALL", "merge-on-read: `ALL`: `_ro`, `_rt` and the table; `RO` or `RT`: one of them"),
    _yes(f"{HIVE}recreate_table_on_error", "false", "drop a table that cannot be synced, and create it again"),
    _yes("hoodie.datasource.meta.sync.base.path", "", "the location to register, such as `s3a://…` for Spark"),
    _yes("hoodie.datasource.meta_sync.condition.sync", "false", "write the time of a sync only if something changed"),
    _yes(f"{META}incremental", "true", "compare only partitions that were written since the last sync"),
    _yes(f"{META}sync_snapshot_with_table_name", "true", "merge-on-read: also register the table without a suffix"),
    _yes("hoodie.meta_sync.spark.version", "", "`spark.sql.create.version`; `hoodoo.spark.write` fills it in"),
    _yes(f"{GLUE}database_name", "", "Glue: the database, before `hoodie.datasource.hive_sync.database`"),
    _yes(f"{GLUE}table_name", "", "Glue: the table, before `hoodie.datasource.hive_sync.table`"),
    _yes(f"{GLUE}skip_table_archive", "true", "Glue: keep no older version of a table that is changed"),
    _yes(f"{GLUE}metadata_file_listing", "false", "Glue: Athena lists files by the metadata table"),
    _yes(f"{GLUE}recreate_table_on_error", "false", "Glue: as `hoodie.datasource.hive_sync.recreate_table_on_error`"),
    _yes("hoodie.aws.glue.region", "", "Glue: the region; otherwise boto3 finds it"),
    _yes("hoodie.aws.glue.endpoint", "", "Glue: the endpoint; otherwise boto3 finds it"),
    _yes("hoodie.aws.access.key", "", "Glue: access key; otherwise boto3 finds credentials"),
    _yes("hoodie.aws.secret.key", "", "Glue: secret key"),
    _yes("hoodie.aws.session.token", "", "Glue: session token"),
    SyncKey(f"{HIVE}base_file_format", "PARQUET", "refused", "hoodoo writes Parquet"),
    SyncKey(f"{HIVE}use_spark_catalog", "false", "refused", "leave it out: the metastore is asked directly"),
    SyncKey(f"{META}no_partition_metadata", "false", "refused", "leave it out: partitions are registered"),
    SyncKey(f"{META}touch.partitions.enabled", "false", "warned", "partitions that did not change are not touched"),
    SyncKey(f"{HIVE}sync_comment", "false", "warned", "comments are not synced; those of the catalog stay"),
    SyncKey(
        f"{HIVE}bucket_sync", "false", "warned", "no bucket specification is registered, nor is it by Hudi's mode hms"
    ),
    SyncKey(f"{GLUE}partition_index_fields.enable", "false", "warned", "create partition indexes in Glue yourself"),
    SyncKey(f"{HIVE}bucket_sync_spec", "", "none", ""),
    SyncKey(f"{HIVE}use_jdbc", "true", "none", "the mode decides"),
    SyncKey(f"{HIVE}jdbcurl", "jdbc:hive2://localhost:10000", "none", ""),
    SyncKey(f"{HIVE}username", "hive", "none", ""),
    SyncKey(f"{HIVE}password", "hive", "none", ""),
    SyncKey(f"{HIVE}filter_pushdown_enabled", "false", "none", "an incremental sync asks for the partitions it needs"),
    SyncKey(f"{HIVE}filter_pushdown_max_size", "1000", "none", ""),
    SyncKey(f"{META}metadata_file_listing", "true", "none", ""),
    SyncKey(f"{META}decode_partition", "false", "none", "values stay as they are in the path, as in Hudi's mode hms"),
    SyncKey(f"{GLUE}partition_index_fields", "", "none", ""),
    SyncKey(f"{GLUE}all_partitions_read_parallelism", "1", "none", ""),
    SyncKey(f"{GLUE}changed_partitions_read_parallelism", "1", "none", ""),
    SyncKey(f"{GLUE}partition_change_parallelism", "1", "none", ""),
)

KEYS: dict[str, SyncKey] = {one.key: one for one in _ALL}
"""The options by key."""


def items_of(value: str | None) -> list[str]:
    """Return the items of a comma-separated option."""
    return [item.strip() for item in (value or "").split(",") if item.strip()]


def without_sync_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return options without those of catalog sync.

    Args:
        options: The options.

    Returns:
        The others.

    Examples:
        >>> without_sync_options({"hoodie.datasource.hive_sync.mode": "hms", "hoodie.table.name": "t"})
        {'hoodie.table.name': 't'}
    """
    return {key: value for key, value in options.items() if key not in KEYS}


def is_sync_asked(options: Mapping[str, str]) -> bool:
    """Return whether options ask for a sync after each write.

    Args:
        options: The options.

    Returns:
        Whether one of the two switches is on.

    Examples:
        >>> is_sync_asked({"hoodie.datasource.meta.sync.enable": "true"})
        True
        >>> is_sync_asked({"hoodie.datasource.hive_sync.mode": "hms"})
        False
    """
    return any(options.get(switch, "").strip().lower() == "true" for switch in BOTH_SWITCHES)
