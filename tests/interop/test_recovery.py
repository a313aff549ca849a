"""Savepoints, restores, rollbacks of completed writes, cleaning policies: beside real Hudi, with its metadata table."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from hoodoo import Commit, InvalidOptionError, Table
from tests.interop.hudi import Hudi
from tests.interop.metadata_tables import stored_files
from tests.interop.test_writing_metadata import Turns, rows
from tests.rows import Row, arrow_rows

_ONE_VERSION = {"hoodie.clean.fileversions.retained": "1"}


def _state(path: Path) -> list[Row]:
    return arrow_rows(Table(path).to_arrow())


def _cluster(turns: Turns) -> None:
    done = Table(turns.path, turns.ours_options).cluster(sort_by="ts")
    assert isinstance(done, Commit)


_COW, _MOR = ("COPY_ON_WRITE", "hoodoo"), ("MERGE_ON_READ", "hudi")


@pytest.fixture(name="turns")
def _turns(request: pytest.FixtureRequest, hudi: Hudi, tmp_path: Path) -> Turns:
    """A table with two commits, of one engine or the other, and a metadata table."""
    table_type, first = request.param
    turns = Turns(hudi, tmp_path / "t", table_type, "9")
    turns.is_long = True
    turns.options["hoodie.clean.commits.retained"] = "1"
    turns.ours_options |= _ONE_VERSION
    turns.ours_options.pop("hoodie.clean.commits.retained")
    if first == "hudi":
        turns.theirs(rows(range(12), 1), "insert", mode="overwrite")
    else:
        turns.create(rows(range(1, 2), 1).schema)
        turns.ours("insert", rows(range(12), 1))
    turns.ours("upsert", rows(range(4, 14), 2))
    return turns


def _goes_on(turns: Turns) -> None:
    turns.theirs(rows(range(2, 8), 20), "upsert")
    turns.ours("upsert", rows(range(6, 20), 21))
    turns.ours("delete", {"id": ["k0003"], "part": ["p0"]})
    turns.theirs(rows(range(30, 36), 22), "insert")
    turns.compare("the end", is_last=True)


@pytest.mark.parametrize("turns", [pytest.param(_COW, marks=pytest.mark.slow), _MOR], indirect=True)
def test_we_restore_what_both_did(turns: Turns) -> None:
    """Clusterings, compactions, replaced and deleted partitions, cleans; then both go on."""
    before = _state(turns.path)
    saved = Table(turns.path).savepoint(user="me", comment="before all that")
    (listed,) = turns.hudi.call("show_savepoints", turns.path)
    assert listed["savepoint_time"] == saved.instant
    turns.theirs(rows(range(3, 20), 3), "upsert")
    _cluster(turns)
    turns.ours("insert_overwrite", rows(range(40, 44), 4))
    turns.theirs(rows(range(5, 9), 5), "upsert")
    if turns.options["hoodie.datasource.write.table.type"] == "MERGE_ON_READ":
        turns.ours("upsert", rows(range(40, 44), 5))
        scheduled = Table(turns.path, turns.ours_options).schedule_compaction()
        assert scheduled is not None
        turns.ours("upsert", rows(range(5, 9), 6))
        Table(turns.path, turns.ours_options).compact(scheduled)
    turns.ours("delete_partitions", ["p1"])
    turns.theirs(rows(range(9), 7), "upsert")
    assert Table(turns.path, turns.ours_options).schedule_clustering(sort_by="id") is not None
    assert Table(turns.path, turns.ours_options).clean(dry_run=True).dry_run
    done = Table(turns.path, turns.ours_options).restore(saved.instant)
    assert len(done.undone) >= 6
    assert done.files > 0
    assert _state(turns.path) == before
    assert not Table(turns.path).pending_clusterings()
    turns.compare("the restore", is_last=True)
    _goes_on(turns)
    # Hudi goes back to it too.
    Table(turns.path).delete_savepoint(saved.instant)
    assert not Table(turns.path).savepoints()


@pytest.mark.parametrize("turns", [_COW], indirect=True)
def test_we_restore_to_before_a_clustering_that_was_planned_earlier(turns: Turns) -> None:
    """The savepoint does not hold what it wrote, and a clean deletes that: Hudi's own restore would lose those rows."""
    planned = Table(turns.path, turns.ours_options).schedule_clustering(sort_by="id")
    assert planned is not None
    turns.ours("insert", rows(range(50, 54), 3))
    before = _state(turns.path)
    saved = Table(turns.path).savepoint()
    assert Table(turns.path, turns.ours_options).cluster(instant=planned) is not None
    for ts in range(5, 9):
        turns.ours("upsert", rows(range(14), ts))
    Table(turns.path, turns.ours_options).clean()
    done = Table(turns.path, turns.ours_options).restore(saved.instant)
    assert planned in done.undone
    assert _state(turns.path) == before
    turns.compare("the restore", is_last=True)
    _goes_on(turns)


