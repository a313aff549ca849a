"""The same by real Hudi, in one warm session of Spark."""

from __future__ import annotations

import tempfile
import time
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from benches.peers import spark_session
from tests.interop.hudi import bundle

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

_SETTINGS = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
}
READ = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}


class Hudi:
    """A session."""

    def __init__(self, cores: int, java_memory: str, scratch: Path) -> None:
        name, value = bundle()
        self.session, _ = spark_session.start(cores, java_memory, str(scratch), {**_SETTINGS, name: value})
        self._scratch = scratch

    def close(self) -> None:
        """Ends it."""
        self.session.stop()

    def read(self, path: Path, where: str | None, options: dict[str, str]) -> int:
        """Reads rows for which a condition holds; how many there are."""
        found: Any = self.session.read.format("hudi").options(**READ, **options).load(str(path))
        return (found.where(where) if where else found).select("id", "value").toPandas().shape[0]

    def upsert(self, path: Path, data: pa.Table, options: dict[str, str]) -> float:
        """Upserts rows that are read from a Parquet file; the seconds it took."""
        with tempfile.NamedTemporaryFile(suffix=".parquet", dir=self._scratch) as file:
            pq.write_table(data, file.name)
            frame: Any = self.session.read.parquet(file.name)
            given = {
                "hoodie.table.name": "t",
                "hoodie.datasource.write.operation": "upsert",
                "hoodie.datasource.write.recordkey.field": "id",
                "hoodie.datasource.write.precombine.field": "ts",
                "hoodie.datasource.write.partitionpath.field": "part",
                "hoodie.upsert.shuffle.parallelism": "2",
                "hoodie.clean.automatic": "false",
                **options,
            }
            begun = time.perf_counter()
            frame.write.format("hudi").options(**given).mode("append").save(str(path))
            return time.perf_counter() - begun

    def entries(self, file: Path) -> tuple[int, float]:
        """Reads all entries of an HFile by Hudi's own reader; how many there are, and the seconds it took."""
        jvm: Any = self.session.sparkContext._jvm  # noqa: SLF001 - the only way to Hudi's classes
        storage = jvm.org.apache.hudi.storage.hadoop.HoodieHadoopStorage(
            str(file.parent), jvm.org.apache.hadoop.conf.Configuration()
        )
        path = jvm.org.apache.hudi.storage.StoragePath(str(file))
        factory = jvm.org.apache.hudi.io.storage.hadoop.HoodieHadoopIOFactory(storage)
        begun = time.perf_counter()
        kind = getattr(jvm.org.apache.hudi.common.model, "HoodieRecord$HoodieRecordType").AVRO
        readers = factory.getReaderFactory(kind)
        hfile = jvm.org.apache.hudi.common.model.HoodieFileFormat.HFILE
        reader = readers.getFileReader(jvm.org.apache.hudi.common.config.HoodieReaderConfig(), path, hfile)
        count = jvm.com.google.common.collect.Iterators.size(reader.getRecordIterator())
        return int(count), time.perf_counter() - begun
