"""How Spark hands units of work to tasks: one to each, in their order, whatever is in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.distributed import Attempt
from hoodoo.distributed.executor import STRINGS, string_batch, strings
from hoodoo.spark.executor import SparkExecutor, _cause_in_task


def _describer() -> Any:
    # Nested, so that it reaches the workers by value.
    def describe(batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[pa.RecordBatch]:
        units = strings(batches)
        yield string_batch([f"{attempt.number} has {len(units)}: {unit[:40]!r} of {len(unit)}" for unit in units])

    return describe


@pytest.mark.parametrize(
    "units",
    [
        [],
        [""],
        ["only"],
        ["", "a\nb", "'quoted\" \\ $1 é 漢 😀", ""],
        [f"unit {n}" for n in range(9)],
        ["zero \0 inside", "none"],
        ["long" * 9_000, "short"],
    ],
    ids=["none", "empty", "one", "odd", "many", "zero", "long"],
)
def test_each_task_gets_one_unit(spark: Any, units: list[str]) -> None:
    executor = SparkExecutor(spark)
    found = executor.collect(executor.map_batches(executor.from_units(units), _describer(), STRINGS))
    assert found == [f"{n} has 1: {unit[:40]!r} of {len(unit)}" for n, unit in enumerate(units)]


def test_a_conflict_of_a_task_is_planned_anew():
    text = "Traceback (most recent call last):\n  …\nhoodoo.exceptions.ConflictError: a file was cleaned [table=t]\n"
    cause = _cause_in_task(RuntimeError(text))
    assert isinstance(cause, hoodoo.ConflictError)
    assert cause.outdated_plan
    assert cause.retryable
    other = _cause_in_task(RuntimeError(text.replace("ConflictError", "SchemaError")))
    assert isinstance(other, hoodoo.SchemaError)
    assert not other.outdated_plan
