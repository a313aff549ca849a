"""The client of AWS Glue, by boto3."""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hoodoo.exceptions import CatalogError
from hoodoo.extras import import_extra
from hoodoo.sync.catalog import Column, Partition, TableEntry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Glue", "connect"]

# What Glue takes in one request.
_CREATE_OR_UPDATE, _DELETE, _GET = 100, 25, 1000
_AGAIN = "Nothing in the table changed: mend the cause, and sync again with Table.sync"
_LISTING = "hudi.metadata-listing-enabled"
# Of the answer to get_table, what update_table takes again.
_INPUT_KEYS = frozenset(
    {
        "Name",
        "Description",
        "Owner",
        "LastAccessTime",
        "LastAnalyzedTime",
        "Retention",
        "StorageDescriptor",
        "PartitionKeys",
        "ViewOriginalText",
        "ViewExpandedText",
        "TableType",
        "Parameters",
        "TargetTable",
    }
)


def connect(settings: Mapping[str, str], *, skip_archive: bool = True, metadata_listing: bool = False) -> Glue:
    """Make a client of Glue. Nothing is asked of it yet.

    Args:
        settings: `region`, `endpoint`, `access.key`, `secret.key` and `session.token`; boto3 finds what is not given.
        skip_archive: Keep no older version of a table that is changed.
        metadata_listing: Let Athena list files by the metadata table.

    Returns:
        The client.

    Raises:
        MissingDependencyError: boto3 is not installed.
        CatalogError: There is no region.
    """
    import_extra("boto3", "glue", "AWS Glue")
    import boto3  # noqa: PLC0415 - an extra
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415

    names = {
        "region": "region_name",
        "endpoint": "endpoint_url",
        "access.key": "aws_access_key_id",
        "secret.key": "aws_secret_access_key",
        "session.token": "aws_session_token",
    }
    try:
        client = boto3.client("glue", **{names[key]: value for key, value in settings.items()})
    except (BotoCoreError, ValueError) as error:
        raise CatalogError(
            f"AWS Glue cannot be asked: {error}. Set hoodie.aws.glue.region, or what boto3 reads (AWS_DEFAULT_REGION, "
            "~/.aws/config)"
        ) from error
    return Glue(client, skip_archive, metadata_listing)