@pytest.mark.parametrize("turns", [pytest.param(_COW, marks=pytest.mark.slow), _MOR], indirect=True)
def test_hudi_restores_to_our_savepoint(turns: Turns) -> None:
    """What we wrote since goes."""
    before = _state(turns.path)
    saved = Table(turns.path).savepoint()
    turns.ours("upsert", rows(range(3, 20), 3))
    turns.ours("insert_overwrite", rows(range(40, 44), 4))
    turns.ours("upsert", rows(range(5, 9), 5))
    name = f"restored_{turns.options['hoodie.datasource.write.table.type'].lower()}"
    turns.hudi.sql(f"create table {name} using hudi location '{turns.path}'")
    (done,) = turns.hudi.sql(f"call rollback_to_savepoint(table => '{name}', instant_time => '{saved.instant}')")
    assert done["rollback_savepoint_result"]
    assert _state(turns.path) == before
    turns.compare("Hudi's restore")
    _goes_on(turns)


@pytest.mark.parametrize(
    ("turns", "compacted"),
    [
        (_MOR, True),
        pytest.param(_COW, False, marks=pytest.mark.slow),
        pytest.param(_COW, True, marks=pytest.mark.slow),
        pytest.param(_MOR, False, marks=pytest.mark.slow),
    ],
    indirect=["turns"],
)
def test_a_completed_write_is_rolled_back(turns: Turns, *, compacted: bool) -> None:
    """Also when the metadata table was compacted since, so that what the write said cannot be taken out."""
    turns.ours_options |= {"hoodie.clean.automatic": "false"}
    turns.options |= {"hoodie.clean.automatic": "false"}
    if compacted:
        turns.ours_options |= {"hoodie.metadata.compact.max.delta.commits": "1"}
    states = [_state(turns.path)]
    turns.theirs(rows(range(3, 20), 3), "upsert")
    states.append(_state(turns.path))
    turns.ours("upsert", rows(range(15, 24), 4))
    states.append(_state(turns.path))
    turns.ours("insert_overwrite", rows(range(40, 44), 5))
    while len(states) > 1:
        newest = Table(turns.path).timeline.instants(state="COMPLETED")
        writes = [one for one in newest if one.action in {"commit", "deltacommit", "replacecommit"}]
        Table(turns.path, turns.ours_options).rollback(writes[-1].requested)
        assert _state(turns.path) == states.pop()
        turns.compare("a rollback")
    _goes_on(turns)


