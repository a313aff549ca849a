"""Compaction: plans of either side are carried out by the other, and both read the same rows before and after."""

from __future__ import annotations

import itertools
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from tests.interop.hudi import Hudi
from tests.interop.layouts import LAYOUTS, SIMPLE, Layout, batch, row
from tests.interop.merge_on_read import NO_SMALL_FILES, compact_by_hudi, mor_options, same_rows
from tests.rows import Row


def _options(layout: Layout = SIMPLE, version: int = 9, mode: str = "EVENT_TIME_ORDERING") -> dict[str, str]:
    return {**mor_options(layout, version, mode), **NO_SMALL_FILES}


def _without_names(rows: list[Row]) -> list[Row]:
    """Compaction changes the file that a row is in, and nothing else."""
    return sorted(({k: v for k, v in r.items() if k != "_hoodie_file_name"} for r in rows), key=str)


def _fill(uri: str, options: dict[str, str], seed: str = "") -> None:
    chance = random.Random(seed)
    hoodoo.write(batch([row(n, 4, "first") for n in range(12)]), uri, operation="insert", options=options)
    for turn in range(3):
        numbers = chance.sample(range(12), 6)
        rows = batch([row(n, chance.randint(0, 9), f"turn {turn}.{n}") for n in numbers])
        hoodoo.write(rows, uri, operation="upsert", options=options)
    hoodoo.write(batch([row(3, 0, "")]), uri, operation="delete", options=options)


@pytest.mark.parametrize(
    ("mode", "version"),
    [
        ("EVENT_TIME_ORDERING", 9),
        ("COMMIT_TIME_ORDERING", 8),
        pytest.param("EVENT_TIME_ORDERING", 8, marks=pytest.mark.slow),
        pytest.param("COMMIT_TIME_ORDERING", 9, marks=pytest.mark.slow),
    ],
)
def test_compacted_by_hoodoo(hudi: Hudi, tmp_path: Path, mode: str, version: int) -> None:
    uri = str(tmp_path / "table")
    options = _options(version=version, mode=mode)
    _fill(uri, options, mode)
    before = same_rows(hudi, uri)
    table = hoodoo.Table(uri, options=options)
    done = table.compact()
    assert done is not None
    assert done.operation == "COMPACT"
    after = same_rows(hudi, uri)
    assert _without_names(after) == _without_names(before)
    assert hudi.read_optimized(uri, meta=True) == after
    assert table.compact() is None
    assert not any(s.log_files for s in table.file_slices())
    for turn, who in enumerate(["hudi", "hoodoo"]):
        rows = batch([row(n, 10 + turn, f"after {turn}") for n in range(4)])
        if who == "hudi":
            hudi.write(rows, uri, "upsert", **options)
        else:
            hoodoo.write(rows, uri, operation="upsert", options=options)
        same_rows(hudi, uri, who)
    assert table.compact() is not None
    same_rows(hudi, uri)


@pytest.mark.parametrize("layout", [x for x in LAYOUTS if x.name in ("complex_two_keys", "nonpartitioned", "custom")])
def test_layouts(hudi: Hudi, tmp_path: Path, layout: Layout) -> None:
    uri = str(tmp_path / "table")
    _fill(uri, _options(layout), layout.name)
    assert hoodoo.Table(uri, options=_options(layout)).compact() is not None
    assert hudi.read_optimized(uri, meta=True) == same_rows(hudi, uri)


