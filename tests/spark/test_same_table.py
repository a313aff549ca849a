"""Every operation through Spark makes the table that hoodoo alone makes of the same rows."""

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
from tests.interop.layouts import LAYOUTS, SCHEMA, SIMPLE, Layout, batch, row
from tests.rows import spark_rows
from tests.spark.same_table import SameTable

Frame = Callable[..., Any]

EVENT, COMMIT = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"
KEY, PARTITION = "hoodie.datasource.write.recordkey.field", "hoodie.datasource.write.partitionpath.field"


def _rows(numbers: range, ts: int, text: str, **changes: Any) -> pa.Table:
    return batch([{**row(n, ts, f"{text} {n}"), **changes} for n in numbers])


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_layouts(layout: Layout, frame: Frame, tmp_path: Path):
    same = SameTable(tmp_path, frame, layout.options())
    same.write("insert", _rows(range(20), 10, "first"), _rows(range(20, 40), 10, "first"))
    same.write("upsert", _rows(range(0, 60, 3), 11, "second"), _rows(range(10, 14), 9, "too late"))
    same.write("delete", _rows(range(0, 60, 7), 12, ""))


@pytest.mark.parametrize(
    ("mode", "version"),
    [
        (EVENT, 9),
        (COMMIT, 8),
        pytest.param(EVENT, 8, marks=pytest.mark.slow),
        pytest.param(COMMIT, 9, marks=pytest.mark.slow),
    ],
)
def test_operations(mode: str, version: int, frame: Frame, tmp_path: Path):
    same = SameTable(tmp_path, frame, SIMPLE.options(version, mode))
    same.write("bulk_insert", _rows(range(30), 10, "first"), _rows(range(30, 50), 10, "first"))
    same.write("upsert", _rows(range(25, 75), 9, "older"))
    same.write("upsert", _rows(range(5, 9), 12, "newer"))
    same.write("insert", _rows(range(70, 80), 10, "again"))
    same.write("delete", _rows(range(0, 100, 9), 1, ""))
    same.write("insert_overwrite", _rows(range(100, 110), 10, "instead", part="p 1"))
    same.write("upsert", _rows(range(100, 120), 11, "after"))
    same.write("insert_overwrite_table", _rows(range(200, 230), 10, "all new"), _rows(range(230, 240), 10, "all new"))
    same.write("delete_partition", _rows(range(1), 0, ""), hoodie__datasource__write__partitions__to__delete="p 2")
    same.write("upsert", _rows(range(200, 230), 11, "last"))


@pytest.mark.parametrize("mode", [EVENT, COMMIT])
def test_duplicate_keys(mode: str, frame: Frame, tmp_path: Path):
    """Of equal keys the last one wins, in one task and across tasks, where the ordering value does not decide."""
    same = SameTable(tmp_path, frame, SIMPLE.options(mode=mode))
    many = [_rows(range(50), 10 + n % 3, f"copy {n}") for n in range(6)]
    same.write("upsert", *many)
    same.write("upsert", *(pa.concat_tables([one, one.slice(3)]) for one in reversed(many)))
    same.write("insert", *many[:2], hoodie__combine__before__insert=True)
    same.write("insert", many[0], many[0])


@pytest.mark.parametrize("combine", [False, True])
@pytest.mark.parametrize("mode", ["NONE", "GLOBAL_SORT", "PARTITION_SORT"])
def test_bulk_insert(mode: str, combine: bool, frame: Frame, tmp_path: Path):
    options = {"hoodie.bulkinsert.sort.mode": mode, "hoodie.combine.before.insert": combine}
    same = SameTable(tmp_path, frame, {**SIMPLE.options(), **options})
    same.write("bulk_insert", _rows(range(50), 10, "one"), _rows(range(40), 11, "two"), _rows(range(45, 60), 10, "x"))


def test_bulk_insert_sorted_by_columns(frame: Frame, tmp_path: Path, settings: Callable[[str, str], None]):
    settings("spark.sql.shuffle.partitions", "1")
    options = {**SIMPLE.options(), "hoodie.bulkinsert.user.defined.partitioner.sort.columns": "amount,id"}
    same = SameTable(tmp_path, frame, options)
    rows = _rows(range(40), 10, "x").append_column("extra", pa.array([n % 7 for n in range(40)]))
    shuffled = rows.take([(n * 17) % 40 for n in range(40)])
    same.write("bulk_insert", shuffled)
    table = hoodoo.Table(str(same.spark))
    for part in table.file_slices():
        amounts = table.to_arrow(columns=["amount"], filters=[("part", "=", part.partition)])["amount"].to_pylist()
        assert amounts == sorted(amounts)


@pytest.mark.parametrize(
    ("operation", "version"),
    [
        ("insert", 9),
        ("bulk_insert", 9),
        ("upsert", 8),
        pytest.param("insert", 8, marks=pytest.mark.slow),
        pytest.param("bulk_insert", 8, marks=pytest.mark.slow),
        pytest.param("upsert", 9, marks=pytest.mark.slow),
    ],
)
def test_generated_keys(operation: str, version: int, frame: Frame, tmp_path: Path):
    same = SameTable(tmp_path, frame, Layout("auto", keys=()).options(version))
    same.write(operation, _rows(range(100), 10, "a"), _rows(range(100), 10, "b"))
    same.write(operation, _rows(range(50, 150), 10, "c"))
    keys = hoodoo.Table(str(same.spark)).to_arrow()["_hoodie_record_key"].to_pylist()
    assert len(set(keys)) == len(keys) == 300