def test_hudi_reads_the_history_that_a_restore_rewrote(hudi: Hudi, tmp_path: Path) -> None:
    """Commits after the savepoint were archived: they leave the history, and Hudi archives on top of it."""
    turns = Turns(hudi, tmp_path / "t", "COPY_ON_WRITE", "9")
    archiving = {
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.archive.beyond.savepoint": "true",
        "hoodie.metadata.enable": "false",
    }
    turns.options |= {**archiving, "hoodie.clean.commits.retained": "1"}
    hudi.write(rows(range(12), 1), turns.path, "insert", mode="overwrite", **turns.options)
    saved = Table(turns.path).savepoint()
    before = _state(turns.path)
    for ts in range(2, 8):
        hudi.write(rows(range(ts, ts + 6), ts), turns.path, "upsert", **turns.options)

    def archived() -> set[str]:
        timeline = Table(turns.path).timeline
        active = {one.requested for one in timeline.instants()}
        return {one.requested for one in timeline.instants(history=True) if one.requested not in active}

    gone = {time for time in archived() if time > saved.instant}
    assert len(gone) > 1
    done = Table(turns.path, archiving).restore(saved.instant)
    assert gone & set(done.undone)
    assert _state(turns.path) == before == hudi.read(turns.path)
    writes = {one.requested for one in Table(turns.path).timeline.instants(history=True) if "commit" in one.action}
    assert writes == {saved.instant}
    Table(turns.path).delete_savepoint(saved.instant)
    for ts in range(10, 16):
        hudi.write(rows(range(ts, ts + 6), ts), turns.path, "upsert", **turns.options)
        assert _state(turns.path) == hudi.read(turns.path)
    assert archived()
    hudi.sql(f"create table rewritten using hudi location '{turns.path}'")
    # By default the procedure shows what is between one day and ten days old.
    span = "start_ts => '0', end_ts => '99999999999999999'"
    listed = hudi.sql(f"call show_archived_commits(table => 'rewritten', {span}, limit => 100)")
    times = {one["commit_time"] for one in listed}
    assert saved.instant in times
    assert not times & gone
    assert not Table(turns.path, archiving).verify().problems


def test_a_rollback_that_hudi_refused_does_no_harm(hudi: Hudi, tmp_path: Path) -> None:
    """Hudi leaves the request of a rollback that it refuses. We drop it, and the commit stands."""
    turns = Turns(hudi, tmp_path / "t", "COPY_ON_WRITE", "9")
    turns.theirs(rows(range(12), 1), "insert", mode="overwrite")
    turns.theirs(rows(range(4), 2), "upsert")
    first = Table(turns.path).timeline.instants(action="commit")[0].requested
    hudi.sql(f"create table refused using hudi location '{turns.path}'")
    with pytest.raises(Exception, match="rollback"):
        hudi.sql(f"call rollback_to_instant(table => 'refused', instant_time => '{first}')")
    pending = Table(turns.path).timeline.instants(action="rollback")
    assert [one.state for one in pending] == ["INFLIGHT"]
    # As if it had been a minute ago.
    for file in (turns.path / ".hoodie" / "timeline").glob(f"{pending[0].requested}.*"):
        file.rename(file.with_name(file.name.replace(pending[0].requested, _a_minute_before(first))))
    turns.ours("upsert", rows(range(6), 3))
    assert not Table(turns.path).timeline.instants(action="rollback")
    with pytest.raises(InvalidOptionError, match="newest"):
        Table(turns.path).rollback(first)
    turns.theirs(rows(range(6), 4), "upsert")


def _a_minute_before(instant: str) -> str:
    then = datetime.strptime(f"{instant}000", "%Y%m%d%H%M%S%f") - timedelta(minutes=1)  # noqa: DTZ007 - digits only
    return then.strftime("%Y%m%d%H%M%S%f")[:17]


