"""Merge-on-read tables through Spark: writes that append, compaction in tasks, and merging without a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import hoodoo
import hoodoo.spark
from hoodoo import HudiError, InvalidOptionError
from hoodoo.mergers import PerColumn
from tests.interop.layouts import LAYOUTS, SIMPLE, Layout, batch, row
from tests.pairs import every_value
from tests.rows import arrow_rows, spark_rows
from tests.spark.same_table import SameTable

Frame = Callable[..., Any]
_LAYOUTS = {layout.name: layout for layout in LAYOUTS}
_CHOSEN = ["simple", *list(_LAYOUTS)[-2:]]


def _options(more: dict[str, str] | None = None, layout: Layout = SIMPLE) -> dict[str, str]:
    options = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
    return {**layout.options(), **options, "hoodie.parquet.small.file.limit": "0", **(more or {})}


def _rows(numbers: range, ts: int, text: str) -> pa.Table:
    return batch([row(n, ts, f"{text} {n}") for n in numbers])


def _logs(uri: Path) -> int:
    return sum(len(s.log_files) for s in hoodoo.Table(uri).file_slices())


@pytest.mark.parametrize(("block_format", "layout"), every_value(["avro", "parquet"], _CHOSEN))
def test_writes_append(layout: str, block_format: str, frame: Frame, tmp_path: Path, spark: Any) -> None:
    options = _options({"hoodie.logfile.data.block.format": block_format}, _LAYOUTS[layout])
    same = SameTable(tmp_path, frame, options)
    same.write("insert", _rows(range(20), 10, "first"), _rows(range(20, 40), 10, "first"))
    same.write("upsert", _rows(range(0, 60, 3), 11, "second"), _rows(range(10, 14), 9, "too late"))
    assert _logs(same.spark) > 0
    same.write("delete", _rows(range(0, 60, 7), 12, ""))
    same.write("upsert", _rows(range(0, 30, 2), 13, "third"))
    before = arrow_rows(hoodoo.Table(same.spark).to_arrow())
    assert spark_rows(hoodoo.spark.read(spark, str(same.spark))) == before
    done = hoodoo.spark.compact(spark, str(same.spark), options=same.options)
    assert done is not None
    assert done.operation == "COMPACT"
    assert _logs(same.spark) == 0
    assert arrow_rows(hoodoo.Table(same.spark).to_arrow()) == before
    assert hoodoo.Table(same.spark).verify().ok
    assert hoodoo.spark.compact(spark, str(same.spark), options=same.options) is None


def test_a_plan_is_carried_out(frame: Frame, tmp_path: Path, spark: Any) -> None:
    uri = str(tmp_path / "t")
    hoodoo.spark.write(frame(_rows(range(30), 10, "first")), uri, options=_options())
    hoodoo.spark.write(frame(_rows(range(20), 11, "second")), uri, options=_options())
    planned = hoodoo.Table(uri).schedule_compaction()
    hoodoo.spark.write(frame(_rows(range(5), 12, "meanwhile")), uri, options=_options())
    before = arrow_rows(hoodoo.Table(uri).to_arrow())
    done = hoodoo.spark.compact(spark, uri, instant=planned)
    assert done is not None
    assert done.instant == planned
    assert _logs(tmp_path / "t") > 0, "what was appended meanwhile is in logs of the new slices"
    assert arrow_rows(hoodoo.Table(uri).to_arrow()) == before
    with pytest.raises(hoodoo.InvalidOptionError, match="no planned compaction"):
        hoodoo.spark.compact(spark, uri, instant=planned)


def test_writes_compact_inline(frame: Frame, tmp_path: Path) -> None:
    options = _options({"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"})
    same = SameTable(tmp_path, frame, options)
    same.write("insert", _rows(range(20), 10, "first"))
    same.write("upsert", _rows(range(10), 11, "second"))
    same.write("upsert", _rows(range(5), 12, "third"))
    assert _logs(same.spark) == _logs(same.alone)


class Sums(PerColumn):
    """Adds amounts up."""

    strategy_id = "1c1c7a7e-3f0e-4c55-9a53-2a4b7f0d0001"
    rules: ClassVar = {"amount": "sum"}


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_record_merger(table_type: str, frame: Frame, tmp_path: Path, spark: Any) -> None:
    """In tasks it is made of the import path, as in the driver."""
    options = {
        "hoodie.record.merge.mode": "CUSTOM",
        "hoodie.record.merge.strategy.id": Sums.strategy_id,
        "hoodie.write.record.merge.custom.implementation.classes": f"{__name__}.Sums",
        "hoodie.datasource.write.table.type": table_type,
    }
    given = {k: v for k, v in _options().items() if k != "hoodie.write.record.merge.mode"} | options
    same = SameTable(tmp_path, frame, given)
    same.options = given
    for turn in range(3):
        rows = [_rows(range(turn, 20 + turn), 10 + turn, "x")] * 2
        alone = hoodoo.write(pa.concat_tables(rows), str(same.alone), operation="upsert", options=given)
        commit = hoodoo.spark.write(frame(*rows), str(same.spark), operation="upsert", options=given)
        assert (commit.inserted, commit.updated) == (alone.inserted, alone.updated)
    ours, theirs = (arrow_rows(hoodoo.Table(u, options=given).to_arrow()) for u in (same.spark, same.alone))
    assert ours == theirs
    assert spark_rows(hoodoo.spark.read(spark, str(same.spark), options=given)) == theirs
    if table_type == "MERGE_ON_READ":
        hoodoo.spark.compact(spark, str(same.spark), options=given)
        assert arrow_rows(hoodoo.Table(same.spark, options=given).to_arrow()) == theirs


@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
def test_merging_dataframes(mode: str, frame: Frame) -> None:
    older = _rows(range(50), 10, "first")
    newer = [_rows(range(30, 60), 11, "second"), _rows(range(20, 40), 9, "late"), _rows(range(0, 60, 5), 11, "third")]
    expected = arrow_rows(hoodoo.merge(older, pa.concat_tables(newer), "id", "ts", mode).read_all())
    merged = hoodoo.spark.merge(frame(older.slice(0, 20), older.slice(20)), frame(*newer), "id", "ts", mode)
    assert merged.columns == older.schema.names
    assert spark_rows(merged) == expected


def test_merging_dataframes_with_deletes_and_a_merger(frame: Frame) -> None:
    older = _rows(range(10), 10, "first")
    marked = _rows(range(5, 12), 11, "x").append_column("_hoodie_is_deleted", pa.array([True] * 3 + [None] * 4))
    expected = arrow_rows(hoodoo.merge(older, marked, "id", merger=Sums()).read_all())
    assert spark_rows(hoodoo.spark.merge(frame(older), frame(marked), key="id", merger=Sums())) == expected
    assert len(expected) == 9


WIDENED = [
    ("int", "bigint", [10, 20], [30], [10, 30]),
    ("float", "double", [1.5, 2.5], [3.5], [1.5, 3.5]),
    ("decimal(5,2)", "decimal(10,4)", ["1.50", "2.50"], ["3.50"], ["1.50", "3.50"]),
]


@pytest.mark.parametrize("case", WIDENED, ids=lambda case: f"{case[0]} and {case[1]}")
def test_merging_dataframes_of_other_types(case: tuple[Any, ...], spark: Any) -> None:
    before, after, old, new, merged = case
    older = spark.createDataFrame(list(enumerate(old)), "id bigint, v string").selectExpr(
        "int(id) id", f"cast(v AS {before}) v"
    )
    newer = spark.createDataFrame([(1, str(new[0]))], "id bigint, v string").selectExpr("id", f"cast(v AS {after}) v")
    rows = hoodoo.spark.merge(older, newer, key="id").orderBy("id").collect()
    assert [(row.id, str(row.v)) for row in rows] == [(n, str(value)) for n, value in enumerate(merged)]


def test_strings_with_large_offsets(frame: Frame, tmp_path: Path, settings: Any) -> None:
    settings("spark.sql.execution.arrow.useLargeVarTypes", "true")
    older, newer = _rows(range(20), 10, "first"), _rows(range(10, 30), 11, "second")
    expected = arrow_rows(hoodoo.merge(older, newer, "id", "ts").read_all())
    assert spark_rows(hoodoo.spark.merge(frame(older), frame(newer), "id", "ts")) == expected
    uri = str(tmp_path / "large")
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    for rows in (older, newer):
        hoodoo.spark.write(
            frame(rows), uri, "upsert", options={**options, "hoodie.datasource.write.precombine.field": "ts"}
        )
    assert arrow_rows(hoodoo.Table(uri).to_arrow(columns=older.schema.names)) == expected


@pytest.mark.parametrize("columns", [[], ["id", "id"]])
def test_columns_that_cannot_be_read(columns: list[str], frame: Frame, tmp_path: Path, spark: Any) -> None:
    uri = str(tmp_path / "t")
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    hoodoo.spark.write(frame(_rows(range(2), 10, "first")), uri, "insert", options=options)
    with pytest.raises(hoodoo.InvalidOptionError, match="name at least one, and each once"):
        hoodoo.spark.read(spark, uri, columns=columns)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
def test_rows_with_some_columns(mode: str, table_type: str, frame: Frame, tmp_path: Path) -> None:
    """What the rows lack stays, whoever writes them: alone and through Spark the tables are the same."""
    columns = {"id": pa.string(), "part": pa.string(), "ts": pa.int64(), "a": pa.string(), "b": pa.int64()}

    def rows(names: str, ids: range, ts: int) -> pa.Table:
        values = {"id": [f"k{i:03}" for i in ids], "part": [f"p{i % 3}" for i in ids], "ts": [ts + i % 2 for i in ids]}
        values |= {"a": [f"a{i} {ts}" for i in ids], "b": [i * ts for i in ids]}
        return pa.table({n: pa.array(values[n], columns[n]) for n in names.split()})

    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.write.record.merge.mode": mode,
    }
    alone, by_spark = str(tmp_path / "alone"), str(tmp_path / "spark")
    with pytest.raises(HudiError):
        hoodoo.spark.write(frame(rows("id part ts b", range(5), 1)), by_spark, "upsert", options, partial=True)
    assert not Path(by_spark).exists()
    first = rows("id part ts a b", range(60), 10)
    hoodoo.write(first, alone, operation="insert", options=options)
    hoodoo.spark.write(frame(first), by_spark, "insert", options)
    for number, some in enumerate(["id part ts b", "id part ts a", "ts b id part", "id part ts a b"]):
        # Newer rows, older ones, some of a key twice, some of new keys.
        parts = [rows(some, range(number, 70, 3), 11), rows(some, range(0, 60, 4), 9), rows(some, range(0, 66, 2), 12)]
        done = hoodoo.Table(alone, options=options).upsert(pa.concat_tables(parts), partial=True)
        commit = hoodoo.spark.write(frame(*parts), by_spark, "upsert", options, partial=True)
        assert (commit.inserted, commit.updated) == (done.inserted, done.updated)
        ours, theirs = (arrow_rows(hoodoo.Table(uri).to_arrow(columns=list(columns))) for uri in (by_spark, alone))
        assert ours == theirs
    for operation in ("insert", "bulk_insert"):
        with pytest.raises(InvalidOptionError, match="some columns only"):
            hoodoo.spark.write(frame(rows("id part ts b", range(5), 1)), by_spark, operation, options, partial=True)
    if mode == "EVENT_TIME_ORDERING":
        with pytest.raises(InvalidOptionError, match="ordering column"):
            hoodoo.spark.write(frame(rows("id part b", range(5), 1)), by_spark, "upsert", options, partial=True)
    globally = {**options, "hoodie.index.type": "GLOBAL_BLOOM"}
    some = rows("id part ts b", range(5), 9)
    hoodoo.Table(alone, options=globally).upsert(some, partial=True)
    hoodoo.spark.write(frame(some), by_spark, "upsert", globally, partial=True)
    ours, theirs = (arrow_rows(hoodoo.Table(uri).to_arrow(columns=list(columns))) for uri in (by_spark, alone))
    assert ours == theirs
    assert hoodoo.Table(by_spark).verify().ok


def test_merging_dataframes_that_lack_columns(spark: Any) -> None:
    older, newer = spark.createDataFrame([(1, 2, 3)], "id long, ts long, v long"), spark.createDataFrame([], "id long")
    for key, ordering, message in (
        ("no", None, "the older rows have no column 'no'"),
        ("id", ["at.time"], "the older rows have no column 'at'"),
        ("id", ["ts"], "the newer rows have no column 'ts'"),
        ("id", None, "the newer rows lack columns of the older ones: ts, v"),
    ):
        with pytest.raises(hoodoo.SchemaError, match=message):
            hoodoo.spark.merge(older, newer, key, ordering)