@dataclass(frozen=True)
class Glue:
    """A client of AWS Glue; see `hoodoo.sync.catalog.CatalogClient`."""

    client: Any
    skip_archive: bool
    metadata_listing: bool
    name: str = "glue"

    def ensure_database(self, database: str, *, create: bool) -> None:
        """Create a database that is missing, or raise an error."""
        with self._calling(f"create the database {database}"):
            try:
                self.client.get_database(Name=database)
            except self.client.exceptions.EntityNotFoundException as error:
                if not create:
                    raise CatalogError(
                        f"AWS Glue has no database {database}: create it, or set "
                        "hoodie.datasource.hive_sync.auto_create_database=true"
                    ) from error
                try:
                    self.client.create_database(
                        DatabaseInput={"Name": database, "Description": "automatically created by hoodoo"}
                    )
                except self.client.exceptions.AlreadyExistsException:
                    return

    def table(self, database: str, name: str) -> TableEntry | None:
        """Return a table, or None."""
        with self._calling(f"read {database}.{name}"):
            try:
                return _entry(database, self.client.get_table(DatabaseName=database, Name=name)["Table"])
            except self.client.exceptions.EntityNotFoundException:
                return None

    def create_table(self, table: TableEntry) -> None:
        """Create a table."""
        now = dt.datetime.now(dt.timezone.utc)
        made = {
            "Name": table.name,
            "Owner": table.owner,
            "LastAccessTime": now,
            "LastAnalyzedTime": now,
            "TableType": table.kind,
            "Parameters": self._with_listing(table.parameters),
            "PartitionKeys": _columns(table.partition_keys),
            "StorageDescriptor": _descriptor(table, table.location),
        }
        with self._calling(f"create {table.full_name}"):
            self.client.create_table(DatabaseName=table.database, TableInput=made)

    def alter_table(self, old: TableEntry, new: TableEntry, *, cascade: bool) -> None:  # noqa: ARG002
        """Change a table. Glue cannot change the columns of all partitions, and Hudi does not try."""
        changed = {key: value for key, value in old.raw.items() if key in _INPUT_KEYS}
        changed["Parameters"] = self._with_listing(new.parameters)
        changed["StorageDescriptor"] = changed["StorageDescriptor"] | _descriptor(new, new.location)
        with self._calling(f"change {old.full_name}"):
            self.client.update_table(DatabaseName=old.database, TableInput=changed, SkipArchive=self.skip_archive)

    def drop_table(self, table: TableEntry) -> None:
        """Drop a table, and never its data."""
        with self._calling(f"drop {table.full_name}"):
            self.client.delete_table(DatabaseName=table.database, Name=table.name)

    def partitions(self, table: TableEntry, wanted: Sequence[tuple[str, ...]] | None) -> Iterator[Partition]:
        """Return the partitions of a table: all, or those with certain values that are there."""
        where = {"DatabaseName": table.database, "TableName": table.name}
        with self._calling(f"list the partitions of {table.full_name}"):
            if wanted is None:
                pages = self.client.get_paginator("get_partitions").paginate(**where, ExcludeColumnSchema=True)
                for page in pages:
                    yield from map(_partition_of, page["Partitions"])
                return
            waiting = [{"Values": list(values)} for values in wanted]
            while waiting:
                batch, waiting = waiting[:_GET], waiting[_GET:]
                answer = self.client.batch_get_partition(**where, PartitionsToGet=batch)
                yield from map(_partition_of, answer.get("Partitions", ()))
                waiting += answer.get("UnprocessedKeys", ())

    def add_partitions(self, table: TableEntry, partitions: Sequence[Partition]) -> None:
        """Add partitions; those that are there already stay."""
        for batch in _batches(partitions, _CREATE_OR_UPDATE):
            with self._calling(f"add partitions to {table.full_name}"):
                answer = self.client.batch_create_partition(
                    DatabaseName=table.database,
                    TableName=table.name,
                    PartitionInputList=[_partition(table, partition) for partition in batch],
                )
            self._check(answer, f"add partitions to {table.full_name}", "AlreadyExistsException")

    def change_partitions(self, table: TableEntry, partitions: Sequence[Partition]) -> None:
        """Give partitions other locations."""
        for batch in _batches(partitions, _CREATE_OR_UPDATE):
            with self._calling(f"change partitions of {table.full_name}"):
                answer = self.client.batch_update_partition(
                    DatabaseName=table.database,
                    TableName=table.name,
                    Entries=[
                        {"PartitionValueList": list(one.values), "PartitionInput": _partition(table, one)}
                        for one in batch
                    ],
                )
            self._check(answer, f"change partitions of {table.full_name}")

    def drop_partitions(self, table: TableEntry, values: Sequence[tuple[str, ...]]) -> None:
        """Drop partitions, and never their data."""
        for batch in _batches(values, _DELETE):
            with self._calling(f"drop partitions of {table.full_name}"):
                answer = self.client.batch_delete_partition(
                    DatabaseName=table.database,
                    TableName=table.name,
                    PartitionsToDelete=[{"Values": list(one)} for one in batch],
                )
            self._check(answer, f"drop partitions of {table.full_name}", "EntityNotFoundException")

    def close(self) -> None:
        """Close the connection."""
        self.client.close()

    def _with_listing(self, parameters: Mapping[str, str]) -> dict[str, str]:
        return {**parameters, _LISTING: "TRUE" if self.metadata_listing else "FALSE"}

    def _check(self, answer: Mapping[str, Any], what: str, harmless: str = "") -> None:
        found = [(error.get("PartitionValues"), error["ErrorDetail"]) for error in answer.get("Errors") or ()]
        bad = [(values, detail) for values, detail in found if detail.get("ErrorCode") != harmless]
        if bad:
            values, detail = bad[0]
            why = f"{detail.get('ErrorCode')} for {values}: {detail.get('ErrorMessage')}"
            more = f" ({len(bad) - 1} more)" if len(bad) > 1 else ""
            raise CatalogError(f"AWS Glue refused to {what}: {why}{more}. {_AGAIN}")

    @contextmanager
    def _calling(self, what: str) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - an extra

        try:
            yield
        except (BotoCoreError, ClientError) as error:
            raise CatalogError(f"AWS Glue could not {what}: {error}. {_AGAIN}") from error


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]


def _place(location: str) -> str:
    # Athena and Glue know S3 by one name.
    scheme, separator, rest = location.partition("://")
    return f"s3://{rest}" if separator and scheme in {"s3a", "s3n"} else location


def _columns(columns: Sequence[Column]) -> list[dict[str, str]]:
    return [{"Name": column.name, "Type": column.kind, "Comment": column.comment} for column in columns]


def _descriptor(table: TableEntry, location: str) -> dict[str, Any]:
    return {
        "Columns": _columns(table.columns),
        "Location": _place(location),
        "InputFormat": table.input_format,
        "OutputFormat": table.output_format,
        "SerdeInfo": {"SerializationLibrary": table.serde, "Parameters": dict(table.serde_parameters)},
    }


def _partition(table: TableEntry, partition: Partition) -> dict[str, Any]:
    return {"Values": list(partition.values), "StorageDescriptor": _descriptor(table, partition.location)}


def _partition_of(answer: Mapping[str, Any]) -> Partition:
    return Partition(tuple(answer["Values"]), answer.get("StorageDescriptor", {}).get("Location", ""))


def _entry(database: str, raw: Mapping[str, Any]) -> TableEntry:
    descriptor = raw.get("StorageDescriptor") or {}
    serde = descriptor.get("SerdeInfo") or {}
    return TableEntry(
        database=database,
        name=raw["Name"],
        columns=_columns_of(descriptor.get("Columns")),
        partition_keys=_columns_of(raw.get("PartitionKeys")),
        location=descriptor.get("Location", ""),
        input_format=descriptor.get("InputFormat", ""),
        output_format=descriptor.get("OutputFormat", ""),
        serde=serde.get("SerializationLibrary", ""),
        serde_parameters=dict(serde.get("Parameters") or {}),
        parameters=dict(raw.get("Parameters") or {}),
        owner=raw.get("Owner", ""),
        kind=raw.get("TableType", ""),
        raw=raw,
    )


def _columns_of(columns: Sequence[Mapping[str, str]] | None) -> tuple[Column, ...]:
    return tuple(Column(one["Name"], one.get("Type", ""), one.get("Comment", "")) for one in columns or ())
