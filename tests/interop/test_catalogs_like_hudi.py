"""What hoodoo registers in a metastore is what Hudi's sync tool registers, field by field; Spark reads through it."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.sync.settings import read_settings
from tests.interop.hudi import Hudi, bundle
from tests.metastore import Metastore
from tests.rows import Row

# One column of each kind; a name in capitals, and one that Hive escapes in a nested field.
SCHEMA = pa.schema(
    {
        "Id": pa.int64(),
        "city": pa.string(),
        "n": pa.int32(),
        "ts": pa.timestamp("us", tz="UTC"),
        "local": pa.timestamp("us"),
        "day": pa.date32(),
        "price": pa.decimal128(10, 2),
        "yes": pa.bool_(),
        "small": pa.int16(),
        "f": pa.float32(),
        "d": pa.float64(),
        "raw": pa.binary(),
        "s": pa.struct({"a": pa.int32(), "Bb": pa.list_(pa.string()), "t": pa.timestamp("us", tz="UTC")}),
        "m": pa.map_(pa.string(), pa.float64()),
        "l": pa.list_(pa.struct({"x": pa.list_(pa.int64())})),
    }
)
NOW = dt.datetime(2026, 1, 31)  # noqa: DTZ001 - the column says UTC
PARTITION = "hoodie.datasource.write.partitionpath.field"
HIVE_STYLE = {"hoodie.datasource.write.hive_style_partitioning": "true"}
ENCODED = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
SYNC = "hoodie.datasource.hive_sync."
SPARK = {"hoodie.meta_sync.spark.version": "3.5.8"}

_EXTRACTOR = "hoodie.table.partition_extractor_class"
# Hudi's writer takes it from Spark's settings, its tool from these.
SHORT_PARTS = {f"{SYNC}schema_string_length_thresh": "100"}

# Name: options of the write, options of the sync, the tables that there are then.
CASES: dict[str, tuple[dict[str, str], dict[str, str], list[str]]] = {
    "cow": ({PARTITION: "city"}, {}, ["t"]),
    "mor": ({PARTITION: "city,n", **HIVE_STYLE, **ENCODED, **MERGE_ON_READ}, {}, ["t_ro", "t_rt", "t"]),
}
MORE_CASES = {
    "plain": ({}, {}, ["t"]),
    "hive_style": ({PARTITION: "city", **HIVE_STYLE, **ENCODED}, {}, ["t"]),
    "decoded": ({PARTITION: "city", **HIVE_STYLE, **ENCODED}, {"hoodie.meta.sync.decode_partition": "true"}, ["t"]),
    "several": ({PARTITION: "city,n"}, {}, ["t"]),
    "number": ({PARTITION: "n", **HIVE_STYLE}, {}, ["t"]),
    "capitals": ({PARTITION: "Id"}, {}, ["t"]),
    "read_optimized": ({PARTITION: "city", **MERGE_ON_READ}, {f"{SYNC}table.strategy": "RO"}, ["t"]),
    "snapshot": ({PARTITION: "city", **MERGE_ON_READ}, {f"{SYNC}table.strategy": "RT"}, ["t"]),
    "no_suffix": ({PARTITION: "city", **MERGE_ON_READ}, {f"{SYNC}skip_ro_suffix": "true"}, ["t", "t_rt"]),
    "no_plain_table": (
        {PARTITION: "city", **MERGE_ON_READ},
        {"hoodie.meta.sync.sync_snapshot_with_table_name": "false"},
        ["t_ro", "t_rt"],
    ),
    "properties": (
        {PARTITION: "city"},
        {
            f"{SYNC}support_timestamp": "true",
            f"{SYNC}table_properties": "a=b\nc=d",
            f"{SYNC}serde_properties": "x=y",
        },
        ["t"],
    ),
    "not_for_spark": ({}, {f"{SYNC}sync_as_datasource": "false", f"{SYNC}omit_metadata_fields": "true"}, ["t"]),
    "managed": ({}, {f"{SYNC}create_managed_table": "true"}, ["t"]),
    "no_meta_fields": ({"hoodie.populate.meta.fields": "false"}, {}, ["t"]),
    "days": ({PARTITION: "day", "hoodie.datasource.write.slash.separated.date.partitioning": "true"}, {}, ["t"]),
    "named_extractor": (
        {PARTITION: "city"},
        {f"{SYNC}partition_extractor_class": "org.apache.hudi.hive.MultiPartKeysValueExtractor"},
        ["t"],
    ),
}


def _row(number: int, city: str) -> Row:
    return {
        "Id": number,
        "city": city,
        "n": number,
        "ts": NOW,
        "local": NOW,
        "day": NOW.date(),
        "price": decimal.Decimal("1.50"),
        "yes": True,
        "small": 1,
        "f": 1.0,
        "d": 1.0,
        "raw": b"x",
        "s": {"a": 1, "Bb": ["q"], "t": NOW},
        "m": [("k", 1.0)],
        "l": [{"x": [1]}],
    }


def _rows(*cities: str) -> pa.Table:
    return pa.Table.from_pylist([_row(number, city) for number, city in enumerate(cities)], schema=SCHEMA)


def _named(name: str) -> dict[str, str]:
    return {
        "hoodie.table.name": name,
        "hoodie.datasource.write.recordkey.field": "Id",
        "hoodie.datasource.write.precombine.field": "ts",
    }


def _registered(metastore: Metastore, database: str, name: str) -> dict[str, Any]:
    """A table of a database without the only difference: who wrote it."""
    found = metastore.dump(database, name)
    del found["table"]["parameters"]["hudi_writer_version"]
    return found


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """Every field by its path, so that a difference is seen in one line."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        return {path: value}
    return {key: one for name, inner in value.items() for key, one in _flat(inner, f"{path}/{name}").items()}


