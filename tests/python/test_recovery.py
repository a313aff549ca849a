"""Savepoints, restore, rollback of completed writes, and `Table.clean`."""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Table
from hoodoo.cli.commands import main

_SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), ("part", pa.string())])


def _table(path: Path | str, table_type: str = "COPY_ON_WRITE", **options: str) -> Table:
    given = {"hoodie.clean.automatic": "false", **{key.replace("__", "."): value for key, value in options.items()}}
    return Table.create(
        path, _SCHEMA, name="t", record_key="id", partition_by="part", table_type=table_type, options=given
    )


def _rows(n: int, *ids: str) -> pa.Table:
    return pa.table({"id": list(ids), "n": [n] * len(ids), "part": [f"p{one[-1]}" for one in ids]})


def _read(table: Table, **query: Any) -> list[tuple[str, int]]:
    found = table.to_arrow(columns=["id", "n"], **query).to_pylist()
    return sorted((row["id"], row["n"]) for row in found)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_what_a_log_compaction_of_the_metadata_table_took_is_taken_back(tmp_path: Path, table_type: str) -> None:
    table = _table(
        tmp_path / "t",
        table_type,
        **{
            "hoodie.metadata.log.compaction.enable": "true",
            "hoodie.metadata.log.compaction.blocks.threshold": "2",
            "hoodie.metadata.compact.max.delta.commits": "30",
        },
    )
    timeline = tmp_path / "t/.hoodie/metadata/.hoodie/timeline"
    for n in range(1, 9):
        before, known = _read(table), set(timeline.glob("*.logcompaction.requested"))
        newest = table.upsert(_rows(n, "a1", f"b{n}")).instant
        if n > 2 and set(timeline.glob("*.logcompaction.requested")) - known:
            break
    else:
        pytest.fail("no log compaction")
    table.rollback(newest)
    assert _read(table) == before == _read(Table(table.uri, {"hoodie.metadata.enable": "false"}))
    assert table.verify().problems == ()
    table.upsert(_rows(20, "a1", "z9"))
    assert {("a1", 20), ("z9", 20)} <= set(_read(table))
    assert table.verify().problems == ()


def _roll_back_as_far_as_hudi(path: Path, instant: str) -> None:
    """Delete the files of a completed write, as a rollback by Hudi does before its metadata table refuses it."""
    copy = shutil.copytree(path, path.with_name("copy"))
    Table(copy).rollback(instant)
    (plan,) = (copy / ".hoodie/timeline").glob("*.rollback.requested")
    for file in [*path.glob(f"p*/*{instant}*"), *path.glob(f".hoodie/timeline/{instant}_*")]:
        file.unlink()
    shutil.copy(plan, path / ".hoodie/timeline")
    (path / ".hoodie/timeline" / plan.name.replace("requested", "inflight")).touch()


