"""Streams: a table as source gives each commit once, and a table as sink holds each micro-batch once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest

import hoodoo
import hoodoo.spark
from hoodoo.spark import streams
from hoodoo.stream_checkpoint import last_batch
from tests.spark import sessions

SPARK = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
OPTIONS = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
SCHEMA = pa.schema({"id": pa.int64(), "v": pa.int64()})

needs_data_source = pytest.mark.skipif(SPARK < (4, 0), reason="Spark 3.5 has no data sources in Python")
needs_limits = pytest.mark.skipif(SPARK < (4, 2), reason="Spark before 4.2 has no limits for sources in Python")


def _rows(numbers: range, value: int) -> pa.Table:
    return pa.table({"id": list(numbers), "v": [value] * len(numbers)}, SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> hoodoo.Table:
    made = hoodoo.Table.create(
        str(tmp_path / "t"), SCHEMA, name="t", record_key="id", ordering="v", table_type="MERGE_ON_READ"
    )
    made.insert(_rows(range(10), 1))
    return made


class Reading:
    """A stream that appends what it reads to Parquet files, and can go on from its checkpoint."""

    def __init__(self, spark: Any, table: hoodoo.Table, folder: Path, **options: Any) -> None:
        self.spark, self.uri, self.folder = spark, table.uri, folder
        self.options = options
        self.batches = 0

    def read_on(self) -> list[tuple[int, int]]:
        """Reads what is new; gives the rows since the last call."""
        before = self._rows()
        stream = self.spark.readStream.format("hoodoo").options(columns="id,v", **self.options).load(self.uri)
        writer = stream.writeStream.format("parquet").option("checkpointLocation", str(self.folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(self.folder / "out"))
        query.awaitTermination()
        self.batches = len(list((self.folder / "checkpoint" / "commits").glob("[0-9]*")))
        after = self._rows()
        for row in before:
            after.remove(row)
        return sorted(after)

    def _rows(self) -> list[tuple[int, int]]:
        if not (self.folder / "out").exists():
            return []
        return [
            (row.id, row.v)
            for row in self.spark.read.schema("id long, v long").parquet(str(self.folder / "out")).collect()
        ]


@needs_data_source
def test_each_commit_comes_once(spark: Any, table: hoodoo.Table, tmp_path: Path):
    reading = Reading(spark, table, tmp_path)
    assert reading.read_on() == [(n, 1) for n in range(10)]
    table.upsert(_rows(range(3), 2))
    table.upsert(_rows(range(9, 12), 3))
    assert reading.read_on() == [(0, 2), (1, 2), (2, 2), (9, 3), (10, 3), (11, 3)]
    table.compact()
    table.cluster()
    assert reading.read_on() == []
    table.delete([0])
    table.insert(_rows(range(20, 21), 4))
    assert reading.read_on() == [(20, 4)]


@needs_data_source
def test_a_stream_with_filters(spark: Any, tmp_path: Path):
    made = hoodoo.Table.create(str(tmp_path / "t"), SCHEMA, name="t", record_key="id")
    made.insert(pa.table({"id": [1, 2, 3], "v": pa.array([None, 7, 8], pa.int64())}, SCHEMA))
    for number, (text, ids) in enumerate({"v IS NULL": [1], "v IS NOT NULL AND id < 2.5": [2]}.items()):
        assert [row[0] for row in Reading(spark, made, tmp_path / str(number), filters=text).read_on()] == ids


@needs_data_source
def test_where_a_stream_starts(spark: Any, table: hoodoo.Table, tmp_path: Path):
    first = table.upsert(_rows(range(10, 12), 2))
    start = "hoodie.datasource.streaming.startOffset"
    table.upsert(_rows(range(12, 14), 3))
    latest = Reading(spark, table, tmp_path / "latest", **{start: "latest"})
    assert latest.read_on() == []
    since = Reading(spark, table, tmp_path / "since", since=first.completed)
    assert since.read_on() == [(12, 3), (13, 3)]
    table.upsert(_rows(range(14, 15), 4))
    assert latest.read_on() == since.read_on() == [(14, 4)]


@needs_data_source
@pytest.mark.parametrize("options", [{"hoodie.datasource.streaming.startOffset": "earlist"}, {"since": "2026-01-01"}])
def test_a_start_that_is_none_is_refused(spark: Any, table: hoodoo.Table, tmp_path: Path, options: dict[str, str]):
    with pytest.raises(Exception, match=r"invalid start 'earlist' of a stream|'2026-01-01' is not a completion time"):
        Reading(spark, table, tmp_path / "stream", **options).read_on()


@needs_limits
def test_limits(spark: Any, table: hoodoo.Table, tmp_path: Path):
    reading = Reading(spark, table, tmp_path, maxRowsPerTrigger=5)
    assert len(reading.read_on()) == 10
    assert reading.batches == 1
    for number in range(4):
        table.insert(_rows(range(100 + 3 * number, 103 + 3 * number), number))
    table.insert(_rows(range(200, 220), 9))
    assert len(reading.read_on()) == 32
    assert reading.batches == 6


@needs_data_source
def test_limits_that_cannot_be_kept_are_refused(spark: Any, table: hoodoo.Table, tmp_path: Path):
    with pytest.raises(Exception, match=r"exclude each other|Spark before 4\.2"):
        Reading(spark, table, tmp_path, maxRowsPerTrigger=5, maxFilesPerTrigger=1).read_on()


@needs_data_source
def test_the_data_source_is_no_sink(spark: Any, table: hoodoo.Table, tmp_path: Path):
    stream = spark.readStream.format("rate").load().selectExpr("value AS id", "value AS v")
    writer = stream.writeStream.format("hoodoo").options(**OPTIONS, path=table.uri)
    with pytest.raises(Exception, match=r"hoodoo\.spark\.foreach_batch"):
        writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start().awaitTermination()


class _Table:
    """Stands for a table, for extensions that store no extra metadata: keeps what commits were given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.writes: list[Mapping[str, str]] = []
        monkeypatch.setattr(streams, "write_rows", self.write)
        monkeypatch.setattr(streams, "last_batch", self.last)

    def write(self, *_: Any, extra_metadata: Mapping[str, str], **__: Any) -> str:
        self.writes.append(extra_metadata)
        return "a commit"

    def last(self, _: Any, identifier: str, *, history: bool) -> int | None:
        kept = {"extraMetadata": self.writes[-1]} if self.writes else {}
        methods = {"instants": lambda *_, **__: [_INSTANT], "metadata": lambda *_: kept, "read_history": lambda *_: []}
        timeline: Any = type("T", (), methods)()
        return last_batch(timeline, identifier, history=history)


