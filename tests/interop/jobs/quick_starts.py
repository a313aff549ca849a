"""Quick starts, and jobs that were written for early versions."""

from __future__ import annotations

from tests.interop.jobs.job import FIRST, SECOND, Job, trip, trips

JOBS = (
    Job(
        "quick_start_copy_on_write",
        "the Spark quick start of Hudi 1.x",
        {
            "hoodie.table.name": "trips_table",
            "hoodie.datasource.write.partitionpath.field": "city",
        },
        # A table without key columns: only inserts are the same on both sides, whose generated keys differ.
        steps=(("insert", FIRST), ("insert", trips(trip(8, 10, 18.0)))),
    ),
    Job(
        "quick_start_with_keys",
        "the Spark quick start of Hudi 1.x, its part about updates",
        {
            "hoodie.table.name": "trips_table",
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.partitionpath.field": "city",
            "hoodie.table.ordering.fields": "ts",
        },
        daily=True,
    ),
    Job(
        "quick_start_merge_on_read",
        "the Spark quick start of Hudi 1.x, the table type of its options",
        {
            "hoodie.table.name": "trips_table",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.partitionpath.field": "city",
            "hoodie.datasource.write.precombine.field": "ts",
        },
    ),
    Job(
        "quick_start_of_0_x",
        "the PySpark quick start of Hudi 0.5 to 0.14",
        {
            "hoodie.table.name": "hudi_trips_cow",
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.partitionpath.field": "city",
            "hoodie.datasource.write.table.name": "hudi_trips_cow",
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.upsert.shuffle.parallelism": "2",
            "hoodie.insert.shuffle.parallelism": "2",
        },
    ),
    Job(
        "storage_type_of_0_5",
        "jobs of Hudi 0.5, when the table type was a storage type",
        {
            "hoodie.table.name": "hudi_mor",
            "hoodie.datasource.write.storage.type": "MERGE_ON_READ",
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.partitionpath.field": "city",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
            "hoodie.bulkinsert.shuffle.parallelism": "100",
            "hoodie.memory.merge.max.size": "2004857600000",
            "hoodie.cleaner.policy": "KEEP_LATEST_COMMITS",
            "hoodie.cleaner.commits.retained": "2",
            "hoodie.consistency.check.enabled": "true",
        },
        warned=("hoodie.memory.merge.max.size", "hoodie.consistency.check.enabled"),
    ),
    Job(
        "sql_table_properties",
        "CREATE TABLE … TBLPROPERTIES of the SQL quick start, as options of a DataFrame",
        {
            "hoodie.table.name": "hudi_table",
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.recordkey.fields": "uuid",
            "hoodie.table.partition.fields": "city",
            "hoodie.table.ordering.fields": "ts",
            "hoodie.database.name": "default",
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            "hoodie.datasource.write.hive_style_partitioning": "true",
        },
        # Hudi's DataFrame writer reads keys and partitions under their other names only.
        theirs={
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.partitionpath.field": "city",
        },
    ),
    Job(
        "commit_time_ordering",
        "the documentation of record mergers: the last write wins",
        {
            "hoodie.table.name": "trips_table",
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.partitionpath.field": "city",
            "hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING",
        },
        # Which of two rows of one key in a batch is the last one is not defined: none is there twice.
        steps=((None, FIRST), (None, trips(trip(0, 20, 99.5), trip(1, 5, 98.5))), ("delete", trips(trip(3, 1, 0.0)))),
    ),
    Job(
        "generic_insert_sql_modes",
        "blogs about INSERT INTO with its modes, set on the session and handed on",
        {
            "hoodie.table.name": "hudi_sql",
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.operation": "insert",
            "hoodie.spark.sql.insert.into.operation": "insert",
            "hoodie.sql.insert.mode": "non-strict",
            "hoodie.combine.before.insert": "true",
        },
        steps=((None, FIRST), (None, SECOND)),
        warned=("hoodie.spark.sql.insert.into.operation", "hoodie.sql.insert.mode"),
        copies=True,
    ),
    Job(
        "insert_duplicates_dropped",
        "answers to questions about INSERT that must not double rows",
        {
            "hoodie.table.name": "events",
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.partitionpath.field": "city",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.operation": "insert",
            "hoodie.datasource.write.insert.drop.duplicates": "true",
        },
        refused=("hoodie.datasource.write.insert.drop.duplicates",),
        remedy={"hoodie.datasource.write.insert.drop.duplicates": None},
        steps=((None, FIRST), (None, trips(trip(8, 10, 18.0)))),
    ),
)