def test_nested_types(frame: Frame, tmp_path: Path):
    utc = dt.timezone.utc
    point = pa.struct([("x", pa.float64()), ("tags", pa.list_(pa.string()))])
    schema = pa.schema(
        [
            ("id", pa.string()),
            ("ts", pa.int64()),
            ("part", pa.string()),
            ("flag", pa.bool_()),
            ("small", pa.int32()),
            ("ratio", pa.float32()),
            ("price", pa.decimal128(38, 10)),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("local", pa.timestamp("us")),
            ("raw", pa.binary()),
            ("point", point),
            ("points", pa.list_(point)),
            ("map", pa.map_(pa.string(), point)),
        ]
    )

    def rows(ts: int) -> pa.Table:
        place = {"x": ts / 3, "tags": ["a", None, f"{ts}"]}
        full = {
            "flag": True,
            "small": -5,
            "ratio": 0.1,
            "price": Decimal("1234567890123456789012345678.0123456789"),
            "day": dt.date(1969, 2, 28),
            "at": dt.datetime(2024, 3, 31, 1, 30, 0, 123456, tzinfo=utc),
            "local": dt.datetime(1950, 1, 1, 12, 0, 0, 1),  # noqa: DTZ001  # a local time has no zone
            "raw": b"\x00\xff",
            "point": place,
            "points": [place, None, {"x": None, "tags": []}],
            "map": [("k", place), ("n", None)],
        }
        listed = [{"id": f"k{n}", "ts": ts, "part": f"p{n % 2}", **(full if n % 3 else {})} for n in range(20)]
        return pa.Table.from_pylist(listed, schema=schema)

    same = SameTable(tmp_path, frame, {**SIMPLE.options()})
    same.write("insert", rows(1), rows(2))
    same.write("upsert", rows(3).slice(4, 9))


@pytest.mark.parametrize("mode", [EVENT, COMMIT])
def test_rows_that_are_deletes(mode: str, frame: Frame, tmp_path: Path):
    def marked(table: pa.Table, deleted: list[bool | None]) -> pa.Table:
        return table.append_column("_hoodie_is_deleted", pa.array(deleted, pa.bool_()))

    same = SameTable(tmp_path, frame, SIMPLE.options(mode=mode))
    same.write("upsert", marked(_rows(range(30), 10, "a"), [False, None] * 15))
    newer = marked(_rows(range(20, 40), 11, "b"), [n % 3 == 0 for n in range(20)])
    older = marked(_rows(range(10), 9, "c"), [True] * 10)
    same.write("upsert", newer, older)
    same.write(
        "upsert", marked(_rows(range(20, 40), 12, "d"), [False] * 20), marked(_rows(range(5), 0, ""), [True] * 5)
    )


@pytest.mark.parametrize(
    ("encode", "hive"),
    [
        (False, False),
        (True, True),
        pytest.param(False, True, marks=pytest.mark.slow),
        pytest.param(True, False, marks=pytest.mark.slow),
    ],
)
def test_partitions_with_odd_characters(encode: bool, hive: bool, frame: Frame, tmp_path: Path):
    style = {
        "hoodie.datasource.write.partitionpath.urlencode": encode,
        "hoodie.datasource.write.hive_style_partitioning": hive,
    }
    odd = ["plain", "with space", "a=b", "100%", "ü→漢", "x:y" if encode else "x;y", None, "+1", "#3", "per%20cent"]
    odd += ["sl/ash", "qu?ery&x"] if encode else ["two/levels"]
    same = SameTable(tmp_path, frame, {**SIMPLE.options(), **style})

    def rows(ts: int) -> pa.Table:
        return batch([{**row(n, ts, f"{ts}"), "part": odd[n % len(odd)]} for n in range(40)])

    same.write("upsert", rows(1), rows(2))
    same.write("upsert", rows(3).slice(7, 20))
    same.write("delete", rows(3).slice(0, 5))


@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "upsert", "delete", "insert_overwrite", None])
def test_no_rows(operation: str | None, frame: Frame, tmp_path: Path):
    same = SameTable(tmp_path, frame, SIMPLE.options())
    same.write("insert", _rows(range(5), 10, "x"))
    commit = same.write(operation, _rows(range(0), 10, "none"))
    assert (commit.inserted, commit.updated, commit.deleted, commit.files) == (0, 0, 0, ())


def test_no_rows_into_a_new_table(frame: Frame, tmp_path: Path):
    same = SameTable(tmp_path, frame, SIMPLE.options())
    same.write("upsert", _rows(range(0), 10, "none"))
    same.write("upsert", _rows(range(9), 10, "some"))


