"""Pending clusterings, and what failed ones leave: whichever side meets those of the other, no row is lost."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import hoodoo
from hoodoo import ConflictError
from tests.interop.clustering import (
    ALLOW,
    EVERYWHERE,
    cluster_by_hudi,
    clustering_options,
    fill,
    goes_on,
    planned_by_hudi,
    without_names,
    writes,
)
from tests.interop.hudi import Hudi
from tests.interop.layouts import row
from tests.interop.merge_on_read import same_rows
from tests.rows import Row

_SORT = "val,ts,id"
_TAKEN_BACK = "hoodie.clustering.rollback.pending.replacecommit.on.conflict"


def _slow(*values: object, **how: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow, **how)


def _values(rows: list[Row]) -> dict[str, str]:
    return {r["id"]: r["val"] for r in rows}


def _pending(uri: str) -> list[str]:
    return [p.instant for p in hoodoo.Table(uri).pending_clusterings()]


def _leftovers(uri: str, instant: str) -> list[str]:
    """All that is still there of an instant, hidden checksums included."""
    return [str(p.relative_to(uri)) for p in Path(uri).rglob("*") if instant in p.name]


@pytest.mark.parametrize("kind", ["mor", _slow("cow")])
def test_hudi_respects_our_plan(hudi: Hudi, tmp_path: Path, kind: str) -> None:
    """It refuses updates of planned file groups, and puts new rows elsewhere."""
    uri = str(tmp_path / "table")
    # Without the plan, new rows would fill up the small files.
    options = {k: v for k, v in clustering_options(kind).items() if k != "hoodie.parquet.small.file.limit"}
    fill(writes(hudi, uri, clustering_options(kind)), kind)
    table = hoodoo.Table(uri, options=options)
    planned = table.schedule_clustering(sort_by=["ts", "id"])
    assert planned is not None
    slices = {s.file_id: (s.base_file, s.log_files) for s in table.file_slices()}
    before = same_rows(hudi, uri)
    write = writes(hudi, uri, options)
    for operation in ("upsert", "delete"):
        with pytest.raises(Exception, match=r"Not allowed to update|Failed to (upsert|delete)") as failed:
            write([row(2, 50, "refused")], operation)
        assert "HoodieClusteringUpdateException" in str(failed.value)
        assert same_rows(hudi, uri) == before
    write([row(n, 50, "new") for n in range(60, 66)], "insert")
    write([row(n, 50, "new") for n in range(66, 69)], "upsert")
    now = same_rows(hudi, uri)
    assert len(now) == len(before) + 9
    left = {s.file_id: (s.base_file, s.log_files) for s in table.file_slices() if s.file_id in slices}
    assert left == slices
    done = table.cluster(instant=planned)
    assert done is not None
    assert {i for ids in done.replaced.values() for i in ids} == set(slices)
    assert without_names(same_rows(hudi, uri)) == without_names(now)
    write([row(2, 51, "accepted")], "upsert")
    assert _values(same_rows(hudi, uri))["key-002"] == "accepted"


@pytest.mark.parametrize("kind", ["cow", _slow("mor")])
def test_we_respect_the_plan_of_hudi(hudi: Hudi, tmp_path: Path, kind: str) -> None:
    uri = str(tmp_path / "table")
    options = {k: v for k, v in clustering_options(kind).items() if k != "hoodie.parquet.small.file.limit"}
    fill(writes(hudi, uri, clustering_options(kind)), kind)
    planned = planned_by_hudi(hudi, uri, order=_SORT)
    slices = {s.file_id: (s.base_file, s.log_files) for s in hoodoo.Table(uri).file_slices()}
    before = same_rows(hudi, uri)
    write = writes(None, uri, options)
    for operation in ("upsert", "delete"):
        with pytest.raises(ConflictError, match="pending clustering"):
            write([row(2, 50, "refused")], operation)
        assert same_rows(hudi, uri) == before
    write([row(n, 50, "new") for n in range(60, 66)], "insert")
    write([row(n, 50, "new") for n in range(66, 69)], "upsert")
    now = same_rows(hudi, uri)
    assert len(now) == len(before) + 9
    left = {s.file_id: (s.base_file, s.log_files) for s in hoodoo.Table(uri).file_slices() if s.file_id in slices}
    assert left == slices
    cluster_by_hudi(hudi, uri, "execute")
    assert _pending(uri) == []
    assert [i.action for i in hoodoo.Table(uri).timeline.instants() if i.requested == planned] == ["replacecommit"]
    assert without_names(same_rows(hudi, uri)) == without_names(now)
    write([row(2, 51, "accepted")], "upsert")
    assert _values(same_rows(hudi, uri))["key-002"] == "accepted"


@pytest.mark.parametrize(
    ("planner", "kind"), [("hudi", "mor"), _slow("hudi", "cow"), _slow("hoodoo", "cow"), _slow("hoodoo", "mor")]
)
def test_hudi_writes_in_spite_of_a_plan(hudi: Hudi, tmp_path: Path, planner: str, kind: str) -> None:
    """Then that plan must not be carried out: the update would be lost."""
    uri = str(tmp_path / "table")
    options = clustering_options(kind)
    fill(writes(hudi, uri, options), kind)
    table = hoodoo.Table(uri, options=options)
    planned = planned_by_hudi(hudi, uri, order=_SORT) if planner == "hudi" else table.schedule_clustering(sort_by="id")
    assert planned is not None
    writes(hudi, uri, {**options, **ALLOW})([row(2, 50, "allowed"), row(3, 50, "allowed")], "upsert")
    now = same_rows(hudi, uri)
    assert {_values(now)[k] for k in ("key-002", "key-003")} == {"allowed"}
    assert _pending(uri) == [planned]
    with pytest.raises(ConflictError, match="its clustering was planned"):
        table.cluster(instant=planned)
    assert same_rows(hudi, uri) == now
    assert _leftovers(uri, planned) == []
    done = table.cluster(sort_by="id")
    assert done is not None
    assert without_names(same_rows(hudi, uri)) == without_names(now)
    goes_on(hudi, uri, options, done)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("planner", ["hudi", "hoodoo"])
@pytest.mark.parametrize("writer", ["hudi", "hoodoo"])
def test_a_writer_takes_the_plan_back(hudi: Hudi, tmp_path: Path, kind: str, planner: str, writer: str) -> None:
    uri = str(tmp_path / "table")
    options = clustering_options(kind)
    fill(writes(hudi, uri, options), kind)
    table = hoodoo.Table(uri, options=options)
    planned = planned_by_hudi(hudi, uri, order=_SORT) if planner == "hudi" else table.schedule_clustering(sort_by="id")
    assert planned is not None
    write = writes(hudi if writer == "hudi" else None, uri, {**options, **ALLOW, _TAKEN_BACK: "true"})
    write([row(2, 50, "allowed")], "upsert")
    assert _pending(uri) == []
    assert _values(same_rows(hudi, uri))["key-002"] == "allowed"
    for who in (hudi, None):
        writes(who, uri, options)([row(2, 51, f"after {who is None}"), row(3, 51, "after")], "upsert")
        assert _values(same_rows(hudi, uri))["key-002"] == f"after {who is None}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_hudi_takes_no_plan_that_we_wrote_past(hudi: Hudi, tmp_path: Path, kind: str) -> None:
    """An update by hoodoo that was allowed is not lost when it is hoodoo that cleans up, whoever planned."""
    uri = str(tmp_path / "table")
    options = clustering_options(kind)
    fill(writes(hudi, uri, options), kind)
    planned = planned_by_hudi(hudi, uri, order=_SORT)
    writes(None, uri, {**options, **ALLOW})([row(2, 50, "allowed")], "upsert")
    now = same_rows(hudi, uri)
    assert _values(now)["key-002"] == "allowed"
    with pytest.raises(ConflictError):
        hoodoo.Table(uri, options=options).cluster()
    assert _leftovers(uri, planned) == []
    cluster_by_hudi(hudi, uri, order="id")
    assert without_names(same_rows(hudi, uri)) == without_names(now)


def _die(uri: str, planned: str, markers: str) -> list[Path]:
    """Leaves what a clustering leaves that is killed: one file that is whole, one that is not, no heartbeat."""
    table = Path(uri)
    (table / ".hoodie" / "timeline" / f"{planned}.clustering.inflight").touch()
    source = next((table / "p 1").glob("*.parquet"))
    left = [
        table / "p 1" / f"22222222-2222-4333-8444-555555555555-0_0-7-9_{planned}.parquet",
        table / "p 0" / f"33333333-2222-4333-8444-555555555555-0_1-7-9_{planned}.parquet",
    ]
    shutil.copy(source, left[0])
    left[1].write_bytes(source.read_bytes()[:1000])
    folder = table / ".hoodie" / ".temp" / planned
    lines = [f"{p.parent.name}/{p.name}.marker.CREATE" for p in left]
    # A file that was to be written next.
    lines.append(f"p 2/44444444-2222-4333-8444-555555555555-0_2-7-9_{planned}.parquet.marker.CREATE")
    if markers == "direct":
        for line in lines:
            (folder / line).parent.mkdir(parents=True, exist_ok=True)
            (folder / line).touch()
    else:
        folder.mkdir(parents=True)
        (folder / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
        (folder / "MARKERS0").write_text("\n".join(lines[:2]) + "\n")
        (folder / "MARKERS7").write_text(lines[2] + "\n")
    return left


@pytest.mark.parametrize(("kind", "version"), [("cow", 9), _slow("mor", 9), _slow("cow", 8), _slow("mor", 8)])
@pytest.mark.parametrize("then", ["resumed", "rolled back"])
def test_hudi_died(hudi: Hudi, tmp_path: Path, kind: str, version: int, then: str) -> None:
    uri = str(tmp_path / "table")
    options = clustering_options(kind, version)
    fill(writes(hudi, uri, options), kind)
    planned = planned_by_hudi(hudi, uri, order=_SORT)
    before = same_rows(hudi, uri)
    left = _die(uri, planned, "timeline server")
    assert same_rows(hudi, uri) == before
    table = hoodoo.Table(uri, options=options)
    (waiting,) = table.pending_clusterings()
    assert waiting.inflight
    # A write of either side leaves it alone.
    writes(hudi, uri, options)([row(60, 4, "theirs")], "insert")
    writes(None, uri, options)([row(61, 4, "ours")], "insert")
    assert _pending(uri) == [planned]
    now = same_rows(hudi, uri)
    assert len(now) == len(before) + 2
    if then == "resumed":
        done = table.cluster(instant=planned)
        assert done is not None
        assert done.instant == planned
        assert [p for p in left if p.exists()] == []
        assert without_names(same_rows(hudi, uri)) == without_names(now)
        assert not (Path(uri) / ".hoodie" / ".temp" / planned).exists()
        goes_on(hudi, uri, options, done)
    else:
        table.rollback_clustering(planned)
        assert _leftovers(uri, planned) == []
        assert same_rows(hudi, uri) == now
        writes(hudi, uri, options)([row(2, 50, "theirs")], "upsert")
        assert _values(same_rows(hudi, uri))["key-002"] == "theirs"
        cluster_by_hudi(hudi, uri, order="id")
        assert _values(same_rows(hudi, uri))["key-002"] == "theirs"


@pytest.mark.parametrize(("kind", "version"), [("mor", 9), _slow("cow", 9), _slow("cow", 8), _slow("mor", 8)])
def test_we_died(hudi: Hudi, tmp_path: Path, kind: str, version: int) -> None:
    """Hudi begins our clustering anew, and goes on from it."""
    uri = str(tmp_path / "table")
    options = clustering_options(kind, version)
    fill(writes(None, uri, options), kind)
    table = hoodoo.Table(uri, options=options)
    planned = table.schedule_clustering(sort_by=["ts", "id"])
    assert planned is not None
    before = same_rows(hudi, uri)
    left = _die(uri, planned, "direct")
    assert same_rows(hudi, uri) == before
    cluster_by_hudi(hudi, uri, "execute")
    assert _pending(uri) == []
    assert [p for p in left if p.exists()] == []
    assert not (Path(uri) / ".hoodie" / ".temp" / planned).exists()
    assert without_names(same_rows(hudi, uri)) == without_names(before)
    assert [i.action for i in table.timeline.instants() if i.requested == planned] == ["replacecommit"]
    done = table.cluster(sort_by="id", options=EVERYWHERE)
    assert done is not None
    assert without_names(same_rows(hudi, uri)) == without_names(before)
    goes_on(hudi, uri, options, done)


@pytest.mark.parametrize(
    ("clusterer", "kind", "version"),
    [
        ("hudi", "cow", 9),
        _slow("hoodoo", "cow", 9),
        _slow("hoodoo", "mor", 9),
        _slow("hudi", "mor", 9),
        _slow("hudi", "cow", 8),
        _slow("hoodoo", "mor", 8),
    ],
)
def test_restored_to_before(hudi: Hudi, tmp_path: Path, clusterer: str, kind: str, version: int) -> None:
    """Hudi's restore leaves a clustering that it has undone as one that is begun: it keeps writers away."""
    uri = str(tmp_path / "table")
    options = clustering_options(kind, version)
    fill(writes(hudi, uri, options), kind)
    table = hoodoo.Table(uri, options=options)
    saved = table.timeline.instants()[-1].requested
    hudi.call("create_savepoint", uri, commit_time=saved)
    before = same_rows(hudi, uri)
    if clusterer == "hudi":
        cluster_by_hudi(hudi, uri, order=_SORT)
    else:
        assert table.cluster(sort_by=["val", "ts"]) is not None
    clustered = table.timeline.instants()[-1].requested
    assert {s.base_instant for s in table.file_slices()} == {clustered}
    hudi.call("rollback_to_savepoint", uri, instant_time=saved)
    assert same_rows(hudi, uri) == before
    (left,) = table.pending_clusterings()
    assert (left.instant, left.inflight) == (clustered, True)
    with pytest.raises(Exception, match="HoodieClusteringUpdateException"):
        writes(hudi, uri, options)([row(2, 50, "refused")], "upsert")
    with pytest.raises(ConflictError, match="pending clustering"):
        writes(None, uri, options)([row(2, 50, "refused")], "upsert")
    table.rollback_clustering(clustered)
    assert _leftovers(uri, clustered) == []
    assert same_rows(hudi, uri) == before
    for who in (hudi, None):
        writes(who, uri, options)([row(2, 51, f"after {who is None}")], "upsert")
        assert _values(same_rows(hudi, uri))["key-002"] == f"after {who is None}"
    assert table.cluster(sort_by="id") is not None
    assert _values(same_rows(hudi, uri))["key-002"] == "after True"
