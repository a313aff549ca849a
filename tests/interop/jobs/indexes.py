"""Jobs by their index."""

from __future__ import annotations

from tests.interop.jobs.job import FIRST, GONE, SECOND, Job, trip, trips

_TRIPS = {
    "hoodie.table.name": "indexed",
    "hoodie.datasource.write.recordkey.field": "uuid",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
}
_MOVES = ((None, FIRST), (None, trips(trip(0, 20, 9.0, city="lisbon"), trip(1, 20, 8.0))), ("delete", GONE))

JOBS = (
    Job(
        "bucket_index",
        "a blog about the bucket index for large upserts",
        {
            **_TRIPS,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.index.type": "BUCKET",
            "hoodie.index.bucket.engine": "SIMPLE",
            "hoodie.bucket.index.num.buckets": "4",
            "hoodie.bucket.index.hash.field": "uuid",
            "hoodie.storage.layout.type": "BUCKET",
            "hoodie.storage.layout.partitioner.class": (
                "org.apache.hudi.table.action.commit.SparkBucketIndexPartitioner"
            ),
        },
        warned=("hoodie.storage.layout.type", "hoodie.storage.layout.partitioner.class"),
        daily=True,
    ),
    Job(
        "consistent_hashing",
        "the documentation of buckets that split and merge",
        {
            **_TRIPS,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.index.type": "BUCKET",
            "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
            "hoodie.bucket.index.num.buckets": "4",
            "hoodie.bucket.index.max.num.buckets": "8",
            "hoodie.bucket.index.min.num.buckets": "2",
        },
        refused=("CONSISTENT_HASHING",),
        remedy={
            "hoodie.index.bucket.engine": None,
            "hoodie.bucket.index.max.num.buckets": None,
            "hoodie.bucket.index.min.num.buckets": None,
        },
    ),
    Job(
        "global_bloom_moves_rows",
        "questions about rows whose partition changes",
        {
            **_TRIPS,
            "hoodie.index.type": "GLOBAL_BLOOM",
            "hoodie.bloom.index.update.partition.path": "true",
            "hoodie.bloom.index.prune.by.ranges": "false",
            "hoodie.bloom.index.use.caching": "true",
        },
        steps=_MOVES,
        warned=("hoodie.bloom.index.prune.by.ranges", "hoodie.bloom.index.use.caching"),
        differs="Hudi 1.2 keeps the old row of a key that moves, if hoodie.bloom.index.prune.by.ranges is false",
    ),
    Job(
        "global_simple_keeps_partitions",
        "the same, where rows stay in their partitions",
        {
            **_TRIPS,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.index.type": "GLOBAL_SIMPLE",
            "hoodie.simple.index.update.partition.path": "false",
            "hoodie.global.simple.index.parallelism": "2",
        },
        steps=_MOVES,
        refused=("hoodie.simple.index.update.partition.path",),
        remedy={"hoodie.simple.index.update.partition.path": "true"},
    ),
    Job(
        "simple_index",
        "a bug report that lists all that a job sets",
        {
            **_TRIPS,
            "hoodie.index.type": "SIMPLE",
            "hoodie.simple.index.use.caching": "true",
            "hoodie.simple.index.parallelism": "50",
            "hoodie.bulkinsert.sort.mode": "GLOBAL_SORT",
            "hoodie.datasource.write.hive_style_partitioning": "false",
            "hoodie.filesystem.view.incr.timeline.sync.enable": "false",
            "hoodie.parquet.block.size": "125829120",
            "hoodie.parquet.page.size": "1048576",
            "hoodie.parquet.compression.codec": "gzip",
            "hoodie.finalize.write.parallelism": "1500",
            "hoodie.rollback.parallelism": "100",
            "hoodie.write.commit.callback.on": "false",
        },
        warned=(
            "hoodie.simple.index.use.caching",
            "hoodie.filesystem.view.incr.timeline.sync.enable",
            "hoodie.rollback.parallelism",
            "hoodie.write.commit.callback.on",
        ),
    ),
    Job(
        "record_index",
        "a blog about the record-level index of Hudi 0.14",
        {
            **_TRIPS,
            "hoodie.metadata.enable": "true",
            "hoodie.metadata.record.index.enable": "true",
            "hoodie.index.type": "RECORD_INDEX",
            "hoodie.metadata.record.index.min.filegroup.count": "1",
            "hoodie.record.index.update.partition.path": "true",
        },
        steps=_MOVES,
    ),
    Job(
        "bloom_index_sizes",
        "a tuning guide: the filters' sizes",
        {
            **_TRIPS,
            "hoodie.index.type": "BLOOM",
            "hoodie.bloom.index.filter.type": "SIMPLE",
            "hoodie.index.bloom.num_entries": "60000",
            "hoodie.index.bloom.fpp": "0.000000001",
            "hoodie.bloom.index.parallelism": "4",
            "hoodie.bloom.index.use.metadata": "true",
        },
        steps=((None, FIRST), (None, SECOND)),
    ),
    Job(
        "hbase_index",
        "jobs of early adopters with an index in HBase",
        {
            **_TRIPS,
            "hoodie.index.type": "HBASE",
            "hoodie.index.hbase.zkquorum": "zookeeper",
            "hoodie.index.hbase.zkport": "2181",
            "hoodie.index.hbase.table": "hudi_index",
        },
        refused=("HBASE",),
        remedy={
            "hoodie.index.type": None,
            "hoodie.index.hbase.zkquorum": None,
            "hoodie.index.hbase.zkport": None,
            "hoodie.index.hbase.table": None,
        },
    ),
)
