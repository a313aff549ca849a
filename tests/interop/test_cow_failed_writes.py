"""A writer that died leaves files behind: the other side's next write removes them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import hoodoo
from tests.interop.hudi import Hudi
from tests.interop.layouts import SIMPLE, batch, row
from tests.rows import arrow_rows

_OPTIONS = SIMPLE.options()
_FIRST = [row(n, 1, "first") for n in range(6)]
_ID = "11111111-2222-3333-4444-555555555555-0"


def _die(table: Path, markers: str) -> list[Path]:
    """Leaves what a Hudi writer leaves that dies before its commit; gives the data files it wrote."""
    timeline = table / ".hoodie/timeline"
    last = max(p.name.split("_")[0] for p in timeline.iterdir() if p.name.endswith(".commit") and "_" in p.name)
    instant = str(int(last) + 1)
    (timeline / f"{instant}.commit.requested").touch()
    if markers == "requested only":
        return []
    (timeline / f"{instant}.inflight").touch()
    source = next((table / "p 1").glob("*.parquet"))
    left = [
        table / "p 1" / f"{source.name.split('_')[0]}_0-1-1_{instant}.parquet",
        table / "p new" / f"{_ID}_1-1-1_{instant}.parquet",
    ]
    (table / "p new").mkdir()
    for path in left:
        shutil.copy(source, path)
    lines = [f"{p.parent.name}/{p.name}.marker.{kind}" for p, kind in zip(left, ("MERGE", "CREATE"), strict=True)]
    folder = table / ".hoodie/.temp" / instant
    if markers == "direct":
        for line in lines:
            (folder / line).parent.mkdir(parents=True, exist_ok=True)
            (folder / line).touch()
    else:
        folder.mkdir(parents=True)
        (folder / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
        for number, line in enumerate(lines):
            (folder / f"MARKERS{number * 7}").write_text(line + "\n")
    return left


@pytest.mark.parametrize(
    ("maker", "markers"),
    [
        ("theirs", "direct"),
        ("ours", "timeline server"),
        ("theirs", "requested only"),
        pytest.param("ours", "direct", marks=pytest.mark.slow),
        pytest.param("theirs", "timeline server", marks=pytest.mark.slow),
        pytest.param("ours", "requested only", marks=pytest.mark.slow),
    ],
)
def test_we_roll_back_what_a_dead_writer_left(hudi: Hudi, tmp_path: Path, markers: str, maker: str) -> None:
    table = tmp_path / "table"
    if maker == "ours":
        hoodoo.write(batch(_FIRST), str(table), operation="insert", options=_OPTIONS)
    else:
        hudi.write(batch(_FIRST), table, "insert", **_OPTIONS)
    before = hudi.read(table)
    left = _die(table, markers)
    assert arrow_rows(hoodoo.Table(str(table), options=_OPTIONS).to_arrow()) == before
    hoodoo.write(batch([row(0, 2, "after")]), str(table), operation="upsert", options=_OPTIONS)
    assert not [p for p in left if p.exists()]
    assert not list((table / ".hoodie").glob(".temp/*"))
    ours = hoodoo.Table(str(table), options=_OPTIONS)
    (rollback,) = ours.timeline.instants(action="rollback")
    told = ours.timeline.metadata(rollback.requested)
    assert told["totalFilesDeleted"] == len(left)
    assert not ours.verify().problems
    assert hudi.read(table) == arrow_rows(ours.to_arrow())
    hudi.write(batch([row(1, 3, "theirs")]), table, "upsert", **_OPTIONS)
    assert arrow_rows(hoodoo.Table(str(table), options=_OPTIONS).to_arrow()) == hudi.read(table)


@pytest.mark.parametrize("markers", ["direct", "timeline server", "requested only"])
def test_hudi_rolls_back_on_our_table(hudi: Hudi, tmp_path: Path, markers: str) -> None:
    table = tmp_path / "table"
    hoodoo.write(batch(_FIRST), str(table), operation="insert", options=_OPTIONS)
    left = _die(table, markers)
    hudi.write(batch([row(0, 2, "theirs")]), table, "upsert", **_OPTIONS)
    assert not [p for p in left if p.exists()]
    ours = hoodoo.Table(str(table), options=_OPTIONS)
    assert arrow_rows(ours.to_arrow()) == hudi.read(table)
    assert not ours.verify().problems


def test_rollbacks_read_the_same(hudi: Hudi, tmp_path: Path) -> None:
    """Our rollback's metadata has the shape and the paths of Hudi's."""
    shapes = {}
    for side in ("ours", "theirs"):
        table = tmp_path / side
        hudi.write(batch(_FIRST), table, "insert", **_OPTIONS)
        _die(table, "direct")
        if side == "ours":
            hoodoo.write(batch([row(0, 2, "after")]), str(table), operation="upsert", options=_OPTIONS)
        else:
            hudi.write(batch([row(0, 2, "after")]), table, "upsert", **_OPTIONS)
        ours = hoodoo.Table(str(table), options=_OPTIONS)
        (rollback,) = ours.timeline.instants(action="rollback")
        told = ours.timeline.metadata(rollback.requested)
        files = {
            p: [f.startswith(str(table)) for f in per["successDeleteFiles"]]
            for p, per in told["partitionMetadata"].items()
        }
        undone = [i["action"] for i in told["instantsRollback"]]
        shapes[side] = (files, undone, told["totalFilesDeleted"], len(told["commitsRollback"]), told["version"])
    assert shapes["ours"] == shapes["theirs"]
