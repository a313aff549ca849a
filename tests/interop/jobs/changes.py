"""Jobs that apply the changes of a database: Debezium, DMS, soft deletes, partial updates, changed schemas."""

from __future__ import annotations

import pyarrow as pa

from tests.interop.jobs.job import FIRST, SECOND, TRIP, Job, trip, trips
from tests.rows import Row

_DEFAULTS = "org.apache.hudi.common.model"
_DELETED = TRIP.append(pa.field("_hoodie_is_deleted", pa.bool_()))
_DMS = pa.schema([pa.field("Op", pa.string()), *TRIP])
_DEBEZIUM = pa.schema([*TRIP, pa.field("_change_operation_type", pa.string()), pa.field("_event_lsn", pa.int64())])
_MYSQL = pa.schema(
    [
        *TRIP,
        pa.field("_change_operation_type", pa.string()),
        pa.field("_event_bin_file", pa.string()),
        pa.field("_event_pos", pa.int64()),
        pa.field("_event_seq", pa.string()),
    ]
)


def _soft(*rows: tuple[Row, bool]) -> pa.Table:
    return pa.Table.from_pylist([{**row, "_hoodie_is_deleted": gone} for row, gone in rows], schema=_DELETED)


def _dms(*rows: tuple[Row, str]) -> pa.Table:
    return pa.Table.from_pylist([{**row, "Op": change} for row, change in rows], schema=_DMS)


def _debezium(*rows: tuple[Row, str, int]) -> pa.Table:
    changes = [{**row, "_change_operation_type": change, "_event_lsn": lsn} for row, change, lsn in rows]
    return pa.Table.from_pylist(changes, schema=_DEBEZIUM)


def _mysql(*rows: tuple[Row, str, int]) -> pa.Table:
    changes = [
        {
            **row,
            "_change_operation_type": change,
            "_event_bin_file": "mysql-bin.000007",
            "_event_pos": at,
            "_event_seq": f"000007.{at}",
        }
        for row, change, at in rows
    ]
    return pa.Table.from_pylist(changes, schema=_MYSQL)


def _wider(table: pa.Table) -> pa.Table:
    return table.append_column("tip", pa.array([float(n) for n in range(len(table))], pa.float64()))


_DMS_STEPS = (
    ("bulk_insert", _dms(*((trip(n, 10, 10.0 + n), "I") for n in range(5)))),
    (None, _dms((trip(0, 20, 99.0), "U"), (trip(1, 20, 0.0), "D"), (trip(6, 20, 16.0), "I"))),
    (None, _dms((trip(2, 5, 77.0), "U"), (trip(6, 30, 0.0), "D"))),
)
_TRIPS = {
    "hoodie.table.name": "cdc",
    "hoodie.datasource.write.recordkey.field": "uuid",
    "hoodie.datasource.write.partitionpath.field": "city",
}
_PARTIAL = (
    (None, FIRST),
    (None, trips({**trip(0, 20, 55.0), "driver": None, "rider": None}, {**trip(1, 5, 1.0), "rider": None})),
    (None, trips({**trip(0, 30, 56.0), "driver": "driver-new", "event_ms": None})),
)

