"""Histories that real Hudi wrote read, instant by instant, as Hudi itself reads them.

`fixtures/timeline/histories/make_histories.py` made both the tables and Hudi's reading of them.
"""

from __future__ import annotations

import gzip
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import hoodoo
from hoodoo import Instant

_HISTORIES = Path(__file__).resolve().parents[1] / "fixtures" / "timeline" / "histories"
_NAMES = sorted(p.name.removesuffix(".tar.gz") for p in _HISTORIES.glob("*.tar.gz"))

_FINAL = {"clustering": "replacecommit", "compaction": "commit", "logcompaction": "deltacommit"}

# Where a record of the archive of version 6 has the body of an action that is completed, and of one that is not.
_V6_METADATA = {
    "commit": "hoodieCommitMetadata",
    "deltacommit": "hoodieCommitMetadata",
    "replacecommit": "hoodieReplaceCommitMetadata",
    "clean": "hoodieCleanMetadata",
    "rollback": "hoodieRollbackMetadata",
}
_V6_PLANS = (
    "hoodieCompactionPlan",
    "hoodieCleanerPlan",
    "hoodieRequestedReplaceMetadata",
    "HoodieInflightReplaceMetadata",
)

Row = dict[str, Any]


@dataclass
class History:
    """A table as we read it, and what Hudi reads from it."""

    name: str
    table: hoodoo.Table
    hudi: dict[str, Any]

    @property
    def layout_1(self) -> bool:
        """Whether it is a table of version 6."""
        return bool(self.hudi["version"] == 6)

    def archived(self) -> list[Row]:
        """Archived actions with metadata and plan, as Hudi's loader hands them out; states of version 6 merged."""
        rows = self.hudi["archived_records"]
        if not self.layout_1:
            plans = [None if r["plan"] is None else r["plan"]["value"] for r in rows]
            return [{**row, "plan": plan} for row, plan in zip(rows, plans, strict=True)]
        actions: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            action = _FINAL.get(row["actionType"], row["actionType"])
            states = actions.setdefault((row["commitTime"], action), [])
            # A file and those that it was merged of give the same records.
            states += [] if row in states else [row]
        return [self._merged(key, states) for key, states in actions.items()]

    @staticmethod
    def _merged(key: tuple[str, str], states: list[Row]) -> Row:
        (done,) = [s for s in states if s["actionState"] == "COMPLETED"]
        pending = sorted((s for s in states if s is not done), key=lambda s: s["actionState"])  # inflight comes first
        plans = [s[name] for s in pending for name in _V6_PLANS if s[name] is not None]
        return {
            "requested": key[0],
            "completed": done["stateTransitionTime"],
            "action": key[1],
            "metadata": done[_V6_METADATA[key[1]]],
            "plan": plans[0] if plans else None,
        }


