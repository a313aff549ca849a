"""Hudi's own file group reader on Avro records, without Spark.

Spark's cannot read HFile blocks of a data table: it takes their records for rows of its own (a `ClassCastException`).
The reader that Hudi has for its metadata table can.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.interop.hudi import Hudi
from tests.rows import Row, plain_rows


def avro_rows(hudi: Hudi, uri: Path | str) -> list[Row]:
    """Reads the latest snapshot, with the meta columns; only for columns of texts and numbers."""
    spark = hudi.spark.sparkContext
    jvm = hudi.spark._jvm.org.apache.hudi
    conf = jvm.hadoop.fs.HadoopFSUtils.getStorageConf(spark._jsc.hadoopConfiguration())
    table = jvm.common.table.HoodieTableMetaClient.builder().setConf(conf).setBasePath(str(uri)).build()
    view = jvm.common.table.view.HoodieTableFileSystemView.fileListingBasedFileSystemView(
        jvm.common.engine.HoodieLocalEngineContext(conf),
        table,
        table.getCommitsAndCompactionTimeline().filterCompletedAndCompactionInstants(),
    )
    schema = jvm.common.table.TableSchemaResolver(table).getTableSchema(True)
    last = table.getCommitsTimeline().filterCompletedInstants().lastInstant().get().requestedTime()
    none = jvm.common.util.Option.empty()
    view.loadAllPartitions()
    rows: list[Row] = []
    for partition in view.getPartitionNames():
        slices = view.getLatestMergedFileSlicesBeforeOrOn(partition, last).iterator()
        while slices.hasNext():
            reader = (
                jvm.common.table.read.HoodieFileGroupReader.newBuilder()
                .withReaderContext(jvm.avro.HoodieAvroReaderContext(conf, table.getTableConfig(), none, none))
                .withHoodieTableMetaClient(table)
                .withLatestCommitTime(last)
                .withFileSlice(slices.next())
                .withDataSchema(schema)
                .withRequestedSchema(schema)
                .withProps(jvm.common.config.TypedProperties())
                .withInternalSchema(none)
                .build()
            )
            records = reader.getClosableIterator()
            while records.hasNext():
                rows.append(json.loads(records.next().toString()))
            records.close()
    return plain_rows(rows, meta=True)
