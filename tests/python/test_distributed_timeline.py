"""Reads of a timeline in tasks: together they have each action once, whatever happens between plan and task."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hoodoo
from hoodoo.distributed.timeline import TimelineRead, disjoint
from tests.histories import NAMES, unpack

Row = dict[str, Any]
_KEEP = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "2"}


def rows_of(read: TimelineRead) -> list[Row]:
    """Runs all tasks, each as another process would."""
    task = pickle.loads(pickle.dumps(read.task))
    batches = [batch for low, high in read.ranges for batch in task.history(low, high)]
    batches += [task.instants(some) for some in read.active]
    return sorted(
        pa.Table.from_batches(batches, task.schema).to_pylist(), key=lambda row: (row["requested"], row.get("action"))
    )


@pytest.mark.parametrize("name", NAMES)
def test_all_actions_of_timelines_that_hudi_wrote(name: str, tmp_path: Path):
    uri = unpack(name, tmp_path)
    timeline = hoodoo.Table(uri).timeline
    every = timeline.to_arrow().to_pylist()
    assert rows_of(TimelineRead(uri)) == every
    assert rows_of(TimelineRead(uri, columns="time")) == sorted(
        ({key: row[key] for key in ("requested", "completed")} for row in every), key=lambda row: row["requested"]
    )
    since, until = every[len(every) // 4]["requested"], every[len(every) // 2]["requested"]
    some = [row for row in every if since <= row["requested"] <= until]
    assert rows_of(TimelineRead(uri, since=since, until=until)) == some
    assert len(some) < len(every)


@pytest.mark.parametrize("name", ["mor_v9_levels", "cow_v9_states", "mor_v6_archive"])
def test_metadata_and_plans(name: str, tmp_path: Path):
    uri = unpack(name, tmp_path)
    timeline = hoodoo.Table(uri).timeline
    archived = {row["instantTime"]: row for row in timeline.read_history("full").read_all().to_pylist()}
    instants = {(i.requested, i.action): i for i in timeline.instants()}
    files = {path.read_bytes() for path in (Path(uri) / ".hoodie").rglob(f"{min(instants)[0][:4]}*") if path.is_file()}
    rows = rows_of(TimelineRead(uri, columns="full"))
    assert len(rows) == len(archived) + len(instants)
    for row in rows:
        instant = instants.get((row["requested"], row["action"]))
        for column, read in (("metadata", timeline.metadata), ("plan", timeline.plan)):
            if instant is None:
                assert row[column] == archived[row["requested"]][column]
                continue
            body = row[column]
            assert bool(body) == bool(read(instant))
            assert body is None or body in files
            if body is not None and body.startswith(b"{"):
                assert json.loads(body) == read(instant)
    for column, other in (("metadata", "plan"), ("plan", "metadata")):
        narrow = rows_of(TimelineRead(uri, columns=column))
        assert narrow == [{key: value for key, value in row.items() if key != other} for row in rows]


def test_only_files_of_the_range_are_read(tmp_path: Path):
    uri = unpack("cow_v9_levels", tmp_path)
    files = hoodoo.Table(uri).timeline.history_files().files
    assert TimelineRead(uri).ranges == [(file.since, file.until) for file in files]
    assert TimelineRead(uri, since=files[1].since, until=files[1].until).ranges == [(files[1].since, files[1].until)]
    assert TimelineRead(uri, since="2027").ranges == []


@pytest.fixture
def table(tmp_path: Path) -> hoodoo.Table:
    options = {**_KEEP, "hoodie.archive.automatic": "false", "hoodie.metadata.enable": "false"}
    schema = pa.schema([("id", pa.int64())])
    table = hoodoo.Table.create(str(tmp_path / "t"), schema, name="t", record_key="id", options=options)
    for number in range(9):
        table.insert({"id": [number]})
    return table


@pytest.mark.parametrize("columns", ["action", "full"])
def test_what_is_archived_and_written_meanwhile_comes_once(columns: str, table: hoodoo.Table):
    uri = table._native.uri
    first = hoodoo.Table(uri, _KEEP)
    assert first.archive().instants
    for number in range(10, 15):
        table.insert({"id": [number]})
    before = table.timeline.to_arrow().to_pylist()
    read = TimelineRead(uri, columns=columns)
    assert first.archive().instants
    first.timeline.compact_history()
    table.insert({"id": [20]})
    rows = rows_of(read)
    assert [{key: row[key] for key in before[0]} for row in rows] == before
    if columns == "full":
        assert all(row["metadata"] for row in rows if row["action"] == "commit")


def test_a_pending_action_that_is_gone_has_no_files(tmp_path: Path):
    uri = unpack("cow_v9_states", tmp_path)
    (pending,) = hoodoo.Table(uri).timeline.instants("clustering", "inflight")
    read = TimelineRead(uri, columns="full", since=pending.requested, until=pending.requested)
    for path in (Path(uri) / ".hoodie/timeline").glob(f"{pending.requested}*"):
        path.unlink()
    (row,) = rows_of(read)
    assert (row["action"], row["state"], row["metadata"], row["plan"]) == ("clustering", "INFLIGHT", None, None)


def test_mistakes(tmp_path: Path):
    with pytest.raises(hoodoo.InvalidOptionError, match="invalid columns 'all'"):
        TimelineRead(unpack("cow_v9_states", tmp_path), columns="all")
    with pytest.raises(hoodoo.TableNotFoundError):
        TimelineRead(str(tmp_path / "nothing"))


_TIMES = st.integers(10, 40).map(str)
_SPANS = st.lists(st.tuples(_TIMES, _TIMES).map(lambda pair: (min(pair), max(pair))), max_size=8)


@given(_SPANS, st.none() | _TIMES, st.none() | _TIMES)
def test_ranges_are_disjoint_and_cover_all(spans: list[tuple[str, str]], since: str | None, until: str | None):
    ranges = list(disjoint(spans, since, until))
    for time in map(str, range(9, 42)):
        held = any(low <= time <= high for low, high in spans)
        wanted = held and (since is None or time >= since) and (until is None or time <= until)
        assert sum(low <= time <= high for low, high in ranges) == wanted
