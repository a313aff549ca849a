"""Every query that a read on Spark is asked for, by argument or by option, gives the rows that it gives off Spark."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
import hoodoo.spark
from tests.rows import arrow_rows, spark_rows

SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64(), "part": pa.string()})
TYPE = "hoodie.datasource.query.type"
BEGIN = "hoodie.datasource.read.begin.instanttime"
END = "hoodie.datasource.read.end.instanttime"
CHANGES = {TYPE: "incremental", BEGIN: "0", "hoodie.datasource.query.incremental.format": "cdc"}


def _rows(ids: range, ts: int) -> pa.Table:
    return pa.table({"id": [f"k{n}" for n in ids], "ts": [ts] * len(ids), "part": [f"p{n % 3}" for n in ids]}, SCHEMA)


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, list[hoodoo.Commit]]:
    table = hoodoo.Table.create(
        str(tmp_path / "t"),
        SCHEMA,
        name="t",
        record_key="id",
        partition_by="part",
        ordering="ts",
        table_type=request.param,
    )
    commits = [table.insert(_rows(range(9), 1)), table.upsert(_rows(range(6, 12), 2)), table.upsert(_rows(range(2), 3))]
    clustered = table.cluster()
    assert clustered is not None
    return table.uri, [*commits, clustered]


def test_incremental(spark: Any, history: tuple[str, list[hoodoo.Commit]]):
    uri, (first, second, third, _) = history
    table = hoodoo.Table(uri)
    for since, until in [("0", None), (first.completed, None), (first.completed, second.completed), ("0", "1")]:
        expected = arrow_rows(table.changes(since, until).read_all(), meta=True)
        read = hoodoo.spark.read(spark, uri, query="incremental", since=since, until=until)
        assert spark_rows(read, meta=True) == expected
        options = {TYPE: "incremental", BEGIN: since, **({} if until is None else {END: until})}
        assert spark_rows(hoodoo.spark.read(spark, uri, options=options), meta=True) == expected
    changed = hoodoo.spark.read(spark, uri, since=second.completed, columns=["id"], filters=[("part", "=", "p0")])
    assert changed.columns == ["id"]
    assert [row.id for row in changed.collect()] == ["k0"]
    assert hoodoo.spark.read(spark, uri, since=third.completed).count() == 0


def test_time_travel_and_read_optimized(spark: Any, history: tuple[str, list[hoodoo.Commit]]):
    uri, (first, second, *_) = history
    table = hoodoo.Table(uri)
    for commit, count in ((first, 9), (second, 12)):
        then = hoodoo.spark.read(spark, uri, options={"as.of.instant": commit.instant})
        assert spark_rows(then, meta=True) == arrow_rows(table.to_arrow(as_of=commit.instant), meta=True)
        assert then.count() == count
    old = hoodoo.spark.read(spark, uri, as_of=second.instant, options={TYPE: "read_optimized"})
    expected = arrow_rows(table.to_arrow(as_of=second.instant, query="read_optimized"), meta=True)
    assert spark_rows(old, meta=True) == expected


def test_changes(spark: Any, history: tuple[str, list[hoodoo.Commit]]):
    """With change data logs where Spark wrote them, and by comparing files where nobody captured changes."""
    uri, (first, *_) = history
    table = hoodoo.Table(uri)
    for options in (CHANGES, {**CHANGES, BEGIN: first.completed}):
        expected = arrow_rows(table.changes(options[BEGIN], mode="cdc").read_all())
        assert spark_rows(hoodoo.spark.read(spark, uri, options=options)) == expected
        assert expected
    some = hoodoo.spark.read(spark, uri, options=CHANGES, columns=["id"])
    assert some.schema["after"].dataType.fieldNames() == ["id"]


@pytest.mark.parametrize("mode", ["DATA_BEFORE_AFTER", "OP_KEY_ONLY"])
def test_changes_of_what_spark_wrote(spark: Any, tmp_path: Path, mode: str):
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": mode,
    }
    uri = str(tmp_path / "t")
    for rows in (_rows(range(9), 1), _rows(range(6, 12), 2)):
        frame = spark.createDataFrame([tuple(row.values()) for row in rows.to_pylist()], rows.schema.names)
        last = hoodoo.spark.write(frame, uri, options=options)
    table = hoodoo.Table(uri)
    logs = [name for name in (tmp_path / "t").rglob("*.cdc") if ".hoodie" not in name.parts]
    assert len(logs) == 3
    assert not table.verify().problems
    expected = arrow_rows(table.changes("0", mode="cdc").read_all())
    assert [change["op"] for change in expected].count("u") == 3
    assert spark_rows(hoodoo.spark.read(spark, uri, options=CHANGES)) == expected
    assert len([change for change in expected if change["ts_ms"] == last.instant]) == 6


def test_an_incremental_read_is_fixed_when_it_is_planned(spark: Any, history: tuple[str, list[hoodoo.Commit]]):
    uri, (first, *_) = history
    planned = hoodoo.spark.read(spark, uri, since=first.completed)
    before = arrow_rows(hoodoo.Table(uri).changes(first.completed).read_all(), meta=True)
    hoodoo.Table(uri).upsert(_rows(range(12), 9))
    assert spark_rows(planned, meta=True) == before


def test_what_cannot_be_read_is_refused_by_name(spark: Any, history: tuple[str, list[hoodoo.Commit]]):
    uri, (first, *_) = history
    with pytest.raises(hoodoo.UnsupportedError, match="cdc"):
        hoodoo.spark.read(spark, uri, options={TYPE: "cdc"})
    with pytest.raises(hoodoo.InvalidOptionError, match="latest_state or cdc"):
        hoodoo.spark.read(spark, uri, options={**CHANGES, "hoodie.datasource.query.incremental.format": "newest"})
    with pytest.raises(hoodoo.InvalidOptionError, match="filters"):
        hoodoo.spark.read(spark, uri, options=CHANGES, filters=[("id", "=", "k0")])
    with pytest.raises(hoodoo.InvalidOptionError, match="anything"):
        hoodoo.spark.read(spark, uri, query="anything")
    with pytest.raises(hoodoo.InvalidOptionError, match="needs a time to begin"):
        hoodoo.spark.read(spark, uri, query="incremental")
    with pytest.raises(hoodoo.InvalidOptionError, match="no state of an instant"):
        hoodoo.spark.read(spark, uri, since="0", as_of=first.instant)
    with pytest.raises(hoodoo.InvalidOptionError, match=r"query\.type=incremental"):
        hoodoo.spark.read(spark, uri, options={BEGIN: "0"})


def test_options_for_the_other_side_and_unknown_ones_are_said(spark: Any, history: tuple[str, list[hoodoo.Commit]]):
    uri, _ = history
    options = {"hoodie.datasource.write.operation": "insert", "no.such.option": "1", "hoodie.table.name": "t"}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", hoodoo.HudiWarning)
        hoodoo.spark.read(spark, uri, options=options)
    messages = [str(warning.message) for warning in told if issubclass(warning.category, hoodoo.HudiWarning)]
    assert len(messages) == 2
    assert "no.such.option" in messages[0]
    assert "hoodie.datasource.write.operation" in messages[1]
    assert "hoodie.table.name" not in "".join(messages)


def test_a_filter_as_text_at_an_instant_before_later_columns(spark: Any, tmp_path: Path):
    table = hoodoo.Table.create(tmp_path / "t", {"id": pa.int64(), "city": pa.string()}, name="t", record_key="id")
    first = table.insert({"id": [1, 2], "city": ["sf", "la"]})
    # Its name is a part of another one.
    table.upsert(pa.table({"id": [3], "city": ["sf"], "it": [5]}))
    then = hoodoo.spark.read(spark, table.uri, columns=["id"], filters="city = 'sf'", as_of=first.completed)
    assert [row.id for row in then.collect()] == [1]
    with table.update_schema() as update:
        update.rename_column("city", "town")
    with pytest.raises(Exception, match=r"(?i)unresolved|cannot be resolved"):
        hoodoo.spark.read(spark, table.uri, columns=["id"], filters="city = 'sf'").collect()
    found = hoodoo.spark.read(spark, table.uri, columns=["id"], filters="town = 'sf'").collect()
    assert sorted(row.id for row in found) == [1, 3]


def test_a_filter_as_text_goes_by_the_session_of_the_read(spark: Any, tmp_path: Path):
    table = hoodoo.Table.create(tmp_path / "t", {"id": pa.int64(), "name": pa.string()}, name="t", record_key="id")
    table.insert({"id": [1, 2], "name": ["name", "other"]})
    if not hasattr(spark, "_jsparkSession"):
        pytest.skip("sessions of Spark Connect are made by other means")
    other = spark.newSession()
    other.conf.set("spark.sql.ansi.enabled", "true")
    other.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    # A column there, a string here.
    assert hoodoo.spark.read(other, table.uri, filters='name = "name"').count() == 2
    assert hoodoo.spark.read(spark, table.uri, filters='name = "name"').count() == 1