@pytest.mark.parametrize("by", ["repair", "write"])
@pytest.mark.parametrize("index", [None, "RECORD_INDEX"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_rollback_that_failed_behind_a_compaction_of_the_metadata_table(
    tmp_path: Path, table_type: str, index: str | None, by: str
) -> None:
    options = {"hoodie.metadata.compact.max.delta.commits": "1", **({"hoodie.index.type": index} if index else {})}
    table = _table(tmp_path / "t", table_type, **options)
    table.insert(_rows(1, "a1", "b2"))
    before = _read(table)
    instant = table.upsert(_rows(2, "a1", "c2", "d3")).instant
    compactions = (tmp_path / "t/.hoodie/metadata/.hoodie/timeline").glob("*.compaction.requested")
    assert any(file.name > instant for file in compactions)
    _roll_back_as_far_as_hudi(tmp_path / "t", instant)
    if by == "repair":
        assert table.repair().left.problems == ()
    else:
        table.upsert(_rows(3, "e1"))
        before = sorted([*before, ("e1", 3)])
    assert _read(table) == before == _read(Table(table.uri, {"hoodie.metadata.enable": "false"}))
    assert table.verify().problems == ()
    metadata = table.metadata_table
    assert metadata is not None
    listed = metadata.to_arrow("files")["file_name"].to_pylist()
    assert not [name for name in listed if instant in name]
    table.upsert(_rows(4, "a1", "c2", "z9"))
    assert {("a1", 4), ("c2", 4), ("z9", 4)} <= set(_read(table))
    assert table.verify().problems == ()


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("index", [None, "RECORD_INDEX"])
def test_restore_takes_everything_back(tmp_path: Path, table_type: str, index: str | None) -> None:
    options = {"hoodie.index.type": index} if index else {}
    table = _table(tmp_path / "t", table_type, **options)
    table.upsert(_rows(1, "a1", "b2"))
    table.upsert(_rows(2, "b2", "c1"))
    before = _read(table)
    saved = table.savepoint()
    table.upsert(_rows(3, "a1", "d2"))
    table.delete({"id": ["b2"], "part": ["p2"]})
    table.cluster(sort_by="n")
    table.insert_overwrite(_rows(4, "e1"))
    table.schedule_clustering(sort_by="id")
    table.clean()
    done = table.restore(saved.instant)
    assert len(done.undone) == 5
    assert _read(table) == before
    assert table.verify().problems == ()
    assert [one.instant for one in table.savepoints()] == [saved.instant]
    table.upsert(_rows(5, "a1", "e1"))
    assert ("a1", 5) in _read(table)
    assert table.verify().ok
    assert _read(table, as_of=saved.instant) == before


def test_archived_commits_are_restored_too(tmp_path: Path) -> None:
    keep = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.archive.beyond.savepoint": "true"}
    clean = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
    table = _table(tmp_path / "t", **{**keep, **clean})
    table.upsert(_rows(1, "a1", "b2"))
    saved = table.savepoint()
    for n in range(2, 12):
        table.upsert(_rows(n, "a1" if n % 2 else f"c{n}"))
    archived = {one.requested for one in table.timeline.instants(history=True)}
    archived -= {one.requested for one in table.timeline.instants()}
    assert len(archived) >= 4
    done = table.restore(saved.instant)
    assert archived & set(done.undone)
    assert _read(table) == [("a1", 1), ("b2", 1)]
    table.delete_savepoint(saved.instant)
    for n in range(20, 30):
        table.upsert(_rows(n, "b2"))
    assert _read(table) == [("a1", 1), ("b2", 29)]
    assert table.verify().problems == ()
    assert len(table.changes(saved.completed).read_all()) == 1


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_rollback_of_completed_writes(tmp_path: Path, table_type: str) -> None:
    table = _table(tmp_path / "t", table_type)
    states: list[list[tuple[str, int]]] = [[]]
    commits: list[hoodoo.Commit] = []
    for write in (
        lambda: table.insert(_rows(1, "a1", "b2")),
        lambda: table.upsert(_rows(2, "b2", "c1")),
        lambda: table.delete({"id": ["a1"], "part": ["p1"]}),
        lambda: table.insert_overwrite(_rows(3, "d2")),
        lambda: table.delete_partitions(["p1"]),
    ):
        commits.append(write())
        states.append(_read(table))
    with pytest.raises(hoodoo.InvalidOptionError, match="newest"):
        table.rollback(commits[2].instant)
    for commit in reversed(commits):
        states.pop()
        table.rollback(commit.instant)
        assert _read(table) == states[-1]
        assert table.verify().problems == ()
    table.insert(_rows(9, "z1"))
    assert _read(table) == [("z1", 9)]


def test_what_a_clean_took_cannot_be_rolled_back(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    table.upsert(_rows(1, "a1"))
    second = table.upsert(_rows(2, "a1"))
    one = Table(tmp_path / "t", {"hoodie.clean.fileversions.retained": "1"})
    assert len(one.clean().files) == 1
    with pytest.raises(hoodoo.InvalidOptionError, match="cleaned"):
        table.rollback(second.instant)
    assert _read(table) == [("a1", 2)]
    with pytest.raises(hoodoo.InvalidOptionError, match="no such commit"):
        table.savepoint("20200101000000000")


def test_nothing_that_a_savepoint_holds_is_cleaned(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "MERGE_ON_READ", hoodie__compact__inline="false")
    for n in range(1, 4):
        table.upsert(_rows(n, "a1", "b2"))
    saved = table.savepoint()
    before = _read(table)
    one = Table(tmp_path / "t", {"hoodie.clean.fileversions.retained": "1", "hoodie.compact.inline": "false"})
    for n in range(4, 8):
        one.upsert(_rows(n, "a1", "b2"))
        one.compact()
        one.clean()
    assert _read(table, as_of=saved.instant) == before
    table.restore(saved.instant)
    assert _read(table) == before


@pytest.mark.parametrize("after", ["nothing", "write", "plan", "compaction", "clustering"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_the_metadata_table_is_read_after_a_restore(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, table_type: str, after: str
) -> None:
    table = _table(tmp_path / "t", table_type)
    table.insert(_rows(1, "a1", "b2"))
    table.upsert(_rows(2, "a1"))
    saved, before = table.savepoint(), _read(table)
    if after == "write":
        table.upsert(_rows(3, "a1", "c1"))
    elif after == "plan":
        assert (table.schedule_clustering if table_type == "COPY_ON_WRITE" else table.schedule_compaction)()
    elif after == "compaction" and table_type == "MERGE_ON_READ":
        table.compact()
    elif after == "clustering":
        table.cluster()
    restored = table.restore(saved.instant)
    assert list((tmp_path / "t/.hoodie/metadata/.hoodie/timeline").glob(f"{restored.instant}_*.deltacommit"))
    for n in range(4, 7):
        assert _read(table) == before == _read(Table(table.uri, {"hoodie.metadata.enable": "false"}))
        assert table.verify().problems == ()
        assert not [one for one in caplog.messages if "metadata table" in one]
        table.upsert(_rows(n, "a1", f"d{n}"))
        before = sorted([one for one in before if one[0] != "a1"] + [("a1", n), (f"d{n}", n)])


def test_verify_tells_of_a_metadata_table_that_misses_an_action(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    table.insert(_rows(1, "a1"))
    table.upsert(_rows(2, "a1"))
    restored = table.restore(table.savepoint().instant)
    (completed,) = (tmp_path / "t/.hoodie/metadata/.hoodie/timeline").glob(f"{restored.instant}_*.deltacommit")
    for file in completed.parent.glob(f"{restored.instant}*"):
        file.unlink()
    (problem,) = Table(table.uri).verify().problems
    assert problem.severity == "warning"
    assert restored.instant in problem.message
    assert "rebuild" in problem.remedy


def test_a_write_under_way_stops_a_restore(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    table.upsert(_rows(1, "a1"))
    saved = table.savepoint()
    begun, go_on = threading.Event(), threading.Event()

    def batches() -> Any:
        yield _rows(2, "b2").to_batches()[0]
        begun.set()
        go_on.wait(60)
        yield _rows(3, "c1").to_batches()[0]

    alone = Table(tmp_path / "t", {"hoodoo.write.lease": "false", "hoodie.parquet.max.file.size": "1"})
    writer = threading.Thread(target=lambda: alone.bulk_insert(pa.RecordBatchReader.from_batches(_SCHEMA, batches())))
    writer.start()
    try:
        assert begun.wait(60)
        if any(one.state != "COMPLETED" for one in table.timeline.instants()):
            with pytest.raises(hoodoo.ConflictError):
                alone.restore(saved.instant)
    finally:
        go_on.set()
        writer.join()
    assert len(_read(table)) == 3
    alone.restore(saved.instant)
    assert _read(table) == [("a1", 1)]


def test_a_restore_is_finished_by_doing_it_again(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    table.upsert(_rows(1, "a1"))
    saved = table.savepoint()
    later = table.upsert(_rows(2, "a1", "b2"))
    table.restore(saved.instant)
    assert _read(table) == [("a1", 1)]
    # As it was before its last step.
    timeline = tmp_path / "t" / ".hoodie" / "timeline"
    (completed,) = timeline.glob("*.restore")
    completed.unlink()
    with pytest.raises(hoodoo.ConflictError, match="restore"):
        table.upsert(_rows(3, "a1"))
    assert _read(table) == [("a1", 1)]
    with pytest.raises(hoodoo.InvalidOptionError):
        table.restore(later.instant)
    table.restore(saved.instant)
    table.upsert(_rows(3, "a1"))
    assert _read(table) == [("a1", 3)]


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    uri = str(tmp_path / "t")
    table = _table(uri)
    first = table.upsert(_rows(1, "a1"))
    second = table.upsert(_rows(2, "a1"))

    def run(*arguments: str, status: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["hoodoo", *arguments])
        try:
            code = main()
        except SystemExit as end:
            code = int(end.code or 0)
        out = capsys.readouterr()
        assert code == status, out
        return " ".join((out.out + out.err).split())

    assert "deleted 1 file" in run("clean", uri, "--set", "hoodie.clean.fileversions.retained=1")
    assert "nothing to clean" in run("clean", uri, "--dry-run")
    assert second.instant in run("savepoint", "create", uri, "--comment", "why not")
    assert "why not" in run("savepoint", "list", uri)
    third = table.upsert(_rows(3, "b2"))
    assert third.instant in run("rollback", uri, third.instant)
    table.upsert(_rows(4, "b2"))
    assert "1 instant taken back" in run("restore", uri, second.instant)
    assert "newest" in run("rollback", uri, first.instant, status=1)
    assert "was deleted" in run("savepoint", "delete", uri, second.instant)
    assert "no savepoints" in run("savepoint", "list", uri)
    assert _read(table) == [("a1", 2)]


def _begun_only(path: Path, action: str, requested: str) -> None:
    """Takes back that an action was completed."""
    (completed,) = (path / ".hoodie/timeline").glob(f"{requested}_*.{action}")
    completed.unlink()


def test_a_savepoint_that_was_begun_counts_for_nothing(tmp_path: Path) -> None:
    """Its process was killed. The commit of the same time stands."""
    table = _table(tmp_path / "t")
    table.insert(_rows(1, "a1", "b2"))
    saved = table.savepoint()
    _begun_only(tmp_path / "t", "savepoint", saved.instant)
    assert table.verify().problems == ()
    assert table.savepoints() == ()
    table.upsert(_rows(2, "a1"))
    assert _read(table) == [("a1", 2), ("b2", 1)]
    assert table.savepoint(saved.instant).instant == saved.instant


@pytest.mark.parametrize("how", ["archive", "rollback"])
def test_what_is_left_of_a_savepoint_that_was_begun_goes_with_its_commit(tmp_path: Path, how: str) -> None:
    path = tmp_path / "t"
    few = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "1"}
    few["hoodie.metadata.enable"] = "false"
    table = _table(path, **{key.replace(".", "__"): value for key, value in few.items()})
    table.insert(_rows(1, "a1", "b2"))
    table.upsert(_rows(2, "a1"))
    saved = table.savepoint()
    _begun_only(path, "savepoint", saved.instant)
    assert list(path.rglob("*.savepoint*")) != []
    if how == "rollback":
        table.rollback(saved.instant)
    else:
        for n in range(3, 9):
            Table(path, few).upsert(_rows(n, "a1"))
        assert all(one.requested > saved.instant for one in Table(path).timeline.instants())
    assert list(path.rglob("*.savepoint*")) == []
    assert table.verify().problems == ()


@pytest.mark.parametrize("age", ["new", "old"])
def test_a_clean_that_hudi_may_be_executing_is_left_to_it(tmp_path: Path, age: str) -> None:
    """Hudi shows no heartbeat of it. Completed by both, it would be on the timeline twice."""
    path = tmp_path / "t"
    one = {"hoodie.clean.commits.retained": "1"}
    table = _table(path, **{key.replace(".", "__"): value for key, value in one.items()})
    for n in range(1, 4):
        table.upsert(_rows(n, "a1", "b2"))
    cleaned = Table(path, one).clean()
    assert cleaned.instant is not None
    _begun_only(path, "clean", cleaned.instant)
    if age == "old":
        for file in (path / ".hoodie/timeline").glob(f"{cleaned.instant}.clean.*"):
            file.rename(file.with_name(file.name.replace(cleaned.instant, "20260101000000000")))
    several = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    }

    def pending() -> list[str]:
        return [i.state for i in table.timeline.instants(action="clean") if i.state != "COMPLETED"]

    Table(path, one | several).clean()
    assert pending() == ([] if age == "old" else ["INFLIGHT"])
    Table(path, one).clean()
    assert pending() == []
    assert len(list((path / ".hoodie/timeline").glob("*_*.clean"))) == 1
    assert _read(table) == [("a1", 3), ("b2", 3)]
