"""Clusterings by hoodoo from the plan to the commit: Hudi reads them, looks behind them, and goes on from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import hoodoo
from tests.interop.clustering import (
    EVERYWHERE,
    FLAT,
    LAYOUT_STRATEGY,
    NO_META,
    PARQUET_LOGS,
    TARGET,
    cluster_by_hudi,
    clustering_options,
    fill,
    goes_on,
    in_order,
    same_changes,
    without_names,
    writes,
)
from tests.interop.hudi import Hudi
from tests.interop.layouts import SIMPLE, Layout, batch, row
from tests.interop.merge_on_read import same_rows
from tests.rows import arrow_rows


def _slow(*values: object, **how: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow, **how)


CASES = [
    pytest.param("mor", 9, SIMPLE, {}, "LINEAR", id="mor-9-linear"),
    _slow("cow", 9, SIMPLE, {}, "ZORDER", id="cow-9-zorder"),
    _slow("cow", 9, FLAT, {}, "HILBERT", id="cow-9-flat-hilbert"),
    _slow("cow", 8, SIMPLE, {}, "LINEAR", id="cow-8-linear"),
    _slow("cow", 9, SIMPLE, {}, None, id="cow-9-copied"),
    _slow("cow", 9, FLAT, NO_META, "LINEAR", id="cow-9-flat-no-meta"),
    _slow("cow", 8, FLAT, NO_META, None, id="cow-8-no-meta-copied"),
    _slow("mor", 8, SIMPLE, {}, "HILBERT", id="mor-8-hilbert"),
    _slow("mor", 9, FLAT, PARQUET_LOGS, "ZORDER", id="mor-9-flat-parquet-zorder"),
    _slow("mor", 9, FLAT, NO_META, None, id="mor-9-flat-no-meta-copied"),
]


@pytest.mark.parametrize(("kind", "version", "layout", "extra", "order"), CASES)
def test_hudi_goes_on(
    hudi: Hudi,
    tmp_path: Path,
    kind: str,
    version: int,
    layout: Layout,
    extra: dict[str, str],
    order: str | None,
) -> None:
    """Written by both, clustered by hoodoo, written and clustered by Hudi, clustered by hoodoo again."""
    uri = str(tmp_path / "table")
    options = {**clustering_options(kind, version, layout), **extra}
    meta = "hoodie.populate.meta.fields" not in extra
    fill(writes(hudi, uri, options), kind)
    rows = [row(n, 6, f"ours {n}") for n in range(40, 52)]
    writes(None, uri, options)(rows, "insert")
    before = same_rows(hudi, uri, meta=meta)
    table = hoodoo.Table(uri, options=options)
    sort_by = ["amount", "val"] if order else None
    done = table.cluster(sort_by=sort_by, options={LAYOUT_STRATEGY: order} if order else {})
    assert done is not None
    assert done.inserted == len(before)
    assert len(table.file_slices()) == len(done.files) == (1 if layout is FLAT else 3)
    after = same_rows(hudi, uri, meta=meta)
    assert without_names(after) == without_names(before)
    if order == "LINEAR":
        for values in in_order(uri, done.instant, ["amount"]).values():
            assert values == sorted(values)
    # Hudi's next one is on top of our files, and ours on top of its.
    writes(hudi, uri, options)([row(n, 7, "between") for n in range(46, 58)], "upsert")
    between = same_rows(hudi, uri, meta=meta)
    assert sum(r["val"] == "between" for r in between) == 12
    cluster_by_hudi(hudi, uri, order="id", options=EVERYWHERE)
    last = table.timeline.instants()[-1]
    assert last.action == "replacecommit"
    assert not {s.base_instant for s in table.file_slices()} & {done.instant}
    assert without_names(same_rows(hudi, uri, meta=meta)) == without_names(between)
    again = table.cluster(sort_by="ts", options=EVERYWHERE)
    assert again is not None
    assert without_names(same_rows(hudi, uri, meta=meta)) == without_names(between)
    goes_on(hudi, uri, options, again, meta=meta)


@pytest.mark.parametrize(("kind", "version"), [("mor", 9), _slow("cow", 9), _slow("cow", 8), _slow("mor", 8)])
def test_hudi_looks_behind_it(hudi: Hudi, tmp_path: Path, kind: str, version: int) -> None:
    """Time travel to before it, and changes from any time to any other."""
    uri = str(tmp_path / "table")
    options = clustering_options(kind, version)
    fill(writes(hudi, uri, options), kind)
    then = {
        i.requested: hudi.read(uri, meta=True, as__of__instant=i.requested)
        for i in hoodoo.Table(uri).timeline.instants()
    }
    assert len({len(rows) for rows in then.values()}) >= 3
    table = hoodoo.Table(uri, options=options)
    done = table.cluster(sort_by=["val", "ts"])
    assert done is not None
    writes(hudi, uri, options)([row(n, 30, "after") for n in (2, 3, 50)], "upsert")
    for instant, rows in then.items():
        assert hudi.read(uri, meta=True, as__of__instant=instant) == rows
        assert arrow_rows(table.to_arrow(as_of=instant), meta=True) == rows
    now = hudi.read(uri, meta=True, as__of__instant=done.instant)
    assert without_names(now) == without_names(list(then.values())[-1])
    assert arrow_rows(table.to_arrow(as_of=done.instant), meta=True) == now
    times = [i.completed for i in table.timeline.instants()]
    before, clustered, last = times[-3:]
    assert clustered == done.completed
    assert before is not None
    assert clustered is not None
    assert same_changes(hudi, uri, before, clustered) == [], "a clustering changes nothing"
    assert {r["val"] for r in same_changes(hudi, uri, before, last)} == {"after"}
    assert {r["val"] for r in same_changes(hudi, uri, clustered, last)} == {"after"}
    first = times[0]
    assert first is not None
    assert len(same_changes(hudi, uri, first, before)) >= 16
    assert same_changes(hudi, uri, first, clustered)


@pytest.mark.parametrize("clusterer", ["hoodoo", _slow("hudi")])
def test_changes_across_it(hudi: Hudi, tmp_path: Path, clusterer: str) -> None:
    """Rows that were written in the range, moved by a clustering, and left alone by a later write of the range."""
    uri = str(tmp_path / "table")
    options = clustering_options("cow")
    write = writes(None, uri, options)
    for first in (0, 6):
        write([row(n, 1, "written") for n in range(first, first + 6)], "insert")
    if clusterer == "hudi":
        cluster_by_hudi(hudi, uri, order="id")
    else:
        assert hoodoo.Table(uri, options=options).cluster(sort_by="id") is not None
    write([row(0, 2, "after")], "upsert")
    since = hoodoo.Table(uri).timeline.instants()[0].completed
    assert since is not None
    expected = hudi.read_changes(uri, since)
    assert len(expected) == 7
    assert same_changes(hudi, uri, since) == expected


def test_hudi_lists_it(hudi: Hudi, tmp_path: Path) -> None:
    """Its procedures read plan and commit."""
    uri = str(tmp_path / "table")
    options = clustering_options("cow")
    fill(writes(None, uri, options), "cow")
    table = hoodoo.Table(uri, options=options)
    planned = table.schedule_clustering(sort_by="ts")
    show = f"call show_clustering(path => '{uri}', show_involved_partition => true)"
    (shown,) = hudi.sql(show)
    assert (shown["timestamp"], shown["input_group_size"], shown["state"]) == (planned, 3, "REQUESTED")
    assert set(shown["involved_partitions"].split(",")) == {"p 0", "p 1", "p 2"}
    done = table.cluster()
    assert done is not None
    (shown,) = hudi.sql(show)
    assert (shown["timestamp"], shown["input_group_size"], shown["state"]) == (planned, 3, "COMPLETED")
    hudi.sql(f"create table clustered using hudi location '{uri}'")
    try:
        commits = {c["commit_time"]: c for c in hudi.sql("call show_commits(table => 'clustered', limit => 20)")}
        files = hudi.sql(f"call show_commit_files(table => 'clustered', instant_time => '{done.instant}')")
    finally:
        hudi.sql("drop table clustered")
    assert len(commits) == 4
    told = commits[done.instant]
    sizes = [(tmp_path / "table" / f).stat().st_size for f in done.files]
    assert told["total_bytes_written"] == sum(sizes)
    assert told["total_files_added"] == 3
    assert told["total_files_updated"] == 0
    assert told["total_partitions_written"] == 3
    assert told["total_records_written"] == 24
    assert told["total_errors"] == 0
    assert sorted(f["file_size"] for f in files) == sorted(sizes)
    assert {f["action"] for f in files} == {"replacecommit"}


@pytest.mark.slow
def test_many_files_of_a_group(hudi: Hudi, tmp_path: Path) -> None:
    """Outputs end at the target, row groups are copied whole, and Hudi finds keys by our footers."""
    uri = str(tmp_path / "table")
    options = clustering_options("cow", 9, FLAT)
    for turn in range(3):
        rows = [row(n, 1, f"{n * 7919 % 65_537:x}" * 4) for n in range(turn * 20_000, turn * 20_000 + 20_000)]
        hudi.write(batch(rows), uri, "insert", **options)
    before = same_rows(hudi, uri)
    table = hoodoo.Table(uri, options=options)
    size = sum(s.size for s in table.file_slices()) // 24
    for sort_by in (None, "val"):
        done = table.cluster(sort_by=sort_by, options={**EVERYWHERE, TARGET: str(size)})
        assert done is not None
        assert len(done.files) >= 4
        assert without_names(same_rows(hudi, uri)) == without_names(before)
        read = [pq.read_metadata(Path(uri) / f) for f in done.files]
        assert all(b"org.apache.hudi.bloomfilter" in metadata.metadata for metadata in read)
    picked = [row(n, 2, "picked") for n in range(0, 60_000, 9973)]
    hudi.write(batch(picked), uri, "upsert", **options)
    now = same_rows(hudi, uri)
    assert len(now) == len(before)
    assert sorted(r["id"] for r in now if r["val"] == "picked") == sorted(r["id"] for r in picked)
    # Not one row went elsewhere.
    (commit,) = [i for i in table.timeline.instants() if i.completed][-1:]
    metadata = table.timeline.metadata(commit)
    stats = [s for per in metadata["partitionToWriteStats"].values() for s in per]
    assert sum(s["numUpdateWrites"] for s in stats) == len(picked)
    assert sum(s["numInserts"] for s in stats) == 0
