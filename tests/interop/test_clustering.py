"""Plans of Hudi are carried out by hoodoo: the same rows in the same order, and Hudi goes on from there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from tests.interop.clustering import (
    FLAT,
    LOGS_ONLY,
    NO_META,
    PARQUET_LOGS,
    cluster_by_hudi,
    clustering_options,
    fill,
    goes_on,
    in_order,
    planned_by_hudi,
    without_names,
    writes,
)
from tests.interop.hudi import Hudi
from tests.interop.layouts import LAYOUTS, SIMPLE, Layout, batch, row
from tests.interop.merge_on_read import same_rows

_COMMIT_TIME = "COMMIT_TIME_ORDERING"
_SORT = "val,ts,id"
# What Hudi leaves out of a figure that counts nothing, or we: neither reads it.
_COUNTS_NOTHING = {
    "totalLogFiles",
    "totalLogFilesCompacted",
    "totalLogReadTimeMs",
    "totalLogSizeCompacted",
    "numUpdates",
}
_DIFFERS = {"fileId", "path", "totalWriteBytes", "fileSizeInBytes", "runtimeStats"}


def _told(uri: str, instant: str) -> dict[str, Any]:
    """The commit of a clustering, without what names or measures its files."""
    metadata = dict(hoodoo.Table(uri).timeline.metadata(instant))
    metadata["extraMetadata"] = {k: v for k, v in metadata["extraMetadata"].items() if k != "hoodoo.clustering.files"}
    metadata["partitionToReplaceFileIds"] = {p: sorted(i) for p, i in metadata["partitionToReplaceFileIds"].items()}
    for partition, stats in metadata["partitionToWriteStats"].items():
        for stat in stats:
            assert stat["path"].endswith(f"_{instant}.parquet")
            assert stat["path"].split("/")[-1].startswith(stat["fileId"] + "_")
            assert stat["totalWriteBytes"] == stat["fileSizeInBytes"] == (Path(uri) / stat["path"]).stat().st_size
            assert stat["partitionPath"] == partition
        kept = [{k: v for k, v in s.items() if k not in _DIFFERS} for s in stats]
        metadata["partitionToWriteStats"][partition] = [
            {k: v or 0 if k in _COUNTS_NOTHING else v for k, v in s.items()} for s in kept
        ]
    return metadata


def _carried_out_by_both(
    hudi: Hudi, uri: str, options: dict[str, str], planned: str, columns: list[str]
) -> hoodoo.Commit:
    """Carries a plan out, and lets Hudi carry it out on a copy: the same rows, commit and order of rows."""
    meta = options.get("hoodie.populate.meta.fields") != "false"
    before = same_rows(hudi, uri, meta=meta)
    assert before
    twin = uri + "-twin"
    shutil.copytree(uri, twin)
    done = hoodoo.Table(uri, options=options).cluster(instant=planned)
    assert done is not None
    assert (done.instant, done.operation, done.inserted) == (planned, "CLUSTER", len(before))
    after = same_rows(hudi, uri, meta=meta)
    assert without_names(after) == without_names(before)
    assert after != before or not meta
    if not meta and "hoodie.datasource.write.partitionpath.field" in options:
        # Hudi puts the rows of all partitions into the root of the table, and cannot read that any more.
        return done
    # The plan names the files by whole paths, which are still there.
    cluster_by_hudi(hudi, twin, "execute")
    assert without_names(hudi.read(twin, meta=meta)) == without_names(before)
    assert _told(uri, planned) == _told(twin, planned)
    assert in_order(uri, planned, columns) == in_order(twin, planned, columns)
    return done


def _slow(*values: object, **how: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow, **how)


CASES = [
    pytest.param("cow", 9, SIMPLE, {}, id="cow-9"),
    pytest.param("mor", 9, SIMPLE, {}, id="mor-9-avro"),
    _slow("mor", 8, FLAT, PARQUET_LOGS, id="mor-8-parquet-flat"),
    _slow("cow", 8, FLAT, {}, id="cow-8-flat"),
    _slow("cow", 9, SIMPLE, NO_META, id="cow-9-no-meta"),
    _slow("cow", 8, SIMPLE, NO_META, id="cow-8-no-meta"),
    _slow("mor", 9, SIMPLE, NO_META, id="mor-9-no-meta"),
    _slow("cow", 9, FLAT, NO_META, id="cow-9-no-meta-flat"),
    _slow("mor", 9, FLAT, {**NO_META, **PARQUET_LOGS}, id="mor-9-no-meta-parquet-flat"),
    _slow("mor", 9, SIMPLE, PARQUET_LOGS, id="mor-9-parquet"),
    _slow("mor", 8, SIMPLE, {}, id="mor-8-avro"),
    _slow("mor", 9, FLAT, {}, id="mor-9-flat"),
]


@pytest.mark.parametrize(("kind", "version", "layout", "extra"), CASES)
def test_plans_of_hudi(
    hudi: Hudi, tmp_path: Path, kind: str, version: int, layout: Layout, extra: dict[str, str]
) -> None:
    uri = str(tmp_path / "table")
    options = {**clustering_options(kind, version, layout), **extra}
    fill(writes(hudi, uri, options), kind)
    planned = planned_by_hudi(hudi, uri, order=_SORT)
    done = _carried_out_by_both(hudi, uri, options, planned, _SORT.split(","))
    assert len(done.files) == (1 if layout is FLAT else 3)
    goes_on(hudi, uri, options, done, meta=extra.get("hoodie.populate.meta.fields") != "false")


@pytest.mark.parametrize("blocks", ["avro", _slow("parquet")])
def test_slices_of_log_files_only(hudi: Hudi, tmp_path: Path, blocks: str) -> None:
    uri = str(tmp_path / "table")
    options = {**clustering_options("mor"), "hoodie.logfile.data.block.format": blocks}
    fill(writes(hudi, uri, {**options, **LOGS_ONLY}), "mor")
    slices = hoodoo.Table(uri).file_slices()
    assert slices
    assert all(s.base_file is None and s.log_files for s in slices)
    planned = planned_by_hudi(hudi, uri, order=_SORT)
    done = _carried_out_by_both(hudi, uri, options, planned, _SORT.split(","))
    goes_on(hudi, uri, options, done)


@pytest.mark.slow
@pytest.mark.parametrize("layout", [x for x in LAYOUTS if x not in (SIMPLE, LAYOUTS[6])], ids=lambda x: x.name)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_layouts(hudi: Hudi, tmp_path: Path, kind: str, layout: Layout) -> None:
    uri = str(tmp_path / "table")
    options = clustering_options(kind, 9, layout, mode=_COMMIT_TIME)
    fill(writes(hudi, uri, options), kind, layout.name)
    planned = planned_by_hudi(hudi, uri, order=_SORT)
    done = _carried_out_by_both(hudi, uri, options, planned, _SORT.split(","))
    goes_on(hudi, uri, options, done)


@pytest.mark.parametrize("kind", ["cow", _slow("mor")])
def test_planned_inline(hudi: Hudi, tmp_path: Path, kind: str) -> None:
    """By options of Hudi's writes; without sort columns rows stay as they stood."""
    uri = str(tmp_path / "table")
    options = clustering_options(kind)
    inline = {"hoodie.clustering.schedule.inline": "true", "hoodie.clustering.async.max.commits": "3"}
    write = writes(hudi, uri, {**options, **inline})
    for turn in range(3):
        write([row(n, 1, f"turn {turn}") for n in range(turn * 6, turn * 6 + 6)], "insert")
    (waiting,) = hoodoo.Table(uri).pending_clusterings()
    assert (waiting.slices, waiting.inflight, waiting.sort_by) == (9, False, ())
    # New rows go on arriving, in files of their own.
    write([row(n, 1, "meanwhile") for n in range(30, 33)], "insert")
    before = same_rows(hudi, uri)
    done = hoodoo.Table(uri, options=options).cluster()
    assert done is not None
    assert (done.instant, done.inserted, len(done.files)) == (waiting.instant, 18, 3)
    assert without_names(same_rows(hudi, uri)) == without_names(before)
    goes_on(hudi, uri, options, done)


