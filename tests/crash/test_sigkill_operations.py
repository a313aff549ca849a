"""Every operation, killed at any moment: nothing lost, nothing half visible, and the next writer puts it in order."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from hoodoo import ConflictError, Table
from tests.crash.forks import Forks, age, left_over
from tests.crash.operations import OPERATIONS, OPTIONS, ROWS, batch, make, names, prepared

_KILLS = 1000
_BEGINS_WITHIN = 10.5


@pytest.fixture
def forks() -> Iterator[Forks]:
    """Gives the process that forks those that are killed."""
    # What the first call would import: the moments of the kills are moments of the work.
    process = Forks("run(table)", "import sqlglot\nfrom tests.crash.operations import batch, run\nbatch(range(1), 1)")
    yield process
    process.close()


def _rows(path: Path) -> pa.Table:
    read = Table(path, OPTIONS).to_arrow()
    return read.drop([name for name in read.column_names if name.startswith("_hoodie")]).sort_by("id")


def _new(read: pa.Table) -> pa.Table:
    """Rows that nobody has, with the columns of a table."""
    given = batch(range(10 * ROWS, 10 * ROWS + 4), 50)
    given = given.rename_columns([name if name in read.column_names else "renamed" for name in given.column_names])
    return given.append_column("note", pa.nulls(4, pa.string())) if "note" in read.column_names else given


class _Kills:
    """The kills of one operation on one type of table."""

    def __init__(self, forks: Forks, folder: Path, made: Path, name: str) -> None:
        self.forks, self.name = forks, name
        self.folder = folder / name
        self.folder.mkdir()
        self.ready = prepared(made, name, self.folder / "ready")
        self.before = _rows(self.ready)
        times = []
        for number in range(3):
            whole = shutil.copytree(self.ready, self.folder / f"whole{number}")
            ended, took = forks.run(whole, 0)
            assert ended == "exit 0", name
            times.append(took)
        self.after = _rows(whole)
        self.longest = 1.1 * sorted(times)[1]

    def kill(self, seconds: float) -> str:
        """Kill one, let others go on; gives what the kill had left."""
        path = shutil.copytree(self.ready, self.folder / "killed")
        ended, _ = self.forks.run(path, seconds)
        read = _rows(path)
        done = read.equals(self.after)
        assert done or read.equals(self.before), "a part of it can be seen"
        left = "killed in its middle" if ended == "killed" and left_over(path) else ended
        expected = self.after if done else self.before
        age(path)
        table = Table(path, OPTIONS)
        if any(i.action == "rollback" and i.state == "REQUESTED" for i in table.timeline.instants()):
            # The next write drops it, but not if whoever requested it may be about to begin.
            time.sleep(_BEGINS_WITHIN)
        try:
            table.insert(_new(read))
        except ConflictError:
            if self.name != "restore":
                raise
            # Nobody may write before it has ended.
            self.forks.run(path, 0)
            expected, left = self.after, "killed in its middle"
            table.insert(_new(read))
        assert _rows(path).slice(0, expected.num_rows).equals(expected)
        if OPERATIONS[self.name].repeats:
            assert self.forks.run(path, 0)[0] == "exit 0"
        assert table.verify().problems == ()
        self._end_plans(table)
        # Half of a partition metadata file stays: nobody looks at it, and another writer may be at one.
        assert [file for file in left_over(path) if "partition_metadata#" not in file.name] == []
        end = _rows(path)
        assert end.slice(0, expected.num_rows).equals(expected)
        assert end.num_rows == expected.num_rows + 4
        assert table.verify().problems == ()
        shutil.rmtree(path)
        return left

    def _end_plans(self, table: Table) -> None:
        """Let the plans be executed that it left."""
        while table.pending_clusterings():
            assert table.cluster() is not None
        for instant in table.timeline.instants():
            if instant.action == "compaction" and instant.state != "COMPLETED":
                assert table.compact(instant.requested) is not None


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kills", [6, pytest.param(_KILLS // 2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_killed_at_random_moments(tmp_path: Path, forks: Forks, table_type: str, kills: int) -> None:
    made = tmp_path / "made"
    make(made, table_type)
    moments = random.Random(20_261_128)
    ends = Counter[str]()
    operations = names(table_type)
    shares = [operations[number % len(operations)] for number in range(kills)]
    for name in sorted(set(shares)):
        killed = _Kills(forks, tmp_path, made, name)
        for number in range(shares.count(name)):
            seconds = moments.uniform(0.001, killed.longest)
            try:
                ends[killed.kill(seconds)] += 1
            except Exception as error:
                raise AssertionError(f"{name}, kill {number} after {seconds:.4f} s") from error
        shutil.rmtree(killed.folder)
    print(f"{kills} kills of {len(operations)} operations: {dict(ends)}")
    assert ends["killed in its middle"] >= kills // 5, ends
