"""Cleans, rollbacks and restores whose files are listed and deleted in tasks: they do what `Table` does."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Table
from hoodoo.distributed import Attempt, BatchFunction
from hoodoo.distributed.recovery import FileTask, FileTasks
from tests.local_executor import LocalExecutor, Splits

PARTITIONS = 1_050
"""Files of a commit: more than a task deletes. Their folders are on the second level, and more than a task lists."""
OPTIONS = {
    "hoodie.metadata.enable": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.fileversions.retained": "1",
}


def _rows(v: int) -> pa.Table:
    keys = range(PARTITIONS)
    return pa.table(
        {"id": list(keys), "v": [v] * PARTITIONS, "year": ["2024"] * PARTITIONS, "day": [str(k) for k in keys]}
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of two commits; the first has a savepoint."""
    path = tmp_path_factory.mktemp("recovery") / "t"
    names: dict[str, Any] = {"name": "t", "record_key": "id", "partition_by": ["year", "day"]}
    t = Table.create(str(path), _rows(0).schema, options=OPTIONS, **names)
    t.bulk_insert(_rows(0))
    t.upsert(_rows(1))
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "t"))


class Recorder(LocalExecutor):
    """Counts the tasks of each stage."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[tuple[str, int]] = []

    def map_batches(self, data: Splits, function: BatchFunction, schema: pa.Schema) -> Splits:
        kind = function.__self__.kind  # type: ignore[attr-defined]
        self.tasks.append((kind, len(data)))
        return super().map_batches(data, function, schema)


def _files(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*.parquet") if ".hoodie" not in file.parts}


def _values(path: Path) -> set[int]:
    return set(Table(str(path), OPTIONS).to_arrow(columns=["v"])["v"].to_pylist())


Service = Callable[[Any, str], Any]


def _clean(t: Any, instant: str) -> Any:  # noqa: ARG001
    return t.clean()


def _rollback(t: Any, instant: str) -> Any:
    return t.rollback(instant)


@pytest.mark.parametrize(("service", "left"), [(_clean, {1}), (_rollback, {0})])
def test_tasks_do_what_the_process_does(path: Path, tmp_path: Path, service: Service, left: set[int]) -> None:
    other = Path(shutil.copytree(path, tmp_path / "other" / "t"))
    newest = Table(str(path)).timeline.instants()[-1].requested
    executor = Recorder()
    service(FileTasks.open(executor, str(path), OPTIONS), newest)
    service(Table(str(other), OPTIONS), newest)
    assert _files(path) == _files(other)
    assert len(_files(path)) == PARTITIONS
    assert _values(path) == left
    assert executor.tasks == [("list" if service is _rollback else "list_recursive", 17), ("delete", 2)]
    assert not Table(str(path), OPTIONS).verify().problems
    Table(str(path), OPTIONS).upsert(_rows(2))
    assert _values(path) == {2}


def test_a_dry_run_deletes_nothing(path: Path) -> None:
    before = _files(path)
    executor = Recorder()
    report = FileTasks.open(executor, str(path), OPTIONS).clean(dry_run=True)
    assert (len(report.files), report.dry_run, report.instant) == (PARTITIONS, True, None)
    assert [kind for kind, _ in executor.tasks] == ["list_recursive"]
    assert _files(path) == before


def test_a_restore_in_tasks(path: Path) -> None:
    t = Table(str(path), OPTIONS)
    t.rollback(t.timeline.instants()[-1].requested)
    saved = t.savepoint()
    t.upsert(_rows(1))
    t.upsert(_rows(2))
    executor = Recorder()
    done = FileTasks.open(executor, str(path), OPTIONS).restore(saved.instant)
    assert (done.files, len(done.undone)) == (2 * PARTITIONS, 2)
    assert executor.tasks == [("list", 17), ("list_recursive", 17), ("delete", 3)]
    assert _values(path) == {0}
    assert not Table(str(path), OPTIONS).verify().problems


def _late(self: FileTask, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterable[pa.RecordBatch]:
    """A task that fails once it has done its work."""
    done = list(FileTask.run(self, batches, attempt))
    if self.kind == "delete" and attempt.number == 1:
        raise hoodoo.StorageError("the executor was lost")
    return done


class Failing(LocalExecutor):
    """One of its deletions fails after the files are gone."""

    def map_batches(self, data: Splits, function: BatchFunction, schema: pa.Schema) -> Splits:
        return super().map_batches(data, _Late(function.__self__), schema)  # type: ignore[attr-defined]


class _Late:
    def __init__(self, task: FileTask) -> None:
        self.task = task

    def __call__(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterable[pa.RecordBatch]:
        return _late(self.task, batches, attempt)


@pytest.mark.parametrize("service", [_clean, _rollback])
def test_a_failed_task_leaves_work_for_the_next_one(path: Path, service: Service) -> None:
    newest = Table(str(path)).timeline.instants()[-1].requested
    with pytest.raises(hoodoo.StorageError, match="the executor was lost"):
        service(FileTasks.open(Failing(), str(path), OPTIONS), newest)
    # Files are gone, and the action is not completed: it goes on where it ended.
    executor = Recorder()
    service(FileTasks.open(executor, str(path), OPTIONS), newest)
    assert ("delete", 2) in executor.tasks
    assert len(_files(path)) == PARTITIONS
    assert not Table(str(path), OPTIONS).verify().problems


class Losing(LocalExecutor):
    """Returns the reports of all tasks but one."""

    def collect(self, data: Splits) -> list[str]:
        return super().collect(data)[1:]


def test_an_engine_that_loses_a_report(path: Path) -> None:
    before = _files(path)
    with pytest.raises(hoodoo.StorageError, match="did not return one report for each task"):
        FileTasks.open(Losing(), str(path), OPTIONS).clean()
    assert _files(path) == before


def test_an_engine_that_returns_something_else(path: Path) -> None:
    class Odd(LocalExecutor):
        def collect(self, data: Splits) -> list[str]:
            return ["no report"] * len(super().collect(data))

    with pytest.raises(hoodoo.InvalidOptionError, match="malformed task of a listing"):
        FileTasks.open(Odd(), str(path), OPTIONS).clean()


def test_few_files_need_no_task(tmp_path: Path) -> None:
    t = Table.create(
        str(tmp_path / "t"), {"id": pa.int64(), "v": pa.int64()}, name="t", record_key="id", options=OPTIONS
    )
    for v in range(3):
        t.upsert({"id": [1], "v": [v]})
    executor = Recorder()
    tasks = FileTasks.open(executor, str(tmp_path / "t"), OPTIONS)
    assert len(tasks.clean().files) == 2
    assert tasks.clean().instant is None
    assert executor.tasks == []


def test_what_is_no_instant_is_refused(path: Path) -> None:
    tasks = FileTasks.open(LocalExecutor(), str(path), OPTIONS)
    with pytest.raises(hoodoo.InvalidOptionError, match=r"a Commit\.instant"):
        tasks.rollback(17)  # type: ignore[arg-type]
    with pytest.raises(hoodoo.InvalidOptionError, match="there is no savepoint"):
        tasks.restore("20240101000000000")
