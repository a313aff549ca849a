"""A clustering while a slow write to its file groups completes, and is archived at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodoo import ConflictError, Table, _native
from hoodoo.distributed import Attempt
from hoodoo.distributed.write import prepare_write

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
OPTIONS = {
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    # Archiving keeps nothing for the cleaner then.
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodoo.write.lease": "false",
    "hoodie.clustering.updates.strategy": "SparkAllowUpdateStrategy",
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict": "false",
    "hoodie.clustering.plan.strategy.partition.selected": "p",
    "hoodie.clustering.plan.strategy.single.group.clustering.enabled": "true",
}


def _row(key: str, partition: str, value: int) -> pa.Table:
    return pa.table({"id": [key], "p": [partition], "v": [value]}, schema=SCHEMA)


def _slow_update(uri: str) -> Callable[[], None]:
    """Begins to set `a` to 100 as tasks of an engine do; what it returns commits that."""
    write: Any = prepare_write(SCHEMA, uri, "upsert", OPTIONS, {}).begin(SCHEMA, 1)
    attempt = Attempt(0, "0-0-0")
    packed = list(write.task.route(_row("a", "p", 100).to_batches(), attempt))
    reports = [report for batch in write.task.apply(packed, attempt) for report in batch.column(0).to_pylist()]
    return lambda: write.commit(reports)


def _planned(path: Path, table_type: str) -> tuple[Table, str, Callable[[], None]]:
    """A table with a planned clustering of `a`, and an update of `a` that was requested before the plan."""
    Table.create(
        str(path), SCHEMA, name="t", record_key="id", partition_by=["p"], ordering=["v"], table_type=table_type
    )
    t = Table(str(path), options=OPTIONS)
    t.insert(_row("a", "p", 0))
    t.insert(_row("x", "q", 0))
    finish = _slow_update(str(path))
    for number in range(6):
        Table(str(path), options=OPTIONS).insert(_row(f"k{number}", "q", 0))
    plan = t.schedule_clustering(sort_by=["v"])
    assert plan is not None
    return t, plan, finish


def _newest(t: Table) -> list[int]:
    column: list[int] = t.to_arrow(columns=["v"], filters=[("id", "=", "a")])["v"].to_pylist()
    return column


def _is_archived_since(t: Table, plan: str) -> bool:
    """Whether the timeline has no write any more that completed after the plan was made."""
    done = [i for i in t.timeline.instants() if i.state == "COMPLETED" and i.action in {"commit", "deltacommit"}]
    return all(i.completed is not None and i.completed < plan for i in done)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_an_update_that_was_archived_before_the_clustering_begins_stays(tmp_path: Path, table_type: str) -> None:
    t, plan, finish = _planned(tmp_path / "t", table_type)
    finish()
    t.archive()
    assert _is_archived_since(t, plan)
    assert _newest(t) == [100]
    with pytest.raises(ConflictError, match="after its clustering was planned"):
        t.cluster(instant=plan)
    assert _newest(t) == [100]
    assert t.pending_clusterings() == ()


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_an_update_that_was_archived_while_the_clustering_ran_stays(tmp_path: Path, table_type: str) -> None:
    t, plan, finish = _planned(tmp_path / "t", table_type)
    native = _native.NativeTable.open(str(tmp_path / "t"), {}, OPTIONS)
    job = _native.NativeClustering.begin(native, plan, False)
    assert job is not None
    files = [_native.cluster_group(native, plan, group, f"{n}-0-0") for n, group in enumerate(job.groups)]
    finish()
    t.archive()
    assert _is_archived_since(t, plan)
    with pytest.raises(ConflictError, match="after its clustering was planned"):
        job.commit(files)
    assert _newest(t) == [100]
    assert t.pending_clusterings() == ()
