"""Drives a real Hudi 1.2 on Spark 3.5: write rows to a table, read them back, run its services."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.interop.recorded import Recordings, digest, spelled
from tests.quick_spark import compiled, start_context
from tests.rows import Row, spark_rows

COORDINATES = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"
_JAR = "hudi-spark3.5-bundle_2.12-1.2.0.jar"
_IN_MAVEN = f"org/apache/hudi/hudi-spark3.5-bundle_2.12/1.2.0/{_JAR}"

# Keeps a small write near a second: one task, no timeline server, no metadata table.
QUICK = {
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.memory.dfs.buffer.max.size": "65536",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.bloom.index.parallelism": "1",
    "hoodie.simple.index.parallelism": "1",
    "hoodie.global.simple.index.parallelism": "1",
    "hoodie.global.index.reconcile.parallelism": "1",
}

_SETTINGS = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.broadcast.blockSize": "64k",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.hadoop.parquet.avro.write-old-list-structure": "false",
}
# With the heap that Java begins with, a third of the time is for collections; with the 48 MB that it has for what this
# compiler makes, code is soon thrown away again. And no try of another process to look into this one, which takes eight
# seconds and tells Hudi the size of a record.
_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Xms1600m -Xmn1000m "
    "-XX:MetaspaceSize=400m -Djol.skipHotspotSAAttach=true"
)

# Settings of other parts of Hadoop, which have their defaults in code too. Hudi sends all settings along with each of
# its tables, to each task: without these, a commit takes three quarters of the time.
_DEFAULTS = ("hdfs-default.xml", "hdfs-rbf-default.xml", "mapred-default.xml", "yarn-default.xml")

# Where Hadoop has no library of its own for the operating system, it starts the program `chmod` for each file that it
# creates, a hundred times for a commit with a metadata table. The modes are those that files get anyway.
_FILE_SYSTEM = """
package hoodoo.tests;
import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class FileSystemWithoutModes extends RawLocalFileSystem {
    public void setPermission(Path path, FsPermission permission) {}

    /** Hudi asks for a buffer of 16 MB for each file that it opens. */
    public FSDataInputStream open(Path path, int bufferSize) throws IOException {
        return super.open(path, Math.min(bufferSize, 65536));
    }

    public FileStatus getFileStatus(Path path) throws IOException {
        return withoutModes(super.getFileStatus(path));
    }

    public FileStatus[] listStatus(Path path) throws IOException {
        FileStatus[] found = super.listStatus(path);
        for (int i = 0; i < found.length; i++) {
            found[i] = withoutModes(found[i]);
        }
        return found;
    }

    private static FileStatus withoutModes(FileStatus status) {
        return new FileStatus(status.getLen(), status.isDirectory(), status.getReplication(), status.getBlockSize(),
            status.getModificationTime(), status.getPath());
    }

    /** From now on, this is what Hadoop takes for local files. */
    public void install(Configuration settings) throws Exception {
        URI uri = URI.create("file:///");
        LocalFileSystem local = new LocalFileSystem(this);
        local.initialize(uri, settings);
        Class[] types = {URI.class, Configuration.class, FileSystem.class};
        Method add = FileSystem.class.getDeclaredMethod("addFileSystemForTesting", types);
        add.setAccessible(true);
        add.invoke(null, new Object[] {uri, settings, local});
    }
}
"""


class HudiUnavailableError(RuntimeError):
    """Real Hudi cannot be started here; the message says what is missing."""


def bundle() -> tuple[str, str]:
    """Finds the Hudi bundle: the Spark setting to use, and its value.

    `HOODOO_HUDI_JAR` wins; then what `make setup` put into `.cache/hudi`; then the local Maven repository;
    else Spark fetches it by its coordinates.
    """
    given = os.environ.get("HOODOO_HUDI_JAR")
    if given:
        if not Path(given).is_file():
            raise HudiUnavailableError(f"HOODOO_HUDI_JAR names no file: {given}")
        return "spark.jars", given
    project = Path(__file__).resolve().parents[2]
    for local in (project / ".cache" / "hudi" / _JAR, Path.home() / ".m2" / "repository" / _IN_MAVEN):
        if local.is_file():
            return "spark.jars", str(local)
    return "spark.jars.packages", COORDINATES


def _without_defaults(folder: Path) -> Path:
    """Make a folder with files that Hadoop finds in front of its own."""
    folder.mkdir()
    for name in _DEFAULTS:
        (folder / name).write_text('<?xml version="1.0"?><configuration/>', encoding="utf-8")
    return folder


def _table(data: pa.Table | list[Row], schema: pa.Schema | None) -> pa.Table:
    return data if isinstance(data, pa.Table) else pa.Table.from_pylist(data, schema=schema)


def _stream(table: pa.Table) -> bytes:
    """Gives data and schema as bytes, the same ones for the same rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