def _compare(metastore: Metastore, tables: list[str], ours: str, theirs: str) -> None:
    for name in tables:
        mine, his = (_flat(_registered(metastore, database, name)) for database in (ours, theirs))
        differences = {key: (mine.get(key), his.get(key)) for key in mine | his if mine.get(key) != his.get(key)}
        assert differences == {}, name
    assert sorted(metastore.client.get_all_tables(ours)) == sorted(metastore.client.get_all_tables(theirs))


@pytest.mark.parametrize("case", [*CASES, *(pytest.param(case, marks=pytest.mark.slow) for case in MORE_CASES)])
def test_a_table_is_registered_as_by_hudi(hudi: Hudi, metastore: Metastore, tmp_path: Path, case: str):
    write, sync, tables = (CASES | MORE_CASES)[case]
    theirs, ours = f"theirs_{case}", f"ours_{case}"
    switched_on = {f"{SYNC}enable": "true", **metastore.options(theirs), **sync}
    cities = ("l a", "s-f") if "urlencode" not in str(write) else ("l a", "s/f", "50%")
    hudi.write(_rows(*cities), tmp_path / "t", mode="overwrite", **{**_named("t"), **write, **switched_on})
    report = hoodoo.Table(tmp_path / "t").sync({**SPARK, **metastore.options(ours), **sync})
    assert [table.name for table in report.tables] == [f"{ours}.{name}" for name in tables]
    assert all(table.created for table in report.tables)
    _compare(metastore, tables, ours, theirs)
    # Nothing is left to do, for what Hudi registered either.
    for database in (ours, theirs):
        assert not hoodoo.Table(tmp_path / "t").sync({**SPARK, **metastore.options(database), **sync}).changed


class _HudiTool:
    """Hudi's sync tool, which syncs a table as it is."""

    def __init__(self, hudi: Hudi, metastore: Metastore, database: str) -> None:
        self._jvm: Any = hudi.spark.sparkContext._jvm
        self._conf = hudi.spark.sparkContext._jsc.hadoopConfiguration()
        self._options = {**SPARK, **SHORT_PARTS, **metastore.options(database)}

    def sync(self, path: Path, **more: str) -> None:
        given = {"hoodie.datasource.meta.sync.base.path": str(path), **self._options, **more}
        properties = self._jvm.java.util.Properties()
        for key, value in given.items():
            properties.setProperty(key, value)
        tool = self._jvm.org.apache.hudi.hive.HiveSyncTool(properties, self._conf)
        tool.syncHoodieTable()


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", pytest.param("MERGE_ON_READ", marks=pytest.mark.slow)])
def test_a_history_is_synced_step_by_step_as_by_hudi(hudi: Hudi, metastore: Metastore, tmp_path: Path, table_type: str):
    theirs, ours = f"theirs_steps_{table_type.lower()}", f"ours_steps_{table_type.lower()}"
    tool = _HudiTool(hudi, metastore, theirs)
    options = {**SPARK, **SHORT_PARTS, **metastore.options(ours), **HIVE_STYLE}
    schema = {"id": pa.int64(), "p": pa.string(), "n": pa.int32()}
    place = tmp_path / "t"
    table = hoodoo.Table.create(
        place, schema, name="t", record_key="id", partition_by="p", table_type=table_type, options=options
    )
    tables = ["t"] if table_type == "COPY_ON_WRITE" else ["t_ro", "t_rt", "t"]

    def both() -> hoodoo.CatalogTable:
        named = {f"{SYNC}table": "t", f"{SYNC}partition_fields": "p"}
        tool.sync(place, **named, **{f"{SYNC}partition_extractor_class": table.options[_EXTRACTOR]})
        report = table.sync()
        _compare(metastore, tables, ours, theirs)
        return report.tables[-1]

    table.insert({"id": [1, 2, 3], "p": ["a", "b", "c"], "n": [1, 2, 3]})
    assert both().complete
    table.upsert({"id": [1, 4], "p": ["a", "d"], "n": [9, 4]})
    later = both()
    assert (later.partitions_added, later.complete) == (("p=d",), False)
    with pytest.warns(hoodoo.HudiWarning, match="schema"):
        table.upsert({"id": [5], "p": ["a"], "n": [1 << 40], "extra": ["x"]})
    assert {(c.column, c.old, c.new) for c in both().columns} == {("n", "int", "bigint"), ("extra", None, "string")}
    assert {column["name"] for column in _columns_of_a_partition(metastore, ours)} >= {"extra", "n"}
    table.delete_partitions(["p=b", "p=c"])
    assert both().partitions_dropped == ("b", "c")
    table.upsert({"id": [6], "p": ["c"], "n": [1], "extra": [None]})
    assert both().partitions_added == ("p=c",)
    # Twice in one step: what comes back is not dropped.
    table.delete_partitions(["p=d"])
    table.upsert({"id": [7, 8], "p": ["d", "e"], "n": [1, 1], "extra": [None, None]})
    assert both().partitions_added == ("p=e",)


