"""Wrong calls of the public API: each is an error of hoodoo that says what to do, and changes nothing."""

# ruff: noqa: ARG005, PLW0108 - all mistakes are functions of the table

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodoo
from hoodoo import procedures

SCHEMA = pa.schema({"id": pa.int64(), "ts": pa.int64(), "city": pa.string(), "fare": pa.float64()})
ROW: dict[str, list[Any]] = {"id": [1], "ts": [1], "city": ["sf"], "fare": [1.0]}
URI = "memory://mistakes/t"


@pytest.fixture(scope="module")
def table() -> Iterator[Any]:
    t: Any = hoodoo.Table.create(URI, SCHEMA, name="t", record_key="id", partition_by="city", ordering="ts")
    t.insert(ROW)
    yield t
    # No mistake has changed a row.
    assert t.to_arrow(columns=SCHEMA.names).to_pydict() == ROW
    assert t.verify().ok


@pytest.fixture(scope="module")
def two_keys() -> Any:
    t: Any = hoodoo.Table.create("memory://mistakes/two", SCHEMA, name="t", record_key=["id", "ts"])
    t.insert(ROW)
    return t


Mistake = Callable[[Any], object]
h: Any = hoodoo
p: Any = procedures

OPENING: dict[str, Mistake] = {
    "a table that is not there": lambda t: h.Table("memory://mistakes/none"),
    "an empty location": lambda t: h.Table(""),
    "no location": lambda t: h.Table(None),
    "a number as location": lambda t: h.Table(7),
    "a table as location": lambda t: h.Table(t),
    "an unknown scheme": lambda t: h.Table("gopher://x/y"),
    "options as a list": lambda t: h.Table(URI, ["hoodie.metadata.enable"]),
    "options as a string": lambda t: h.Table(URI, "hoodie.metadata.enable=true"),
    "an option with a wrong value": lambda t: h.Table(URI, {"hoodie.metadata.enable": "perhaps"}).upsert(ROW),
    "an option as a list": lambda t: h.Table(URI, {"hoodie.metadata.enable": [True]}),
    "an option key that is a number": lambda t: h.Table(URI, {7: "x"}),
    "storage options as a list": lambda t: h.Table(URI, None, ["x"]),
    "a storage option that is a number": lambda t: h.Table(URI, None, {"timeout": 7}),
    "a storage option that is None": lambda t: h.Table(URI, None, {"timeout": None}),
}

CREATING: dict[str, Mistake] = {
    "a table that is there": lambda t: h.Table.create(URI, SCHEMA, name="t", record_key="id"),
    "no name": lambda t: h.Table.create("memory://mistakes/c1", SCHEMA, record_key="id"),
    "a key that is no column": lambda t: h.Table.create("memory://mistakes/c2", SCHEMA, name="t", record_key="uuid"),
    "a partition that is no column": lambda t: h.Table.create(
        "memory://mistakes/c3", SCHEMA, name="t", partition_by="x"
    ),
    "an ordering that is no column": lambda t: h.Table.create(
        "memory://mistakes/c4", SCHEMA, name="t", record_key="id", ordering="x"
    ),
    "an unknown table type": lambda t: h.Table.create("memory://mistakes/c5", SCHEMA, name="t", table_type="COW"),
    "no schema": lambda t: h.Table.create("memory://mistakes/c6", None, name="t"),
    "a schema as a list of names": lambda t: h.Table.create("memory://mistakes/c7", ["id", "ts"], name="t"),
    "a schema of Python types": lambda t: h.Table.create("memory://mistakes/c8", {"id": int}, name="t"),
    "a schema with unknown types": lambda t: h.Table.create("memory://mistakes/c9", {"id": "bigserial"}, name="t"),
    "a schema that is a number": lambda t: h.Table.create("memory://mistakes/c10", 7, name="t"),
    "an empty schema": lambda t: h.Table.create("memory://mistakes/c11", {}, name="t"),
    "two columns of a name": lambda t: h.Table.create(
        "memory://mistakes/c12", pa.schema([("id", pa.int64()), ("id", pa.string())]), name="t"
    ),
    "a type that Hudi has not": lambda t: h.Table.create(
        "memory://mistakes/c13", {"id": pa.month_day_nano_interval()}, name="t"
    ),
    "a key that is a number": lambda t: h.Table.create("memory://mistakes/c14", SCHEMA, name="t", record_key=1),
    "keys that are numbers": lambda t: h.Table.create("memory://mistakes/c15", SCHEMA, name="t", record_key=[1, 2]),
    "a name that is a number": lambda t: h.Table.create("memory://mistakes/c16", SCHEMA, name=7, record_key="id"),
    "a name with a slash": lambda t: h.Table.create(
        "memory://mistakes/c17", {"a": pa.struct([])}, name="t", record_key="id"
    ),
    "partitions as a dictionary": lambda t: h.Table.create(
        "memory://mistakes/c18", SCHEMA, name="t", record_key="id", partition_by={"city": 1}
    ),
}

