"""The timeline from Python: orders, ranges, the history as Arrow, archival and what blocks it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hoodoo import InvalidOptionError, Table

_KEEP = {
    "hoodie.keep.min.commits": "2",
    # Archiving would wait for its compaction.
    "hoodie.metadata.enable": "false",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.timeline.compaction.batch.size": "3",
    "hoodie.table.timeline.timezone": "UTC",
}


def _table(uri: str, commits: int, **more: str) -> Table:
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64())])
    options = {**_KEEP, **{k.replace("__", "."): v for k, v in more.items()}}
    table = Table.create(uri, schema, name="t", record_key="id", ordering=["ts"], options=options)
    for commit in range(commits):
        table.upsert({"id": ["a", f"k{commit}"], "ts": [commit, 1]})
    return table


def test_archiving_is_part_of_a_commit(tmp_path: Path) -> None:
    table = _table(str(tmp_path / "t"), 12)
    active = table.timeline.instants()
    assert sum(i.action == "commit" for i in active) <= 3
    every = table.timeline.instants(history=True)
    assert sum(i.action == "commit" for i in every) == 12
    assert [i.requested for i in every] == sorted(i.requested for i in every)
    assert table.to_arrow().num_rows == 13
    assert table.verify().ok
    for instant in every:
        assert table.timeline.metadata(instant), instant
    # By its requested time too, wherever it is.
    assert table.timeline.metadata(every[0].requested)["operationType"] == "UPSERT"


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    table = _table(str(tmp_path / "t"), 6, hoodie__archive__automatic="false")
    before = table.timeline.instants()
    report = table.archive(dry_run=True)
    assert report.dry_run
    assert sum(i.action == "commit" for i in report.instants) == 4
    assert (report.writes, report.keep_min, report.keep_max, report.files) == (6, 2, 3, 0)
    assert table.timeline.instants() == before
    done = table.archive()
    assert done.instants == report.instants
    assert done.files == 1
    assert table.timeline.instants(history=True) == before
    assert table.archive().instants == ()


def test_what_holds_back_is_said(tmp_path: Path) -> None:
    table = _table(str(tmp_path / "t"), 9, hoodie__archive__automatic="false", hoodie__clean__automatic="false")
    third = [i for i in table.timeline.instants() if i.action == "commit"][2].requested
    pending = str(int(third) + 1)
    (tmp_path / f"t/.hoodie/timeline/{pending}.compaction.requested").touch()
    report = table.archive(dry_run=True)
    assert any(pending in blocker.reason for blocker in report.blockers)
    assert all(blocker.remedy and blocker.writes > 0 for blocker in report.blockers)
    assert [i.requested for i in table.timeline.hollow_commits()] == [pending]


def test_orders() -> None:
    table = _table("memory://timeline-api-orders/t", 3)
    rows = table.timeline.instants(order="completed", history=True)
    assert [i.completed for i in rows] == sorted(i.completed or "" for i in rows)
    with pytest.raises(InvalidOptionError, match="invalid order"):
        table.timeline.instants(order="size")
    assert table.timeline.hollow_commits() == []


def test_the_history_as_arrow() -> None:
    table = _table("memory://timeline-api-arrow/t", 15)
    timeline = table.timeline
    every = timeline.instants(history=True)
    arrow = timeline.to_arrow()
    assert arrow.column_names == ["requested", "completed", "action", "state"]
    assert [tuple(r.values()) for r in arrow.to_pylist()] == [
        (i.requested, i.completed, i.action, i.state) for i in every
    ]
    middle, end = every[4].requested, every[9].requested
    assert timeline.to_arrow(since=middle, until=end)["requested"].to_pylist() == [i.requested for i in every[4:10]]
    assert timeline.to_arrow(history=False).num_rows == len(timeline.instants())
    reader = timeline.read_history("full", since=middle)
    assert reader.schema.names == ["instantTime", "completionTime", "action", "metadata", "plan"]
    read = reader.read_all()
    assert read["instantTime"][0].as_py() == middle
    assert all(body.as_py().startswith(b"Obj\x01") for body in read["metadata"])
    with pytest.raises(InvalidOptionError, match="invalid value 'everything'"):
        timeline.read_history("everything")


def test_the_newest() -> None:
    table = _table("memory://timeline-api-newest/t", 15)
    every = table.timeline.instants(history=True)
    for count in (0, 1, 3, 10, len(every), len(every) + 5):
        assert table.timeline.latest(count) == (every[-count:] if count else [])


def test_the_history_is_compacted_on_demand() -> None:
    table = _table("memory://timeline-api-compact/t", 15, hoodie__timeline__compaction__batch__size="99")
    before = table.timeline.instants(history=True)
    done = Table(table.uri, options={**_KEEP, "hoodie.timeline.compaction.batch.size": "2"}).timeline.compact_history()
    assert done.files >= 2
    assert done.levels >= 1
    assert table.timeline.instants(history=True) == before


def test_changes_of_archived_commits(tmp_path: Path) -> None:
    table = _table(str(tmp_path / "t"), 12)
    first, last = table.timeline.instants(history=True)[0], table.timeline.instants(history=True)[-1]
    assert last.completed is not None
    assert first.completed is not None
    assert table.changes("0").read_all().num_rows == 13
    assert table.changes(first.completed).read_all().num_rows == 12
    assert table.changes(last.completed).read_all().num_rows == 0


@pytest.mark.parametrize("setting", ["hoodie.clean.hours.retained", "hoodie.clean.fileversions.retained"])
def test_other_cleaning_policies_leave_the_cleaning_to_others(setting: str) -> None:
    """The remedy that the refusal of such a policy gives, `hoodie.clean.automatic=false`, has to work."""
    uri = f"memory://timeline-api-{setting}/t"
    schema = pa.schema([("id", pa.string())])
    options = {
        "hoodie.clean.automatic": "false",
        setting: "3",
        "hoodie.keep.min.commits": "2",
        "hoodie.metadata.enable": "false",
    }
    table = Table.create(uri, schema, name="t", record_key="id", options={**options, "hoodie.keep.max.commits": "3"})
    for commit in range(5):
        table.upsert({"id": [f"k{commit}"]})
    assert table.to_arrow().num_rows == 5
    active = sum(i.action == "commit" for i in table.timeline.instants())
    assert active == (5 if "hours" in setting else 3)
