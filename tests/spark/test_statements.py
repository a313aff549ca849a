"""`hoodoo.spark.sql`: statements on Hudi tables, with sources of the Spark session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
import hoodoo.spark

Frame = Callable[..., Any]
SCHEMA = pa.schema({"id": pa.int64(), "ts": pa.int64(), "city": pa.string(), "fare": pa.float64()})


@pytest.fixture
def trips(tmp_path: Path) -> str:
    uri = str(tmp_path / "trips")
    t = hoodoo.Table.create(uri, SCHEMA, name="t", record_key="id", partition_by="city", ordering="ts")
    t.insert({"id": [1, 2, 3], "ts": [1, 1, 1], "city": ["a", "a", "b"], "fare": [1.0, 2.0, 3.0]})
    return uri


def _fares(uri: str) -> dict[int, float]:
    return {r["id"]: r["fare"] for r in hoodoo.Table(uri).to_arrow(columns=["id", "fare"]).to_pylist()}


def test_update_and_delete(spark: Any, trips: str):
    updated = hoodoo.spark.sql(spark, f"UPDATE hoodoo.`{trips}` x SET x.fare = fare * 2 WHERE x.city = 'a' AND id < 2")
    assert (updated.updated, _fares(trips)) == (1, {1: 2.0, 2: 2.0, 3: 3.0})
    deleted = hoodoo.spark.sql(spark, "delete from trips where fare > 2", tables={"Trips": trips})
    assert (deleted.deleted, _fares(trips)) == (1, {1: 2.0, 2: 2.0})
    assert hoodoo.spark.sql(spark, f"delete from hudi.`{trips}`").deleted == 2


def test_columns_are_altered(spark: Any, trips: str):
    done = hoodoo.spark.sql(spark, f"ALTER TABLE hoodoo.`{trips}` RENAME COLUMN Fare TO price")
    assert done.operation == "ALTER_SCHEMA"
    hoodoo.spark.sql(spark, "ALTER TABLE trips ADD COLUMNS (note string AFTER id)", tables={"trips": trips})
    hoodoo.spark.sql(spark, "UPDATE trips SET note = 'dear' WHERE price > 2", tables={"trips": trips})
    rows = hoodoo.spark.read(spark, trips).select("id", "note", "price").collect()
    assert sorted((r.id, r.note, r.price) for r in rows) == [(1, None, 1.0), (2, None, 2.0), (3, "dear", 3.0)]


@pytest.mark.parametrize("using", ["changes", "(select * from changes where id > 0)", "other"])
def test_merge(spark: Any, frame: Frame, trips: str, using: str, tmp_path: Path):
    rows = [pa.table({"id": [n], "ts": [2], "city": ["a"], "fare": [10.0 * n]}, schema=SCHEMA) for n in (1, 2, 9)]
    frame(*rows).createOrReplaceTempView("changes")
    other = hoodoo.Table.create(tmp_path / "other", SCHEMA, name="o", record_key="id")
    other.insert(pa.concat_tables(rows))
    commit = hoodoo.spark.sql(
        spark,
        f"""MERGE INTO trips t USING {using} AS c ON t.id = c.id
            WHEN MATCHED AND c.id = 2 THEN DELETE
            WHEN MATCHED THEN UPDATE SET fare = t.fare + c.fare, ts = c.ts
            WHEN NOT MATCHED THEN INSERT *
            WHEN NOT MATCHED BY SOURCE THEN UPDATE SET fare = -1""",
        tables={"trips": trips, "other": other.uri},
    )
    assert (commit.updated, commit.deleted, commit.inserted) == (2, 1, 1)
    assert _fares(trips) == {1: 11.0, 3: -1.0, 9: 90.0}


def test_merge_of_an_empty_source_inserts_nothing(spark: Any, frame: Frame, trips: str):
    frame(SCHEMA.empty_table()).createOrReplaceTempView("nothing")
    commit = hoodoo.spark.sql(
        spark,
        """MERGE INTO trips USING nothing n ON trips.id = n.id
           WHEN NOT MATCHED THEN INSERT (id, ts, city) VALUES (n.id, 1, 'a')""",
        tables={"trips": trips},
    )
    assert (commit.inserted, _fares(trips)) == (0, {1: 1.0, 2: 2.0, 3: 3.0})


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("SELECT 1", "SELECT"),
        ("INSERT INTO trips VALUES (1)", "INSERT"),
        ("CALL show_commits(table => 'trips')", r"hoodoo\.procedures"),
        ("DROP TABLE trips", "DROP"),
        ("ALTER TABLE trips RENAME TO other", "RENAME TO"),
        ("UPDATE trips SET fare = (SELECT max(fare) FROM other)", "not supported"),
        ("DELETE FROM trips WHERE id IN (SELECT id FROM other)", "not supported"),
        ("DELETE FROM trips USING other WHERE id = 1", "USING"),
        ("WITH x AS (SELECT 1) DELETE FROM trips", "WITH"),
        ("UPDATE trips SET fare = rand()", "RAND"),
        ("MERGE INTO trips t USING changes c ON t.id = c.id WHEN MATCHED THEN UPDATE SET fare = uuid()", "UUID"),
    ],
)
def test_statements_that_are_not_supported_are_refused_by_name(spark: Any, trips: str, statement: str, named: str):
    with pytest.raises(hoodoo.UnsupportedError, match=named):
        hoodoo.spark.sql(spark, statement, tables={"trips": trips})


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE other SET fare = 1", "no location is known"),
        ("UPDATE trips SET", "nothing is assigned"),
        ("UPDATE trips SET fare = ", "invalid SQL"),
        ("MERGE INTO trips t USING missing m ON t.id = m.id WHEN MATCHED THEN DELETE", "Spark cannot read the source"),
        ("MERGE INTO trips t USING (select zzz) m ON t.id = m.id WHEN MATCHED THEN DELETE", "Spark cannot read"),
        ("", "empty"),
        ("DELETE FROM trips; DELETE FROM trips", "one statement"),
        ("UPDATE trips SET x.fare = 1", "names no column of the table"),
        ("MERGE INTO trips USING trips ON id = id WHEN MATCHED THEN DELETE", "alias"),
        ("MERGE INTO trips t USING (select 1 as id) ON t.id = id WHEN MATCHED THEN DELETE", "no name"),
    ],
)
def test_mistakes_in_statements(spark: Any, trips: str, statement: str, named: str):
    with pytest.raises(hoodoo.InvalidOptionError, match=named):
        hoodoo.spark.sql(spark, statement, tables={"trips": trips})


def test_procedures_are_data_frames(spark: Any, trips: str):
    shown = hoodoo.spark.call(spark, "show_commits", trips, limit=1).collect()
    assert [(row.action, row.total_records_written) for row in shown] == [("commit", 3)]
    assert hoodoo.spark.call(spark, "show_archived_commits", trips).count() == 0
    with pytest.raises(hoodoo.UnsupportedError, match="show_commits"):
        hoodoo.spark.call(spark, "show_everything", trips)
    with pytest.raises(hoodoo.InvalidOptionError, match="Arguments: table, limit"):
        hoodoo.spark.call(spark, "show_commits", trips, count=1)


def test_timestamps_in_another_zone_are_refused(spark: Any, tmp_path: Path, settings: Callable[[str, str], None]):
    schema = pa.schema({"id": pa.int64(), "at": pa.timestamp("us", "UTC"), "n": pa.int64()})
    table = hoodoo.Table.create(tmp_path / "t", schema, name="t", record_key="id")
    table.insert({"id": [1, 2], "at": [0, 10**15], "n": [1, 2]})
    settings("spark.sql.session.timeZone", "America/New_York")
    for statement in (
        "DELETE FROM hudi.`{}` WHERE at < '2024-01-02 03:00:00'",
        "UPDATE hudi.`{}` SET At = timestamp '2024-06-01 12:00:00'",
    ):
        with pytest.raises(hoodoo.UnsupportedError, match=r"'at'.*America/New_York.*timeZone to UTC"):
            hoodoo.spark.sql(spark, statement.format(table.uri))
    assert hoodoo.spark.sql(spark, f"DELETE FROM hudi.`{table.uri}` WHERE n = 1").deleted == 1


def test_timestamps_of_a_source_in_another_zone(spark: Any, tmp_path: Path, settings: Callable[[str, str], None]):
    instant = pa.timestamp("us", "UTC")
    schema = pa.schema({"id": pa.int64(), "day": pa.date32(), "at": instant, "n": pa.int64()})
    table = hoodoo.Table.create(tmp_path / "t", schema, name="t", record_key="id")
    table.insert(pa.table({"id": [1], "day": [None], "at": [0], "n": [1]}).cast(schema))
    settings("spark.sql.session.timeZone", "America/Los_Angeles")
    spark.sql("SELECT 1L AS id, timestamp '2024-01-01 20:00:00' AS seen, 5L AS n").createOrReplaceTempView("zone_seen")
    day = "SELECT 1L AS id, date '2024-01-01' AS day, 5L AS n, "
    spark.sql(day + "date '2024-01-01' AS at").createOrReplaceTempView("zone_dates")
    spark.sql(day + "timestamp '2024-01-01 20:00:00' AS at").createOrReplaceTempView("zone_same")
    into = f"MERGE INTO hudi.`{table.uri}` t USING "
    for statement in (
        "zone_seen s ON t.id = s.id WHEN MATCHED THEN UPDATE SET day = CAST(s.seen AS DATE)",
        "zone_seen s ON t.id = s.id WHEN MATCHED THEN UPDATE SET day = s.seen",
        "zone_seen s ON t.id = s.id WHEN MATCHED AND s.seen < DATE'2024-01-02' THEN UPDATE SET n = s.n",
        "zone_dates s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
    ):
        with pytest.raises(hoodoo.UnsupportedError, match=r"America/Los_Angeles.*timeZone to UTC"):
            hoodoo.spark.sql(spark, into + statement)
    # What goes from timestamp to timestamp is the same in all zones.
    assert hoodoo.spark.sql(spark, into + "zone_same s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *").updated == 1
    assert table.to_arrow(columns=["at"])["at"].cast(pa.int64()).to_pylist() == [1704168000000000]
