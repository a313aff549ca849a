"""What a catalog has to hold of a table, by planning alone: names, types, partitions, options."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import InvalidOptionError, UnsupportedError
from hoodoo.options import check_options
from hoodoo.sync import after_commit
from hoodoo.sync.catalog import Column, Partition, TableEntry
from hoodoo.sync.keys import KEYS
from hoodoo.sync.partitions import extractor_of, partition_name
from hoodoo.sync.plan import TableFacts, change_of, entry_of, is_moved, plan_partitions, views_of
from hoodoo.sync.settings import GLUE_TOOL, HIVE_TOOL, check_sync_options, read_settings, tools_of
from hoodoo.sync.state import PartitionChanges
from hoodoo.sync.types import hive_type, spark_schema

SYNC = "hoodie.datasource.hive_sync."
HMS = {f"{SYNC}mode": "hms"}
PACKAGE = "org.apache.hudi.hive."
PROPERTIES = {"hoodie.table.name": "Trips", "hoodie.table.partition.fields": "city"}
SCHEMA = pa.schema({"Id": pa.int64(), "city": pa.string(), "ts": pa.timestamp("us", tz="UTC")})


def _entry(schema: pa.Schema = SCHEMA, **options: str) -> TableEntry:
    given = HMS | {f"{SYNC}{key.replace('__', '.')}": value for key, value in options.items()}
    settings = read_settings(given, PROPERTIES)
    facts = TableFacts(schema, "s3://lake/trips", is_merge_on_read=False)
    return entry_of(views_of("trips", settings, is_merge_on_read=False)[0], settings.hive, facts, settings)


@pytest.mark.parametrize(
    ("extractor", "path", "values"),
    [
        ("MultiPartKeysValueExtractor", "a/b", ("a", "b")),
        ("MultiPartKeysValueExtractor", "x=a/y=b c", ("a", "b c")),
        ("HiveStylePartitionValueExtractor", "x=a/b", ("a/b",)),
        ("SinglePartPartitionValueExtractor", "2026/01/31", ("2026-01-31",)),
        ("SlashEncodedDayPartitionValueExtractor", "2026/01/31", ("2026-01-31",)),
        ("SlashEncodedDayPartitionValueExtractor", "y=2026/m=1/d=5", ("2026-01-05",)),
        ("SlashEncodedHourPartitionValueExtractor", "2026/01/31/7", ("2026-01-31-07",)),
    ],
)
def test_values_of_partition_paths(extractor: str, path: str, values: tuple[str, ...]):
    assert extractor_of(PACKAGE + extractor, ["f"] * len(values))(path) == values


@pytest.mark.parametrize(
    ("extractor", "path"),
    [
        ("MultiPartKeysValueExtractor", "a/b"),
        ("MultiPartKeysValueExtractor", "x=a=b"),
        ("MultiPartKeysValueExtractor", "x="),
        ("HiveStylePartitionValueExtractor", "a"),
        ("HiveStylePartitionValueExtractor", "a=b=c"),
        ("SlashEncodedDayPartitionValueExtractor", "2026/02/30"),
        ("SlashEncodedDayPartitionValueExtractor", "2026/02"),
        ("SlashEncodedDayPartitionValueExtractor", "99999999999999999999/1/1"),
        pytest.param("SlashEncodedDayPartitionValueExtractor", f"{'9' * 5000}/1/1", id="a very long number"),
        ("SlashEncodedHourPartitionValueExtractor", "2026/02/03"),
        ("NonPartitionedExtractor", "a"),
    ],
)
def test_a_path_that_does_not_fit_is_named_with_the_option(extractor: str, path: str):
    with pytest.raises(InvalidOptionError, match="partition_extractor_class") as refused:
        extractor_of(PACKAGE + extractor, ["f"])(path)
    assert repr(path) in str(refused.value)


def test_an_extractor_of_the_users_own_is_refused_with_those_there_are():
    with pytest.raises(UnsupportedError, match=r"com\.example\.Mine.*MultiPartKeysValueExtractor"):
        extractor_of("com.example.Mine", ["f"])


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, ("", "NonPartitionedExtractor")),
        ({"hoodie.table.partition.fields": "a"}, ("a", "SinglePartPartitionValueExtractor")),
        (
            {"hoodie.table.partition.fields": "a", "hoodie.datasource.write.hive_style_partitioning": "true"},
            ("a", "HiveStylePartitionValueExtractor"),
        ),
        ({"hoodie.table.partition.fields": "a:SIMPLE,b:TIMESTAMP"}, ("a,b", "MultiPartKeysValueExtractor")),
        (
            {"hoodie.table.partition.fields": "a", "hoodie.table.partition_extractor_class": f"{PACKAGE}X"},
            ("a", "X"),
        ),
    ],
)
def test_partition_columns_and_extractor_are_inferred(properties: dict[str, str], expected: tuple[str, str]):
    settings = read_settings(HMS, {"hoodie.table.name": "t", **properties})
    assert (",".join(settings.partition_fields), settings.extractor.removeprefix(PACKAGE)) == expected


def test_names_are_inferred_and_those_of_glue_win_for_glue():
    inferred = read_settings(HMS, {"hoodie.table.name": "T", "hoodie.database.name": "Db"})
    assert (inferred.hive, inferred.glue) == (inferred.glue, inferred.hive)
    assert (inferred.hive.database, inferred.hive.table) == ("db", "t")
    own = {"hoodie.datasource.meta.sync.glue.database_name": "G", f"{SYNC}database": "h", f"{SYNC}table": "x"}
    given = read_settings(HMS | own, {"hoodie.table.name": "t"})
    assert (given.hive.database, given.glue.database, given.glue.table) == ("h", "g", "x")
    with pytest.raises(InvalidOptionError, match=r"hive_sync\.table"):
        read_settings(HMS, {})


@pytest.mark.parametrize("mode", ["jdbc", "hiveql", "JDBC", None])
def test_modes_that_are_not_there_are_refused_with_the_remedy(mode: str | None):
    options = {} if mode is None else {f"{SYNC}mode": mode}
    with pytest.raises(UnsupportedError, match=r"Set hoodie\.datasource\.hive_sync\.mode=hms"):
        check_sync_options(options)
    # The tool of Glue has no modes.
    assert check_sync_options({**options, "hoodie.meta.sync.client.tool.class": GLUE_TOOL}) == []


def test_tools_are_chosen_as_by_hudi():
    key = "hoodie.meta.sync.client.tool.class"
    assert tools_of({}) == (HIVE_TOOL,)
    assert tools_of({key: GLUE_TOOL}) == (GLUE_TOOL,)
    assert tools_of({key: f"{GLUE_TOOL}, {HIVE_TOOL}"}) == (GLUE_TOOL, HIVE_TOOL)
    assert tools_of({key: GLUE_TOOL, f"{SYNC}enable": "true"}) == (GLUE_TOOL, HIVE_TOOL)
    with pytest.raises(UnsupportedError, match=r"org\.apache\.hudi\.gcp\.bigquery\.BigQuerySyncTool is not supported"):
        tools_of({key: "org.apache.hudi.gcp.bigquery.BigQuerySyncTool"})


BAD_VALUES = {
    f"{SYNC}mode": "thrift",
    f"{SYNC}enable": "maybe",
    f"{SYNC}batch_num": "0",
    f"{SYNC}schema_string_length_thresh": "many",
    f"{SYNC}table.strategy": "BOTH",
    f"{SYNC}table_properties": "no equals sign",
    "hoodie.meta.sync.incremental": "1",
}


@pytest.mark.parametrize("key", BAD_VALUES)
def test_a_value_that_is_invalid_is_refused_by_name(key: str):
    with pytest.raises(InvalidOptionError, match=key.replace(".", r"\.")):
        check_sync_options({**HMS, key: BAD_VALUES[key]})


@pytest.mark.parametrize("key", sorted(key for key, one in KEYS.items() if one.support != "yes"))
def test_an_option_without_effect_is_refused_warned_of_or_harmless(key: str):
    default = KEYS[key].default
    other = "7" if default.isdigit() else {"true": "false", "false": "true"}.get(default, "ORC")
    given = {**HMS, key: other}
    if KEYS[key].support == "refused":
        with pytest.raises(UnsupportedError, match=key.replace(".", r"\.")):
            check_sync_options(given)
    else:
        warned = check_sync_options(given)
        assert [key in warning for warning in warned] == ([True] if KEYS[key].support == "warned" else [])
    assert check_sync_options({**HMS, key: KEYS[key].default}) == []


@pytest.mark.parametrize("used", ["table", "read", "write"])
@pytest.mark.filterwarnings("error")
def test_no_option_of_sync_is_taken_for_an_unknown_one(used: Any):
    given = {key: "x" for key in KEYS if not key.endswith(".enable")}
    check_options(given, used)
    if used != "read":
        check_options({**HMS, f"{SYNC}enable": "true"}, used)


def test_a_table_is_planned_as_hudi_registers_it():
    entry = _entry()
    assert entry.full_name == "default.trips"
    assert [(c.name, c.kind) for c in entry.columns[5:]] == [("id", "bigint"), ("ts", "bigint")]
    assert entry.partition_keys == (Column("city", "string"),)
    assert entry.serde_parameters == {
        "path": "s3://lake/trips",
        "hoodie.query.as.ro.table": "false",
        "serialization.format": "1",
    }
    fields = json.loads(entry.parameters["spark.sql.sources.schema.part.0"])["fields"]
    assert [field["name"] for field in fields[5:]] == ["Id", "ts", "city"]
    assert entry.parameters["spark.sql.sources.schema.partCol.0"] == "city"
    assert "spark.sql.create.version" not in entry.parameters


def test_a_long_schema_is_cut_and_parts_that_are_left_over_go():
    short, long = _entry(), _entry(schema_string_length_thresh="50")
    count = int(long.parameters["spark.sql.sources.schema.numParts"])
    parts = [long.parameters[f"spark.sql.sources.schema.part.{n}"] for n in range(count)]
    assert count > 1
    assert all(len(part) == 50 for part in parts[:-1])
    assert "".join(parts) == short.parameters["spark.sql.sources.schema.part.0"]
    change = change_of(long, short)
    assert change.entry.parameters == short.parameters
    assert change_of(short, short).is_empty


def test_what_others_put_into_a_catalog_stays():
    old = _entry()
    mine = TableEntry(
        **{
            **vars(old),
            "columns": tuple(Column(c.name, c.kind.upper(), f"about {c.name}") for c in old.columns),
            "parameters": {**old.parameters, "owner_team": "maps"},
        }
    )
    assert change_of(mine, old).is_empty
    wider = _entry(SCHEMA.append(pa.field("New", pa.map_(pa.string(), pa.int32()))))
    change = change_of(mine, wider)
    assert [str(c) for c in change.columns] == ["new: new → map<string,int>"]
    assert change.entry.parameters["owner_team"] == "maps"
    assert [c.comment for c in change.entry.columns[-3:]] == ["about id", "about ts", ""]
    back = change_of(wider, old)
    assert [str(c) for c in back.columns] == ["new: map<string,int> → dropped"]


def test_other_partition_columns_are_refused_and_schemes_do_not_matter():
    old, other = _entry(), _entry(partition_fields="ts")
    with pytest.raises(InvalidOptionError, match="recreate_table_on_error"):
        change_of(old, other)
    as_hadoop = TableEntry(**{**vars(old), "location": "s3a://lake/trips/"})
    assert not is_moved(as_hadoop, old)
    assert is_moved(TableEntry(**{**vars(old), "location": "s3a://lake/other"}), old)
    assert is_moved(TableEntry(**{**vars(old), "location": "s3://other/trips"}), old)


def test_an_incremental_plan_drops_only_what_is_known_and_gone():
    def values(path: str) -> tuple[str, ...]:
        return (path,)

    there = [Partition(("a",), "s3a://lake/t/a"), Partition(("b",), "s3a://lake/t/b"), Partition(("z",), "/t/z")]
    some = PartitionChanges(("a", "n"), ("b", "never"), complete=False)
    plan = plan_partitions(some, there, "s3://lake/t", values)
    assert (list(plan.add), list(plan.change), plan.drop) == (["n"], [], (("b",),))
    every = PartitionChanges(("a", "b"), (), complete=True)
    assert plan_partitions(every, there, "s3://lake/t", values).drop == (("z",),)


@pytest.mark.parametrize(
    ("kind", "hive", "spark"),
    [
        (pa.int8(), "int", "integer"),
        (pa.large_string(), "string", "string"),
        (pa.binary(16), "binary", "binary"),
        (pa.time64("us"), "bigint", "long"),
        (pa.time32("ms"), "int", "integer"),
        (pa.timestamp("ms", tz="UTC"), "bigint", "timestamp"),
        (pa.timestamp("us"), "bigint", "timestamp_ntz"),
        (pa.decimal128(20, 4), "decimal(20,4)", "decimal(20,4)"),
    ],
)
def test_types(kind: pa.DataType, hive: str, spark: str):
    assert hive_type(kind) == hive
    assert json.loads(spark_schema([pa.field("c", kind, nullable=False)]))["fields"] == [
        {"name": "c", "type": spark, "nullable": False, "metadata": {}}
    ]


def test_nested_types():
    kind = pa.struct([pa.field("a-B", pa.map_(pa.string(), pa.list_(pa.timestamp("us", tz="UTC"))))])
    assert hive_type(kind, timestamps=True) == "struct<a_b:map<string,array<timestamp>>>"
    with pytest.raises(UnsupportedError, match="duration"):
        hive_type(pa.list_(pa.duration("s")))


def test_names_of_partitions_are_escaped_as_by_hive():
    assert partition_name(["A", "b"], ["x=y/z", "50% é"]) == "a=x%3Dy%2Fz/b=50%25 é"


def test_packages_for_catalogs_are_imported_when_they_are_needed_and_named_when_they_are_missing(tmp_path: Path):
    code = "import sys, hoodoo; print({'boto3', 'pymetastore', 'thrift'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "set()"
    table = hoodoo.Table.create(tmp_path / "t", SCHEMA, name="t", record_key="Id")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("boto3", "pymetastore"):
            patch.setitem(sys.modules, name, None)
        with pytest.raises(hoodoo.MissingDependencyError, match=r"pip install 'hoodoo\[hive\]'"):
            table.sync(HMS)
        with pytest.raises(hoodoo.MissingDependencyError, match=r"pip install 'hoodoo\[glue\]'"):
            hoodoo.Table.from_catalog("t", "glue")


def test_an_interrupt_of_a_sync_has_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(after_commit, "sync_table", interrupted)
    options = {**HMS, f"{SYNC}enable": True}
    table = hoodoo.Table.create(tmp_path / "t", SCHEMA, name="t", record_key="Id", options=options)
    with pytest.raises(KeyboardInterrupt) as raised:
        table.insert({"Id": [1], "city": ["a"], "ts": [None]})
    assert raised.value.commit.inserted == 1  # type: ignore[attr-defined]
    assert table.to_arrow().num_rows == 1


def test_a_server_that_is_no_metastore_is_told_at_once():
    pytest.importorskip("pymetastore")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.recv(1 << 16)

        threading.Thread(target=answer, daemon=True).start()
        uri = f"thrift://127.0.0.1:{server.getsockname()[1]}"
        begin = time.monotonic()
        with pytest.raises(hoodoo.CatalogError, match=f"{uri} cannot be reached: .*plain thrift"):
            hoodoo.Table.from_catalog("t", uri)
        assert time.monotonic() - begin < 10
