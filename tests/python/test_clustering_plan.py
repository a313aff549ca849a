"""Planning of clusterings from Python and from the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console
from typer.testing import CliRunner

import hoodoo
from hoodoo.cli.commands import app

SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
OPTIONS = {"hoodie.parquet.small.file.limit": "0"}


def rows(numbers: range, city: str = "sf") -> pa.Table:
    size = len(numbers)
    values = {"id": [f"{city}{n:04d}" for n in numbers], "city": [city] * size, "n": list(numbers), "at": [0] * size}
    return pa.table(values, schema=SCHEMA)


def make(uri: Path, parts: list[range], **more: Any) -> hoodoo.Table:
    table = hoodoo.Table.create(uri, SCHEMA, name="t", record_key="id", partition_by="city", options=OPTIONS, **more)
    for part in parts:
        table.insert(rows(part))
    return table


def instants(table: hoodoo.Table) -> list[str]:
    return [i.action for i in table.timeline.instants()]


def test_overlap_groups_files_whose_ranges_lie_over_each_other(tmp_path: Path):
    table = make(tmp_path / "t", [range(40), range(100, 140), range(200, 240), range(130, 180)])
    plan = table.schedule_clustering(sort_by="n", strategy="OVERLAP", explain=True)
    (group,) = plan.groups
    assert (group.partition, len(group.file_ids), group.output_file_groups) == ("sf", 2, 1)
    assert group.ranges == {"n": ("100", "179")}
    assert group.before == hoodoo.OverlapDepth(2, 1.5)
    assert group.after == hoodoo.OverlapDepth(1, 1.0)
    assert plan.before is not None
    assert plan.after is not None
    assert (plan.before.max, plan.after.max) == (2, 1)
    assert instants(table) == ["commit"] * 4, "explaining writes nothing"
    assert table.schedule_clustering(sort_by="n", strategy="OVERLAP", explain=True) == plan
    planned = table.schedule_clustering(sort_by="n", strategy="OVERLAP")
    assert planned is not None
    written = table.timeline.plan(planned)
    assert written == json.loads(plan.record)
    params = written["clusteringPlan"]["strategy"]["strategyParams"]
    assert params["hoodie.clustering.plan.strategy.sort.columns"] == "n"
    assert params["hoodie.clustering.plan.strategy.target.file.max.bytes"] == str(1 << 30)
    assert written["clusteringPlan"]["inputGroups"][0]["extraMetadata"] == {"n.min": "100", "n.max": "179"}


def test_files_that_only_touch_do_not_overlap(tmp_path: Path):
    table = make(tmp_path / "t", [range(41), range(40, 80), range(79, 90)])
    # The key is there twice: inserts do not look.
    assert table.schedule_clustering(sort_by="n", strategy="OVERLAP") is None
    assert not table.schedule_clustering(sort_by="n", strategy="OVERLAP", explain=True).groups
    # By a column that is one value everywhere, the next one decides.
    plan = table.schedule_clustering(sort_by=["city", "at", "n"], strategy="OVERLAP", explain=True)
    assert not plan.groups
    table.insert(rows(range(20, 30)))
    plan = table.schedule_clustering(sort_by=["city", "at", "n"], strategy="OVERLAP", explain=True)
    assert [len(g.file_ids) for g in plan.groups] == [2]
    assert plan.groups[0].ranges["city"] == ("sf", "sf")
    assert plan.groups[0].ranges["at"][0] == plan.groups[0].ranges["at"][1] != None  # noqa: E711


def test_key_ranges_come_from_the_footers(tmp_path: Path):
    table = make(tmp_path / "t", [range(40), range(30, 60), range(70, 80)])
    plan = table.schedule_clustering(strategy="KEY_RANGE", explain=True)
    (group,) = plan.groups
    assert group.ranges == {"_hoodie_record_key": ("sf0000", "sf0059")}
    assert json.loads(plan.record)["clusteringPlan"]["strategy"]["strategyParams"] == {
        "hoodie.clustering.plan.strategy.sort.columns": "id",
        "hoodie.clustering.plan.strategy.target.file.max.bytes": str(1 << 30),
        "hoodoo.clustering.plan.strategy": "KEY_RANGE",
    }


def test_meta_columns_and_fields_of_structs(tmp_path: Path):
    table = make(tmp_path / "t", [range(5), range(5, 9)])
    point = pa.array([{"x": 1}] * 3, pa.struct([("x", pa.int32())]))
    table.insert(rows(range(20, 23)).append_column("point", point))
    assert table.schedule_clustering(sort_by="_hoodie_commit_time", strategy="OVERLAP") is None
    # The ranges of fields are not read: files that have some may overlap.
    table.insert(rows(range(30, 33)).append_column("point", point))
    plan = table.schedule_clustering(sort_by="point.x", strategy="OVERLAP", explain=True)
    assert [(len(g.file_ids), dict(g.ranges)) for g in plan.groups] == [(4, {})]
    assert plan.before == hoodoo.OverlapDepth(4, 4.0)
    assert plan.after == hoodoo.OverlapDepth(1, 1.0)


def test_nulls_and_missing_columns(tmp_path: Path):
    table = make(tmp_path / "t", [range(40)])
    nothing = rows(range(50, 60)).set_column(2, "n", pa.array([None] * 10, pa.int64()))
    table.insert(nothing)
    table.insert(rows(range(80, 90)).append_column("more", pa.array(range(10), pa.int64())))
    some = rows(range(60, 70)).set_column(2, "n", pa.array([None, *range(9)], pa.int64()))
    table.insert(some.append_column("more", pa.array(range(10), pa.int64())))
    plan = table.schedule_clustering(sort_by="n", strategy="OVERLAP", explain=True)
    # Null is before everything: the last file reaches from there to 8.
    assert [len(g.file_ids) for g in plan.groups] == [2]
    assert plan.groups[0].ranges == {"n": (None, "39")}
    # Files without the column are null in it.
    plan = table.schedule_clustering(sort_by="more", strategy="OVERLAP", explain=True)
    assert [len(g.file_ids) for g in plan.groups] == [2]
    assert plan.groups[0].ranges == {"more": ("0", "9")}


def test_sizes_without_sorting_open_no_file(tmp_path: Path):
    table = make(tmp_path / "t", [range(40), range(30, 60)])
    for file in (tmp_path / "t" / "sf").glob("*.parquet"):
        file.write_bytes(b"\0" * file.stat().st_size)
    plan = table.schedule_clustering(explain=True)
    assert plan.files == 2
    assert plan.before is None
    assert table.schedule_clustering(sort_by="n") is not None
    with pytest.raises(hoodoo.CorruptFileError, match="parquet"):
        table.schedule_clustering(sort_by="n", strategy="OVERLAP", explain=True)


def test_options_and_their_refusal(tmp_path: Path):
    table = make(tmp_path / "t", [range(40), range(30, 60)])
    prefix = "hoodie.clustering.plan.strategy."
    plan = table.schedule_clustering(options={prefix + "max.bytes.per.group": 1}, explain=True)
    assert len(plan.groups) == 2
    assert table.schedule_clustering(options={prefix + "small.file.limit": 1}) is None
    recent = "org.apache.hudi.client.clustering.plan.strategy.SparkRecentDaysClusteringPlanStrategy"
    assert table.schedule_clustering(strategy=recent, explain=True).files == 2
    with pytest.raises(hoodoo.UnsupportedError, match="SparkConsistentBucket"):
        table.schedule_clustering(strategy="x.SparkConsistentBucketClusteringPlanStrategy")
    with pytest.raises(hoodoo.InvalidOptionError, match="BEST"):
        table.schedule_clustering(strategy="BEST")
    with pytest.raises(hoodoo.InvalidOptionError, match=r"no column 'nope'.*id, city, n, at"):
        table.schedule_clustering(sort_by="nope")
    with pytest.raises(hoodoo.InvalidOptionError, match="OVERLAP"):
        table.schedule_clustering(strategy="OVERLAP")
    assert instants(table) == ["commit"] * 2


def test_what_is_planned_stands_aside(tmp_path: Path):
    table = make(tmp_path / "t", [range(40), range(30, 60)])
    first = table.schedule_clustering()
    table.insert(rows(range(500, 510)))
    second = table.schedule_clustering()
    assert first is not None
    assert second is not None
    assert [(p.instant, p.slices, p.inflight) for p in table.pending_clusterings()] == [
        (first, 2, False),
        (second, 1, False),
    ]
    assert table.schedule_clustering() is None
    with pytest.raises(hoodoo.ConflictError):
        table.upsert(rows(range(1)))


def test_a_request_without_a_plan_is_read_over(tmp_path: Path):
    """As Hudi leaves one behind when its planner fails."""
    table = make(tmp_path / "t", [range(40), range(30, 60)])
    (tmp_path / "t/.hoodie/timeline/20260101000000000.clustering.requested").touch()
    assert not table.pending_clusterings()
    assert table.schedule_clustering() is not None
    assert [p.slices for p in table.pending_clusterings()] == [2]


def test_scheduled_after_commits(tmp_path: Path):
    options = {
        **OPTIONS,
        "hoodie.clustering.schedule.inline": "true",
        "hoodie.clustering.async.max.commits": "3",
        "hoodie.clustering.plan.strategy.sort.columns": "n",
    }
    make(tmp_path / "t", [])
    waiting = []
    for turn in range(5):
        hoodoo.write(rows(range(turn * 10, turn * 10 + 5)), tmp_path / "t", operation="insert", options=options)
        waiting.append(sum(p.slices for p in hoodoo.Table(tmp_path / "t").pending_clusterings()))
    assert waiting == [0, 0, 3, 3, 3]
    (pending,) = hoodoo.Table(tmp_path / "t").pending_clusterings()
    assert pending.sort_by == ("n",)


def test_log_files_count_or_not(tmp_path: Path):
    table = make(tmp_path / "t", [range(40), range(50, 60)], table_type="MERGE_ON_READ")
    table.upsert(rows(range(10)))
    plan = table.schedule_clustering(explain=True)
    assert (plan.files, sum(sum(g.log_files) for g in plan.groups)) == (2, 1)
    without = table.schedule_clustering(options={"hoodoo.clustering.include.log.files": False}, explain=True)
    assert (without.files, sum(sum(g.log_files) for g in without.groups)) == (1, 0)


def test_a_plan_is_arrow_and_is_drawn(tmp_path: Path):
    table = make(tmp_path / "t", [range(40), range(30, 60)])
    plan = table.schedule_clustering(sort_by="n", explain=True)
    found = plan.to_arrow().to_pylist()
    assert [
        (r["group"], r["partition"], r["output_file_groups"], r["depth_before"], r["depth_after"]) for r in found
    ] == [(0, "sf", 1, 2, 1)] * 2
    assert found[0]["ranges"] == [("n", {"min": "0", "max": "59"})]
    sizes = {s.base_file: s.size for s in table.file_slices()}
    assert {r["base_file"]: r["base_bytes"] for r in found} == sizes
    console = Console(width=200, record=True)
    console.print(plan)
    text = console.export_text()
    assert re.search(r"0 +│ sf +│ 2 → 1 .*n 0 … 59 +│ 2 → 1", text)
    empty = table.schedule_clustering(options={"hoodie.clustering.plan.strategy.small.file.limit": 1}, explain=True)
    console.print(empty)
    assert "nothing to cluster" in console.export_text()
    assert empty.to_arrow().num_rows == 0


def run(*arguments: str) -> str:
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def test_command_line(tmp_path: Path):
    uri = str(tmp_path / "t")
    table = make(tmp_path / "t", [range(40), range(30, 60)])
    assert "no clustering is planned" in run("cluster", "status", uri)
    explained = run("cluster", "plan", uri, "--explain", "--sort-by", "n,id", "--strategy", "overlap")
    assert re.search(r"sf .* 2 → 1 .*n 0 … 59", explained)
    assert not table.pending_clusterings()
    planned = run("cluster", "plan", uri, "--sort-by", "n", "--set", OPTION)
    assert "planned as" in planned
    status = run("cluster", "status", uri)
    (waiting,) = table.pending_clusterings()
    assert re.search(rf"{waiting.instant} .*requested .* 1 .* 2 .* n", status)
    assert "nothing to cluster" in run("cluster", "plan", uri)
    assert "nothing to cluster" in run("cluster", "plan", uri, "--explain")


OPTION = "hoodie.clustering.plan.strategy.target.file.max.bytes=1000000"