WRITING: dict[str, Mistake] = {
    "nothing": lambda t: t.upsert(None),
    "a number": lambda t: t.upsert(7),
    "a string": lambda t: t.upsert("rows.parquet"),
    "bytes": lambda t: t.upsert(b"rows"),
    "a path": lambda t: t.upsert(Path("rows.parquet")),
    "a list of numbers": lambda t: t.upsert([1, 2]),
    "a list of tuples": lambda t: t.upsert([(1, 1, "sf", 1.0)]),
    "a row that is no dictionary": lambda t: t.upsert([{"id": 1, "ts": 1, "city": "a", "fare": 1.0}, 7]),
    "columns of different lengths": lambda t: t.upsert(ROW | {"fare": [1.0, 2.0]}),
    "a column that is a number": lambda t: t.upsert(ROW | {"fare": 1.0}),
    "a column that is None": lambda t: t.upsert(ROW | {"fare": None}),
    "values of mixed types": lambda t: t.upsert({k: v * 2 for k, v in ROW.items()} | {"fare": [1.0, "x"]}),
    "values without an Arrow type": lambda t: t.upsert(ROW | {"fare": [object()]}),
    "a lazy frame that fails": lambda t: t.upsert(pl.LazyFrame(ROW).select("nothing")),
    "a schema instead of rows": lambda t: t.upsert(SCHEMA),
    "a column less": lambda t: t.upsert({"id": [1], "ts": [1], "city": ["sf"]}),
    "no key column": lambda t: t.upsert({"ts": [1], "city": ["sf"], "fare": [1.0]}),
    "no partition column": lambda t: t.upsert({"id": [1], "ts": [1], "fare": [1.0]}),
    "a null key": lambda t: t.upsert(ROW | {"id": [None]}),
    "a string for a number": lambda t: t.upsert(ROW | {"ts": pa.array(["x"])}, schema_evolution="refuse"),
    "a new column that is refused": lambda t: t.upsert(ROW | {"extra": [1]}, schema_evolution="refuse"),
    "an unknown schema evolution": lambda t: t.upsert(ROW, schema_evolution="sometimes"),
    "a schema evolution that is a flag": lambda t: t.upsert(ROW, schema_evolution=True),
    "partial rows without a key": lambda t: t.upsert({"fare": [2.0]}, partial=True),
    "partial rows without ordering": lambda t: t.upsert({"id": [1], "city": ["sf"], "fare": [2.0]}, partial=True),
    "no rows and no schema": lambda t: h.write([], "memory://mistakes/w1", options={"hoodie.table.name": "t"}),
    "an unknown operation": lambda t: h.write(ROW, URI, "merge"),
    "an operation that is a number": lambda t: h.write(ROW, URI, 7),
    "a new table without a name": lambda t: h.write(ROW, "memory://mistakes/w2"),
    "another key than that of the table": lambda t: h.write(
        ROW, URI, options={"hoodie.datasource.write.recordkey.field": "fare"}
    ),
    "write options as a string": lambda t: h.write(ROW, URI, options="upsert"),
    "a write of nothing": lambda t: h.write(None, URI),
    "sorting by a missing column": lambda t: t.bulk_insert(ROW, sort_by="zzz"),
    "sorting by a number": lambda t: t.bulk_insert(ROW, sort_by=1),
}

