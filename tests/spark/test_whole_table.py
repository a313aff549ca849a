"""Writes that look their keys up in all partitions: through Spark they make the table that hoodoo alone makes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
import hoodoo.spark
from tests.interop.layouts import LAYOUTS, SIMPLE, Layout, batch, row
from tests.pairs import every_value, others_later
from tests.rows import arrow_rows
from tests.spark.same_table import SameTable

Frame = Callable[..., Any]

EVENT, COMMIT = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"
RECORD_INDEX = "GLOBAL_RECORD_LEVEL_INDEX"
INDEXES = ("GLOBAL_BLOOM", "GLOBAL_SIMPLE", RECORD_INDEX)


def _rows(numbers: range, ts: int, text: str, part: str | None = None) -> pa.Table:
    return batch([row(n, ts, f"{text} {n}", part=part) for n in numbers])


def _marked(table: pa.Table, deleted: Callable[[int], bool | None]) -> pa.Table:
    return table.append_column("_hoodie_is_deleted", pa.array([deleted(n) for n in range(len(table))], pa.bool_()))


def _never(_: int) -> bool:
    return False


def _index(name: str, *, moves: bool = True) -> dict[str, Any]:
    paths = [f"hoodie.{kind}.index.update.partition.path" for kind in ("bloom", "simple", "record")]
    build = {"hoodie.metadata.global.record.level.index.enable": "true"} if name == RECORD_INDEX else {}
    return {"hoodie.index.type": name, **dict.fromkeys(paths, moves), **build}


def _parts(table: Path) -> dict[str, str]:
    """The partition in which each key is; fails where a key is stored twice."""
    rows = hoodoo.Table(str(table)).to_arrow(columns=["id", "part"]).to_pylist()
    assert len(rows) == len({one["id"] for one in rows})
    return {one["id"]: one["part"] for one in rows}


@pytest.mark.parametrize(("moves", "mode", "index"), every_value([True, False], [EVENT, COMMIT], INDEXES))
def test_global_index(index: str, mode: str, moves: bool, frame: Frame, tmp_path: Path):
    """Rows that go to another partition: newer and late ones, deletes, and keys that come more than once."""
    same = SameTable(tmp_path, frame, {**SIMPLE.options(mode=mode), **_index(index, moves=moves)})
    same.write("upsert", _marked(_rows(range(40), 10, "first"), _never), _marked(_rows(range(40, 60), 10, "f"), _never))
    home = _parts(same.spark)
    # Newer rows of some keys, late ones of others, all for a partition that is new, and new keys.
    newer, late = _rows(range(20), 11, "newer", "p new"), _rows(range(15, 30), 9, "late", "p new")
    same.write("upsert", _marked(newer, _never), _marked(late, _never), _marked(_rows(range(60, 70), 1, "x"), _never))
    now = _parts(same.spark)
    winners = range(30) if mode == COMMIT else range(20)
    gone = {f"key-{n:03d}" for n in winners} if moves else set()
    assert {key for key, part in home.items() if now[key] != part} == gone
    assert len(now) == 70
    # Deletes name another partition than the one where the row is; late ones too.
    deletes = _marked(_rows(range(0, 60, 4), 12, "", "p 0"), lambda n: n % 2 == 0)
    same.write("upsert", deletes, _marked(_rows(range(1, 60, 4), 2, "", "p elsewhere"), lambda _: True))
    # Back again, and into a partition that is there already.
    same.write("upsert", _marked(_rows(range(5, 50, 2), 13, "back"), lambda n: None if n % 2 else False))
    same.write("delete", _rows(range(0, 80, 7), 0, "", "p nowhere"))
    assert set(_parts(same.spark)) == set(_parts(same.alone))


@pytest.mark.parametrize(("moves", "mode", "index"), every_value([True, False], [EVENT, COMMIT], INDEXES))
def test_one_key_in_several_partitions_of_a_batch(
    index: str, mode: str, moves: bool, frame: Frame, tmp_path: Path, settings: Callable[[str, str], None]
):
    """One record comes out, whichever tasks the rows of a key were in, new keys and stored ones alike."""
    settings("spark.sql.adaptive.enabled", "false")
    same = SameTable(tmp_path, frame, {**SIMPLE.options(mode=mode), **_index(index, moves=moves)})
    first = [_marked(_rows(range(30), 10 + n % 3, f"copy {n}", f"p {n % 4}"), _never) for n in range(6)]
    same.write("upsert", *first)
    assert len(_parts(same.spark)) == 30
    again = []
    for n in range(5):
        deleted = {i for i in range(30) if (i + n) % 5 == 0}
        rows = _rows(range(10, 40), 12 + (n * 2) % 3, f"again {n}", f"p {3 - n % 4}")
        again.append(_marked(rows, deleted.__contains__))
    same.write("upsert", *again, pa.concat_tables([again[1], again[0].slice(7), again[2]]))
    _parts(same.spark)
    same.write("upsert", *reversed(again), *first)
    _parts(same.spark)


_USUAL_LAYOUTS = ("simple", "complex_two_keys", "custom", "timestamp", "nonpartitioned")


def _layouts(indexes: list[str], all_layouts_with: str) -> list[Any]:
    """Some layouts with one index, and each index with one layout; the other pairs take minutes."""
    pairs = [(layout, index) for layout in LAYOUTS for index in indexes]
    usual = {("complex_two_keys", index) for index in indexes} | {(name, all_layouts_with) for name in _USUAL_LAYOUTS}
    marks = lambda layout, index: () if (layout.name, index) in usual else (pytest.mark.slow,)  # noqa: E731
    return [pytest.param(*pair, marks=marks(*pair), id=f"{pair[0].name}-{pair[1]}") for pair in pairs]


@pytest.mark.parametrize(("layout", "index"), _layouts([*INDEXES], "GLOBAL_SIMPLE"))
def test_layouts(layout: Layout, index: str, frame: Frame, tmp_path: Path):
    same = SameTable(tmp_path, frame, {**layout.options(8), **_index(index)})
    same.write("insert", _rows(range(20), 10, "first"), _rows(range(20, 40), 10, "first"))
    moved = [{**row(n, 11, "moved", part="p moved"), "day": "2025-03-01"} for n in range(0, 60, 3)]
    same.write("upsert", batch(moved), _rows(range(10, 14), 9, "too late"))
    same.write("delete", _rows(range(0, 60, 7), 12, ""))


@pytest.mark.parametrize(("layout", "index"), _layouts([*INDEXES, "BLOOM", "SIMPLE"], "GLOBAL_BLOOM"))
def test_delete_by_nothing_but_keys(layout: Layout, index: str, frame: Frame, tmp_path: Path):
    """Without partition columns the keys are looked for everywhere."""
    same = SameTable(tmp_path, frame, {**layout.options(8), **_index(index)})
    same.write("insert", _rows(range(40), 10, "first"), _rows(range(40, 60), 10, "first"))
    keys = _rows(range(0, 90, 4), 0, "").select(list(layout.keys))
    commit = same.write("delete", keys, keys.slice(3))
    assert commit.deleted == 15
    assert same.write("delete", keys).files == ()


def test_keys_that_are_in_two_partitions(frame: Frame, tmp_path: Path):
    """A key may be in several partitions where the index is not global: deletes by key alone, and a change of index."""
    same = SameTable(tmp_path, frame, SIMPLE.options())
    for part in ("p a", "p b", "p c"):
        same.write("upsert", _rows(range(20), 10, "first", part))
    assert same.write("delete", _rows(range(5), 0, "").select(["id"])).deleted == 15
    for moves, numbers in ((True, range(5, 10)), (False, range(10, 15))):
        given = {name.replace(".", "__"): value for name, value in _index("GLOBAL_SIMPLE", moves=moves).items()}
        same.write("upsert", _rows(numbers, 11, "newer", "p b"), **given)
        same.write("upsert", _rows(numbers, 12, "newest", "p d"), **given)


@pytest.mark.parametrize("index", INDEXES)
def test_rows_that_are_not_combined(index: str, frame: Frame, tmp_path: Path):
    options = {**SIMPLE.options(), **_index(index), "hoodie.combine.before.upsert": False}
    same = SameTable(tmp_path, frame, options)
    same.write("upsert", _rows(range(20), 10, "first"))
    same.write("upsert", _rows(range(10), 11, "moved", "p new"), _rows(range(30, 40), 11, "new", "p 0"))


@pytest.mark.parametrize("index", INDEXES)
def test_several_file_groups(index: str, frame: Frame, tmp_path: Path):
    """Small files take rows that move in; files that are full do not."""
    sized = {"hoodie.parquet.max.file.size": "20000", "hoodie.copyonwrite.record.size.estimate": "100"}
    options = {**SIMPLE.options(), **sized, "hoodie.parquet.small.file.limit": "10000", **_index(index)}
    same = SameTable(tmp_path, frame, options)
    same.write("insert", *(_rows(range(n, n + 400), 10, "a" * 40) for n in range(0, 1600, 400)))
    assert len(hoodoo.Table(str(same.spark)).file_slices()) > 3
    same.write("upsert", _rows(range(100, 1000, 7), 11, "b", "p 1"), _rows(range(1500, 1900), 11, "c", "p 2"))
    same.write("delete", _rows(range(0, 1900, 2), 12, "").select(["id"]))
    assert len(_parts(same.spark)) == 950


def test_other_operations_with_a_global_index(frame: Frame, tmp_path: Path):
    """They look no key up, and so ask no index."""
    same = SameTable(tmp_path, frame, {**SIMPLE.options(), **_index("GLOBAL_SIMPLE")})
    same.write("bulk_insert", _rows(range(30), 10, "first"), _rows(range(30, 50), 10, "first"))
    same.write("insert", _rows(range(50, 60), 10, "more"))
    same.write("insert_overwrite", _rows(range(100, 110), 10, "instead", "p 1"))
    same.write("insert_overwrite_table", _rows(range(200, 230), 10, "all new"))
    keyless = SameTable(tmp_path / "keyless", frame, {**Layout("auto", keys=()).options(), **_index("GLOBAL_SIMPLE")})
    for operation in ("upsert", "insert"):
        keyless.write(operation, _rows(range(20), 10, "a"))


@pytest.mark.parametrize("columns", [["id", "part"], ["id"]], ids=["keys and partitions", "keys"])
def test_empty_tables_and_no_rows(columns: list[str], frame: Frame, tmp_path: Path):
    same = SameTable(tmp_path, frame, {**SIMPLE.options(), **_index("GLOBAL_BLOOM")})
    same.write("upsert", _rows(range(0), 10, "none"))
    same.write("delete", _rows(range(3), 10, "x").select(columns))
    same.write("upsert", _rows(range(9), 10, "some"))
    same.write("delete", _rows(range(0), 10, "none").select(columns))
    same.write("delete", _rows(range(9), 10, "some").select(columns))
    same.write("upsert", _rows(range(3, 12), 9, "again", "p z"))


def test_rows_that_were_read_from_a_table(spark: Any, frame: Frame, tmp_path: Path):
    """Hudi's own columns are among those that routing adds."""
    options, uri = {**SIMPLE.options(), **_index("GLOBAL_SIMPLE")}, str(tmp_path / "table")
    hoodoo.spark.write(frame(_rows(range(20), 10, "x")), uri, options=options)
    before = arrow_rows(hoodoo.Table(uri).to_arrow())
    commit = hoodoo.spark.write(hoodoo.spark.read(spark, uri), uri, options=options)
    assert (commit.updated, commit.inserted) == (20, 0)
    assert arrow_rows(hoodoo.Table(uri).to_arrow()) == before