JOBS = (
    Job(
        "dms_payload",
        "a vendor's blog about changes that AWS DMS brings",
        {
            **_TRIPS,
            "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.payload.class": f"{_DEFAULTS}.AWSDmsAvroPayload",
        },
        steps=_DMS_STEPS,
        daily=True,
    ),
    Job(
        "dms_payload_merge_on_read",
        "the same on a merge-on-read table, with the older package of the class",
        {
            **_TRIPS,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.payload.class": "org.apache.hudi.payload.AWSDmsAvroPayload",
        },
        steps=_DMS_STEPS,
        refused=("org.apache.hudi.payload.AWSDmsAvroPayload",),
        remedy={"hoodie.datasource.write.payload.class": f"{_DEFAULTS}.AWSDmsAvroPayload"},
    ),
    Job(
        "debezium_postgres",
        "a blog about changes of Postgres through Debezium",
        {
            **_TRIPS,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.precombine.field": "_event_lsn",
            "hoodie.datasource.write.payload.class": f"{_DEFAULTS}.debezium.PostgresDebeziumAvroPayload",
        },
        steps=(
            (None, _debezium(*((trip(n, 10, 10.0 + n), "r", 100) for n in range(5)))),
            (None, _debezium((trip(0, 20, 9.0), "u", 200), (trip(1, 20, 0.0), "d", 200), (trip(2, 1, 8.0), "u", 50))),
            (None, _debezium(({**trip(3, 30, 7.0), "rider": "__debezium_unavailable_value"}, "u", 300))),
        ),
    ),
    Job(
        "debezium_mysql",
        "the same of MySQL",
        {
            **_TRIPS,
            "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
            "hoodie.datasource.write.precombine.field": "_event_bin_file,_event_pos",
            "hoodie.datasource.write.payload.class": f"{_DEFAULTS}.debezium.MySqlDebeziumAvroPayload",
        },
        steps=(
            (None, _mysql(*((trip(n, 10, 10.0 + n), "c", 100) for n in range(5)))),
            (None, _mysql((trip(0, 20, 9.0), "u", 200), (trip(1, 20, 0.0), "d", 200), (trip(2, 1, 8.0), "u", 50))),
        ),
    ),
    Job(
        "soft_deletes",
        "the documentation of deletes: a column that marks rows",
        {
            **_TRIPS,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.hive_style_partitioning": "true",
        },
        steps=(
            (None, _soft(*((trip(n, 10, 10.0 + n), False) for n in range(5)))),
            (None, _soft((trip(0, 20, 9.0), False), (trip(1, 20, 0.0), True), (trip(2, 5, 0.0), True))),
            (None, _soft((trip(1, 30, 1.0), False), (trip(9, 30, 0.0), True))),
        ),
    ),
    Job(
        "delete_marker_column",
        "answers about payloads with a delete column of one's own",
        {
            **_TRIPS,
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.payload.class": f"{_DEFAULTS}.DefaultHoodieRecordPayload",
            "hoodie.payload.delete.field": "driver",
            "hoodie.payload.delete.marker": "D",
            "hoodie.payload.event.time.field": "ts",
            "hoodie.payload.ordering.field": "ts",
        },
        steps=((None, FIRST), (None, trips({**trip(0, 20, 0.0), "driver": "D"}, trip(1, 20, 7.0)))),
        warned=("hoodie.payload.event.time.field", "hoodie.payload.ordering.field"),
    ),
    Job(
        "empty_payload_deletes",
        "deletes of Hudi 0.5 and 0.6: an upsert whose payload is empty",
        {
            **_TRIPS,
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.payload.class": f"{_DEFAULTS}.EmptyHoodieRecordPayload",
        },
        refused=("EmptyHoodieRecordPayload",),
        remedy={"hoodie.datasource.write.payload.class": None},
    ),
    Job(
        "partial_update_payload",
        "a blog about wide tables that several streams fill",
        {
            **_TRIPS,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.payload.class": f"{_DEFAULTS}.PartialUpdateAvroPayload",
        },
        steps=_PARTIAL,
    ),
    Job(
        "overwrite_non_defaults_payload",
        "questions about updates that keep what they do not have",
        {
            **_TRIPS,
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.payload.class": f"{_DEFAULTS}.OverwriteNonDefaultsWithLatestAvroPayload",
        },
        steps=_PARTIAL,
    ),
    Job(
        "event_time_payload",
        "the documentation of payloads",
        {
            **_TRIPS,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.payload.class": f"{_DEFAULTS}.EventTimeAvroPayload",
            "hoodie.compaction.payload.class": f"{_DEFAULTS}.EventTimeAvroPayload",
        },
    ),
    Job(
        "own_payload_class",
        "jobs with a custom payload class in a jar",
        {
            **_TRIPS,
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.payload.class": "com.example.hudi.KeepFirstPayload",
        },
        refused=("com.example.hudi.KeepFirstPayload",),
        remedy={"hoodie.datasource.write.payload.class": None},
    ),
    Job(
        "reconcile_schema",
        "the documentation of schema evolution: batches with fewer columns",
        {
            **_TRIPS,
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.reconcile.schema": "true",
            "hoodie.avro.schema.validate": "true",
        },
        steps=((None, _wider(FIRST)), (None, SECOND)),
    ),
    Job(
        "new_columns",
        "the documentation of schema evolution: batches with more columns",
        {
            **_TRIPS,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
            "hoodie.write.set.null.for.missing.columns": "true",
        },
        steps=((None, FIRST), (None, _wider(SECOND)), (None, trips(trip(3, 40, 4.0)))),
        warned=("hoodie.datasource.write.schema.allow.auto.evolution.column.drop",),
        differs="hoodoo keeps the column tip and warns; Hudi drops it with the first batch that lacks it",
    ),
    Job(
        "schema_on_read",
        "the documentation of full schema evolution",
        {
            **_TRIPS,
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.schema.on.read.enable": "true",
            "hoodie.datasource.write.reconcile.schema": "true",
        },
    ),
    Job(
        "change_data_capture",
        "the documentation of change queries",
        {
            **_TRIPS,
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.table.cdc.enabled": "true",
            "hoodie.table.cdc.supplemental.logging.mode": "data_before_after",
        },
    ),
)