_INSTANT = hoodoo.timeline.Instant("1", "1", "commit", "COMPLETED")


def test_a_micro_batch_that_is_stored_is_left_out(spark: Any, table: hoodoo.Table, monkeypatch: pytest.MonkeyPatch):
    stands = _Table(monkeypatch)
    frame = spark.range(1)

    def write(batch: int, **arguments: Any) -> Any:
        return hoodoo.spark.write_stream_batch(frame, batch, table.uri, "insert", OPTIONS, **arguments)

    assert write(0, identifier="a") == "a commit"
    assert write(0, identifier="a") is None
    assert write(1, identifier="a") == "a commit"
    assert write(0, identifier="a") is None
    assert write(0, identifier="b") == "a commit"
    assert len(stands.writes) == 3
    with pytest.raises(hoodoo.InvalidOptionError, match="has no name: pass identifier"):
        write(0)
    with pytest.raises(hoodoo.UnsupportedError, match="delete_partition"):
        hoodoo.spark.write_stream_batch(frame, 0, table.uri, "delete_partition", OPTIONS, identifier="a")


@pytest.mark.parametrize("operation", ["upsert", "insert"])
def test_a_stream_writes_each_micro_batch_once(operation: str, spark: Any, tmp_path: Path):
    files, uri = tmp_path / "in", str(tmp_path / "t")

    def run(checkpoint: str) -> None:
        stream = spark.readStream.schema("id long, v long").option("maxFilesPerTrigger", 1).parquet(str(files))
        sink = hoodoo.spark.foreach_batch(uri, operation, OPTIONS, identifier="numbers")
        writer = stream.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    for number in range(3):
        frame = spark.createDataFrame([(10 * number + n, number) for n in range(10)], "id long, v long")
        frame.coalesce(1).write.mode("append").parquet(str(files))
        run("checkpoint")
    assert sorted(hoodoo.Table(uri).to_arrow()["id"].to_pylist()) == list(range(30))
    # A stream that lost what it knew of its commits repeats all micro-batches.
    run("another")
    table = hoodoo.Table(uri)
    assert sorted(table.to_arrow()["id"].to_pylist()) == list(range(30))
    assert last_batch(table.timeline, "numbers") == 2


