"""Table services whose process stood still, so that another one took their plan over."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodoo import ConflictError, Table, _native

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])
OPTIONS = {
    "hoodie.metadata.enable": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.compact.inline": "false",
}
EXPIRED_S = 180


class Service:
    """A clustering or a compaction of all file groups, step by step."""

    def __init__(self, uri: str, kind: str, plan: str) -> None:
        self.table = _native.NativeTable.open(uri, {}, OPTIONS)
        self.kind = kind
        self.job: Any = (
            _native.NativeClustering.begin(self.table, plan, False)
            if kind == "clustering"
            else _native.NativeCompaction.begin(self.table, plan)
        )
        self.done: list[Any] = []

    def run(self) -> None:
        run: Any
        if self.kind == "clustering":
            run, parts = _native.cluster_group, self.job.groups
        else:
            run, parts = _native.compact_operation, self.job.tasks
        self.done = [run(self.table, self.job.instant, part, f"{n}-0-0") for n, part in enumerate(parts)]

    def commit(self) -> None:
        self.job.commit(self.done)


def _rows(v: int) -> pa.Table:
    return pa.table({"id": list("abc"), "v": [v] * 3}, schema=SCHEMA)


def _made(path: Path, kind: str) -> tuple[Table, str]:
    table_type = "MERGE_ON_READ" if kind == "compaction" else "COPY_ON_WRITE"
    Table.create(str(path), SCHEMA, name="t", record_key="id", ordering=["v"], table_type=table_type)
    t = Table(str(path), options=OPTIONS)
    t.insert(_rows(0))
    t.upsert(_rows(1))
    single = {"hoodie.clustering.plan.strategy.single.group.clustering.enabled": "true"}
    plan = t.schedule_compaction() if kind == "compaction" else t.schedule_clustering(sort_by=["id"], options=single)
    assert plan is not None
    return t, plan


def _stood_still(path: Path, plan: str) -> None:
    old = time.time() - EXPIRED_S
    os.utime(path / ".hoodie" / ".heartbeat" / plan, (old, old))


def _is_whole(path: Path) -> bool:
    t = Table(str(path), options=OPTIONS)
    return t.to_arrow(columns=["id", "v"]).sort_by("id").to_pylist() == _rows(1).to_pylist() and t.verify().ok


@pytest.mark.parametrize("kind", ["clustering", "compaction"])
@pytest.mark.parametrize("other_is_done", [False, True])
def test_a_service_that_was_taken_over_does_not_complete(tmp_path: Path, kind: str, other_is_done: bool) -> None:
    path = tmp_path / "t"
    _, plan = _made(path, kind)
    slow = Service(str(path), kind, plan)
    slow.run()
    _stood_still(path, plan)
    other = Service(str(path), kind, plan)
    other.run()
    if other_is_done:
        other.commit()
    with pytest.raises(ConflictError, match=r"taken over|completed the instant|no longer on the timeline"):
        slow.commit()
    if not other_is_done:
        other.commit()
    assert _is_whole(path)


@pytest.mark.parametrize("kind", ["clustering", "compaction"])
def test_a_heartbeat_that_is_gone_stops_the_commit(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    t, plan = _made(path, kind)
    slow = Service(str(path), kind, plan)
    slow.run()
    _stood_still(path, plan)
    # Another one takes over, removes the files, and ends without having completed the plan.
    other = Service(str(path), kind, plan)
    other.run()
    del other
    with pytest.raises(ConflictError, match="taken over"):
        slow.commit()
    assert _is_whole(path)
    assert (t.cluster(instant=plan) if kind == "clustering" else t.compact(plan)) is not None
    assert _is_whole(path)
