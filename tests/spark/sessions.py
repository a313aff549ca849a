"""Starts the Spark that these tests run on: one kind for each process, for a process holds only one driver.

`HOODOO_TEST_SPARK` names the kind:

- `classic` (the default): two threads, and a task gets four attempts
- `connect`: the same behind a Spark Connect server, from Spark 4 on
- `cluster`: a standalone master and two workers of one core each, on loopback
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.quick_spark import start_context

KIND = os.environ.get("HOODOO_TEST_SPARK", "classic")
WORKERS = 2

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    # Compiling for speed takes longer than these few rows, as collections do in a heap that begins small.
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=128m -XX:+UseSerialGC -Xms700m -Xmn450m"
    ),
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Small batches: a task sees several.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    "spark.python.worker.faulthandler.enabled": "false",
}
_PROJECT = Path(__file__).resolve().parents[2]
_CLASSIC = {"spark.python.daemon.module": "tests.spark.preloaded_daemon"}
# A cluster may start a second copy of a slow task; how slow is set by the test that wants one.
_CLUSTER = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "3s",
}


def _builder(settings: dict[str, str]) -> Any:
    from pyspark.sql import SparkSession  # tests are collected without it

    builder = SparkSession.builder.appName("hoodoo-tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _spark_class(name: str, host: str, *arguments: str, log: Path) -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": host}
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", host, *arguments]
    with log.open("wb") as out:
        return subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT)


def _wait_for_workers(web: int, log: Path) -> None:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{web}/json/", timeout=5) as page:
            if page.read().count(b'"ALIVE"') > WORKERS:  # the master and each worker say so
                return
        time.sleep(0.5)
    raise TimeoutError(f"the workers did not come up:\n{log.read_text()}")


@contextlib.contextmanager
def cluster() -> Iterator[str]:
    """Runs a master and two workers; gives the master's URL."""
    with tempfile.TemporaryDirectory(prefix="hoodoo-cluster-") as folder:
        scratch, port, web = Path(folder), _free_port(), _free_port()
        url = f"spark://127.0.0.1:{port}"
        ports = ("--port", str(port), "--webui-port", str(web))
        started = [_spark_class("master.Master", "127.0.0.1", *ports, log=scratch / "master.log")]
        try:
            for number in range(WORKERS):
                size = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(scratch / str(number)))
                # Spark makes no second copy of a task on the host of the first: each worker has an address of its own.
                host, log = f"127.0.0.{number + 1}", scratch / f"worker{number}.log"
                started.append(_spark_class("worker.Worker", host, *size, url, log=log))
            _wait_for_workers(web, scratch / "master.log")
            yield url
        finally:
            for process in reversed(started):
                process.terminate()
            for process in started:
                process.wait(30)


@contextlib.contextmanager
def session() -> Iterator[Any]:
    """Runs the session that `HOODOO_TEST_SPARK` names."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Workers import what tests define.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_PROJECT), os.environ.get("PYTHONPATH"))))
    if KIND == "classic":
        from pyspark import SparkConf, SparkContext

        if SparkContext._active_spark_context is not None:
            raise RuntimeError("another test has a Spark in this process: run tests/spark in a process of its own")
        settings = {**_SETTINGS, **_CLASSIC, "spark.master": "local[2,4]", "spark.app.name": "hoodoo-tests"}
        start_context(SparkConf().setAll(list(settings.items())))
        spark = _builder(settings).getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        yield spark
        spark.stop()
    elif KIND == "connect":
        spark = _builder(_SETTINGS).remote("local[2,4]").getOrCreate()
        yield spark
        spark.stop()
    elif KIND == "cluster":
        with cluster() as url:
            spark = _builder({**_SETTINGS, **_CLUSTER}).master(url).getOrCreate()
            spark.sparkContext.setLogLevel("OFF")
            yield spark
            spark.stop()
    else:
        raise ValueError(f"HOODOO_TEST_SPARK={KIND}: use classic, connect or cluster")
