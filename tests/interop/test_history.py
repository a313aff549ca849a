"""The history of the timeline, written, compacted and cleaned by hoodoo and by Hudi in turns, read the same by both."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodoo
from tests.interop.hudi import Hudi
from tests.interop.layouts import SIMPLE, batch, row
from tests.interop.model import Expected
from tests.rows import arrow_rows

_DUMP = Path(__file__).resolve().parents[1] / "fixtures" / "timeline" / "histories" / "hudi_dump.py"


def _services(batch_size: int) -> dict[str, str]:
    return {
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "3",
        "hoodie.keep.max.commits": "4",
        "hoodie.timeline.compaction.batch.size": str(batch_size),
    }


@pytest.fixture(scope="module")
def reading(hudi: Hudi) -> Any:
    """Says what Hudi reads from a timeline."""
    spec = importlib.util.spec_from_file_location("hudi_dump", _DUMP)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Dumper(hudi.spark)


def _same_history(reading: Any, table: hoodoo.Table) -> int:
    """Compares the archived actions, metadata and plans included; gives their number."""
    client = reading.meta_client(table.uri)
    theirs = {(r["requested"], r["action"]): r for r in reading._archived_records(client)}
    timeline = table.timeline
    archived = timeline.read_history("action").read_all().to_pylist()
    assert [(r["instantTime"], r["action"]) for r in archived] == sorted(theirs)
    for instant in (hoodoo.Instant(r["instantTime"], r["completionTime"], r["action"], "COMPLETED") for r in archived):
        record = theirs[instant.requested, instant.action]
        assert record["completed"] == instant.completed
        assert timeline.metadata(instant) == (record["metadata"] or {}), instant
        assert timeline.plan(instant) == (record["plan"]["value"] if record["plan"] else {}), instant
    # What Hudi keeps of it for its own use.
    listed = {(r["requested"], r["action"]) for r in reading._archived(client) if r["state"] == "COMPLETED"}
    assert listed == set(theirs)
    return len(archived)


def _completed(table: hoodoo.Table, *, history: bool) -> set[tuple[str, str | None, str]]:
    found = table.timeline.instants(state="COMPLETED", history=history)
    assert len({(i.requested, i.action) for i in found}) == len(found), "an instant comes twice"
    return {(i.requested, i.completed, i.action) for i in found}


@pytest.mark.parametrize("commits", [24, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(3000)])])
def test_history_in_turns(hudi: Hudi, reading: Any, tmp_path: Path, commits: int) -> None:
    uri = str(tmp_path / "table")
    options = {**SIMPLE.options(), **_services(3)}
    expected = Expected(SIMPLE)
    chance = random.Random(commits)
    known: set[tuple[str, str | None, str]] = set()
    for commit in range(commits):
        operation = "insert" if commit == 0 else chance.choice(["upsert", "upsert", "upsert", "delete"])
        numbers = range(12) if commit == 0 else chance.sample(range(16), 3)
        rows = [row(n, commit + 1, f"commit {commit}") for n in numbers]
        if chance.random() < 0.5:
            hudi.write(batch(rows), uri, operation, **options)
        else:
            hoodoo.write(batch(rows), uri, operation=operation, options=options)
        if operation == "delete":
            expected.delete(rows)
        else:
            expected.upsert(rows)
        table = hoodoo.Table(uri, options=options)
        now = _completed(table, history=True)
        assert known <= now, f"lost at commit {commit}: {known - now}"
        known = now
        if commit % 12 == 11:
            assert _same_history(reading, table) > 0
    assert hudi.read(uri) == expected.rows == arrow_rows(table.to_arrow())
    levels = {int(p.stem.rsplit("_", 1)[1]) for p in (tmp_path / "table/.hoodie/timeline/history").glob("*.parquet")}
    assert max(levels) >= (2 if commits < 100 else 3)
    assert len(table.timeline.instants()) < 16
    assert table.verify().ok


@pytest.mark.parametrize("version", [pytest.param(8, marks=pytest.mark.slow), 9])
def test_hudi_goes_on_with_a_history_that_we_compacted(hudi: Hudi, reading: Any, tmp_path: Path, version: int) -> None:
    """All levels are ours; then Hudi archives on top, compacts our files and cleans our versions."""
    uri = str(tmp_path / "table")
    options = {**SIMPLE.options(version), **_services(2)}
    for commit in range(30):
        rows = [row(n, commit, f"commit {commit}") for n in range(commit % 3, 6)]
        operation = "insert_overwrite" if commit % 7 == 6 else "upsert"
        hoodoo.write(batch(rows), uri, operation=operation, options=options)
    table = hoodoo.Table(uri, options=options)
    ours = _completed(table, history=True)
    assert {action for _, _, action in ours} == {"commit", "clean", "replacecommit"}
    assert len(ours) > 40
    before = _same_history(reading, table)
    for commit in range(30, 42):
        hudi.write(batch([row(0, commit, "theirs")]), uri, "upsert", **options)
    table = hoodoo.Table(uri, options=options)
    assert ours <= _completed(table, history=True)
    assert _same_history(reading, table) > before
    history = tmp_path / "table/.hoodie/timeline/history"
    assert all(b"parquet-mr" in p.read_bytes()[-4096:] for p in history.glob("*_[1-9].parquet")), "Hudi compacted"
    hoodoo.write(batch([row(0, 99, "ours")]), uri, operation="upsert", options=options)
    assert [r["val"] for r in hudi.read(uri) if r["id"] == row(0, 1, "")["id"]] == ["ours"]
    assert hoodoo.Table(uri, options=options).verify().ok


_NO_CLEANS = {"hoodie.clean.automatic": "false"}


@pytest.mark.parametrize(
    ("commits", "cleaning"),
    [
        (18, {"hoodie.clean.commits.retained": "2"}),
        pytest.param(
            8,
            {**_NO_CLEANS, "hoodie.clean.policy": "KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained": "1"},
            marks=pytest.mark.slow,
        ),
        (8, {**_NO_CLEANS, "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS"}),
    ],
    ids=["commits", "hours", "versions"],
)
def test_both_archive_the_same(hudi: Hudi, tmp_path: Path, commits: int, cleaning: dict[str, str]) -> None:
    """The same operations by either side leave the same actions active, and the same archived."""
    seen = {}
    for side in ("ours", "theirs"):
        uri = str(tmp_path / side)
        services = {k: v for k, v in _services(3).items() if not k.startswith("hoodie.clean.")}
        options = {**SIMPLE.options(), **services, **cleaning}
        for commit in range(commits):
            rows = [row(n, commit, f"commit {commit}") for n in range(4)]
            operation = {5: "insert_overwrite", 11: "delete"}.get(commit, "upsert")
            if side == "ours":
                hoodoo.write(batch(rows), uri, operation=operation, options=options)
            else:
                hudi.write(batch(rows), uri, operation, **options)
        table = hoodoo.Table(uri, options=options)
        active = [(i.action, i.state) for i in table.timeline.instants()]
        archived = table.timeline.read_history("action").read_all()["action"].to_pylist()
        version, files = table._native.history_files()
        seen[side] = (active, archived, version, sorted(level for *_, level in files))
    assert seen["ours"] == seen["theirs"]


@pytest.mark.slow
def test_pages_that_were_taken_over(reading: Any, tmp_path: Path) -> None:
    """Large pages are put behind each other as bytes when levels are merged: Hudi reads the same from them."""
    uri = str(tmp_path / "table")
    partitioned = SIMPLE.options() | {"hoodie.datasource.write.partitionpath.field": "part"}
    options = partitioned | _services(3) | {"hoodie.keep.min.commits": "30", "hoodie.keep.max.commits": "50"}
    options |= {"hoodie.commits.archival.batch": "25"}
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("val", pa.string()), ("part", pa.string())])
    for commit in range(112):
        rows = [{"id": f"{n:03}", "ts": commit, "val": "x", "part": f"partition={n:030}"} for n in range(60)]
        hoodoo.write(pa.Table.from_pylist(rows, schema), uri, operation="upsert", options=options)
    merged = [p for p in (tmp_path / "table/.hoodie/timeline/history").glob("*.parquet") if not p.stem.endswith("_0")]
    sizes = [
        file.row_group(group).column(file.schema.names.index("metadata")).total_uncompressed_size
        for file in (pq.read_metadata(p) for p in merged)
        for group in range(file.num_row_groups)
    ]
    assert max(sizes, default=0) > 3 * (128 << 10), "no page was large enough"
    assert _same_history(reading, hoodoo.Table(uri, options=options)) > 60