@pytest.mark.parametrize(
    ("table_type", "policy", "retained"),
    [
        ("MERGE_ON_READ", "KEEP_LATEST_FILE_VERSIONS", 1),
        ("COPY_ON_WRITE", "KEEP_LATEST_BY_HOURS", 1),
        pytest.param("COPY_ON_WRITE", "KEEP_LATEST_FILE_VERSIONS", 1, marks=pytest.mark.slow),
        pytest.param("COPY_ON_WRITE", "KEEP_LATEST_FILE_VERSIONS", 2, marks=pytest.mark.slow),
        pytest.param("MERGE_ON_READ", "KEEP_LATEST_FILE_VERSIONS", 2, marks=pytest.mark.slow),
        pytest.param("MERGE_ON_READ", "KEEP_LATEST_BY_HOURS", 1, marks=pytest.mark.slow),
    ],
)
def test_policies_delete_what_hudi_deletes(
    hudi: Hudi, tmp_path: Path, table_type: str, policy: str, retained: int
) -> None:
    """Of the same table: with a savepoint, a replaced file group and a planned compaction."""
    turns = Turns(hudi, tmp_path / "t", table_type, "9")
    turns.options |= {"hoodie.clean.automatic": "false", "hoodie.metadata.enable": "false"}
    options = {**turns.options}
    hudi.write(rows(range(12), 1), turns.path, "insert", mode="overwrite", **options)
    hudi.write(rows(range(6), 2), turns.path, "upsert", **options)
    Table(turns.path).savepoint()
    hudi.write(rows(range(6), 3), turns.path, "upsert", **options)
    hudi.write(rows(range(2, 12, 3), 4), turns.path, "insert_overwrite", **options)
    hudi.write(rows(range(7), 5), turns.path, "upsert", **options)
    if table_type == "MERGE_ON_READ":
        assert Table(turns.path).schedule_compaction() is not None
    hudi.write(rows(range(7), 6), turns.path, "upsert", **options)
    copy = tmp_path / "copy"
    shutil.copytree(turns.path, copy)
    name = f"cleaned_{tmp_path.name}".replace("-", "_")
    hudi.sql(f"create table {name} using hudi location '{copy}'")
    what = "file_versions_retained" if policy.endswith("VERSIONS") else "hours_retained"
    hudi.sql(
        f"call run_clean(table => '{name}', clean_policy => '{policy}', {what} => {retained}, "
        "options => 'hoodie.metadata.enable=false')"
    )
    before = stored_files(turns.path)
    key = "hoodie.clean.fileversions.retained" if policy.endswith("VERSIONS") else "hoodie.clean.hours.retained"
    ours = {"hoodie.clean.policy": policy, key: str(retained), "hoodie.metadata.enable": "false"}
    done = Table(turns.path, ours).clean()
    assert stored_files(turns.path) == stored_files(copy)
    assert set(before) - set(stored_files(turns.path)) == set(done.files)
    assert _state(turns.path) == _state(copy)


@pytest.mark.parametrize("metadata", ["false", "true"])
def test_hudi_goes_on_after_all_active_writes_were_rolled_back(hudi: Hudi, tmp_path: Path, metadata: str) -> None:
    """Until the next write Hudi takes the archived ones for failed; with it, it reads all of them."""
    options = {
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.clean.commits.retained": "1",
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.metadata.enable": metadata,
    }
    columns = rows(range(1, 2), 1).schema
    t = Table.create(
        str(tmp_path / "t"), columns, name="t", record_key="id", partition_by="part", ordering="ts", options=options
    )
    for n in range(8):
        t.insert(rows(range(n, n + 1), 1).cast(columns))
    writes = [one.requested for one in t.timeline.instants(state="completed") if one.action == "commit"]
    for instant in reversed(writes):
        t.rollback(instant)
    left = 8 - len(writes)
    assert sorted(str(row["id"]) for row in _state(tmp_path / "t")) == [f"k{n:04}" for n in range(left)]
    t.upsert(rows(range(1, 2), 5))
    ours = _state(tmp_path / "t")
    assert len(ours) == left
    assert hudi.read(t.uri) == ours
    theirs = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
    }
    hudi.write(rows(range(2, 10), 7), t.uri, "upsert", **theirs, **options)
    assert len(_state(tmp_path / "t")) == 10
    assert hudi.read(t.uri) == _state(tmp_path / "t")