@pytest.mark.parametrize("keeps", ["true", "false"])
@pytest.mark.parametrize("kind", ["cow", _slow("mor")])
def test_with_a_metadata_table(hudi: Hudi, tmp_path: Path, kind: str, keeps: str) -> None:
    """Our clustering keeps it, or drops it where that is asked for; Hudi goes on with it, or builds it anew."""
    uri = str(tmp_path / "table")
    with_it = {"hoodie.metadata.enable": "true"}
    options = {**clustering_options(kind), **with_it}
    write = writes(hudi, uri, options)
    fill(write, kind)
    before = hudi.read(uri, meta=True, **with_it)
    planned = planned_by_hudi(hudi, uri, with_it, order=_SORT)
    folder = Path(uri) / ".hoodie" / "metadata"
    assert folder.exists()
    done = hoodoo.Table(uri, options={**options, "hoodie.metadata.enable": keeps}).cluster()
    assert done is not None
    assert done.instant == planned
    assert folder.exists() == (keeps == "true")
    after = hudi.read(uri, meta=True, **with_it)
    assert without_names(after) == without_names(before)
    assert same_rows(hudi, uri) == after
    write([row(n, 20, "after") for n in range(4)], "upsert")
    assert folder.exists()
    now = hudi.read(uri, meta=True, **with_it)
    assert now == same_rows(hudi, uri)
    assert {r["val"] for r in now if r["id"] < "key-004"} == {"after"}
    cluster_by_hudi(hudi, uri, options=with_it, order="id")
    assert without_names(hudi.read(uri, meta=True, **with_it)) == without_names(now)
    assert without_names(same_rows(hudi, uri)) == without_names(now)