DELETING: dict[str, Mistake] = {
    "nothing said": lambda t: t.delete(),
    "both keys and a condition": lambda t: t.delete([1], where="id = 1"),
    "a key that is no list": lambda t: t.delete(1),
    "a key that is a string": lambda t: t.delete("1"),
    "keys of mixed types": lambda t: t.delete([1, "x"]),
    "keys without an Arrow type": lambda t: t.delete([object()]),
    "rows without the key": lambda t: t.delete({"fare": [1.0]}),
    "an empty condition": lambda t: t.delete(where=[]),
    "partitions as dictionaries": lambda t: t.delete_partitions([{"city": "sf"}]),
    "partitions as a dictionary ": lambda t: t.delete_partitions({"city": "sf"}),
    "None as partitions": lambda t: t.delete_partitions(None),
    "a number as partition": lambda t: t.delete_partitions(7),
    "numbers as partitions": lambda t: t.delete_partitions([7]),
}

READING: dict[str, Mistake] = {
    "a missing column": lambda t: t.to_arrow(columns=["zzz"]),
    "a column that is a number": lambda t: t.to_arrow(columns=[7]),
    "columns that are a number": lambda t: t.to_arrow(columns=7),
    "a filter that is a string": lambda t: t.to_arrow(filters="fare > 1"),
    "a filter that is a number": lambda t: t.to_arrow(filters=7),
    "a filter that is an expression": lambda t: t.to_arrow(filters=pc.field("fare") > 1),
    "a filter that is a dictionary": lambda t: t.to_arrow(filters={"city": "sf"}),
    "a condition that is not in a list": lambda t: t.to_arrow(filters=("city", "=", "sf")),
    "a condition as a list that is not in a list": lambda t: t.to_arrow(filters=["city", "=", "sf"]),
    "a condition of one part": lambda t: t.to_arrow(filters=[("city",)]),
    "a condition of four parts": lambda t: t.to_arrow(filters=[("city", "=", "sf", 1)]),
    "a condition on a missing column": lambda t: t.to_arrow(filters=[("zzz", "=", 1)]),
    "a condition on a number": lambda t: t.to_arrow(filters=[(1, "=", 1)]),
    "an unknown operator": lambda t: t.to_arrow(filters=[("fare", "like", "1")]),
    "an operator that is None": lambda t: t.to_arrow(filters=[("fare", None, "1")]),
    "a value of another type": lambda t: t.to_arrow(filters=[("fare", "=", "much")]),
    "a value without an Arrow type": lambda t: t.to_arrow(filters=[("fare", "=", object())]),
    "in without a list": lambda t: t.to_arrow(filters=[("city", "in", "sf")]),
    "in of a number": lambda t: t.to_arrow(filters=[("id", "in", 7)]),
    "equal to None": lambda t: t.to_arrow(filters=[("fare", "=", None)]),
    "is null with a value": lambda t: t.to_arrow(filters=[("fare", "is null", True)]),
    "no value": lambda t: t.to_arrow(filters=[("fare", ">")]),
    "an empty list of alternatives": lambda t: t.to_arrow(filters=[[]]),
    "an empty condition": lambda t: t.to_arrow(filters=[()]),
    "a filter of None": lambda t: t.to_arrow(filters=[None]),
    "an unknown query": lambda t: t.to_arrow(query="everything"),
    "a query that is a number": lambda t: t.to_arrow(query=7),
    "a time that is none": lambda t: t.to_arrow(as_of="yesterday"),
    "a time before the table": lambda t: t.to_arrow(as_of=dt.timedelta(1)),
    "changes since words": lambda t: t.changes("monday").read_all(),
    "changes since None": lambda t: t.changes(None).read_all(),
    "changes in an unknown mode": lambda t: t.changes("0", mode="all").read_all(),
    "changes in a mode that is a number": lambda t: t.changes("0", mode=7),
    "filtered changes of every row": lambda t: t.changes("0", filters=[("id", "=", 1)], mode="cdc").read_all(),
    "a partition that is a number": lambda t: t.file_slices(7),
    "an unknown state": lambda t: t.timeline.instants(state="done"),
    "a state that is a number": lambda t: t.timeline.instants(state=7),
    "an unknown order": lambda t: t.timeline.instants(order="size"),
    "metadata of a missing instant": lambda t: t.timeline.metadata("20200101000000000"),
    "metadata of None": lambda t: t.timeline.metadata(None),
    "a plan of a number": lambda t: t.timeline.plan(7),
    "unknown columns of the history": lambda t: t.timeline.read_history("everything"),
    "a plot as a word document": lambda t: t.timeline.plot("timeline.docx"),
    "a plot of nothing": lambda t: t.timeline.plot("timeline.html", limit=0),
    "a limit that is a string": lambda t: t.history(limit="all"),
    "a limit below zero": lambda t: t.history(limit=-1),
    "a count of an empty condition": lambda t: t.count(""),
    "a count of a number": lambda t: t.count(7),
    "overlap of a missing column": lambda t: t.overlap("zzz"),
    "overlap of a number": lambda t: t.overlap(7),
}

