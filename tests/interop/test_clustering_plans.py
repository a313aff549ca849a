"""Plans of clusterings that hoodoo makes are carried out by real Hudi; rows stay what they were."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import hoodoo
from tests.interop.clustering import (
    FLAT,
    LOGS_ONLY,
    NO_META,
    TARGET,
    cluster_by_hudi,
    clustering_options,
    fill,
    goes_on,
    without_names,
    writes,
)
from tests.interop.hudi import Hudi
from tests.interop.layouts import SIMPLE, Layout, batch, row
from tests.interop.merge_on_read import same_rows

_PLAN = "hoodie.clustering.plan.strategy."


def _fill(uri: str, options: dict[str, str], kind: str) -> None:
    for turn in range(3):
        rows = [row(n, 4, f"first {turn}") for n in range(turn * 6, turn * 6 + 9)]
        hoodoo.write(batch(rows), uri, operation="insert", options=options)
    if kind == "mor":
        hoodoo.write(batch([row(n, 5, "again") for n in range(0, 21, 2)]), uri, operation="upsert", options=options)
        hoodoo.write(batch([row(1, 5, ""), row(7, 5, "")]), uri, operation="delete", options=options)


def _plan(uri: Path, instant: str) -> dict[str, Any]:
    found = json.loads(json.dumps(hoodoo.Table(str(uri)).timeline.plan(instant)).replace(str(uri), "TABLE"))
    return dict(found)


def _executed_by_hudi(hudi: Hudi, uri: str, options: dict[str, str], **how: Any) -> list[str]:
    """Plans with hoodoo, lets Hudi carry it out; gives the sizes of the files of each group."""
    table = hoodoo.Table(uri, options=options)
    before = same_rows(hudi, uri)
    explained = table.schedule_clustering(**how, explain=True)
    assert not table.pending_clusterings()
    planned = table.schedule_clustering(**how)
    assert planned is not None
    (waiting,) = table.pending_clusterings()
    assert (waiting.instant, waiting.groups, waiting.slices) == (planned, len(explained.groups), explained.files)
    assert waiting.bytes == explained.bytes
    assert same_rows(hudi, uri) == before
    assert table.schedule_clustering(**how) is None
    cluster_by_hudi(hudi, uri, "execute")
    after = same_rows(hudi, uri)
    assert without_names(after) == without_names(before)
    assert [i.action for i in table.timeline.instants() if i.requested == planned] == ["replacecommit"]
    taken = {file_id for group in explained.groups for file_id in group.file_ids}
    assert not taken & {s.file_id for s in table.file_slices()}
    return sorted(s.file_id for s in table.file_slices() if s.base_instant == planned)


CASES = [
    pytest.param("cow", 9, SIMPLE),
    pytest.param("mor", 8, FLAT),
    pytest.param("mor", 9, SIMPLE, marks=pytest.mark.slow),
    pytest.param("cow", 8, FLAT, marks=pytest.mark.slow),
    pytest.param("cow", 9, FLAT, marks=pytest.mark.slow),
    pytest.param("mor", 9, FLAT, marks=pytest.mark.slow),
    pytest.param("cow", 8, SIMPLE, marks=pytest.mark.slow),
    pytest.param("mor", 8, SIMPLE, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("kind", "version", "layout"), CASES)
def test_plans_by_size_are_executed_by_hudi(
    hudi: Hudi, tmp_path: Path, kind: str, version: int, layout: Layout
) -> None:
    uri = str(tmp_path / "table")
    options = clustering_options(kind, version, layout)
    _fill(uri, options, kind)
    made = _executed_by_hudi(hudi, uri, options, sort_by=["ts", "id"])
    assert len(made) == (1 if layout is FLAT else 3)
    # What that clustering left is not planned again, and Hudi and hoodoo go on writing.
    assert hoodoo.Table(uri, options=options).schedule_clustering(sort_by=["ts", "id"]) is None
    again = {"hoodie.table.services.incremental.enabled": "false"}
    assert hoodoo.Table(uri, options=options).schedule_clustering(sort_by=["ts", "id"], options=again) is None
    hudi.write(batch([row(n, 30, "after") for n in range(4)]), uri, "upsert", **options)
    same_rows(hudi, uri)
    hoodoo.write(batch([row(n, 31, "and after") for n in range(3, 6)]), uri, operation="upsert", options=options)
    same_rows(hudi, uri)


STRATEGIES = [
    pytest.param("mor", "OVERLAP"),
    pytest.param("cow", "KEY_RANGE", marks=pytest.mark.slow),
    pytest.param("cow", "OVERLAP", marks=pytest.mark.slow),
    pytest.param("mor", "KEY_RANGE", marks=pytest.mark.slow),
    pytest.param("cow", "COMMIT_TIME", marks=pytest.mark.slow),
    pytest.param("cow", "RANDOM", marks=pytest.mark.slow),
    pytest.param("mor", "SINGLE_FILE", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("kind", "strategy"), STRATEGIES)
def test_plans_that_hudi_does_not_make_are_executed_by_it(hudi: Hudi, tmp_path: Path, kind: str, strategy: str) -> None:
    """Its reader takes the additional figures, ranges and parameters as they are."""
    uri = str(tmp_path / "table")
    options = clustering_options(kind, 9)
    _fill(uri, options, kind)
    # Over all that is there.
    hoodoo.write(batch([row(n, 4, "over") for n in range(2, 20)]), uri, operation="insert", options=options)
    how: dict[str, Any] = {"strategy": strategy}
    if strategy == "OVERLAP":
        how["sort_by"] = ["amount"]
    explained = hoodoo.Table(uri, options=options).schedule_clustering(**how, explain=True)
    group = json.loads(explained.record)["clusteringPlan"]["inputGroups"][0]
    assert (group["extraMetadata"] is not None) == (strategy in {"OVERLAP", "KEY_RANGE"})
    _executed_by_hudi(hudi, uri, options, **how)


def _has_equals(table: hoodoo.Table) -> bool:
    """Whether two slices of a partition are equal in size."""
    sizes = [(s.partition, s.size if s.base_file else None) for s in table.file_slices()]
    return len(sizes) > len(set(sizes))


def _in_one_order(plan: dict[str, Any]) -> dict[str, Any]:
    for group in plan["clusteringPlan"]["inputGroups"]:
        group["slices"].sort(key=lambda s: s["fileId"])
    plan["clusteringPlan"]["inputGroups"].sort(key=lambda g: g["slices"][0]["fileId"])
    return plan


TRIES: dict[str, dict[str, str]] = {
    "defaults": {},
    "small groups": {_PLAN + "max.bytes.per.group": "5000", _PLAN + "max.num.groups": "2"},
    "sorted": {_PLAN + "sort.columns": "ts,val", _PLAN + "target.file.max.bytes": "5000"},
}


@pytest.mark.parametrize("kind", ["mor", pytest.param("cow", marks=pytest.mark.slow)])
def test_the_plan_is_that_of_hudi(hudi: Hudi, tmp_path: Path, kind: str) -> None:
    """The same table, planned by both: but for the target of the outputs, the records on the timeline are equal."""
    uri, copy = tmp_path / "table", tmp_path / "copy"
    options = clustering_options(kind, 9)
    _fill(str(uri), options, kind)
    for name, tried in TRIES.items():
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(uri, copy)
        planned = hoodoo.Table(str(uri), options=options).schedule_clustering(options=tried)
        assert planned is not None
        ours = _plan(uri, planned)
        assert ours["clusteringPlan"]["strategy"]["strategyParams"].pop(TARGET) == tried.get(TARGET, "1073741824")
        (uri / ".hoodie" / "timeline" / f"{planned}.clustering.requested").unlink()
        cluster_by_hudi(hudi, str(copy), "schedule", tried)
        (by_hudi,) = [i for i in hoodoo.Table(str(copy)).timeline.instants() if i.action == "clustering"]
        theirs = _plan(copy, by_hudi.requested)
        if _has_equals(hoodoo.Table(str(uri), options=options)):
            # Those that are equal in size stand as a hash table of Hudi has them: two in one bucket in any order.
            if name != "small groups":
                assert _in_one_order(ours) == _in_one_order(theirs), name
        else:
            assert ours == theirs, name


@pytest.mark.slow
def test_what_was_clustered_long_ago_stays_as_it_is(hudi: Hudi, tmp_path: Path) -> None:
    """Its plan is in the history by then."""
    uri = str(tmp_path / "table")
    options = {
        **clustering_options("cow", 9),
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.table.services.incremental.enabled": "false",
    }
    _fill(uri, options, "cow")
    table = hoodoo.Table(uri, options=options)
    planned = table.schedule_clustering(sort_by="ts")
    assert planned is not None
    cluster_by_hudi(hudi, uri, "execute")
    for turn in range(6):
        hoodoo.write(batch([row(1, 10 + turn, "meanwhile")]), uri, operation="upsert", options=options)
    assert planned not in {i.requested for i in table.timeline.instants()}
    assert planned in {i.requested for i in table.timeline.instants(history=True)}
    untouched = {s.partition for s in table.file_slices() if s.base_instant == planned}
    assert untouched == {"p 0", "p 2"}
    explained = table.schedule_clustering(sort_by="ts", explain=True)
    assert {group.partition for group in explained.groups} == {"p 1"}
    by_other = table.schedule_clustering(sort_by="id", explain=True)
    assert {group.partition for group in by_other.groups} == {"p 0", "p 1", "p 2"}


def _selected(partition: str) -> dict[str, str]:
    return {_PLAN + "partition.selected": partition}


def test_one_of_several_plans(hudi: Hudi, tmp_path: Path) -> None:
    """Hudi carries out the plan that it is told to, and hoodoo the other."""
    uri = str(tmp_path / "table")
    options = clustering_options("mor")
    fill(writes(None, uri, options), "mor")
    before = same_rows(hudi, uri)
    table = hoodoo.Table(uri, options=options)
    first, second = (table.schedule_clustering(sort_by="ts", options=_selected(f"p {n}")) for n in (0, 1))
    assert first is not None
    assert second is not None
    cluster_by_hudi(hudi, uri, "execute", instants=second)
    (left,) = table.pending_clusterings()
    assert left.instant == first
    assert {s.partition for s in table.file_slices() if s.base_instant == second} == {"p 1"}
    assert without_names(same_rows(hudi, uri)) == without_names(before)
    done = table.cluster(instant=first)
    assert done is not None
    assert set(done.replaced) == {"p 0"}
    assert without_names(same_rows(hudi, uri)) == without_names(before)
    goes_on(hudi, uri, options, done)


ODD = {
    "no meta columns": ("cow", NO_META, {}),
    "no meta columns, logs": ("mor", NO_META, {}),
    "log files only": ("mor", {}, LOGS_ONLY),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_odd_tables(hudi: Hudi, tmp_path: Path, name: str) -> None:
    uri = str(tmp_path / "table")
    kind, extra, of_hudi = ODD[name]
    # Hudi cannot cluster partitions without meta columns: all rows end in the root of the table.
    options = {**clustering_options(kind, 9, FLAT if extra else SIMPLE), **extra}
    fill(writes(hudi, uri, {**options, **of_hudi}), kind)
    meta = not extra
    before = same_rows(hudi, uri, meta=meta)
    table = hoodoo.Table(uri, options=options)
    planned = table.schedule_clustering(sort_by=["val", "id"])
    assert planned is not None
    cluster_by_hudi(hudi, uri, "execute")
    assert table.pending_clusterings() == ()
    assert without_names(same_rows(hudi, uri, meta=meta)) == without_names(before)
    hoodoo.write(batch([row(n, 30, "after") for n in range(4)]), uri, operation="upsert", options=options)
    now = {r["id"]: r["val"] for r in same_rows(hudi, uri, meta=meta)}
    assert {now[f"key-{n:03d}"] for n in range(4)} == {"after"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_carried_out_inline(hudi: Hudi, tmp_path: Path, kind: str) -> None:
    """A write of Hudi with inline clustering finishes what hoodoo planned."""
    uri = str(tmp_path / "table")
    options = clustering_options(kind)
    _fill(uri, options, kind)
    table = hoodoo.Table(uri, options=options)
    planned = table.schedule_clustering(sort_by="ts")
    rows = [row(n, 4, "new") for n in range(40, 43)]
    inline = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "100"}
    before = same_rows(hudi, uri)
    hudi.write(batch(rows), uri, "insert", **options, **inline)
    assert table.pending_clusterings() == ()
    assert [i.action for i in table.timeline.instants() if i.requested == planned] == ["replacecommit"]
    after = [r for r in same_rows(hudi, uri) if r["val"] != "new"]
    assert without_names(after) == without_names(before)
