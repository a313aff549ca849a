"""A ZooKeeper server of the test's own, from the jars of PySpark."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

import pyspark


class ZookeeperServer:
    """A running server on a free port of this machine."""

    def __init__(self, folder: Path) -> None:
        jars = Path(pyspark.__file__).parent / "jars"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        settings = folder / "zoo.cfg"
        settings.write_text(
            f"dataDir={folder}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
            "tickTime=500\nminSessionTimeout=1000\n",
            encoding="utf-8",
        )
        java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if os.environ.get("JAVA_HOME") else "java"
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        command = [str(java), "-Xmx128m", "-cp", f"{jars}/*", main, str(settings)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._wait()

    @property
    def hosts(self) -> str:
        """What clients connect to."""
        return f"127.0.0.1:{self.port}"

    def _wait(self) -> None:
        until = time.monotonic() + 60
        while not self._answers():
            if time.monotonic() > until:
                raise RuntimeError("ZooKeeper did not start")
            time.sleep(0.1)

    def _answers(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        """Kill the server."""
        self._process.kill()
        self._process.wait()