SERVICES: dict[str, Mistake] = {
    "compaction of a copy-on-write table": lambda t: t.compact(),
    "a compaction that is not planned": lambda t: t.compact("20200101000000000"),
    "a compaction that is a number": lambda t: t.compact(7),
    "clustering by a missing column": lambda t: t.cluster(sort_by="zzz"),
    "clustering by a number": lambda t: t.cluster(sort_by=7),
    "an unknown clustering strategy": lambda t: t.cluster(strategy="shuffle"),
    "a strategy that is a number": lambda t: t.cluster(strategy=7),
    "a plan and its columns": lambda t: t.cluster(sort_by="id", instant="20200101000000000"),
    "a clustering that is not planned": lambda t: t.cluster(instant="20200101000000000"),
    "options of clustering as a list": lambda t: t.cluster(options=["x"]),
    "the rollback of a clustering that is not there": lambda t: t.rollback_clustering("20200101000000000"),
    "the rollback of nothing": lambda t: t.rollback(None),
    "the rollback of a commit that is not there": lambda t: t.rollback("20200101000000000"),
    "a savepoint of a missing commit": lambda t: t.savepoint("20200101000000000"),
    "a savepoint of a number": lambda t: t.savepoint(7),
    "a user that is a number": lambda t: t.savepoint(user=7),
    "deleting a missing savepoint": lambda t: t.delete_savepoint("20200101000000000"),
    "restoring to no savepoint": lambda t: t.restore("20200101000000000"),
    "restoring to None": lambda t: t.restore(None),
    "an unknown index": lambda t: t.index("btree", "id"),
    "an index of a missing column": lambda t: t.index("secondary_index", "zzz"),
    "an index that is a number": lambda t: t.index(7),
    "dropping a number": lambda t: t.drop_index(7),
}

