"""Cleaning after table services and overwrites that took long: queries of the retained commits find their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodoo import Table
from hoodoo.distributed import Attempt
from hoodoo.distributed.write import prepare_write

RETAINED = 3
SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
OPTIONS = {
    "hoodie.clean.commits.retained": str(RETAINED),
    "hoodie.compact.inline": "false",
    "hoodie.metadata.enable": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodoo.write.lease": "false",
}


def _row(key: str, partition: str, value: int) -> pa.Table:
    return pa.table({"id": [key], "p": [partition], "v": [value]}, schema=SCHEMA)


def _overwrite(uri: str) -> Any:
    """An overwrite of the partition `p` whose tasks are done; its `commit` completes it."""
    write: Any = prepare_write(SCHEMA, uri, "insert_overwrite", OPTIONS, {}).begin(SCHEMA, 1)
    attempt = Attempt(0, "0-0-0")
    packed = list(write.task.route(_row("new", "p", 1).to_batches(), attempt))
    reports = [report for batch in write.task.apply(packed, attempt) for report in batch.column(0).to_pylist()]
    return lambda: write.commit(reports)


def _files(path: Path) -> set[str]:
    return {file.name for file in (path / "p").iterdir() if file.suffix == ".parquet" or ".log." in file.name}


@pytest.mark.parametrize("kind", ["clustering", "compaction", "overwrite"])
def test_files_stay_for_the_retained_commits(tmp_path: Path, kind: str) -> None:
    uri = str(tmp_path / "t")
    table_type = "MERGE_ON_READ" if kind == "compaction" else "COPY_ON_WRITE"
    Table.create(uri, SCHEMA, name="t", record_key="id", partition_by=["p"], ordering=["v"], table_type=table_type)
    t = Table(uri, options=OPTIONS)
    t.insert(_row("a", "p", 0))
    t.upsert(_row("a", "p", 1)) if kind == "compaction" else t.insert(_row("b", "p", 1))
    before = _files(tmp_path / "t")
    if kind == "clustering":
        plan = t.schedule_clustering(sort_by=["id"])
        complete = lambda: t.cluster(instant=plan)  # noqa: E731
    elif kind == "compaction":
        plan = t.schedule_compaction()
        complete = lambda: t.compact(plan)  # noqa: E731
    else:
        complete = _overwrite(uri)
    for number in range(2 * RETAINED + 2):
        t.insert(_row(f"n{number}", "q", 0))
    query = t.to_dataset()
    rows = t.to_arrow(columns=SCHEMA.names).sort_by("id").to_pylist()
    complete()
    for number in range(RETAINED):
        # The commit before the completion is retained until so many came after it.
        assert before <= _files(tmp_path / "t"), number
        assert query.to_table(columns=SCHEMA.names).sort_by("id").to_pylist() == rows
        t.insert(_row(f"m{number}", "q", 0))
    for number in range(2):
        t.insert(_row(f"o{number}", "q", 0))
    assert not before & _files(tmp_path / "t")
    assert t.verify().ok


def test_archiving_keeps_what_tells_that_a_service_was_late(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    options = {**OPTIONS, "hoodie.keep.min.commits": "1", "hoodie.keep.max.commits": "2"}
    Table.create(uri, SCHEMA, name="t", record_key="id", partition_by=["p"], ordering=["v"])
    t = Table(uri, options=options)
    complete = _overwrite(uri)
    for number in range(2 * RETAINED):
        t.upsert(_row("n", "q", number))
    complete()
    overwrite = min(i.requested for i in t.timeline.instants() if i.action == "replacecommit")
    is_there = []
    for number in range(2 * RETAINED + 2):
        t.archive()
        is_there.append(overwrite in [i.requested for i in t.timeline.instants()])
        t.upsert(_row("n", "q", number))
    assert all(is_there[:RETAINED])
    assert not is_there[-1]