@pytest.mark.slow
def test_one_file_at_a_time(hudi: Hudi, tmp_path: Path) -> None:
    """Hudi's strategies that sort each file by itself."""
    uri = str(tmp_path / "table")
    options = clustering_options("cow")
    write = writes(hudi, uri, options)
    fill(write, "cow")
    before = same_rows(hudi, uri)
    package = "org.apache.hudi.client.clustering"
    single = {
        "hoodie.clustering.plan.strategy.class": f"{package}.plan.strategy.SparkSingleFileSortPlanStrategy",
        "hoodie.clustering.execution.strategy.class": f"{package}.run.strategy.SparkSingleFileSortExecutionStrategy",
    }
    planned = planned_by_hudi(hudi, uri, single, order="val,ts,id")
    done = hoodoo.Table(uri, options=options).cluster(instant=planned)
    assert done is not None
    assert len(done.files) == 9
    assert without_names(same_rows(hudi, uri)) == without_names(before)
    goes_on(hudi, uri, options, done)


@pytest.mark.slow
def test_columns_that_came_later(hudi: Hudi, tmp_path: Path) -> None:
    """Files from before a column was added and one widened become one with those from after."""
    uri = str(tmp_path / "table")
    options = clustering_options("cow", 9, FLAT)
    hudi.write(batch([row(n, 1, "narrow") for n in range(6)]), uri, "insert", **options)
    wider = batch([row(n, 2, "wide") for n in range(6, 12)])
    wider = wider.set_column(1, "site", pa.array([2**40 - n for n in range(6)], pa.int64()))
    wider = wider.append_column("extra", pa.array([["a", None], None, [], ["b"], None, ["c"]]))
    hudi.write(wider, uri, "insert", **options)
    planned = planned_by_hudi(hudi, uri, order="site,id")
    _carried_out_by_both(hudi, uri, options, planned, ["site", "id", "extra"])
    hudi.write(wider.slice(0, 2), uri, "upsert", **options)
    same_rows(hudi, uri)