STATEMENTS: dict[str, Mistake] = {
    "an update of nothing": lambda t: t.update({}),
    "an update of None": lambda t: t.update(None),
    "an update of a list": lambda t: t.update([("fare", 1)]),
    "an update of a string": lambda t: t.update("fare = 1"),
    "an update of a missing column": lambda t: t.update({"zzz": 1}),
    "an update of a number": lambda t: t.update({7: 1}),
    "an update of the key": lambda t: t.update({"id": 2}),
    "an update of the partition": lambda t: t.update({"city": "'la'"}),
    "a bare string that is no SQL": lambda t: t.update({"fare": "a lot"}),
    "a string as a column": lambda t: t.update({"fare": "cheap"}),
    "a string for a number": lambda t: t.update({"fare": pa.scalar("cheap")}),
    "a list for a number": lambda t: t.update({"fare": [1, 2]}),
    "a value without an Arrow type": lambda t: t.update({"fare": object()}),
    "a function that is not supported": lambda t: t.update({"fare": "round(fare, 1)"}),
    "a query as a value": lambda t: t.update({"fare": "(select 1)"}),
    "a condition that is a number": lambda t: t.update({"fare": 1}, where=7),
    "a condition that is a dictionary": lambda t: t.update({"fare": 1}, where={"id": 1}),
    "a condition that is no condition": lambda t: t.update({"fare": 1}, where="fare"),
    "a condition that is no SQL": lambda t: t.update({"fare": 1}, where="fare >"),
    "an assignment as a condition": lambda t: t.update({"fare": 1}, where="fare := 1"),
    "a condition on a missing column": lambda t: t.update({"fare": 1}, where="zzz = 1"),
    "a condition of pyarrow on a missing column": lambda t: t.update({"fare": 1}, where=pc.field("zzz") == 1),
    "a condition of polars over rows": lambda t: t.update({"fare": 1}, where=pl.col("zzz").max() == 1),
    "a condition of two statements": lambda t: t.delete(where="id = 1; id = 2"),
    "a condition with a table": lambda t: t.delete(where="trips.id = 1"),
    "types that do not go together": lambda t: t.delete(where="city = 1"),
    "a division by zero": lambda t: t.update({"fare": "1 / 0"}),
    "a merge without a condition": lambda t: t.merge(ROW, on=None),
    "a merge on an empty list": lambda t: t.merge(ROW, on=[]),
    "a merge on a flag": lambda t: t.merge(ROW, on=True),
    "a merge on a number": lambda t: t.merge(ROW, on=7),
    "a merge on a missing column": lambda t: t.merge(ROW, on=["zzz"]).when_matched_delete().execute(),
    "a merge on no equality": lambda t: t.merge(ROW, "target.id > source.id").when_matched_delete().execute(),
    "a merge on an ambiguous column": lambda t: t.merge(ROW, "id = 1").when_matched_delete().execute(),
    "a merge on an expression": lambda t: t.merge(ROW, pc.field("id") == 1).when_matched_delete().execute(),
    "a merge without clauses": lambda t: t.merge(ROW, on=["id"]).execute(),
    "a merge of nothing": lambda t: t.merge(None, on=["id"]).when_matched_delete().execute(),
    "a merge of a number": lambda t: t.merge(7, on=["id"]).when_matched_delete().execute(),
    "a merge of a path": lambda t: t.merge("x.parquet", on=["id"]).when_matched_delete().execute(),
    "equal aliases": lambda t: t.merge(ROW, "a.id = a.id", source_alias="a", target_alias="A"),
    "an alias that is a number": lambda t: t.merge(ROW, "a.id = b.id", source_alias=7),
    "an unknown alias": lambda t: t.merge(ROW, "t.id = s.id"),
    "a clause without values": lambda t: t.merge(ROW, on=["id"]).when_matched_update({}),
    "a clause that can never apply": lambda t: (
        t.merge(ROW, on=["id"]).when_matched_delete().when_matched_update_all().execute()
    ),
    "an insert from the table": lambda t: (
        t.merge(ROW, on=["id"]).when_not_matched_insert({"id": "target.id", "city": "'a'"}).execute()
    ),
    "an insert without the key": lambda t: t.merge(ROW, on=["id"]).when_not_matched_insert({"fare": "1"}).execute(),
    "an insert of a missing column": lambda t: (
        t.merge(ROW, on=["id"]).when_not_matched_insert({"id": "id", "city": "city", "zzz": "1"}).execute()
    ),
    "a source without all columns": lambda t: t.merge({"id": [1]}, on=["id"]).when_matched_update_all().execute(),
    "a left row with a source column": lambda t: (
        t.merge(ROW, on=["id"]).when_not_matched_by_source_update({"fare": "source.fare"}).execute()
    ),
    "one column twice": lambda t: t.merge(ROW, on=["id"]).when_matched_update({"fare": "1", "target.fare": "2"}),
    "types of keys that do not go together": lambda t: (
        t.merge({"id": ["x"]}, "target.id = source.id").when_matched_delete().execute()
    ),
}

