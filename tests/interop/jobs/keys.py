"""Jobs by their key generators."""

from __future__ import annotations

from tests.interop.jobs.job import Job

_KEYGEN = "org.apache.hudi.keygen"

JOBS = (
    Job(
        "timestamp_date_string",
        "the documentation of key generators: a string of a date becomes folders",
        {
            "hoodie.table.name": "by_day",
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.partitionpath.field": "day",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.keygenerator.class": f"{_KEYGEN}.TimestampBasedKeyGenerator",
            "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
            "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd",
            "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
        },
        daily=True,
    ),
    Job(
        "timestamp_epoch_millis_of_0_x",
        "jobs of Hudi 0.x: milliseconds become days, keys with deltastreamer in their names",
        {
            "hoodie.table.name": "by_millis",
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.partitionpath.field": "event_ms",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.keygenerator.class": f"{_KEYGEN}.TimestampBasedKeyGenerator",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.deltastreamer.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
            "hoodie.deltastreamer.keygen.timebased.output.dateformat": "yyyy-MM-dd",
            "hoodie.deltastreamer.keygen.timebased.timezone": "UTC",
        },
        differs="Hudi reads the partition column of longs as strings, of both tables; hoodoo reads the longs",
    ),
    Job(
        "custom_two_fields",
        "the documentation of the custom key generator",
        {
            "hoodie.table.name": "by_city_and_day",
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.partitionpath.field": "city:SIMPLE,day:TIMESTAMP",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.keygenerator.class": f"{_KEYGEN}.CustomKeyGenerator",
            "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
            "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd",
            "hoodie.keygen.timebased.output.dateformat": "yyyyMMdd",
        },
    ),
    Job(
        "complex_key_one_field",
        "tables that were made with the complex key generator for one key",
        {
            "hoodie.table.name": "complex_one",
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.partitionpath.field": "city",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.keygenerator.class": f"{_KEYGEN}.ComplexKeyGenerator",
        },
    ),
    Job(
        "complex_keys_and_partitions",
        "jobs with keys and partitions of several columns",
        {
            "hoodie.table.name": "complex_many",
            "hoodie.datasource.write.recordkey.field": "uuid,driver",
            "hoodie.datasource.write.partitionpath.field": "day,city",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.keygenerator.class": f"{_KEYGEN}.ComplexKeyGenerator",
            "hoodie.datasource.write.partitionpath.urlencode": "true",
            "hoodie.datasource.write.hive_style_partitioning": "true",
        },
    ),
    Job(
        "global_delete_keys",
        "GDPR jobs that delete by key in all partitions",
        {
            "hoodie.table.name": "gdpr",
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.partitionpath.field": "",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.keygenerator.class": f"{_KEYGEN}.GlobalDeleteKeyGenerator",
            "hoodie.index.type": "GLOBAL_BLOOM",
        },
    ),
    Job(
        "key_generator_by_type",
        "the documentation of Hudi 1.x: the type instead of the class",
        {
            "hoodie.table.name": "by_type",
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.keygenerator.type": "NON_PARTITION",
        },
    ),
    Job(
        "virtual_keys",
        "the documentation of tables without meta columns",
        {
            "hoodie.table.name": "virtual",
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.partitionpath.field": "city",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.populate.meta.fields": "false",
            "hoodie.index.type": "SIMPLE",
        },
    ),
    Job(
        "own_key_generator",
        "jobs with a custom key generator in a jar",
        {
            "hoodie.table.name": "own",
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.partitionpath.field": "city",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.keygenerator.class": "com.example.hudi.TenantKeyGenerator",
        },
        refused=("com.example.hudi.TenantKeyGenerator",),
        remedy={"hoodie.datasource.write.keygenerator.class": None},
    ),
)
