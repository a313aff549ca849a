"""What was archived is committed, also where no write without savepoint is left on the active timeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodoo import Table

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.string()})
TIGHT = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
BEYOND = {"hoodie.archive.beyond.savepoint": "true"}
ALONE = {"hoodie.parquet.small.file.limit": "0"}


def _make(path: Path, kind: str = "COPY_ON_WRITE", **options: str) -> Table:
    return Table.create(str(path / "t"), SCHEMA, name="t", record_key="id", table_type=kind, options=options)


def _insert(table: Table, n: int) -> Any:
    return table.insert({"id": [n], "v": ["a"]})


def _ids(table: Table) -> list[int]:
    """The ids that a new reader sees, after `verify` has found nothing to delete."""
    again = Table(table.uri)
    assert all("real Hudi takes the archived ones for failed" in found.message for found in again.verify().problems)
    return sorted(again.to_arrow(columns=["id"])["id"].to_pylist())


def _writes(table: Table) -> list[str]:
    completed = table.timeline.instants(state="completed")
    return [one.requested for one in completed if one.action in ("commit", "deltacommit", "replacecommit")]


@pytest.mark.parametrize("metadata", ["false", "true"])
def test_the_newest_write_without_savepoint_is_not_archived(tmp_path: Path, metadata: str) -> None:
    t = _make(tmp_path, **BEYOND, **ALONE, **{"hoodie.metadata.enable": metadata})
    for n in range(34):
        commit = _insert(t, n)
        assert commit.instant in _writes(t)
        if n != 5:
            t.savepoint(commit.instant)
    assert _ids(t) == list(range(34))


@pytest.mark.parametrize("metadata", ["false", "true"])
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_all_active_writes_are_rolled_back(tmp_path: Path, kind: str, metadata: str) -> None:
    t = _make(
        tmp_path, kind, **TIGHT, **ALONE, **{"hoodie.metadata.enable": metadata, "hoodie.clean.automatic": "false"}
    )
    for n in range(8):
        _insert(t, n)
    active = _writes(t)
    assert 0 < len(active) < 8
    for instant in reversed(active):
        t.rollback(instant)
    left = list(range(8 - len(active)))
    assert _ids(t) == left
    t.upsert({"id": [1], "v": ["new"]})
    assert _ids(t) == left
    assert Table(t.uri).to_arrow(filters=[("id", "=", 1)])["v"].to_pylist() == ["new"]


def test_all_active_writes_get_savepoints(tmp_path: Path) -> None:
    t = _make(tmp_path, **TIGHT, **BEYOND, **ALONE)
    _insert(t, 0)
    t.savepoint()
    for n in range(1, 10):
        _insert(t, n)
    for instant in _writes(t):
        if instant not in {one.instant for one in t.savepoints()}:
            t.savepoint(instant)
    assert _ids(t) == list(range(10))
    t.upsert({"id": [3], "v": ["new"]})
    assert _ids(t) == list(range(10))


@pytest.mark.parametrize("small", ["0", "100000000"])
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_restore_leaves_only_savepoints(tmp_path: Path, kind: str, small: str) -> None:
    services = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    t = _make(tmp_path, kind, **TIGHT, **BEYOND, **services, **{"hoodie.parquet.small.file.limit": small})
    saved = []
    for n in range(14):
        commit = _insert(t, n)
        if n in (0, 7):
            saved.append(t.savepoint(commit.instant).instant)
    assert _ids(t) == list(range(14))
    t.restore(saved[1])
    assert _ids(t) == list(range(8))
    t.upsert({"id": [3], "v": ["new"]})
    assert _ids(t) == list(range(8))


def test_a_savepoint_at_the_beginning_and_a_rollback(tmp_path: Path) -> None:
    t = _make(tmp_path, **TIGHT, **BEYOND, **ALONE)
    _insert(t, 0)
    t.savepoint()
    for n in range(1, 10):
        _insert(t, n)
    for taken, instant in enumerate(reversed(_writes(t)[1:])):
        t.rollback(instant)
        assert _ids(t) == list(range(9 - taken))


@pytest.mark.parametrize("savepoint", [False, True])
def test_columns_that_archived_writes_added(tmp_path: Path, savepoint: bool) -> None:
    t = _make(tmp_path, **TIGHT, **BEYOND, **ALONE)
    _insert(t, 0)
    if savepoint:
        t.savepoint()
    for n in range(1, 9):
        t.insert({"id": [n], "v": ["a"], "w": [n]})
    for instant in reversed(_writes(t)[savepoint:]):
        t.rollback(instant)
    t = Table(t.uri)
    assert t.schema.names == ["id", "v", "w"]
    (found,) = t.verify().problems
    assert "real Hudi takes the archived ones for failed" in found.message
    t.upsert({"id": [1, 2], "v": ["b", "b"], "w": [10, 2]})
    assert not t.verify().problems
    t.upsert({"id": [2], "v": ["c"]}, partial=True)
    rows = t.to_arrow(columns=["id", "v", "w"]).sort_by("id").to_pylist()
    assert rows[:4] == [
        {"id": 0, "v": "a", "w": None},
        {"id": 1, "v": "b", "w": 10},
        {"id": 2, "v": "c", "w": 2},
        {"id": 3, "v": "a", "w": 3},
    ]


def test_a_history_manifest_that_a_writer_only_began(tmp_path: Path) -> None:
    t = _make(tmp_path, **TIGHT, **{"hoodie.timeline.manifest.retained.versions": "1"})
    for n in range(10):
        _insert(t, n)
    history = tmp_path / "t/.hoodie/timeline/history"
    version = int((history / "_version_").read_text())
    known = t.timeline.instants(history=True)
    (history / f"manifest_{version + 1}").touch()
    t.timeline.compact_history()
    assert Table(t.uri).timeline.instants(history=True) == known
    # Archiving publishes the next version.
    for n in range(10, 14):
        _insert(t, n)
    assert _ids(t) == list(range(14))
