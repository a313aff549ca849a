"""hoodoo and Hudi write one table in turns: twelve or twenty commits, compared after each."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import hoodoo
from tests.interop.hudi import Hudi
from tests.interop.layouts import LAYOUTS, SIMPLE, Layout, batch, row
from tests.interop.model import Expected
from tests.rows import arrow_rows

# Cleans and archives within twelve commits.
_SERVICES = {
    "hoodie.clean.commits.retained": "3",
    "hoodie.keep.min.commits": "5",
    "hoodie.keep.max.commits": "6",
    "hoodie.timeline.compaction.batch.size": "3",
}


@pytest.mark.parametrize(
    ("layout", "version", "commits"),
    [
        pytest.param(SIMPLE, 9, 20, marks=pytest.mark.slow, id="simple-v9"),
        pytest.param(LAYOUTS[4], 8, 12, id="complex-v8"),
    ],
)
def test_commits_in_turns(hudi: Hudi, tmp_path: Path, layout: Layout, version: int, commits: int) -> None:
    uri = str(tmp_path / "table")
    options = {**layout.options(version), **_SERVICES}
    expected = Expected(layout)
    chance = random.Random(20)
    for commit in range(commits):
        operation = "insert" if commit == 0 else chance.choice(["upsert", "upsert", "upsert", "delete"])
        numbers = range(30) if commit == 0 else chance.sample(range(40), 6)
        rows = [row(n, chance.randint(1, 40), f"commit {commit}") for n in numbers]
        if commit % 2:
            hudi.write(batch(rows), uri, operation, **options)
        else:
            hoodoo.write(batch(rows), uri, operation=operation, options=options)
        if operation == "delete":
            expected.delete(rows)
        else:
            expected.upsert(rows)
        assert hudi.read(uri) == expected.rows, f"Hudi after commit {commit} ({operation})"
        ours = hoodoo.Table(uri, options=options)
        assert arrow_rows(ours.to_arrow()) == expected.rows, f"hoodoo after commit {commit} ({operation})"

    names = {path.name.rsplit(".", 1)[-1] for path in (tmp_path / "table/.hoodie/timeline").iterdir()}
    assert "clean" in names, "nobody cleaned"
    assert list((tmp_path / "table/.hoodie/timeline/history").glob("*.parquet")), "nobody archived"
    assert not hoodoo.Table(uri, options=options).verify().problems


def test_hudi_cleans_and_archives_what_we_wrote(hudi: Hudi, tmp_path: Path) -> None:
    """Ten commits by hoodoo without services; then one by Hudi that cleans and archives all at once."""
    uri = str(tmp_path / "table")
    options = SIMPLE.options()
    alone = {**options, "hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
    expected = Expected(SIMPLE)
    for commit in range(10):
        rows = [row(n, commit, f"commit {commit}") for n in range(commit, commit + 4)]
        hoodoo.write(batch(rows), uri, operation="upsert", options=alone)
        expected.upsert(rows)
    before = len(list((tmp_path / "table").rglob("*.parquet")))
    rows = [row(0, 50, "theirs")]
    hudi.write(batch(rows), uri, "upsert", **options, **_SERVICES)
    expected.upsert(rows)
    assert len(list((tmp_path / "table").glob("p*/*.parquet"))) < before
    assert hudi.read(uri) == expected.rows
    assert list((tmp_path / "table/.hoodie/timeline/history").glob("*.parquet"))
    table = hoodoo.Table(uri, options=options)
    assert arrow_rows(table.to_arrow()) == expected.rows
    table.upsert(batch([row(1, 60, "ours")]))
    expected.upsert([row(1, 60, "ours")])
    assert hudi.read(uri) == expected.rows


def test_hudi_clusters_what_we_wrote(hudi: Hudi, tmp_path: Path) -> None:
    """After a clustering the old file groups are replaced; both sides read and update the new ones."""
    uri = str(tmp_path / "table")
    options = {**SIMPLE.options(), "hoodie.parquet.small.file.limit": "0"}
    expected = Expected(SIMPLE)
    for commit in range(3):
        rows = [row(n, 1, f"commit {commit}") for n in range(commit * 10, commit * 10 + 10)]
        hoodoo.write(batch(rows), uri, operation="insert", options=options)
        expected.upsert(rows)
    hudi.call("run_clustering", uri, order="ts,val", options="hoodie.metadata.enable=false")
    table = hoodoo.Table(uri, options=options)
    assert any(i.action == "replacecommit" for i in table.timeline.instants())
    assert arrow_rows(table.to_arrow()) == expected.rows == hudi.read(uri)
    rows = [row(n, 2, "after") for n in (1, 11, 21)]
    table.upsert(batch(rows))
    expected.upsert(rows)
    assert hudi.read(uri) == expected.rows
    assert arrow_rows(hoodoo.Table(uri, options=options).to_arrow()) == expected.rows


def test_our_cleans_are_hudis_cleans(hudi: Hudi, tmp_path: Path) -> None:
    """The same history by either side leaves the same instants and the same number of files."""
    seen = {}
    for side in ("ours", "theirs"):
        uri = str(tmp_path / side)
        options = {**SIMPLE.options(), "hoodie.clean.commits.retained": "2"}
        for commit in range(7):
            rows = [row(n, commit, f"commit {commit}") for n in range(3 if commit % 3 else 6)]
            operation = "insert_overwrite" if commit == 4 else "upsert"
            if side == "ours":
                hoodoo.write(batch(rows), uri, operation=operation, options=options)
            else:
                hudi.write(batch(rows), uri, operation, **options)
        table = hoodoo.Table(uri, options=options)
        plans = []
        for instant in table.timeline.instants(action="clean"):
            plan = table.timeline.metadata(instant.requested)
            files = {p: plan_p["successDeleteFiles"] for p, plan_p in plan["partitionMetadata"].items()}
            plans.append({p: len(names) for p, names in files.items()})
        actions = [i.action for i in table.timeline.instants()]
        seen[side] = (actions, plans, len(list((tmp_path / side).glob("p*/*.parquet"))), hudi.read(uri))
    assert seen["ours"] == seen["theirs"]
