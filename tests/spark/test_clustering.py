"""Clustering in Spark's tasks: the table that `Table.cluster` makes, and nothing left of attempts that fail."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

import hoodoo
import hoodoo.spark
from hoodoo.distributed import BatchFunction
from hoodoo.distributed.clustering import begin_clusterings
from hoodoo.spark import executor
from tests.interop.layouts import SIMPLE, batch, row
from tests.rows import Row, arrow_rows
from tests.spark.same_table import leftovers

OPTIONS = {**SIMPLE.options(), "hoodie.parquet.small.file.limit": "0", "hoodie.compact.inline": "false"}
MOR = {**OPTIONS, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
TARGET = "hoodie.clustering.plan.strategy.target.file.max.bytes"
GROUPS = "hoodie.clustering.plan.strategy.max.bytes.per.group"


def _rows(numbers: Iterable[int], ts: int, text: str, part: str | None = None) -> pa.Table:
    return batch([row(n, ts, f"{text} {n * 7919 % 1000:03d}", part=part) for n in numbers])


def _make(path: Path, options: dict[str, str] = OPTIONS, part: str | None = None) -> hoodoo.Table:
    """A table of one partition, or of three, each of three files that lie over each other."""
    for number in range(3):
        hoodoo.write(_rows(range(number, 240, 4), 10, "first", part), path, operation="insert", options=options)
    if options is MOR:
        hoodoo.write(_rows(range(0, 240, 6), 11, "second", part), path, operation="upsert", options=options)
        hoodoo.write(_rows(range(0, 240, 11), 12, "", part), path, operation="delete", options=options)
    return hoodoo.Table(path)


def _content(path: Path) -> list[Row]:
    """The rows with all meta columns but the name of the file."""
    rows = arrow_rows(hoodoo.Table(path).to_arrow(), meta=True)
    return [{name: value for name, value in row.items() if name != "_hoodie_file_name"} for row in rows]


def _files(path: Path) -> dict[str, list[tuple[int, list[str]]]]:
    """Of each partition the files: rows, and the sorted column as it stands there."""
    found: dict[str, list[tuple[int, list[str]]]] = {}
    for piece in hoodoo.Table(path).file_slices():
        assert piece.base_file is not None
        assert not piece.log_files
        values = pq.read_table(path / piece.base_file, columns=["val"], partitioning=None)["val"].to_pylist()
        found.setdefault(piece.partition, []).append((len(values), values))
    return {name: sorted(files) for name, files in found.items()}


def _check(path: Path, expected: list[Row]) -> None:
    table = hoodoo.Table(path)
    assert _content(path) == expected
    assert not table.verify().problems
    assert not leftovers(path)
    assert not table.pending_clusterings()
    assert all(instant.state == "COMPLETED" for instant in table.timeline.instants())


@pytest.mark.parametrize(
    ("options", "sort_by", "more"),
    [
        (OPTIONS, "val", {}),
        (OPTIONS, None, {}),
        (OPTIONS, ["val", "id"], {GROUPS: "10000"}),
        (MOR, "val", {}),
        (MOR, None, {}),
    ],
    ids=["sorted", "as they are", "several groups", "logs, sorted", "logs, as they are"],
)
def test_the_same_as_alone(
    options: dict[str, str], sort_by: str | list[str] | None, more: dict[str, str], tmp_path: Path, spark: Any
):
    alone, shared = tmp_path / "alone", tmp_path / "spark"
    _make(alone, options)
    shutil.copytree(alone, shared)
    before = _content(shared)
    expected = hoodoo.Table(alone).cluster(sort_by=sort_by, options=more)
    done = hoodoo.spark.cluster(spark, str(shared), sort_by, options=more)
    assert expected is not None
    assert done is not None
    assert (done.operation, done.inserted, len(done.files)) == ("CLUSTER", len(before), len(expected.files))
    assert done.replaced.keys() == expected.replaced.keys()
    _check(shared, before)
    files = _files(shared)
    assert files == _files(alone)
    assert set(files) == {"p 0", "p 1", "p 2"}
    if sort_by is not None:
        assert all(values == sorted(values) for of_partition in files.values() for _, values in of_partition)
    if more:
        tokens = {Path(file).name.split("_")[1] for file in done.files}
        assert len(tokens) == len(done.files), "each group is a task"
        assert {len(of_partition) for of_partition in files.values()} == {2}
    assert hoodoo.spark.cluster(spark, str(shared), sort_by, options=more) is None


@pytest.mark.parametrize("sort_by", ["val", None])
def test_large_groups_are_several_tasks(sort_by: str | None, tmp_path: Path, spark: Any):
    path = tmp_path / "t"
    _make(path, part="p 0")
    before = _content(path)
    options = {"hoodoo.clustering.task.bytes": "5000", TARGET: "5000"}
    done = hoodoo.spark.cluster(spark, str(path), sort_by, options=options)
    assert done is not None
    assert len({Path(file).name.split("_")[1] for file in done.files}) > 1
    _check(path, before)
    if sort_by is not None:
        ends = sorted((values[0], values[-1]) for _, values in _files(path)["p 0"])
        assert all(one[1] <= other[0] for one, other in pairwise(ends))


def test_nothing_to_do(tmp_path: Path, spark: Any):
    path = tmp_path / "t"
    hoodoo.write(_rows(range(9), 10, "x"), path, options=OPTIONS)
    small = {"hoodie.clustering.plan.strategy.small.file.limit": "1"}
    assert hoodoo.spark.cluster(spark, str(path), options=small) is None
    assert hoodoo.spark.cluster(spark, str(path), sort_by="val", strategy="OVERLAP") is None
    assert len(hoodoo.Table(path).timeline.instants()) == 1


def test_plans_of_others(tmp_path: Path, spark: Any, caplog: pytest.LogCaptureFixture):
    """By its instant, or all that wait when nothing is asked for; each sorts as it says."""
    path = tmp_path / "t"
    table = _make(path)
    script = "import hoodoo, sys; print(hoodoo.Table(sys.argv[1]).schedule_clustering(sort_by='val'))"
    planned = subprocess.run([sys.executable, "-c", script, path], check=True, capture_output=True, text=True).stdout
    planned = planned.strip()
    with pytest.raises(hoodoo.InvalidOptionError, match="instant alone"):
        hoodoo.spark.cluster(spark, str(path), sort_by="id", instant=planned)
    with caplog.at_level(logging.INFO, "hoodoo.distributed.clustering"):
        done = hoodoo.spark.cluster(spark, str(path), instant=planned)
    assert done is not None
    assert done.instant == planned
    told = [re.sub(r"\d+\.\d", "…", record.getMessage()) for record in caplog.records]
    assert told == [
        f"clustering {planned} of {hoodoo.Table(path)._native.uri} begins: 3 tasks",
        f"clustering {planned} is done: 3 tasks in … s",
    ]
    assert all(values == sorted(values) for files in _files(path).values() for _, values in files)
    with pytest.raises(hoodoo.InvalidOptionError, match="no pending clustering"):
        hoodoo.spark.cluster(spark, str(path), instant=planned)

    hoodoo.write(_rows(range(300, 330), 10, "more"), path, operation="insert", options=OPTIONS)
    first = table.schedule_clustering(sort_by="val")
    hoodoo.write(_rows(range(400, 430), 10, "and more"), path, operation="insert", options=OPTIONS)
    second = table.schedule_clustering(sort_by="id")
    assert None not in (first, second)
    before = _content(path)
    done = hoodoo.spark.cluster(spark, str(path))
    assert done is not None
    assert done.instant == second
    _check(path, before)


def test_a_plan_that_writers_have_outdated(tmp_path: Path, spark: Any):
    path = tmp_path / "t"
    allow = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
    options = {**OPTIONS, "hoodie.clustering.updates.strategy": allow}
    planned = _make(path).schedule_clustering(sort_by="val")
    hoodoo.write(_rows(range(5), 13, "meanwhile"), path, operation="upsert", options=options)
    before = _content(path)
    with pytest.raises(hoodoo.ConflictError, match="another writer changed a file group"):
        hoodoo.spark.cluster(spark, str(path), instant=planned)
    _check(path, before)


@pytest.mark.parametrize("most_bytes", ["1", "1000000"], ids=["driver", "task"])
def test_a_new_plan_that_is_impossible_does_not_stay(most_bytes: str, tmp_path: Path, spark: Any):
    path = tmp_path / "t"
    _make(path, part="p 0")
    before = _content(path)
    # Planning does not look for fields of columns.
    options = {"hoodoo.clustering.task.bytes": most_bytes, TARGET: most_bytes}
    with pytest.raises(hoodoo.InvalidOptionError, match=r"val\.x"):
        hoodoo.spark.cluster(spark, str(path), ["id", "val.x"], options=options)
    _check(path, before)


def test_a_plan_whose_file_is_gone(tmp_path: Path, spark: Any):
    path = tmp_path / "t"
    table = _make(path)
    before = _content(path)
    begun = next(begin_clusterings(str(path), "val"))
    gone = path / str(table.file_slices()[0].base_file)
    kept = gone.rename(gone.with_suffix(".away"))
    broken = [group for group in begun.units if gone.name in group]
    with pytest.raises(hoodoo.CorruptFileError, match=gone.name):
        begun.task.execute(broken[0], "0-1-1")
    begun.release()
    kept.rename(gone)
    assert hoodoo.spark.cluster(spark, str(path)) is not None
    _check(path, before)


def _task(when: str, dies: bool, *, always: bool = False) -> Any:
    """Replaces `run_task`: first attempts break before or after the work. Reaches the workers by value."""

    def run(function: BatchFunction, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        from hoodoo.spark.executor import run_task

        def break_it() -> None:
            if dies:
                os._exit(17)
            raise RuntimeError("broken on purpose")

        breaks = always or TaskContext.get().attemptNumber() == 0
        if breaks and when == "before":
            break_it()
        done = list(run_task(function, batches))
        if breaks:
            break_it()
        yield from done

    return run


@pytest.mark.parametrize("dies", [False, True], ids=["raises", "dies"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_task_is_tried_again(when: str, dies: bool, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "t"
    _make(path, MOR, "p 0")
    before = _content(path)
    monkeypatch.setattr(executor, "run_task", _task(when, dies))
    done = hoodoo.spark.cluster(spark, str(path), sort_by="val")
    assert done is not None
    _check(path, before)
    assert {str(p.relative_to(path)) for p in path.rglob(f"*_{done.instant}.parquet")} == set(done.files)


def test_a_job_that_fails_for_good(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch):
    """The plan waits, and can be begun anew at once, even where the error is still held."""
    path = tmp_path / "t"
    _make(path, part="p 0")
    before = _content(path)
    with monkeypatch.context() as patch:
        patch.setattr(executor, "run_task", _task("after", dies=False, always=True))
        with pytest.raises(PySparkException, match="broken on purpose") as caught:
            hoodoo.spark.cluster(spark, str(path), sort_by="val")
    assert caught.value.__traceback__ is not None
    (waiting,) = hoodoo.Table(path).pending_clusterings()
    assert waiting.inflight
    assert _content(path) == before
    done = hoodoo.spark.cluster(spark, str(path))
    assert done is not None
    assert done.instant == waiting.instant
    _check(path, before)


def test_an_attempt_that_outlives_the_clustering(tmp_path: Path):
    """Spark lets the slower of two copies run on for a while after the job is done."""
    path = tmp_path / "t"
    _make(path)
    before = _content(path)
    (begun,) = begin_clusterings(str(path), "val")
    begun.task.execute(begun.units[0], "0-1-1")
    begun.commit([begun.task.execute(group, f"{number}-1-2") for number, group in enumerate(begun.units)])
    _check(path, before)
    with pytest.raises(hoodoo.HudiError):
        begun.task.execute(begun.units[0], "0-1-3")
    with pytest.raises(hoodoo.InvalidOptionError, match="over"):
        begun.commit([])
    _check(path, before)
