"""Tasks that fail, are tried again or run twice: no row twice, no file of a failed attempt, nothing left over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import hoodoo
import hoodoo.spark
from hoodoo.distributed import Attempt, BatchFunction
from hoodoo.distributed.executor import strings
from hoodoo.distributed.write import PACKED_ROWS, WriteTask, prepare_write
from hoodoo.spark import executor
from tests.interop.layouts import SCHEMA, SIMPLE, batch, row
from tests.pairs import every_pair, every_value
from tests.rows import arrow_rows
from tests.spark.same_table import leftovers

Frame = Callable[..., Any]
Break = Callable[[], None]
EVENT = SIMPLE.options()
GLOBAL = {**EVENT, "hoodie.index.type": "GLOBAL_SIMPLE"}


def _rows(numbers: range, ts: int, text: str, part: str | None = None) -> pa.Table:
    return batch([row(n, ts, f"{text} {n}", part=part) for n in numbers])


@pytest.fixture
def table(frame: Frame, tmp_path: Path) -> Path:
    path = tmp_path / "table"
    hoodoo.spark.write(frame(_rows(range(300), 10, "old")), str(path), options=EVENT)
    return path


def _check(path: Path, expected: pa.Table) -> None:
    table = hoodoo.Table(str(path))
    assert arrow_rows(table.to_arrow()) == arrow_rows(expected)
    twice = len(expected) > len(set(expected["id"].to_pylist()))
    problems = table.verify().problems
    assert all("in more than one row" in problem.message for problem in problems), problems
    assert bool(problems) == twice
    assert not leftovers(path)
    assert all(instant.state == "COMPLETED" for instant in table.timeline.instants())


def _merged() -> pa.Table:
    return pa.concat_tables([_rows(range(100), 10, "old"), _rows(range(100, 400), 11, "new")])


# What an attempt does that breaks. Nested, so that they reach the workers by value.
def _raises() -> Break:
    def raises() -> None:
        raise RuntimeError("broken on purpose")

    return raises


def _dies() -> Break:
    def dies() -> None:
        import os

        os._exit(17)

    return dies


def _name(value: Any) -> str:
    """How a value of a case is called."""
    return str(getattr(value, "__name__", value)).lstrip("_")


def _upstream(break_it: Break, *, always: bool = False) -> Any:
    """A stage before ours, whose first attempts break after some batches."""

    def copy(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        for number, rows in enumerate(batches):
            if number == 1 and (always or context.attemptNumber() == 0):
                break_it()
            yield rows

    return copy


def _writer_task(name: str, break_it: Break, when: str, *, always: bool = False) -> Any:
    """Replaces `run_task`: first attempts of the named function break before, within or after the work."""

    def run(function: BatchFunction, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        from hoodoo.spark.executor import run_task

        if function.__name__ != name:
            yield from run_task(function, batches)
            return
        breaks = always or TaskContext.get().attemptNumber() == 0

        def cut(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number, one in enumerate(rows):
                yield one
                if breaks and number == 1:
                    break_it()

        if breaks and when == "before":
            break_it()
        stats = list(run_task(function, cut(batches) if when == "within" else batches))
        if breaks and when == "after":
            break_it()
        yield from stats

    return run


@pytest.mark.parametrize(
    ("operation", "break_it"), every_value(["upsert", "bulk_insert"], [_raises, _dies], name=_name)
)
def test_the_stage_before_ours_is_tried_again(operation: str, break_it: Callable[[], Break], table: Path, frame: Frame):
    rows = frame(_rows(range(100, 200), 11, "new"), _rows(range(200, 400), 11, "new"))
    hoodoo.spark.write(rows.mapInArrow(_upstream(break_it()), rows.schema), str(table), operation, EVENT)
    old = _rows(range(300), 10, "old")
    both = pa.concat_tables([old, _rows(range(100, 400), 11, "new")])
    _check(table, _merged() if operation == "upsert" else both)


@pytest.mark.parametrize(
    ("when", "break_it", "operation"),
    every_pair(["before", "within", "after"], [_raises, _dies], ["upsert", "bulk_insert"], name=_name),
)
def test_a_writing_task_is_tried_again(
    operation: str,
    break_it: Callable[[], Break],
    when: str,
    table: Path,
    frame: Frame,
    monkeypatch: pytest.MonkeyPatch,
):
    name = "apply" if operation == "upsert" else "append"
    monkeypatch.setattr(executor, "run_task", _writer_task(name, break_it(), when))
    commit = hoodoo.spark.write(frame(_rows(range(100, 400), 11, "new")), str(table), operation, EVENT)
    both = pa.concat_tables([_rows(range(300), 10, "old"), _rows(range(100, 400), 11, "new")])
    _check(table, _merged() if operation == "upsert" else both)
    assert {str(p.relative_to(table)) for p in table.rglob(f"*_{commit.instant}.parquet")} == set(commit.files)


@pytest.mark.parametrize(
    ("when", "break_it", "name"),
    every_value(["before", "within", "after"], [_raises, _dies], ["key", "locate", "apply"], name=_name),
)
def test_a_task_of_a_write_over_the_whole_table_is_tried_again(
    name: str, break_it: Callable[[], Break], when: str, table: Path, frame: Frame, monkeypatch: pytest.MonkeyPatch
):
    """Rows that move are in two file groups at once while they are on their way."""
    moved, new = _rows(range(100, 200), 11, "moved", "p new"), _rows(range(200, 400), 11, "new")
    monkeypatch.setattr(executor, "run_task", _writer_task(name, break_it(), when))
    hoodoo.spark.write(frame(moved, moved, new), str(table), options=GLOBAL)
    _check(table, pa.concat_tables([_rows(range(100), 10, "old"), moved, new]))
    monkeypatch.setattr(executor, "run_task", _writer_task(name, break_it(), when))
    commit = hoodoo.spark.write(frame(moved.select(["id"]), new.select(["id"])), str(table), "delete", EVENT)
    assert commit.deleted == 300
    _check(table, _rows(range(100), 10, "old"))


@pytest.mark.parametrize("operation", ["upsert", "delete_partition"])
def test_a_job_over_the_whole_table_that_fails_for_good(
    operation: str, table: Path, frame: Frame, monkeypatch: pytest.MonkeyPatch
):
    name = "report_partitions" if operation == "delete_partition" else "locate"
    with monkeypatch.context() as patch:
        patch.setattr(executor, "run_task", _writer_task(name, _raises(), "after", always=True))
        with pytest.raises(PySparkException, match="broken on purpose"):
            hoodoo.spark.write(frame(_rows(range(100, 400), 11, "new")), str(table), operation, GLOBAL)
    _check(table, _rows(range(300), 10, "old"))


@pytest.mark.parametrize(
    ("operation", "break_it"),
    [
        ("upsert", _raises),
        ("bulk_insert", _dies),
        ("insert_overwrite", _raises),
        pytest.param("upsert", _dies, marks=pytest.mark.slow),
        pytest.param("bulk_insert", _raises, marks=pytest.mark.slow),
        pytest.param("insert_overwrite", _dies, marks=pytest.mark.slow),
    ],
)
def test_a_job_that_fails_for_good(
    operation: str, break_it: Callable[[], Break], table: Path, frame: Frame, monkeypatch: pytest.MonkeyPatch
):
    name = "append" if operation == "bulk_insert" else "apply"
    with monkeypatch.context() as patch:
        patch.setattr(executor, "run_task", _writer_task(name, break_it(), "after", always=True))
        with pytest.raises(Exception, match=r"(?s)broken on purpose|crashed|exited|EOF") as caught:
            hoodoo.spark.write(frame(_rows(range(100, 400), 11, "new")), str(table), operation, EVENT)
    assert isinstance(caught.value, PySparkException) or "Py4JJavaError" in type(caught.value).__name__
    _check(table, _rows(range(300), 10, "old"))
    hoodoo.spark.write(frame(_rows(range(100, 400), 11, "new")), str(table), options=EVENT)
    _check(table, _merged())


def _routed(task: WriteTask, rows: pa.Table) -> list[pa.RecordBatch]:
    batches = list(task.route(rows.to_batches(), Attempt(0, "0-0-0")))
    order = [(name, "ascending") for name in PACKED_ROWS.names[:3]]
    routed: list[pa.RecordBatch] = pa.Table.from_batches(batches).sort_by(order).to_batches()
    return routed


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert"])
@pytest.mark.parametrize("aborted", [False, True], ids=["committed", "aborted"])
def test_an_attempt_that_outlives_the_write(aborted: bool, operation: str, table: Path):
    """Spark lets the slower of two copies run on for a while after the job is done."""
    new = _rows(range(300, 400), 11, "new")
    prepared = prepare_write(SCHEMA, str(table), operation, EVENT, None)
    begun = prepared.begin(SCHEMA, 2)
    routed = _routed(begun.task, new)
    first = strings(begun.task.apply(routed, Attempt(0, "0-1-1")))

    def slow() -> Iterator[pa.RecordBatch]:
        # The copy is at work, with nothing written yet, when the write ends.
        yield from routed
        if aborted:
            begun.abort()
        else:
            begun.commit(first)

    with pytest.raises(hoodoo.ConflictError):
        strings(begun.task.apply(slow(), Attempt(0, "0-1-2")))
    with pytest.raises(hoodoo.ConflictError):
        strings(begun.task.apply(routed, Attempt(0, "0-1-3")))
    with pytest.raises(hoodoo.ConflictError):
        strings(begun.task.append(new.to_batches(), Attempt(0, "0-1-4")))
    old = _rows(range(300), 10, "old")
    _check(table, old if aborted else pa.concat_tables([old, new]))


def test_two_attempts_that_both_finish(table: Path):
    prepared = prepare_write(SCHEMA, str(table), "upsert", EVENT, None)
    begun = prepared.begin(SCHEMA, 2)
    routed = _routed(begun.task, _rows(range(100, 400), 11, "new"))
    strings(begun.task.apply(routed, Attempt(0, "0-1-1")))
    second = strings(begun.task.apply(routed, Attempt(0, "0-1-2")))
    begun.commit(second)
    _check(table, _merged())


@pytest.mark.cluster
def test_speculative_copies(frame: Frame, table: Path, monkeypatch: pytest.MonkeyPatch, spark: Any):
    """The first attempt of one task hangs after it wrote its files; its copy overtakes it."""
    if spark.conf.get("spark.speculation", "false") != "true":
        pytest.skip("needs a cluster with speculation: HOODOO_TEST_SPARK=cluster")
    slow_one, copy = table.parent / "slow-attempt", table.parent / "copy"

    def slow(function: BatchFunction, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        from pyspark import TaskContext

        from hoodoo.spark.executor import run_task

        context = TaskContext.get()
        reports = list(run_task(function, batches))
        if function.__name__ == "apply" and context.partitionId() == 0 and context.attemptNumber() > 0:
            copy.write_text("overtakes")
        elif function.__name__ == "apply" and context.partitionId() == 0:
            slow_one.write_text("wrote, and hangs")
            time.sleep(200)
        yield from reports

    monkeypatch.setattr(executor, "run_task", slow)
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    try:
        hoodoo.spark.write(frame(_rows(range(100, 400), 11, "new")), str(table), options=EVENT)
    finally:
        spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
    assert slow_one.exists()
    assert copy.exists()
    _check(table, _merged())
