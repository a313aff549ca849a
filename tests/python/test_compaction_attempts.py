"""Compactions in tasks: they do what the plan says, and late ones of an attempt touch no files of the next one."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodoo import InvalidOptionError, Table, _native

OPTIONS = {
    "hoodie.compact.inline": "false",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clean.automatic": "false",
}


def _rows(v: int) -> pa.Table:
    return pa.table({"id": list(range(20)), "v": [v] * 20, "part": [str(key % 3) for key in range(20)]})


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table with a planned compaction of three file groups."""
    path = str(tmp_path / "t")
    t = Table.create(
        path,
        _rows(0).schema,
        name="t",
        record_key="id",
        partition_by="part",
        table_type="MERGE_ON_READ",
        options=OPTIONS,
    )
    t.insert(_rows(0))
    t.upsert(_rows(1))
    assert t.schedule_compaction()
    return path


class Attempt:
    """An attempt to execute the plan. Its tasks have the tokens that each engine gives them after a restart."""

    def __init__(self, path: str) -> None:
        self.table = Table(path, OPTIONS)
        job = _native.NativeCompaction.begin(self.table._native, None)
        assert job is not None
        self.job: _native.NativeCompaction | None = job
        self.instant, self.tasks = job.instant, job.tasks
        time.sleep(0.002)

    def run(self) -> list[str]:
        return [
            _native.compact_operation(self.table._native, self.instant, task, f"{number}-0-{number}")
            for number, task in enumerate(self.tasks)
        ]

    def commit(self, reports: list[str]) -> None:
        assert self.job is not None
        self.job.commit(reports)

    def die(self) -> None:
        """The driver is gone. Its tasks are not."""
        self.job = None


def _check(path: str, instant: str) -> None:
    t = Table(path, OPTIONS)
    assert [i.requested for i in t.timeline.instants() if i.action == "commit"] == [instant]
    assert set(t.to_arrow()["v"].to_pylist()) == {1}
    assert t.to_arrow().num_rows == 20
    assert not t.verify().problems


def test_files_of_an_attempt_are_deleted_after_the_next_one(path: str) -> None:
    first = Attempt(path)
    paths = [json.loads(report)["path"] for report in first.run()]
    first.die()
    second = Attempt(path)
    assert second.instant == first.instant
    second.commit(second.run())
    # A task that deletes for the rollback of the first attempt, and that nobody waits for any more.
    report = _native.run_file_task(first.table._native, "delete", json.dumps({"number": 0, "paths": paths}))
    assert len(json.loads(report)["deleted"]) == 3
    _check(path, first.instant)


def test_tasks_of_an_attempt_write_beside_the_next_one(path: str) -> None:
    first = Attempt(path)
    first.die()
    second = Attempt(path)
    reports = second.run()
    late = first.run()
    assert {json.loads(r)["path"] for r in late}.isdisjoint(json.loads(r)["path"] for r in reports)
    second.commit(reports)
    _check(path, first.instant)


def test_attempts_of_one_task_have_different_names(path: str) -> None:
    attempt = Attempt(path)
    task = attempt.tasks[0]
    tokens = ["0-0-7", "0-0-8", "0-1-9"]
    reports = [_native.compact_operation(attempt.table._native, attempt.instant, task, token) for token in tokens]
    assert len({json.loads(report)["path"] for report in reports}) == 3
    attempt.commit([reports[1], *attempt.run()[1:]])
    _check(path, attempt.instant)


def test_a_token_of_another_form_is_refused(path: str) -> None:
    attempt = Attempt(path)
    with pytest.raises(InvalidOptionError, match="a write token has three numbers"):
        _native.compact_operation(attempt.table._native, attempt.instant, attempt.tasks[0], "7")


def test_the_plan_of_a_log_compaction(tmp_path: Path) -> None:
    """Tasks write log files, as its plan says."""
    path = str(tmp_path / "t")
    options = OPTIONS | {"hoodie.log.compaction.blocks.threshold": "2", "hoodie.metadata.enable": "false"}
    # Otherwise the next action takes a planned log compaction back.
    options["hoodie.clean.failed.writes.policy"] = "LAZY"
    names: dict[str, Any] = {"name": "t", "record_key": "id", "partition_by": "part", "table_type": "MERGE_ON_READ"}
    t = Table.create(path, _rows(0).schema, options=options, **names)
    t.insert(_rows(0))
    for v in (1, 2, 3):
        t.upsert(_rows(v))
    done = Table(path, options).log_compact()
    assert done is not None
    # Back to where it was only planned.
    for file in Path(path).rglob(f"*{done.instant}*"):
        if not file.name.endswith(".requested"):
            file.unlink()
    table = Table(path, options)
    job = _native.NativeCompaction.begin(table._native, done.instant)
    assert job is not None
    reports = [
        _native.compact_operation(table._native, done.instant, task, f"{number}-0-{number}")
        for number, task in enumerate(job.tasks)
    ]
    assert len(reports) == 3
    assert all(".log." in json.loads(report)["path"] for report in reports)
    job.commit(reports)
    after = Table(path, options)
    assert set(after.to_arrow()["v"].to_pylist()) == {3}
    assert not after.verify().problems