@pytest.fixture(scope="module", params=_NAMES)
def history(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> History:
    """Unpacks one of the tables, modification times included: version 6 has its completion times there."""
    name: str = request.param
    folder = tmp_path_factory.mktemp(name)
    with tarfile.open(_HISTORIES / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    hudi = json.loads(gzip.decompress((_HISTORIES / f"{name}.json.gz").read_bytes()))
    return History(name, hoodoo.Table(str(folder / name)), hudi)


def _key(row: Row) -> tuple[str, str, str, str | None]:
    # In layout 1 Hudi takes the modification time of any state's file; only that of a completed one means something.
    completed = row["completed"] if row["state"] == "COMPLETED" else None
    return row["requested"], row["action"], row["state"], completed


def _keys(instants: list[Instant]) -> list[tuple[str, str, str, str | None]]:
    return [(i.requested, i.action, i.state, i.completed) for i in instants]


# Hudi writes these into JSON bodies and loses them when it reads a body into the class that all statistics share.
_LOST = {"logVersion", "logOffset", "baseFile", "logFiles", "recordsStats"}


def _without_lost(body: Any) -> Any:
    if isinstance(body, dict):
        return {name: _without_lost(item) for name, item in body.items() if name not in _LOST}
    return [_without_lost(item) for item in body] if isinstance(body, list) else body


def test_there_are_histories_of_all_versions() -> None:
    versions = {json.loads(gzip.decompress(p.read_bytes()))["version"] for p in _HISTORIES.glob("*.json.gz")}
    assert versions == {6, 8, 9}


def test_active_instants_are_those_of_hudi(history: History) -> None:
    theirs = sorted((_key(row) for row in history.hudi["active"]), key=str)
    assert sorted(_keys(history.table.timeline.instants()), key=str) == theirs


def test_bodies_of_active_instants_are_those_of_hudi(history: History) -> None:
    timeline = history.table.timeline
    bodies = {(i.requested, i.action, i.state): timeline.metadata(i) for i in timeline.instants()}
    for row in history.hudi["active"]:
        ours = bodies[row["requested"], row["action"], row["state"]]
        is_json = history.layout_1 and row["action"] in {"commit", "deltacommit", "replacecommit"}
        assert (_without_lost(ours) if is_json else ours) == (row["body"] or {}), _key(row)


# Hudi's usual selections by what they select: actions, and states.
_EVERY = {"REQUESTED", "INFLIGHT", "COMPLETED"}
_PENDING = {"REQUESTED", "INFLIGHT"}
_COMMITS = {"commit", "deltacommit", "replacecommit", "clustering"}
_SERVICES = {"compaction", "logcompaction"}
_VIEWS = {
    "commits": (_COMMITS, _EVERY),
    "writes": (_COMMITS | _SERVICES, _EVERY),
    "pending_compactions": ({"compaction"}, _PENDING),
    "pending_log_compactions": ({"logcompaction"}, _PENDING),
    "pending_replaces": ({"replacecommit", "clustering"}, _PENDING),
    "completed_replaces": ({"replacecommit"}, {"COMPLETED"}),
    "cleans": ({"clean"}, _EVERY),
    "rollbacks": ({"rollback"}, _EVERY),
    "restores": ({"restore"}, _EVERY),
    "savepoints": ({"savepoint"}, _EVERY),
    "completed": (None, {"COMPLETED"}),
    "pending": (None, _PENDING),
}


def test_selections_of_the_active_timeline_are_those_of_hudi(history: History) -> None:
    instants = history.table.timeline.instants()
    for name, (actions, states) in _VIEWS.items():
        ours = [i.requested for i in instants if i.state in states and (actions is None or i.action in actions)]
        assert sorted(ours) == sorted(history.hudi["views"][name]), name


def test_archived_instants_are_those_of_hudi(history: History) -> None:
    timeline = history.table.timeline
    active = set(_keys(timeline.instants()))
    ours = [key for key in _keys(timeline.instants(history=True)) if key not in active]
    theirs = {_key(row) for row in history.hudi["archived"] if row["state"] == "COMPLETED"} - active
    assert ours == sorted(theirs)
    assert theirs or "states" in history.name


def test_metadata_of_archived_instants_is_that_of_hudi(history: History) -> None:
    timeline = history.table.timeline
    ours = {(i.requested, i.action): i for i in timeline.instants(history=True)}
    for row in history.archived():
        instant = ours[row["requested"], row["action"]]
        assert instant.completed == row["completed"]
        assert timeline.metadata(instant) == row["metadata"], instant
        assert timeline.plan(instant) == (row["plan"] or {}), instant
    # What Hudi keeps for its own use is the same.
    for row in history.hudi["archived"]:
        if row["state"] == "COMPLETED":
            assert timeline.metadata(ours[row["requested"], row["action"]]) == row["body"]


def test_commits_shown_by_the_procedure_are_those_of_the_metadata(history: History) -> None:
    timeline = history.table.timeline
    for row in history.hudi["show_archived_commits"]:
        found = timeline.instants(since=row["commit_time"], until=row["commit_time"], history=True)
        (commit,) = [i for i in found if i.action in {"commit", "deltacommit", "replacecommit"}]
        assert row["state_transition_time"] == commit.completed
        stats = [s for part in timeline.metadata(commit)["partitionToWriteStats"].values() for s in part]
        assert row["total_records_written"] == sum(s["numWrites"] or 0 for s in stats)
        assert row["total_bytes_written"] == sum(s["totalWriteBytes"] or 0 for s in stats)


def test_completion_times_are_those_of_hudis_view(history: History) -> None:
    ours: dict[str, set[str]] = {}
    for instant in history.table.timeline.instants(history=True):
        if instant.completed is not None:
            ours.setdefault(instant.requested, set()).add(instant.completed)
    archived = {row["requested"] for row in history.hudi["archived"]}
    for requested, completed in history.hudi["completion_times"].items():
        if completed is None:
            continue
        if history.layout_1 and requested in archived:
            # Of archived instants of layout 1 Hudi's view knows only that they are completed.
            assert completed == requested
        else:
            assert completed in ours[requested], requested


def test_a_range_reads_only_that_range(history: History) -> None:
    timeline = history.table.timeline
    every = timeline.instants(history=True)
    since, until = every[len(every) // 4].requested, every[len(every) // 2].requested
    ranged = timeline.instants(since=since, until=until, history=True)
    assert ranged == [i for i in every if since <= i.requested <= until]
