"""One system in a process of its own: does tasks, and says how long each took and what it found."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benches.peers.processes import cpu_seconds, family, peaks, reset_peaks
from benches.peers.timeline import tables

if TYPE_CHECKING:
    from collections.abc import Callable

ARCHIVED = 1_000
"""Commits that are archived."""
RANGE = 1_000
"""Actions of a range query, and of a query for the newest."""

Task = tuple[str, str]


class Hoodoo:
    """hoodoo from Python."""

    def run(self, task: Task) -> Callable[[], int]:
        """Prepares a task; what comes back does it, and answers how many actions it met."""
        import hoodoo  # noqa: PLC0415

        name, place = task
        table = hoodoo.Table(place, options=tables.OPTIONS)
        timeline = table.timeline
        if name in ("times", "metadata"):
            mode = "time" if name == "times" else "metadata"
            return lambda: sum(batch.num_rows for batch in timeline.read_history(mode))
        if name == "range":
            since, until = middle(place)
            return lambda: sum(batch.num_rows for batch in timeline.read_history("full", since, until))
        work: dict[str, Callable[[], int]] = {
            "newest": lambda: len(timeline.latest(RANGE)),
            "active": lambda: len(timeline.instants()),
            "archive": lambda: len(table.archive().instants),
            "compact": lambda: timeline.compact_history().files,
        }
        return work[name]


def middle(place: str) -> tuple[str, str]:
    """Gives the times of 1,000 actions in the middle of a history."""
    import hoodoo  # noqa: PLC0415

    kept = Path(place) / ".middle"
    if not kept.exists():
        times = hoodoo.Table(place).timeline.read_history("time").read_all()["instantTime"]
        first = len(times) // 2
        kept.write_text(f"{times[first]} {times[first + RANGE - 1]}")
    since, until = kept.read_text().split()
    return since, until


class Floor:
    """What the file system asks for the same: every commit read, every file deleted, in a plain loop."""

    def run(self, task: Task) -> Callable[[], int]:
        """Prepares the one task that there is."""
        files = sorted((Path(task[1]) / ".hoodie" / "timeline").glob("2*"))[: 3 * ARCHIVED]

        def archive() -> int:
            commits = [file.read_bytes() for file in files if file.suffix == ".commit"]
            for file in files:
                file.unlink()
            return len(commits)

        return archive


class Hudi:
    """Hudi's own classes in the JVM of a Spark session."""

    def __init__(self) -> None:
        import pyspark  # noqa: PLC0415
        from pyspark.sql import SparkSession  # noqa: PLC0415

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        jars = sorted((tables.PROJECT / ".cache" / "hudi").glob("hudi-spark3.5-bundle*.jar"))
        if not jars or not pyspark.__version__.startswith("3.5."):
            message = "needs PySpark 3.5 and the Hudi bundle (scripts/setup hudi)"
            raise RuntimeError(message)
        home = tempfile.mkdtemp(prefix="spark-")
        settings = {
            "spark.jars": str(jars[0]),
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
            "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
            "spark.driver.memory": "8g",
            "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dderby.system.home={home}",
            "spark.sql.warehouse.dir": f"{home}/warehouse",
            "spark.local.dir": home,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        builder = SparkSession.builder.master("local[2]")
        for key, value in settings.items():
            builder = builder.config(key, value)
        self._spark = builder.getOrCreate()
        self._spark.sparkContext.setLogLevel("ERROR")
        # Spark has no other way to classes of the JVM.
        self._jvm: Any = self._spark._jvm  # noqa: SLF001
        self._java_context: Any = self._spark.sparkContext._jsc  # noqa: SLF001

    def _client(self, place: str) -> Any:
        conf = self._java_context.hadoopConfiguration()
        storage = self._jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(conf)
        builder = self._jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
        return builder.setConf(storage).setBasePath(place).build()

    def _writer(self, place: str) -> Any:
        properties = self._jvm.java.util.Properties()
        for key, value in tables.OPTIONS.items():
            properties.setProperty(key, value)
        config = self._jvm.org.apache.hudi.config.HoodieWriteConfig.newBuilder()
        config = config.withPath(place).withProperties(properties).build()
        context = self._jvm.org.apache.hudi.common.engine.LocalTaskContextSupplier()
        lsm = self._jvm.org.apache.hudi.client.timeline.versioning.v2.LSMTimelineWriter
        return lsm.getInstance(config, context, self._client(place))

    def run(self, task: Task) -> Callable[[], int]:
        """Prepares a task; what comes back does it, and answers how many actions it met."""
        name, place = task
        if name == "archive":
            limits = "min_commits => 4, max_commits => 5, retain_commits => 1, enable_metadata => false"
            call = f"CALL archive_commits(path => '{place}', {limits})"
            before = len(list((Path(place) / ".hoodie/timeline").glob("*.commit")))
            timeline = Path(place) / ".hoodie/timeline"
            return lambda: self._spark.sql(call).count() and before - len(list(timeline.glob("*.commit")))
        if name == "rewrite":
            return lambda: self._rewrite(place)
        if name == "compact":
            writer = self._writer(place)
            context = self._jvm.org.apache.hudi.client.common.HoodieSparkEngineContext(self._java_context)
            files = sorted(tables.history(Path(place)).glob("*.parquet"))
            # The writer has its settings only after it wrote a file.
            writer.compactFiles(self._jvm.java.util.List.of(files[0].name), "1_1_0.parquet")
            (files[0].parent / "1_1_0.parquet").unlink()
            return lambda: writer.compactAndClean(context) or len(files)
        client = self._client(place)
        work: dict[str, Callable[[], int]] = {
            "times": lambda: client.getArchivedTimeline().countInstants(),
            "metadata": lambda: self._metadata(client),
            "active": lambda: client.reloadActiveTimeline().countInstants(),
        }
        return work[name]

    @staticmethod
    def _metadata(client: Any) -> int:
        timeline = client.getArchivedTimeline()
        timeline.loadCompletedInstantDetailsInMemory()
        return int(timeline.countInstants())

    def _rewrite(self, place: str) -> int:
        """Lets Hudi write each file of a history anew, as its compaction does."""
        writer, folder = self._writer(place), tables.history(Path(place))
        files = sorted(folder.glob("*.parquet"))
        for file in files:
            writer.compactFiles(self._jvm.java.util.List.of(file.name), "1_1_0.parquet")
            (folder / "1_1_0.parquet").replace(file)
        tables.sizes_in_manifest(Path(place))
        return len(files)


def main() -> None:
    """Reads tasks as JSON from the standard input, one a line: name, place, runs; answers each with a line."""
    system = {"hoodoo": Hoodoo, "hudi": Hudi, "floor": Floor}[sys.argv[1]]()
    for line in sys.stdin:
        name, place, runs = json.loads(line)
        walls, cpus, found, peak = [], [], 0, 0
        for _ in range(runs):
            work = system.run((name, place))
            # Read from the kernel before and after: what watches meanwhile takes its time from tasks of milliseconds.
            processes = family(os.getpid())
            reset_peaks(processes)
            cpu, begin = cpu_seconds(os.getpid()), time.perf_counter()
            found = work()
            walls.append(time.perf_counter() - begin)
            cpus.append(cpu_seconds(os.getpid()) - cpu)
            peak = max(peak, peaks(processes))
        print(json.dumps({"wall": walls, "cpu": cpus, "found": found, "peak": peak}), flush=True)


if __name__ == "__main__":
    main()
