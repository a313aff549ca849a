"""Jobs by their table services: clustering, compaction, cleaning, archival, streams."""

from __future__ import annotations

from tests.interop.jobs.job import FIRST, GONE, SECOND, Job, trip, trips

_TRIPS = {
    "hoodie.table.name": "served",
    "hoodie.datasource.write.recordkey.field": "uuid",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
}
_LONGER = (
    (None, FIRST),
    (None, SECOND),
    (None, trips(trip(0, 30, 3.5), trip(9, 30, 9.5))),
    (None, trips(trip(4, 40, 4.5), trip(9, 20, 1.0))),
    ("delete", GONE),
)

JOBS = (
    Job(
        "inline_clustering",
        "the documentation of clustering, inline and sorted by columns",
        {
            **_TRIPS,
            "hoodie.clustering.inline": "true",
            "hoodie.clustering.inline.max.commits": "2",
            "hoodie.clustering.plan.strategy.target.file.max.bytes": "1073741824",
            "hoodie.clustering.plan.strategy.small.file.limit": "629145600",
            "hoodie.clustering.plan.strategy.sort.columns": "rider,fare",
            "hoodie.clustering.execution.strategy.class": (
                "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
            ),
        },
    ),
    Job(
        "z_order",
        "a blog about Z-order and Hilbert curves",
        {
            **_TRIPS,
            "hoodie.clustering.inline": "true",
            "hoodie.clustering.inline.max.commits": "1",
            "hoodie.layout.optimize.enable": "true",
            "hoodie.layout.optimize.strategy": "z-order",
            "hoodie.clustering.plan.strategy.sort.columns": "fare,event_ms",
            "hoodie.clustering.plan.strategy.max.num.groups": "10",
        },
        steps=((None, FIRST), (None, SECOND)),
        warned=("hoodie.layout.optimize.enable",),
    ),
    Job(
        "async_clustering",
        "the documentation of clustering beside the writer",
        {
            **_TRIPS,
            "hoodie.clustering.async.enabled": "true",
            "hoodie.clustering.async.max.commits": "4",
            "hoodie.clustering.plan.strategy.class": (
                "org.apache.hudi.client.clustering.plan.strategy.SparkSizeBasedClusteringPlanStrategy"
            ),
            "hoodie.clustering.plan.strategy.sort.columns": "rider",
            "hoodie.clustering.updates.strategy": (
                "org.apache.hudi.client.clustering.update.strategy.SparkRejectUpdateStrategy"
            ),
        },
        warned=("hoodie.clustering.async.enabled",),
    ),
    Job(
        "inline_compaction",
        "the documentation of compaction, inline after some delta commits",
        {
            **_TRIPS,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.compact.inline": "true",
            "hoodie.compact.inline.max.delta.commits": "2",
            "hoodie.compact.inline.trigger.strategy": "NUM_COMMITS",
            "hoodie.compaction.strategy": (
                "org.apache.hudi.table.action.compact.strategy.LogFileSizeBasedCompactionStrategy"
            ),
            "hoodie.compaction.target.io": "512000",
        },
        steps=_LONGER,
    ),
    Job(
        "compaction_scheduled_only",
        "jobs whose compaction runs elsewhere: the writer only plans it",
        {
            **_TRIPS,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.compact.inline": "false",
            "hoodie.compact.schedule.inline": "true",
            "hoodie.compact.inline.max.delta.commits": "2",
            "hoodie.datasource.compaction.async.enable": "false",
        },
        steps=_LONGER,
    ),
    Job(
        "streaming_sink",
        "a bug report about a structured stream into a merge-on-read table",
        {
            **_TRIPS,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
            "hoodie.payload.ordering.field": "ts",
            "hoodie.datasource.compaction.async.enable": "true",
            "hoodie.compact.inline.max.delta.commits": "5",
            "hoodie.datasource.write.streaming.ignore.failed.batch": "false",
            "hoodie.datasource.write.streaming.retry.count": "3",
            "hoodie.datasource.write.streaming.retry.interval.ms": "2000",
            "hoodie.datasource.write.streaming.checkpoint.identifier": "job-1",
            "checkpointLocation": "/checkpoints/served",
        },
        warned=(
            "hoodie.payload.ordering.field",
            "hoodie.datasource.compaction.async.enable",
            "hoodie.datasource.write.streaming.retry.count",
            "hoodie.datasource.write.streaming.retry.interval.ms",
            "hoodie.datasource.write.streaming.checkpoint.identifier",
            "checkpointLocation",
        ),
        daily=True,
    ),
    Job(
        "cleaning_by_commits",
        "a bug report about cleaning and archival, with the old names of the keys",
        {
            **_TRIPS,
            "hoodie.clean.automatic": "true",
            "hoodie.clean.async": "true",
            "hoodie.cleaner.policy": "KEEP_LATEST_COMMITS",
            "hoodie.cleaner.commits.retained": "1",
            "hoodie.cleaner.parallelism": "200",
            "hoodie.cleaner.incremental.mode": "true",
            "hoodie.keep.min.commits": "2",
            "hoodie.keep.max.commits": "3",
            "hoodie.commits.archival.batch": "1",
            "hoodie.archive.merge.enable": "true",
        },
        steps=_LONGER,
        warned=("hoodie.clean.async", "hoodie.archive.merge.enable"),
    ),
    Job(
        "cleaning_by_versions",
        "tables that keep a number of versions of each file",
        {
            **_TRIPS,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
            "hoodie.clean.fileversions.retained": "1",
            "hoodie.compact.inline": "true",
            "hoodie.compact.inline.max.delta.commits": "1",
            "hoodie.archive.automatic": "true",
        },
        steps=_LONGER,
    ),
    Job(
        "cleaning_by_hours",
        "jobs that keep a day",
        {
            **_TRIPS,
            "hoodie.cleaner.policy": "KEEP_LATEST_BY_HOURS",
            "hoodie.cleaner.hours.retained": "24",
            "hoodie.clean.max.commits": "2",
            "hoodie.archive.async": "true",
        },
        warned=("hoodie.archive.async",),
    ),
    Job(
        "log_compaction_and_parquet_logs",
        "a guide for tables with many small delta commits",
        {
            **_TRIPS,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.logfile.data.block.format": "parquet",
            "hoodie.log.compaction.inline": "true",
            "hoodie.log.compaction.blocks.threshold": "2",
            "hoodie.datasource.write.record.merger.impls": "org.apache.hudi.DefaultSparkRecordMerger",
        },
        steps=_LONGER,
    ),
    Job(
        "metrics_and_spill",
        "operations guides: metrics, memory, spillable maps, validators",
        {
            **_TRIPS,
            "hoodie.metrics.on": "true",
            "hoodie.metrics.reporter.type": "INMEMORY",
            "hoodie.common.spillable.diskmap.type": "ROCKS_DB",
            "hoodie.memory.spillable.map.path": "/tmp/",
            "hoodie.precommit.validators": "",
            "hoodie.table.services.enabled": "true",
        },
        warned=(
            "hoodie.metrics.on",
            "hoodie.metrics.reporter.type",
            "hoodie.common.spillable.diskmap.type",
            "hoodie.memory.spillable.map.path",
        ),
        # The bundle has no RocksDB for every machine.
        theirs={"hoodie.common.spillable.diskmap.type": "BITCASK"},
    ),
)
