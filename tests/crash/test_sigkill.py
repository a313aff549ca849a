"""A writer that is killed at any moment: never a part of a commit, and the next write cleans up."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from tests.crash.forks import Forks, age, left_over

_KILLS = 100
OPTIONS = {
    "hoodie.table.name": "killed",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.metadata.enable": "false",
    "hoodie.parquet.max.file.size": "300000",
    "hoodie.parquet.small.file.limit": "0",
    # So that the killed write may be at its cleaning, too.
    "hoodie.clean.commits.retained": "1",
}
_ROWS = 40_000


def batch(numbers: range, ts: int, text: str) -> pa.Table:
    """Makes rows in four partitions."""
    return pa.table(
        {
            "id": [f"key-{n:06d}" for n in numbers],
            "ts": pa.array([ts] * len(numbers), pa.int64()),
            "part": [f"p{n % 4}" for n in numbers],
            "val": [f"{text} {n * 7919 % 104729:x}" for n in numbers],
        }
    )


# Compacted often, so that the killed write may be at that, too.
METADATA = OPTIONS | {"hoodie.metadata.enable": "true", "hoodie.metadata.compact.max.delta.commits": "2"}


@pytest.fixture
def writers(options: dict[str, str]) -> Iterator[Forks]:
    """Gives the process that forks writers."""
    process = Forks(
        'hoodoo.write(rows, table, operation="upsert", options=OPTIONS)',
        f"""from tests.crash.test_sigkill import batch
OPTIONS = {options}
rows = batch(range(0, {_ROWS}, 10), 2, "new")""",
    )
    yield process
    process.close()


def _rows(table: Path) -> pa.Table:
    columns = ["id", "ts", "part", "val"]
    return hoodoo.Table(str(table)).to_arrow(columns=columns).sort_by("id")


@pytest.mark.slow  # fewer kills, of each operation, are in test_sigkill_operations
@pytest.mark.parametrize(
    "options",
    [pytest.param(OPTIONS, id="plain"), pytest.param(METADATA, id="metadata table")],
)
def test_killed_at_random_moments(tmp_path: Path, writers: Forks, options: dict[str, str]) -> None:
    made = tmp_path / "made"
    hoodoo.write(batch(range(_ROWS), 1, "old"), str(made), operation="bulk_insert", options=options)
    hoodoo.write(batch(range(0, _ROWS, 7), 1, "old"), str(made), operation="upsert", options=options)
    before = _rows(made)
    times = []
    for number in range(3):
        whole = shutil.copytree(made, tmp_path / f"whole{number}")
        ended, took = writers.run(whole, 0)
        assert ended == "exit 0"
        times.append(took)
    after = _rows(whole)
    assert not before.equals(after)
    longest = 1.2 * sorted(times)[1]
    random_moments = random.Random(20_260_101)
    ends = {"before": 0, "before, work left behind": 0, "after": 0}
    for number in range(_KILLS):
        table = shutil.copytree(made, tmp_path / "killed")
        writers.run(table, random_moments.uniform(0.001, longest))
        read = _rows(table)
        done = read.equals(after)
        assert done or read.equals(before), f"kill {number}: a part of a commit can be seen"
        ends["after" if done else "before, work left behind" if left_over(table) else "before"] += 1
        age(table)
        hoodoo.write(batch(range(_ROWS, _ROWS + 4), 1, "next"), str(table), operation="upsert", options=options)
        assert _rows(table).slice(0, _ROWS).equals(after if done else before), f"kill {number}"
        assert _rows(table).num_rows == _ROWS + 4
        assert left_over(table) == [], f"kill {number}"
        assert hoodoo.Table(str(table)).verify().problems == (), f"kill {number}"
        shutil.rmtree(table)
    print(f"{_KILLS} kills within {longest:.2f} s: {ends}; {time.process_time():.0f} s of CPU")
    assert ends["before, work left behind"] >= _KILLS // 10, ends
