"""A real Hive metastore of the test's own: the classes of PySpark's jars on 127.0.0.1, with Derby in memory."""

from __future__ import annotations

import subprocess
import threading
import uuid
from pathlib import Path
from typing import Any

_TRANSPORT = "org.apache.thrift.transport"
_HIVE = "org.apache.hadoop.hive"
# The clock's, and the database: what two tables that are registered alike differ in.
_OF_THE_MOMENT = {"createTime", "dbName", "transient_lastDdlTime"}


class MetastoreUnavailableError(RuntimeError):
    """A metastore cannot be started here; the message says what is missing."""


class Metastore:
    """A running metastore.

    `HiveMetaStore` itself binds all interfaces of the machine, so its handler is served by a server made here.
    """

    def __init__(self, folder: Path) -> None:
        """Starts it; raises `MetastoreUnavailableError` when that is impossible."""
        try:
            import pyspark
            from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
            from pymetastore.hive_metastore.ThriftHiveMetastore import Client
            from thrift.protocol.TBinaryProtocol import TBinaryProtocol
            from thrift.transport.TSocket import TSocket
            from thrift.transport.TTransport import TBufferedTransport
        except ImportError as error:
            raise MetastoreUnavailableError(f"pyspark or pymetastore is not installed: {error}") from error
        settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:memory:{uuid.uuid4().hex};create=true",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": str(folder / "warehouse"),
        }
        try:
            port, token, self._process = launch_gateway(
                classpath=f"{Path(pyspark.__file__).parent / 'jars'}/*",
                javaopts=[f"-Dderby.system.home={folder}", "-Xmx512m", "-XX:TieredStopAtLevel=1"],
                redirect_stderr=subprocess.DEVNULL,
                die_on_exit=True,
                enable_auth=True,
                java_path=None,
                return_proc=True,
            )
        except OSError as error:
            raise MetastoreUnavailableError(f"Java does not start: {error}") from error
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        conf = self._class(f"{_HIVE}.conf.HiveConf")()
        for key, value in settings.items():
            conf.set(key, value)
        handler = self._class(f"{_HIVE}.metastore.HiveMetaStore").newRetryingHMSHandler("tests", conf, True)
        address = self._class("java.net.InetSocketAddress")("127.0.0.1", 0)
        transport = self._class(f"{_TRANSPORT}.TServerSocket")(address)
        arguments = self._class("org.apache.thrift.server.TThreadPoolServer$Args")(transport)
        arguments.stopTimeoutVal(1)
        arguments.processor(self._class(f"{_HIVE}.metastore.TSetIpAddressProcessor")(handler))
        self._server = self._class("org.apache.thrift.server.TThreadPoolServer")(arguments)
        self._serving = threading.Thread(target=self._server.serve, daemon=True)
        self._serving.start()
        self.port: int = transport.getServerSocket().getLocalPort()
        self.uri = f"thrift://127.0.0.1:{self.port}"
        self._socket = TBufferedTransport(TSocket("127.0.0.1", self.port))
        self._socket.open()
        self.client: Any = Client(TBinaryProtocol(self._socket))
        """A client of the test's own, not hoodoo's."""

    def options(self, database: str, **more: str) -> dict[str, str]:
        """The options of a sync into a database; keyword names are the ends of keys, with `__` for dots."""
        given = {"mode": "hms", "metastore__uris": self.uri, "database": database, **more}
        return {f"hoodie.datasource.hive_sync.{key.replace('__', '.')}": value for key, value in given.items()}

    def dump(self, database: str, name: str) -> dict[str, Any]:
        """All that is registered of a table and its partitions, but what belongs to the moment and to the database."""
        partitions = self.client.get_partitions(database, name, -1)
        return {
            "table": _plain(self.client.get_table(database, name)),
            "partitions": [_plain(one) for one in partitions],
        }

    def close(self) -> None:
        """Ends the metastore and its process."""
        self._socket.close()
        self._server.stop()
        self._serving.join()
        self._gateway.shutdown()
        self._process.kill()
        self._process.wait()

    def _class(self, name: str) -> Any:
        found: Any = self._gateway.jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in sorted(value.items()) if key not in _OF_THE_MOMENT and one is not None}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return _plain(vars(value)) if hasattr(value, "__dict__") else value