@pytest.mark.parametrize("version", [9, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("planner", "worker"), [("hudi", "hoodoo"), ("hoodoo", "hudi"), ("hoodoo", "hoodoo")])
def test_plans_of_the_other(hudi: Hudi, tmp_path: Path, planner: str, worker: str, version: int) -> None:
    """Planned by one, written to by both meanwhile, carried out by the other."""
    uri = str(tmp_path / "table")
    options = _options(version=version)
    _fill(uri, options)
    table = hoodoo.Table(uri, options=options)
    if planner == "hudi":
        compact_by_hudi(hudi, uri, "schedule")
        (planned,) = [i.requested for i in table.timeline.instants(action="compaction")]
    else:
        given = table.schedule_compaction()
        assert given is not None
        planned = given
        assert table.schedule_compaction() is None
    hoodoo.write(batch([row(n, 20, "meanwhile") for n in range(3)]), uri, operation="upsert", options=options)
    hudi.write(batch([row(n, 21, "meanwhile too") for n in range(2, 5)]), uri, "upsert", **options)
    before = same_rows(hudi, uri)
    if worker == "hudi":
        compact_by_hudi(hudi, uri, "run")
    else:
        done = table.compact(planned)
        assert done is not None
        assert done.instant == planned
    after = same_rows(hudi, uri)
    assert _without_names(after) == _without_names(before)
    assert [i.action for i in table.timeline.instants() if i.requested == planned] == ["commit"]
    assert any(s.log_files for s in table.file_slices()), "what was written meanwhile stays in log files"
    hudi.write(batch([row(0, 30, "after")]), uri, "upsert", **options)
    same_rows(hudi, uri)


def test_a_try_that_died_is_taken_back(hudi: Hudi, tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    options = _options()
    _fill(uri, options)
    table = hoodoo.Table(uri, options=options)
    before = same_rows(hudi, uri)
    done = table.compact()
    assert done is not None
    # As if it had died before the last step.
    (completed,) = Path(uri).glob(f".hoodie/timeline/{done.instant}_*.commit")
    completed.unlink()
    assert same_rows(hudi, uri) == before
    hoodoo.write(batch([row(0, 30, "after")]), uri, operation="upsert", options=options)
    same_rows(hudi, uri)
    again = table.compact()
    assert again is not None
    assert again.instant == done.instant
    assert {r["val"] for r in same_rows(hudi, uri) if r["id"] == "key-000"} == {"after"}


def test_all_rows_deleted(hudi: Hudi, tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    options = _options()
    rows = batch([row(n, 4, "first") for n in range(3)])
    hoodoo.write(rows, uri, operation="insert", options=options)
    hoodoo.write(rows, uri, operation="delete", options=options)
    assert hoodoo.Table(uri, options=options).compact() is not None
    assert same_rows(hudi, uri) == []
    hudi.write(rows, uri, "upsert", **options)
    assert len(same_rows(hudi, uri)) == 3


def test_inline(hudi: Hudi, tmp_path: Path) -> None:
    """Hudi's own options make both compact as they go; cleaning and archiving go on."""
    uri = str(tmp_path / "table")
    options = {
        **{k: v for k, v in _options().items() if k != "hoodie.compact.inline"},
        "hoodie.compact.inline.max.delta.commits": "3",
        "hoodie.clean.commits.retained": "2",
        "hoodie.keep.min.commits": "4",
        "hoodie.keep.max.commits": "6",
    }
    hoodoo.write(batch([row(n, 1, "first") for n in range(6)]), uri, operation="insert", options=options)
    compactions = []
    for turn in range(16):
        rows = batch([row(n, 2 + turn, f"turn {turn}") for n in range(turn % 4, 6)])
        if turn % 5 == 4:
            hudi.write(rows, uri, "upsert", **options)
        else:
            hoodoo.write(rows, uri, operation="upsert", options=options)
        same_rows(hudi, uri, turn)
        timeline = hoodoo.Table(uri).timeline.instants(history=True)
        compactions.append(sum(i.action == "commit" for i in timeline))
    assert compactions[-1] >= 5
    assert all(b - a in (0, 1) for a, b in itertools.pairwise(compactions))


def test_the_plan_is_that_of_hudi(hudi: Hudi, tmp_path: Path) -> None:
    """The same table, planned by both: the records on the timeline are equal."""
    uri, copy = tmp_path / "table", tmp_path / "copy"
    options = _options()
    _fill(str(uri), options)
    shutil.copytree(uri, copy)
    hoodoo.Table(str(uri), options=options).schedule_compaction()
    compact_by_hudi(hudi, str(copy), "schedule")

    def plan(of: Path) -> dict[str, Any]:
        timeline = hoodoo.Table(str(of)).timeline
        (instant,) = [i for i in timeline.instants() if i.action == "compaction"]
        found = json.loads(json.dumps(timeline.plan(instant.requested)))
        found["operations"].sort(key=lambda o: o["fileId"])
        return dict(found)

    assert plan(uri) == plan(copy)


def test_copy_on_write_has_nothing_to_compact(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string())])
    table = hoodoo.Table.create(str(tmp_path / "t"), schema, name="t", record_key="id")
    with pytest.raises(hoodoo.UnsupportedError, match="merge-on-read"):
        table.compact()
    with pytest.raises(hoodoo.UnsupportedError, match="merge-on-read"):
        table.schedule_compaction()
