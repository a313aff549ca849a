"""The client of a Hive Metastore, by pymetastore."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hoodoo.exceptions import CatalogError, InvalidOptionError
from hoodoo.extras import import_extra
from hoodoo.sync.catalog import Column, Partition, TableEntry
from hoodoo.sync.partitions import partition_name
from hoodoo.sync.plan import user_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Metastore", "connect"]

_URIS = "hoodie.datasource.hive_sync.metastore.uris"
# Hive's own client waits as long for an answer: a change of columns goes through all partitions.
_CONNECT_MS, _ANSWER_MS = 20_000, 600_000
_DEFAULT_PORT = 9083
_HINT = (
    "Is it running, and does it take connections without Kerberos or TLS? hoodoo speaks plain thrift. Nothing in the "
    "table changed: sync again with Table.sync"
)


def connect(uris: Sequence[str], *, batch_size: int = 1000) -> Metastore:
    """Connect to a metastore.

    Args:
        uris: `thrift://host:port` of its servers; the first that answers is used.
        batch_size: Partitions of one request.

    Returns:
        The client.

    Raises:
        MissingDependencyError: pymetastore is not installed.
        InvalidOptionError: A URI is not one of thrift.
        CatalogError: No server can be reached.
    """
    import_extra("pymetastore", "hive", "a Hive Metastore")
    failures = []
    for host, port in [_address(uri) for uri in uris]:
        try:
            return Metastore(f"thrift://{host}:{port}", *_open(host, port), batch_size)
        except CatalogError as error:  # noqa: PERF203 - a connection each
            failures.append(str(error))
    raise CatalogError("; ".join(failures))


def _address(uri: str) -> tuple[str, int]:
    try:
        parts = urlsplit(uri if "://" in uri else f"thrift://{uri}")
        host, port = parts.hostname, parts.port or _DEFAULT_PORT
    except ValueError:
        parts, host, port = urlsplit(""), None, 0
    if host is None or parts.scheme != "thrift":
        raise InvalidOptionError(f"invalid value {uri!r} for {_URIS}: expected thrift://host:port")
    return host, port


def _open(host: str, port: int) -> tuple[Any, Any]:
    from pymetastore.hive_metastore.ThriftHiveMetastore import Client  # noqa: PLC0415 - an extra
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol  # noqa: PLC0415
    from thrift.Thrift import TApplicationException, TException  # noqa: PLC0415
    from thrift.transport.TSocket import TSocket  # noqa: PLC0415
    from thrift.transport.TTransport import TBufferedTransport  # noqa: PLC0415

    socket = TSocket(host, port)
    socket.setTimeout(_CONNECT_MS)
    transport = TBufferedTransport(socket)
    # What is no thrift is told at once.
    client = Client(TBinaryProtocol(transport, strictRead=True))
    try:
        transport.open()
        # As Hive's own client: folders that the metastore makes belong to the user. Not all servers know it.
        with suppress(TApplicationException, KeyError):
            client.set_ugi(user_name(), [user_name()])
        socket.setTimeout(_ANSWER_MS)
    except (TException, OSError, EOFError) as error:
        transport.close()
        raise CatalogError(
            f"the Hive Metastore thrift://{host}:{port} cannot be reached: {_text(error)}. {_HINT}"
        ) from error
    return client, transport


def _text(error: BaseException) -> str:
    return str(getattr(error, "message", None) or error).strip() or type(error).__name__


@dataclass(frozen=True)
class Metastore:
    """A connection to a metastore; see `hoodoo.sync.catalog.CatalogClient`."""

    name: str
    client: Any
    transport: Any
    batch_size: int

    def ensure_database(self, database: str, *, create: bool) -> None:
        """Create a database that is missing, or raise an error."""
        from pymetastore.hive_metastore.ttypes import (  # noqa: PLC0415 - an extra
            AlreadyExistsException,
            Database,
            NoSuchObjectException,
        )

        with self._calling(f"create the database {database}"):
            try:
                self.client.get_database(database)
            except NoSuchObjectException as error:
                if not create:
                    raise CatalogError(
                        f"{self.name} has no database {database}: create it, or set "
                        "hoodie.datasource.hive_sync.auto_create_database=true"
                    ) from error
                with suppress(AlreadyExistsException):
                    self.client.create_database(Database(database, "automatically created by hoodoo", None, {}))

    def table(self, database: str, name: str) -> TableEntry | None:
        """Return a table, or None."""
        from pymetastore.hive_metastore.ttypes import NoSuchObjectException  # noqa: PLC0415 - an extra

        with self._calling(f"read {database}.{name}"):
            try:
                return _entry(self._get_table(database, name))
            except NoSuchObjectException:
                return None

    def _get_table(self, database: str, name: str) -> Any:
        from pymetastore.hive_metastore.ttypes import GetTableRequest  # noqa: PLC0415 - an extra
        from thrift.Thrift import TApplicationException  # noqa: PLC0415

        try:
            return self.client.get_table(database, name)
        except TApplicationException as error:
            if error.type != TApplicationException.UNKNOWN_METHOD:
                raise
            # Hive 4 has only this one.
            return self.client.get_table_req(GetTableRequest(database, name)).table

    def create_table(self, table: TableEntry) -> None:
        """Create a table."""
        from pymetastore.hive_metastore.ttypes import Table  # noqa: PLC0415 - an extra

        made = Table(
            tableName=table.name,
            dbName=table.database,
            owner=table.owner,
            sd=_descriptor(table, table.location),
            partitionKeys=_fields(table.partition_keys),
            parameters=table.parameters,
            tableType=table.kind,
        )
        with self._calling(f"create {table.full_name}"):
            self.client.create_table(made)

    def alter_table(self, old: TableEntry, new: TableEntry, *, cascade: bool) -> None:
        """Change a table; with `cascade`, the columns of its partitions too."""
        from pymetastore.hive_metastore.ttypes import EnvironmentContext  # noqa: PLC0415 - an extra

        raw = old.raw
        raw.sd.cols = _fields(new.columns)
        raw.sd.location, raw.sd.inputFormat, raw.sd.outputFormat = new.location, new.input_format, new.output_format
        raw.sd.serdeInfo.serializationLib, raw.sd.serdeInfo.parameters = new.serde, dict(new.serde_parameters)
        raw.parameters = dict(new.parameters)
        context = EnvironmentContext({"CASCADE": "true"} if cascade else {})
        with self._calling(f"change {old.full_name}"):
            self.client.alter_table_with_environment_context(old.database, old.name, raw, context)

    def drop_table(self, table: TableEntry) -> None:
        """Drop a table, and never its data."""
        with self._calling(f"drop {table.full_name}"):
            self.client.drop_table(table.database, table.name, False)

    def partitions(self, table: TableEntry, wanted: Sequence[tuple[str, ...]] | None) -> Iterator[Partition]:
        """Return the partitions of a table: all, or those with certain values that are there."""
        with self._calling(f"list the partitions of {table.full_name}"):
            if wanted is None:
                names = self.client.get_partition_names(table.database, table.name, -1)
            else:
                names = [self._name(table, values) for values in wanted]
            for batch in self._batches(names):
                for found in self.client.get_partitions_by_names(table.database, table.name, batch):
                    yield Partition(tuple(found.values), found.sd.location)

    def add_partitions(self, table: TableEntry, partitions: Sequence[Partition]) -> None:
        """Add partitions; those that are there already stay."""
        from pymetastore.hive_metastore.ttypes import AddPartitionsRequest  # noqa: PLC0415 - an extra

        for batch in self._batches(partitions):
            with self._calling(f"add partitions to {table.full_name}"):
                made = [_partition(table, partition) for partition in batch]
                self.client.add_partitions_req(
                    AddPartitionsRequest(table.database, table.name, made, ifNotExists=True, needResult=False)
                )

    def change_partitions(self, table: TableEntry, partitions: Sequence[Partition]) -> None:
        """Give partitions other locations."""
        for batch in self._batches(partitions):
            with self._calling(f"change partitions of {table.full_name}"):
                made = [_partition(table, partition) for partition in batch]
                self.client.alter_partitions(table.database, table.name, made)

    def drop_partitions(self, table: TableEntry, values: Sequence[tuple[str, ...]]) -> None:
        """Drop partitions, and never their data."""
        from pymetastore.hive_metastore.ttypes import DropPartitionsRequest, RequestPartsSpec  # noqa: PLC0415

        for batch in self._batches([self._name(table, one) for one in values]):
            with self._calling(f"drop partitions of {table.full_name}"):
                self.client.drop_partitions_req(
                    DropPartitionsRequest(
                        table.database,
                        table.name,
                        RequestPartsSpec(names=list(batch)),
                        deleteData=False,
                        ifExists=True,
                        needResult=False,
                    )
                )

    def close(self) -> None:
        """Close the connection."""
        self.transport.close()

    @staticmethod
    def _name(table: TableEntry, values: Sequence[str]) -> str:
        return partition_name([key.name for key in table.partition_keys], values)

    def _batches(self, items: Sequence[Any]) -> Iterator[Sequence[Any]]:
        for begin in range(0, len(items), self.batch_size):
            yield items[begin : begin + self.batch_size]

    @contextmanager
    def _calling(self, what: str) -> Iterator[None]:
        from thrift.Thrift import TException  # noqa: PLC0415 - an extra
        from thrift.transport.TTransport import TTransportException  # noqa: PLC0415

        try:
            yield
        except TTransportException as error:
            raise CatalogError(
                f"the connection to {self.name} broke, could not {what}: {_text(error)}. {_HINT}"
            ) from error
        except (TException, OSError, EOFError) as error:
            raise CatalogError(
                f"{self.name} refused to {what}: {_text(error)}. Nothing in the table changed: mend the cause, and "
                "sync again with Table.sync"
            ) from error


def _fields(columns: Sequence[Column]) -> list[Any]:
    from pymetastore.hive_metastore.ttypes import FieldSchema  # noqa: PLC0415 - an extra

    return [FieldSchema(column.name, column.kind, column.comment) for column in columns]


def _descriptor(table: TableEntry, location: str) -> Any:
    from pymetastore.hive_metastore.ttypes import SerDeInfo, StorageDescriptor  # noqa: PLC0415 - an extra

    return StorageDescriptor(
        cols=_fields(table.columns),
        location=location,
        inputFormat=table.input_format,
        outputFormat=table.output_format,
        compressed=False,
        numBuckets=0,
        serdeInfo=SerDeInfo(None, table.serde, dict(table.serde_parameters)),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


def _partition(table: TableEntry, partition: Partition) -> Any:
    from pymetastore.hive_metastore.ttypes import Partition as Made  # noqa: PLC0415 - an extra

    return Made(
        values=list(partition.values),
        dbName=table.database,
        tableName=table.name,
        createTime=0,
        lastAccessTime=0,
        sd=_descriptor(table, partition.location),
    )


def _entry(raw: Any) -> TableEntry:
    serde = raw.sd.serdeInfo
    return TableEntry(
        database=raw.dbName,
        name=raw.tableName,
        columns=_columns(raw.sd.cols),
        partition_keys=_columns(raw.partitionKeys),
        location=raw.sd.location or "",
        input_format=raw.sd.inputFormat or "",
        output_format=raw.sd.outputFormat or "",
        serde=serde.serializationLib or "",
        serde_parameters=dict(serde.parameters or {}),
        parameters=dict(raw.parameters or {}),
        owner=raw.owner or "",
        kind=raw.tableType or "",
        raw=raw,
    )


def _columns(fields: Sequence[Any] | None) -> tuple[Column, ...]:
    return tuple(Column(field.name, field.type, field.comment or "") for field in fields or ())
