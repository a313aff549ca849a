"""The data source of Spark 4: the rows of `hoodoo.spark.read`, and writes that need no shuffle."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
import hoodoo.spark
from tests.rows import arrow_rows, spark_rows

source_api = pytest.importorskip("pyspark.sql.datasource", reason="Spark 3.5 has no data sources in Python")

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "name": pa.string(),
        "part": pa.string(),
        "day": pa.date32(),
        "local": pa.timestamp("us"),
        "at": pa.timestamp("us", "UTC"),
        "fare": pa.decimal128(10, 2),
        "score": pa.float64(),
        "tags": pa.list_(pa.int64()),
        "counts": pa.map_(pa.string(), pa.float64()),
        "place": pa.struct({"x": pa.int32()}),
        "raw": pa.binary(),
    }
)
WRITE = {
    "hoodie.table.name": "w",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
}
OPERATION = "hoodie.datasource.write.operation"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"

pushes_filters = pytest.mark.skipif(
    not hasattr(source_api.DataSourceReader, "pushFilters"), reason="Spark 4.0 pushes no filters"
)

Settings = Callable[[str, str], None]


def _row(number: int, name: str) -> dict[str, Any]:
    time = dt.datetime(2024, 1, 1, number % 24, tzinfo=dt.timezone.utc)
    return {
        "id": number,
        "name": None if number % 7 == 3 else f"{name}{number}",
        "part": f"p{number % 3}",
        "day": dt.date(2024, 1, 1 + number % 20),
        "local": time.replace(tzinfo=None),
        "at": time,
        "fare": Decimal(number),
        "score": float("nan") if number == 5 else number / 2,
        "tags": [number, None],
        "counts": [("k", 1.5)],
        "place": {"x": number},
        "raw": b"x",
    }


def _rows(numbers: range, name: str) -> pa.Table:
    return pa.Table.from_pylist([_row(n, name) for n in numbers], SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> tuple[hoodoo.Table, list[hoodoo.Commit]]:
    return _table(tmp_path, "MERGE_ON_READ")


def _table(folder: Path, table_type: str) -> tuple[hoodoo.Table, list[hoodoo.Commit]]:
    made = hoodoo.Table.create(
        str(folder / "t"), SCHEMA, name="t", record_key="id", partition_by="part", table_type=table_type
    )
    return made, [made.insert(_rows(range(40), "a")), made.upsert(_rows(range(30, 45), "b"))]


@pytest.fixture
def source(spark: Any) -> Callable[..., Any]:
    """Loads a table through the data source, which Spark finds by itself."""

    def load(table: hoodoo.Table, schema: str | None = None, **options: Any) -> Any:
        reader = spark.read.format("hoodoo").options(**options)
        return (reader if schema is None else reader.schema(schema)).load(table.uri)

    return load


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_the_rows_of_every_query(table_type: str, source: Callable[..., Any], spark: Any, tmp_path: Path):
    made, (first, _) = _table(tmp_path, table_type)
    assert spark_rows(source(made), meta=True) == arrow_rows(made.to_arrow(), meta=True)
    assert source(made).columns == made.to_arrow().schema.names
    queries: list[tuple[dict[str, str], dict[str, Any]]] = [
        ({"as.of.instant": first.instant}, {"as_of": first.instant}),
        ({"as_of": first.instant}, {"as_of": first.instant}),
        ({"hoodie.datasource.query.type": "read_optimized"}, {"query": "read_optimized"}),
        ({"since": first.completed}, {"since": first.completed}),
        (
            {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": "0"},
            {"since": "0"},
        ),
        ({"columns": "name, id"}, {"columns": ["name", "id"]}),
        ({"filters": "part = 'p1' AND id > 31"}, {"filters": [("part", "=", "p1"), ("id", ">", 31)]}),
        ({"filters": "name IS NULL"}, {"filters": [("name", "is null")]}),
        ({"filters": "name IS NOT NULL AND score < 3"}, {"filters": [("name", "is not null"), ("score", "<", 3)]}),
        ({"filters": "id < 2.5 AND fare >= 0.505"}, {"filters": "id IN (1, 2)"}),
    ]
    for ours, theirs in queries:
        expected = hoodoo.spark.read(spark, made.uri, **theirs)
        read = source(made, **ours)
        assert read.schema.simpleString() == expected.schema.simpleString()
        assert spark_rows(read, meta=True) == spark_rows(expected, meta=True)
    changes = {"hoodie.datasource.query.incremental.format": "cdc", "since": first.completed}
    assert spark_rows(source(made, **changes)) == arrow_rows(made.changes(first.completed, mode="cdc").read_all())


def test_a_schema_selects_columns(source: Callable[..., Any], table: Any):
    made, _ = table
    read = source(made, "name string, id bigint")
    assert read.columns == ["name", "id"]
    assert spark_rows(read) == arrow_rows(made.to_arrow(columns=["name", "id"]))
    with pytest.raises(
        Exception, match=r"SchemaError: the schema that was passed has the type int for the column 'id'"
    ):
        source(made, "id int").collect()
    with pytest.raises(Exception, match=r"SchemaError.*no_such_column"):
        source(made, "no_such_column int").collect()


def test_a_temporary_view(spark: Any, table: Any):
    made, _ = table
    spark.sql(f"CREATE TEMPORARY VIEW trips USING hoodoo OPTIONS (path '{made.uri}', columns 'id,part')")
    try:
        counted = spark.sql("SELECT part, count(*) AS n FROM trips WHERE id < 30 GROUP BY part").collect()
        assert {row.part: row.n for row in counted} == {"p0": 10, "p1": 10, "p2": 10}
    finally:
        spark.catalog.dropTempView("trips")


def _keep_only(table: hoodoo.Table, partition: str) -> None:
    for path in Path(table.uri).rglob("*.parquet"):
        if partition not in path.parts and ".hoodie" not in path.parts:
            path.unlink()


@pytest.mark.parametrize(
    "how", ["option", pytest.param("pushed", marks=pushes_filters), "read", "read, filters in SQL"]
)
def test_a_filtered_read_opens_only_the_files_that_hold_it(
    how: str, source: Callable[..., Any], spark: Any, tmp_path: Path, settings: Settings
):
    made, _ = _table(tmp_path, "COPY_ON_WRITE")
    expected = arrow_rows(made.to_arrow(filters=[("part", "=", "p1"), ("id", ">", 5)]))
    _keep_only(made, "p1")
    settings(PUSHDOWN, "true")
    if how == "option":
        read = source(made, filters="part = 'p1' AND id > 5")
    elif how == "pushed":
        read = source(made, push_filters="true").where("part = 'p1' AND id > 5")
    elif how == "read":
        read = hoodoo.spark.read(spark, made.uri, filters=[("part", "=", "p1"), ("id", ">", 5)])
    else:
        read = hoodoo.spark.read(spark, made.uri, filters="part = 'p1' AND id > 5")
    assert spark_rows(read) == expected
    with pytest.raises(Exception, match="a file of the table is missing"):
        source(made).collect()


@pushes_filters
def test_pushed_filters_lose_no_row(source: Callable[..., Any], tmp_path: Path, settings: Settings, spark: Any):
    made, _ = _table(tmp_path, "MERGE_ON_READ")
    settings(PUSHDOWN, "true")
    everything = hoodoo.spark.read(spark, made.uri).cache()
    for condition in [
        "NOT (id > 32) AND name LIKE 'a1%'",
        "id IN (1, 32, NULL) OR id = 3",
        "id NOT IN (1, 32) AND name IS NOT NULL AND NOT (name LIKE 'b3%')",
        "name IS NULL AND NOT (id <=> 3)",
        "score > 20 AND place.x > 3",
        "score = -0.0D",
        "name IS NULL",
        "name IS NOT NULL",
        "name <=> NULL",
        "id < 2.5 AND fare < 1.505",
        "day < TIMESTAMP '2024-01-02 05:00:00'",
        "at <= TIMESTAMP '2024-01-01 01:00:00.0005Z'",
        "day >= DATE '2024-01-15' AND local < TIMESTAMP_NTZ '2024-01-01 19:00:00'",
        "at = TIMESTAMP '2024-01-01 07:00:00Z' AND fare = 7.00 AND raw = X'78'",
    ]:
        expected = spark_rows(everything.where(condition))
        assert expected, condition
        assert spark_rows(source(made, push_filters="true").where(condition)) == expected, condition
    everything.unpersist()


def test_one_data_frame_with_two_filters(source: Callable[..., Any], table: Any, settings: Settings):
    """Spark 4.3 would keep the filters of one query for the next, so they are pushed on demand only."""
    made, _ = table
    settings(PUSHDOWN, "true")
    read = source(made)
    assert read.where("id = 3").count() == 1
    assert read.where("id = 3").union(read.where("id = 4")).count() == 2
    assert read.count() == 45


def _frame(spark: Any, table: pa.Table) -> Any:
    return spark.createDataFrame(table.select(["id", "name", "part", "fare"]))


@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_append(operation: str, spark: Any, tmp_path: Path):
    uri = str(tmp_path / "w")
    options = {**WRITE, OPERATION: operation}
    for numbers in (range(20), range(20, 50)):
        rows = _frame(spark, _rows(numbers, "a")).repartition(3)
        rows.write.format("hoodoo").mode("append").options(**options).save(uri)
    written = hoodoo.Table(uri)
    assert arrow_rows(written.to_arrow()) == arrow_rows(_rows(range(50), "a").select(["id", "name", "part", "fare"]))
    assert not written.verify().problems
    instants = written.timeline.instants()
    assert [i.state for i in instants] == ["COMPLETED"] * len(instants)
    metadata = written.timeline.metadata(instants[-1].requested)
    assert metadata["operationType"] == operation.upper()


def test_overwrite(spark: Any, tmp_path: Path):
    uri = str(tmp_path / "w")
    hoodoo.write(_rows(range(30), "a").select(["id", "name", "part"]), uri, operation="insert", options=WRITE)
    new = spark.createDataFrame([(100, "x", "p1")], "id long, name string, part string")
    new.write.format("hoodoo").mode("overwrite").options(**WRITE, **{OPERATION: "insert_overwrite"}).save(uri)
    written = hoodoo.Table(uri)
    assert sorted(written.to_arrow()["id"].to_pylist()) == [*(n for n in range(30) if n % 3 != 1), 100]
    new.write.format("hoodoo").mode("overwrite").options(**WRITE).save(uri)
    assert written.to_arrow()["id"].to_pylist() == [100]
    assert not written.verify().problems


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("append", {}, "the operation upsert looks up keys: call hoodoo.spark.write"),
        ("append", {OPERATION: "delete"}, "the operation delete looks up keys"),
        ("append", {OPERATION: "insert", "hoodie.index.type": "BUCKET"}, "bucket index"),
        ("append", {OPERATION: "insert", "hoodie.combine.before.insert": "true"}, "hoodie.combine.before.insert"),
        ("append", {OPERATION: "bulk_insert", "hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}, "sort the rows"),
        ("overwrite", {OPERATION: "upsert"}, "deletes the table and makes it again"),
        ("append", {OPERATION: "insert", "columns": "id", "since": "2024"}, "a write takes no columns, since"),
    ],
)
def test_what_a_write_cannot_do_is_refused(
    mode: str, options: dict[str, str], message: str, spark: Any, tmp_path: Path
):
    uri = tmp_path / "w"
    hoodoo.write(_rows(range(3), "a").select(["id", "name", "part", "fare"]), str(uri), options=WRITE)
    before = hoodoo.Table(str(uri)).timeline.instants()
    with pytest.raises(Exception, match=f"UnsupportedError: .*{message}"):
        _frame(spark, _rows(range(3), "b")).write.format("hoodoo").mode(mode).options(**WRITE, **options).save(str(uri))
    after = hoodoo.Table(str(uri)).timeline.instants()
    assert [i for i in after if i.action != "rollback"] == before


def test_a_job_that_fails_leaves_nothing(spark: Any, tmp_path: Path):
    uri = tmp_path / "w"
    hoodoo.write(_rows(range(3), "a").select(["id", "name", "part", "fare"]), str(uri), options=WRITE)
    files = set(uri.rglob("*.parquet"))

    def broken(batches: Any) -> Any:
        for number, batch in enumerate(batches):
            if number:
                raise RuntimeError("broken on purpose")
            yield batch

    rows = _frame(spark, _rows(range(200), "b")).repartition(2)
    with pytest.raises(Exception, match="broken on purpose"):
        rows.mapInArrow(broken, rows.schema).write.format("hoodoo").mode("append").options(
            **WRITE, **{OPERATION: "insert"}
        ).save(str(uri))
    assert hoodoo.Table(str(uri)).to_arrow().num_rows == 3
    assert {path for path in uri.rglob("*.parquet") if ".hoodie" not in path.parts} <= files


def test_a_task_that_is_tried_again_writes_once(spark: Any, tmp_path: Path):
    uri = str(tmp_path / "w")
    rows = _frame(spark, _rows(range(300), "b")).repartition(2)

    def flaky(batches: Any) -> Any:
        from pyspark import TaskContext

        for number, batch in enumerate(batches):
            if number and TaskContext.get().attemptNumber() == 0:
                raise RuntimeError("broken on purpose")
            yield batch

    flaking = rows.mapInArrow(flaky, rows.schema)
    flaking.write.format("hoodoo").mode("append").options(**WRITE, **{OPERATION: "insert"}).save(uri)
    written = hoodoo.Table(uri)
    assert sorted(written.to_arrow()["id"].to_pylist()) == list(range(300))
    assert not written.verify().problems


@pytest.mark.skipif(hasattr(source_api.DataSourceReader, "pushFilters"), reason="Spark pushes filters")
def test_pushing_filters_is_refused_where_spark_cannot(source: Callable[..., Any], table: Any):
    made, _ = table
    with pytest.raises(Exception, match=r"UnsupportedError: Spark pushes filters from 4\.1 on"):
        source(made, push_filters="true").collect()


def test_what_is_wrong_with_options_is_said(source: Callable[..., Any], spark: Any, table: Any):
    made, _ = table
    # Spark Connect asks the data source when rows are read.
    with pytest.raises(Exception, match="InvalidOptionError: invalid value '-1' for split_bytes"):
        source(made, split_bytes=-1).collect()
    with pytest.raises(Exception, match=r"InvalidOptionError: the filter .* has parts"):
        source(made, filters="upper(name) = 'X'").collect()
    with pytest.raises(Exception, match=r"UnsupportedError.*hoodie\.datasource\.merge\.type"):
        source(made, **{"hoodie.datasource.merge.type": "skip_merge"}).collect()
    with pytest.raises(Exception, match=r"InvalidOptionError.*has no option 'colums': did you mean 'columns'"):
        source(made, colums="id").collect()
    with pytest.raises(
        Exception, match=r"InvalidOptionError.*has no option 'mergeschema'; it has Hudi's options, and as_of, columns"
    ):
        source(made, mergeSchema="true").collect()
    with pytest.raises(
        Exception, match=r"has no option 'hoodie.datasource.query.typ': did you mean 'hoodie.datasource.query.type'\?"
    ):
        source(made, **{"hoodie.datasource.query.typ": "incremental"}).collect()
    # Not every option of Hudi's is known, and nothing depends on most of them.
    unknown = {"hoodie.parquet.some.later.option": "1", "spark.some.option": "2"}
    assert source(made, **unknown).count() == source(made).count()
    for columns in ("", "id,id"):
        with pytest.raises(Exception, match=f"InvalidOptionError: invalid value '{columns}' for columns"):
            source(made, columns=columns).collect()
    with pytest.raises(Exception, match="TableNotFoundError"):
        spark.read.format("hoodoo").load(made.uri + "-none").collect()
    with pytest.raises(Exception, match="UnsupportedError: the data source hoodoo reads one table"):
        spark.read.format("hoodoo").load([made.uri, made.uri]).collect()


def test_registering(spark: Any, table: Any):
    made, _ = table
    hoodoo.spark.register(spark)
    assert spark.read.format("hoodoo").load(made.uri).count() == 45
