"""Writes of Hudi that have a requested time and have not looked at the table: what they write must not be hidden."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from hoodoo import Table

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64())])
# By these options Hudi and hoodoo share a table.
SHARED = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
}


_FORMAT = "%Y%m%d%H%M%S%f"


def _rows(n: int) -> pa.Table:
    return pa.table({"id": ["a", "b"], "n": [n, n]}, schema=SCHEMA)


def _request(path: Path, age: float = 0.0, *, heartbeat: str = "") -> str:
    """Does what Hudi does first in a write, right behind the newest instant; gives the requested time."""
    newest = max(instant.requested for instant in Table(path).timeline.instants())
    at = datetime.strptime(newest, _FORMAT) + timedelta(milliseconds=1, seconds=-age)  # noqa: DTZ007 - only a difference
    requested = at.strftime(_FORMAT)[:-3]
    folder = path / ".hoodie/.heartbeat"
    folder.mkdir(exist_ok=True)
    (folder / requested).write_text(heartbeat)
    (path / ".hoodie/timeline" / f"{requested}.commit.requested").touch()
    return requested


def _make(path: Path) -> Table:
    table = Table.create(path, SCHEMA, name="t", record_key="id", options=SHARED)
    table.insert(_rows(1))
    return table


@pytest.mark.parametrize("action", ["write", "cluster"])
def test_a_commit_waits_until_hudi_has_begun(tmp_path: Path, action: str) -> None:
    path = tmp_path / "t"
    table = _make(path)
    requested = _request(path)
    inflight = path / ".hoodie/timeline" / f"{requested}.inflight"
    threading.Timer(1.0, inflight.write_text, ["{}"]).start()
    begun = time.monotonic()
    commit = table.upsert(_rows(2)) if action == "write" else table.cluster()
    assert commit is not None
    assert commit.instant > requested
    assert time.monotonic() - begun > 0.9
    assert commit.completed is not None
    assert inflight.exists()


@pytest.mark.parametrize("kind", ["of hoodoo", "long ago"])
def test_nobody_else_is_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    table = _make(path)
    _request(path, *([0.0] if kind == "of hoodoo" else [11.0]), heartbeat="a process\n" if kind == "of hoodoo" else "")
    begun = time.monotonic()
    table.upsert(_rows(2))
    assert time.monotonic() - begun < 5


def test_verify_sees_a_hidden_base_file(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = _make(path)
    late, hider = table.upsert(_rows(2)), table.upsert(_rows(3))
    assert table.verify().ok
    (completed,) = (path / ".hoodie/timeline").glob(f"{late.instant}_*.commit")
    assert hider.completed is not None
    completed.rename(completed.with_name(f"{late.instant}_{int(hider.completed) + 1}.commit"))
    (problem,) = Table(path).verify().problems
    assert problem.severity == "error"
    assert late.instant in problem.subject
    assert "readers do not see the rows" in problem.message