def test_a_stream_is_named_by_its_query(spark: Any, tmp_path: Path):
    uri, ids = str(tmp_path / "t"), []
    stream = spark.readStream.format("rate").load().selectExpr("value AS id", "value AS v")
    sink = hoodoo.spark.foreach_batch(uri, "insert", OPTIONS)
    for _ in range(2):
        writer = stream.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "c"))
        query = writer.trigger(availableNow=True).start()
        if sessions.KIND == "connect":
            # It does not say the id.
            with pytest.raises(Exception, match=r"has no name: pass identifier="):
                query.awaitTermination()
            return
        query.awaitTermination()
        ids.append(query.id)
    assert ids[0] == ids[1]
    assert last_batch(hoodoo.Table(uri).timeline, ids[0]) is not None


def test_a_second_part_of_a_micro_batch_needs_a_name(spark: Any, tmp_path: Path):
    uri = str(tmp_path / "t")
    hoodoo.write({"id": [-1], "v": [0]}, uri, "insert", OPTIONS)
    stream = spark.readStream.format("rate").load().selectExpr("value AS id", "value AS v")

    def run(second: str | None) -> None:
        def sink(frame: Any, batch: int) -> None:
            hoodoo.spark.write_stream_batch(frame, batch, uri, "insert", OPTIONS, identifier="rows")
            gone = spark.createDataFrame([(-1, 0)], "id long, v long")
            hoodoo.spark.write_stream_batch(gone, batch, uri, "delete", OPTIONS, identifier=second)

        writer = stream.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "c"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match=r"written to .* a second time.*identifier="):
        run("rows")
    assert -1 in hoodoo.Table(uri).to_arrow()["id"].to_pylist()
    # What was written is left out when the micro-batch comes again, and the part with a name of its own is written.
    run("deletes")
    assert -1 not in hoodoo.Table(uri).to_arrow()["id"].to_pylist()


@needs_data_source
@pytest.mark.parametrize(
    "options",
    [
        {"until": "20991231000000000"},
        {"query": "read_optimized"},
        {"hoodie.datasource.query.type": "read_optimized"},
        {"hoodie.datasource.read.begin.instanttime": "20200101000000000", "query": "incremental"},
        {
            "hoodie.datasource.read.end.instanttime": "20991231000000000",
            "since": "20200101000000000",
            "query": "incremental",
        },
        {"as.of.instant": "20991231000000000"},
        {"push_filters": "true"},
    ],
)
def test_options_of_batches_are_refused(spark: Any, table: hoodoo.Table, tmp_path: Path, options: dict[str, str]):
    with pytest.raises(Exception, match=rf"takes no .*{next(iter(options)).lower()}"):
        Reading(spark, table, tmp_path / "stream", **options).read_on()
