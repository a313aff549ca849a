"""hoodoo goes on with a stream that Hudi's own sink has written."""

from __future__ import annotations

from pathlib import Path

import hoodoo
from hoodoo.spark.streams import write_stream_batch
from hoodoo.stream_checkpoint import IDENTIFIER, checkpoint_metadata, last_batch
from tests.interop.hudi import QUICK, Hudi

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "id",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    IDENTIFIER: "trips",
}


def test_what_hudi_stored(hudi: Hudi, tmp_path: Path):
    table, files = tmp_path / "t", tmp_path / "in"
    for number in range(2):
        hudi.spark.createDataFrame([(number,)], "id long").write.mode("append").parquet(str(files))
    # Two micro-batches: one for each file.
    stream = hudi.spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(str(files))
    sink = stream.writeStream.format("hudi").options(**QUICK, **OPTIONS).outputMode("append")
    query = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    query.start(str(table)).awaitTermination()
    timeline = hoodoo.Table(str(table)).timeline
    assert last_batch(timeline, "trips") == 1
    newest = timeline.metadata(timeline.instants(state="COMPLETED")[-1].requested)["extraMetadata"]
    key = "_hudi_streaming_sink_checkpoint"
    assert newest[key] == checkpoint_metadata("trips", 1)[key]
    # Micro-batches that Hudi committed are not written again.
    before = timeline.instants()
    again = hudi.spark.createDataFrame([(7,)], "id long")
    assert write_stream_batch(again, 1, str(table), "insert", {**QUICK, **OPTIONS}) is None
    assert timeline.instants() == before