PROCEDURES: dict[str, Mistake] = {
    "a table that is a number": lambda t: p.show_commits(7),
    "no table": lambda t: p.show_commits(None),
    "a table that is not there ": lambda t: p.show_commits("memory://mistakes/none"),
    "a limit that is a string ": lambda t: p.show_commits(t, limit="all"),
    "a commit that is not there": lambda t: p.show_commit_files(t, "20200101000000000"),
    "a commit that is None": lambda t: p.show_commit_files(t, None),
    "compactions of a copy-on-write table": lambda t: p.show_compaction(t),
    "a compaction of a copy-on-write table": lambda t: p.run_compaction(t, "run"),
    "an unknown op": lambda t: p.run_clustering(t, op="plan"),
    "a predicate": lambda t: p.run_clustering(t, predicate="city = 'sf'"),
    "options without values": lambda t: p.run_clean(t, options="hoodie.clean.policy"),
    "options that are a number": lambda t: p.run_clean(t, options=7),
    "an unknown policy": lambda t: p.run_clean(t, clean_policy="KEEP_ALL"),
    "a savepoint that is not there": lambda t: p.delete_savepoint(t, "20200101000000000"),
    "a rollback to nothing": lambda t: p.rollback_to_instant(t, ""),
    "a restore to nothing": lambda t: p.rollback_to_savepoint(t, "20200101000000000"),
}

MERGING: dict[str, Mistake] = {
    "no key": lambda t: h.merge(ROW, ROW, key=[]).read_all(),
    "a missing key": lambda t: h.merge(ROW, ROW, key="zzz").read_all(),
    "a key that is a number": lambda t: h.merge(ROW, ROW, key=7).read_all(),
    "a missing ordering column": lambda t: h.merge(ROW, ROW, key="id", ordering=["zzz"]).read_all(),
    "an unknown mode": lambda t: h.merge(ROW, ROW, key="id", mode="NEWEST").read_all(),
    "an ordering mode without columns": lambda t: h.merge(ROW, ROW, key="id", mode="EVENT_TIME_ORDERING").read_all(),
    "rows that are a number": lambda t: h.merge(7, ROW, key="id").read_all(),
    "rows of other columns": lambda t: h.merge({"a": [1]}, {"b": [1]}, key="a").read_all(),
}

GROUPS = {
    "opening": OPENING, "creating": CREATING, "writing": WRITING, "deleting": DELETING, "reading": READING,
    "services": SERVICES, "statements": STATEMENTS, "procedures": PROCEDURES, "merging": MERGING,
}  # fmt: skip
MISTAKES = [
    pytest.param(call, id=f"{group}: {what}") for group, calls in GROUPS.items() for what, call in calls.items()
]

# What says what to do: a verb or a form to follow, or what there is to choose from.
REMEDY = re.compile(
    # What to do, what is expected, or what there is to choose from.
    r"expected|\b(use|give|pass|add|write|create|remove|cast|call|name|set|see|leave|choose|change|install|upsert|begin|"
    r"rename|check|make|run|take|put|compare|merge|open|wait|fill|sort|needs?|takes|builds)\b|columns[:=]|"
    r"tables: |supported|one of|there is no|only",
    re.IGNORECASE,
)
# What comes from another library, or says nothing to a user.
FOREIGN = re.compile(r"object at 0x|<class|NoneType' object|pyo3|panicked|Traceback|instance of 'str'")


@pytest.mark.parametrize("call", MISTAKES)
def test_a_mistake_is_an_error_that_says_what_to_do(call: Mistake, table: Any):
    with pytest.raises(hoodoo.HudiError) as raised:
        call(table)
    message = str(raised.value)
    assert len(message) > 20, message
    assert REMEDY.search(message), message
    assert not FOREIGN.search(message), message


def test_there_are_many():
    assert len(MISTAKES) >= 100


def test_values_for_a_key_of_two_columns(two_keys: Any):
    with pytest.raises(hoodoo.InvalidOptionError, match="id, ts"):
        two_keys.delete([1])