def _columns_of_a_partition(metastore: Metastore, database: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = metastore.dump(database, "t")["partitions"][0]["sd"]["cols"]
    return found


_READ = """
import json, sys
from pyspark.sql import SparkSession
settings = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[1]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.enableHiveSupport().getOrCreate()
spark.sparkContext.setLogLevel("OFF")
found = [spark.sql(query).toJSON().collect() for query in sys.argv[2:]]
open(settings["spark.test.answer"], "w").write(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("hudi")
def test_spark_reads_tables_through_the_metastore(metastore: Metastore, tmp_path: Path):
    """In a process of its own: a session keeps the catalog that it began with."""
    table = hoodoo.Table.create(
        tmp_path / "t",
        {"id": pa.int64(), "p": pa.string(), "n": pa.int32()},
        name="t",
        record_key="id",
        partition_by="p",
        table_type="MERGE_ON_READ",
        options={f"{SYNC}enable": True, **metastore.options("read_by_spark"), **HIVE_STYLE},
    )
    table.insert({"id": [1, 2], "p": ["a", "b"], "n": [1, 2]})
    table.upsert({"id": [1, 3], "p": ["a", "c"], "n": [10, 3]})
    setting, jar = bundle()
    settings = {
        setting: jar,
        "spark.test.answer": str(tmp_path / "answer.json"),
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.hadoop.hive.metastore.uris": metastore.uri,
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "spark.ui.enabled": "false",
    }
    queries = [
        "select id, p, n from read_by_spark.t order by id",
        "select id, n from read_by_spark.t_ro where p = 'a'",
        "select id, n from read_by_spark.t_rt where p = 'a'",
        "show partitions read_by_spark.t",
    ]
    subprocess.run([sys.executable, "-c", _READ, json.dumps(settings), *queries], check=True, timeout=300)
    answers = json.loads((tmp_path / "answer.json").read_text())
    rows, optimized, snapshot, partitions = ([json.loads(line) for line in answer] for answer in answers)
    assert rows == [{"id": 1, "p": "a", "n": 10}, {"id": 2, "p": "b", "n": 2}, {"id": 3, "p": "c", "n": 3}]
    assert optimized == [{"id": 1, "n": 1}]
    assert snapshot == [{"id": 1, "n": 10}]
    assert [row["partition"] for row in partitions] == ["p=a", "p=b", "p=c"]


FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "tables"


def _unpack(archive: Path, folder: Path) -> Path | None:
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder)
    found = sorted(path.parent for path in folder.rglob("hoodie.properties") if "__MACOSX" not in path.parts)
    return next((path.parent for path in found if "metadata" not in path.parts), None)


@pytest.mark.slow
@pytest.mark.parametrize("archive", sorted(FIXTURES.glob("*.zip")), ids=lambda archive: archive.stem)
def test_tables_of_other_writers_and_versions_are_registered_as_by_hudi(
    hudi: Hudi, metastore: Metastore, tmp_path: Path, archive: Path
):
    place = _unpack(archive, tmp_path)
    assert place is not None
    table = hoodoo.Table(place)
    settings = read_settings(metastore.options("fixtures_ours"), table.options)
    named = {f"{SYNC}table": archive.stem.lower(), f"{SYNC}partition_fields": ",".join(settings.partition_fields)}
    _HudiTool(hudi, metastore, "fixtures_theirs").sync(
        place, **named, **{f"{SYNC}partition_extractor_class": settings.extractor}
    )
    report = table.sync({**SPARK, **SHORT_PARTS, **metastore.options("fixtures_ours"), **named})
    for one in report.tables:
        name = one.name.rpartition(".")[2]
        ours, theirs = (_registered(metastore, f"fixtures_{whose}", name) for whose in ("ours", "theirs"))
        # Hudi also registers the folders whose files were replaced and are not cleaned yet.
        live = {partition["values"][0] for partition in ours["partitions"]}
        assert live <= {partition["values"][0] for partition in theirs["partitions"]}
        theirs["partitions"] = [one for one in theirs["partitions"] if one["values"][0] in live]
        assert _flat(ours) == _flat(theirs)