class Hudi:
    """One Spark session with Hudi's bundle."""

    def __init__(self) -> None:
        """Starts the session; raises `HudiUnavailableError` when that is impossible."""
        try:
            import pyspark  # the tests must start without it
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise HudiUnavailableError(f"pyspark is not installed: {error}") from error
        if not pyspark.__version__.startswith("3.5."):
            raise HudiUnavailableError(f"Hudi's bundle is for Spark 3.5, this is pyspark {pyspark.__version__}")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        self._scratch = Path(tempfile.mkdtemp(prefix="hoodoo-hudi-"))
        setting, value = bundle()
        settings = pyspark.SparkConf().setMaster("local[1]").setAppName("hoodoo-interop").set(setting, value)
        java = f"-Dderby.system.home={self._scratch} -Duser.timezone=UTC {_JAVA}"
        here = {
            "spark.sql.warehouse.dir": str(self._scratch / "warehouse"),
            "spark.driver.extraJavaOptions": java,
            "spark.driver.extraClassPath": str(_without_defaults(self._scratch / "settings")),
        }
        settings.setAll({**_SETTINGS, **here}.items())
        try:
            start_context(settings)
            self.spark = SparkSession.builder.config(conf=settings).getOrCreate()
        except Exception as error:
            raise HudiUnavailableError(f"Spark with {value} does not start: {error}") from error
        self.spark.sparkContext.setLogLevel("OFF")
        self._leave_modes_alone()
        self._recordings, self._at_start = Recordings(), self._settings()

    def _settings(self) -> set[str]:
        """Gives what a test may have set in the session: not what each write sets, nor what Hudi sets for its reads."""
        settings = self.spark._jsparkSession.sessionState().conf().getAllConfs()
        always = {f"{key} -> {value}" for key, value in QUICK.items()}
        set_here = set(settings.mkString("\n").split("\n")) - always
        return {one for one in set_here if one.startswith(("hoodie.", "spark.sql.session."))}

    def _asked(self, *question: bytes | str) -> str:
        """Gives the name of a question, with the settings of the session that a test has changed."""
        changed = sorted(self._settings() ^ self._at_start)
        return digest(COORDINATES, *question, *changed)

    def _leave_modes_alone(self) -> None:
        """See `_FILE_SYSTEM`."""
        java, context = self.spark._jvm, self.spark.sparkContext._jsc
        file_system = compiled(java, _FILE_SYSTEM, "FileSystemWithoutModes").newInstance()
        file_system.install(context.hadoopConfiguration())

    def close(self) -> None:
        """Stops the session and removes its files."""
        self.spark.stop()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def frame(self, data: pa.Table | list[Row], schema: pa.Schema | None = None) -> Any:
        """Makes a DataFrame of Arrow data, through a Parquet file."""
        table = _table(data, schema)
        descriptor, name = tempfile.mkstemp(suffix=".parquet", dir=self._scratch)
        os.close(descriptor)
        pq.write_table(table, name)
        return self.spark.read.parquet(name)

    def write(
        self,
        data: pa.Table | list[Row],
        path: Path | str,
        operation: str = "upsert",
        *,
        schema: pa.Schema | None = None,
        mode: str = "append",
        **options: str,
    ) -> None:
        """Writes rows with Hudi; keyword names have `__` for the dots of an option, or pass `**{...}`.

        Where nothing but Hudi has touched the table, this can be a recording of the same (see `recorded.py`).
        """
        given = {key.replace("__", "."): value for key, value in options.items()}
        settings = {**QUICK, **given, "hoodie.datasource.write.operation": operation}
        table = _table(data, schema)

        def work() -> list[Row]:
            self.frame(table).write.format("hudi").options(**settings).mode(mode).save(str(path))
            return []

        asked = self._asked("write", _stream(table), mode, spelled(settings))
        self._recordings.change(str(path), asked, work)

    def read(self, path: Path | str, *, meta: bool = False, **options: str) -> list[Row]:
        """Reads a table with Hudi: its rows in comparable form, sorted."""
        given = {"hoodie.metadata.enable": "false", **{key.replace("__", "."): v for key, v in options.items()}}

        def work() -> list[Row]:
            return spark_rows(self.spark.read.format("hudi").options(**given).load(str(path)), meta=meta)

        return self._recordings.answer(str(path), self._asked("read", str(meta), spelled(given)), work)

    def read_as_of(self, path: Path | str, instant: str) -> list[Row]:
        """Reads the table as it was at an instant."""
        return self.read(path, as__of__instant=instant)

    def read_changes(self, path: Path | str, since: str, until: str | None = None) -> list[Row]:
        """Reads incrementally: rows of the commits completed after `since` and not after `until`."""
        options: dict[str, Any] = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": since,
        }
        if until is not None:
            options["hoodie.datasource.read.end.instanttime"] = until
        return self.read(path, **options)

    def read_optimized(self, path: Path | str, *, meta: bool = False) -> list[Row]:
        """Reads only the base files of a merge-on-read table."""
        return self.read(path, meta=meta, **{"hoodie.datasource.query.type": "read_optimized"})

    def sql(self, statement: str) -> list[Row]:
        """Runs one statement of Spark SQL, a `call` of one of Hudi's procedures for instance."""
        return [row.asDict(recursive=True) for row in self.spark.sql(statement).collect()]

    def call(self, procedure: str, path: Path | str, **arguments: str) -> list[Row]:
        """Calls one of Hudi's procedures on the table at `path`; this can be a recording of the same, as of a write."""
        return self._call(procedure, path, f"path => '{path}'", arguments, [])

    def call_by_name(self, procedure: str, path: Path | str, **arguments: str) -> list[Row]:
        """The same of a procedure that knows no paths."""
        name = f"at_{digest(str(path))}"
        first = f"create table if not exists {name} using hudi location '{path}'"
        return self._call(procedure, path, f"table => '{name}'", arguments, [first])

    def _call(
        self, procedure: str, path: Path | str, table: str, arguments: dict[str, str], first: list[str]
    ) -> list[Row]:
        given = "".join(f", {name} => '{value}'" for name, value in arguments.items())

        def work() -> list[Row]:
            for statement in first:
                self.sql(statement)
            return self.sql(f"call {procedure}({table}{given})")

        return self._recordings.change(str(path), self._asked("call", procedure, given), work)