@pytest.mark.parametrize("mode", [EVENT, COMMIT])
def test_overwriting_a_partition_with_deletes(mode: str, frame: Frame, tmp_path: Path):
    """A partition is overwritten when rows came for it, though none of them is left."""
    same = SameTable(tmp_path, frame, SIMPLE.options(mode=mode))
    same.write("insert", _marked(_rows(range(30), 10, "first"), _never))
    gone, some = _rows(range(5), 11, "", "p 1"), _rows(range(40, 50), 11, "some", "p 2")
    none = _rows(range(5), 11, "", "p unknown")
    commit = same.write(
        "insert_overwrite",
        _marked(gone, lambda _: True),
        _marked(some, lambda n: n % 2 == 0),
        _marked(none, lambda _: True),
    )
    assert set(commit.replaced) == {"p 1", "p 2"}
    assert set(_parts(same.spark).values()) == {"p 0", "p 2"}
    same.write("insert_overwrite_table", _marked(gone, lambda _: True))
    assert not _parts(same.spark)


@pytest.mark.parametrize("layout", others_later(LAYOUTS, *_USUAL_LAYOUTS, name=lambda layout: layout.name))
def test_deleting_the_partitions_of_rows(layout: Layout, frame: Frame, tmp_path: Path):
    """Without a list of partitions those of the rows go; of the rows only the partition columns are needed."""
    same = SameTable(tmp_path, frame, layout.options())
    same.write("insert", _rows(range(40), 10, "first"))
    rows = [{**row(n, 0, ""), "part": "p 1", "day": "2024-01-09"} for n in (1, 3, 61)]
    strange = {**row(1, 0, ""), "part": "p *", "day": "2029-01-09"}
    commit = same.write(
        "delete_partition", batch(rows).drop_columns(["id", "val"]) if layout is SIMPLE else batch(rows)
    )
    assert len(commit.replaced) == 1
    assert not commit.files
    assert not same.write("delete_partition", batch([strange])).replaced or not layout.partitions
    same.write("delete_partition", batch([]))
    same.write("upsert", _rows(range(10), 11, "again"))


def test_a_list_of_partitions_counts_more_than_the_rows(frame: Frame, tmp_path: Path):
    same = SameTable(tmp_path, frame, SIMPLE.options())
    same.write("insert", _rows(range(40), 10, "first"))
    named = "p 2,p 0*"
    commit = same.write(
        "delete_partition", _rows(range(1), 0, "", "p 1"), hoodie__datasource__write__partitions__to__delete=named
    )
    assert set(commit.replaced) == {"p 0", "p 2"}