def test_new_and_missing_columns(frame: Frame, tmp_path: Path):
    same = SameTable(tmp_path, frame, SIMPLE.options())
    same.write("upsert", _rows(range(20), 10, "old"))
    wider = _rows(range(10, 30), 11, "new").append_column("added", pa.array([f"a{n}" for n in range(20)]))
    same.write("upsert", wider)
    same.write("upsert", wider.drop_columns(["amount"]), hoodie__write__set__null__for__missing__columns=True)
    reordered = wider.select(["added", "val", "ts", "part", "id", "day", "amount", "site"])
    same.write("upsert", reordered.slice(3, 5), reordered.slice(9, 2))


def test_small_files_and_several_file_groups(frame: Frame, tmp_path: Path):
    sized = {"hoodie.parquet.max.file.size": "20000", "hoodie.copyonwrite.record.size.estimate": "100"}
    same = SameTable(tmp_path, frame, {**SIMPLE.options(), **sized, "hoodie.parquet.small.file.limit": "10000"})
    same.write("insert", *(_rows(range(n, n + 400), 10, "a" * 40) for n in range(0, 1600, 400)))
    assert len(hoodoo.Table(str(same.spark)).file_slices()) > 3
    same.write("upsert", _rows(range(100, 1000, 7), 11, "b"), _rows(range(1500, 1900), 11, "c"))
    same.write("delete", _rows(range(0, 1900, 2), 12, ""))


def test_without_meta_columns(frame: Frame, tmp_path: Path):
    same = SameTable(tmp_path, frame, {**SIMPLE.options(), "hoodie.populate.meta.fields": False})
    same.write("bulk_insert", _rows(range(50), 10, "a"))


def test_rows_that_were_read_from_a_table(spark: Any, frame: Frame, tmp_path: Path):
    """A DataFrame of a Hudi table has Hudi's own columns; they are made anew."""
    options = SIMPLE.options()
    uri, copy = str(tmp_path / "table"), str(tmp_path / "copy")
    hoodoo.spark.write(frame(_rows(range(20), 10, "x")), uri, options=options)
    for _ in range(2):
        commit = hoodoo.spark.write(hoodoo.spark.read(spark, uri), copy, options=options)
    table = hoodoo.Table(copy)
    assert commit.updated == 20
    assert set(table.to_arrow()["_hoodie_commit_time"].to_pylist()) == {commit.instant}
    assert table.to_arrow(columns=SCHEMA.names).sort_by("id") == hoodoo.Table(uri).to_arrow(
        columns=SCHEMA.names
    ).sort_by("id")


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_zone_of_the_session(zone: str, spark: Any, frame: Frame, tmp_path: Path, settings: Callable[[str, str], None]):
    settings("spark.sql.session.timeZone", zone)
    start = dt.datetime(2024, 3, 10, 9, 30, tzinfo=dt.timezone.utc)
    moments = pa.array([start + dt.timedelta(minutes=20 * n) for n in range(9)], pa.timestamp("us", tz="UTC"))
    local = moments.cast(pa.timestamp("us"))
    same = SameTable(tmp_path, frame, SIMPLE.options())
    rows = _rows(range(9), 1, "x").append_column("at", moments).append_column("local", local)
    same.write("upsert", rows)
    same.write("upsert", rows.slice(3))
    read = hoodoo.spark.read(spark, str(same.spark), columns=["id", "at", "local"])
    assert dict(read.dtypes) == {"id": "string", "at": "timestamp", "local": "timestamp_ntz"}
    read = read.selectExpr("id", "unix_micros(at) at", "cast(local as string) local")
    expected = [
        {
            "id": f"key-{n:03d}",
            "at": int((start + dt.timedelta(minutes=20 * n)).timestamp() * 1e6),
            "local": str(moment),
        }
        for n, moment in enumerate(local.to_pylist())
    ]
    assert spark_rows(read) == expected


def test_options_of_a_hudi_job(frame: Frame, tmp_path: Path):
    """The dictionary of a job of Hudi's own, in the datasource's spellings, works as it stands."""
    job = {
        "hoodie.table.name": "trips",
        "hoodie.datasource.write.table.name": "trips",
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.recordkey.field": "id,site",
        "hoodie.datasource.write.partitionpath.field": "part,day",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
        "hoodie.datasource.hive_sync.enable": "false",
        "hoodie.upsert.shuffle.parallelism": 2,
        "hoodie.insert.shuffle.parallelism": 2,
        "hoodie.index.type": "BLOOM",
        "hoodie.metadata.enable": False,
        "hoodie.cleaner.commits.retained": 3,
        "hoodie.parquet.compression.codec": "snappy",
    }
    same = SameTable(tmp_path, frame, job)
    for ts in range(6):
        same.write(None, _rows(range(ts * 5, ts * 5 + 30), ts, f"v{ts}"))
    table = hoodoo.Table(str(same.spark))
    assert any(instant.action == "clean" for instant in table.timeline.instants())
    assert "part=p 1/day=2024-01-17" in {part.partition for part in table.file_slices()} | {
        part.partition for part in table.file_slices("part=p 1/day=2024-01-17")
    }
