"""A clustering that is killed at any moment: resumed, rolled back, or met by writers, no row is lost or doubled."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import ConflictError
from tests.crash.forks import Forks, age, left_over

_KILLS = 50
_ROWS = 24_000
_OPTIONS = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clustering.plan.strategy.target.file.max.bytes": "150000",
    "hoodie.clean.commits.retained": "1",
}
_COLUMNS = ["id", "part", "n", "val"]


def batch(numbers: range, text: str) -> pa.Table:
    """Makes rows in two partitions."""
    return pa.table(
        {
            "id": [f"key-{n:06d}" for n in numbers],
            "part": [f"p{n % 2}" for n in numbers],
            "n": [n * 7919 % 104729 for n in numbers],
            "val": [f"{text} {n * 104729 % 7919:x}" for n in numbers],
        }
    )


@pytest.fixture
def clusterings() -> Iterator[Forks]:
    """Gives the process that forks clusterings."""
    process = Forks('hoodoo.Table(table).cluster(sort_by="n")')
    yield process
    process.close()


def _rows(table: Path) -> pa.Table:
    return hoodoo.Table(table).to_arrow(columns=["_hoodie_commit_seqno", *_COLUMNS]).sort_by("id")


def _make(uri: Path, kind: str) -> None:
    first = batch(range(_ROWS), "old")
    table = hoodoo.Table.create(
        uri, first.schema, name="t", record_key="id", partition_by="part", table_type=kind, options=_OPTIONS
    )
    for part in range(4):
        table.insert(first.slice(part * _ROWS // 4, _ROWS // 4))
    table.upsert(batch(range(0, _ROWS, 50), "changed"))


def _end(table: hoodoo.Table) -> str:
    """How far a killed clustering had come."""
    if any(i.action == "replacecommit" for i in table.timeline.instants()):
        return "completed"
    pending = table.pending_clusterings()
    if not pending:
        return "nothing planned"
    return "inflight" if pending[0].inflight else "planned"


Pending = tuple[hoodoo.PendingClustering, ...]


def _resume(table: hoodoo.Table, _uri: Path, pending: Pending, before: pa.Table) -> pa.Table:
    table.cluster(sort_by=None if pending else "n")
    return before


def _roll_back(table: hoodoo.Table, _uri: Path, pending: Pending, before: pa.Table) -> pa.Table:
    for plan in pending:
        table.rollback_clustering(plan.instant)
    return before


def _write_what_may_be_written(table: hoodoo.Table, uri: Path, pending: Pending, before: pa.Table) -> pa.Table:
    """A writer that has to wait with updates."""
    expected = before
    if pending:
        with pytest.raises(ConflictError):
            table.upsert(batch(range(40), "later"))
        table.insert(batch(range(_ROWS, _ROWS + 10), "new"))
        expected = _rows(uri)
        assert expected.slice(0, _ROWS).equals(before)
        assert expected.num_rows == _ROWS + 10
    table.cluster()
    return expected


def _write_all_the_same(table: hoodoo.Table, uri: Path, pending: Pending, before: pa.Table) -> pa.Table:
    """A writer that may go on."""
    strategy = {"hoodie.clustering.updates.strategy": "SparkAllowUpdateStrategy"}
    done = hoodoo.Table(uri, options=strategy).upsert(batch(range(40), "later"))
    assert (done.updated, done.inserted) == (40, 0)
    expected = _rows(uri)
    assert expected.num_rows == _ROWS
    assert expected.slice(40).equals(before.slice(40))
    if pending:
        with pytest.raises(ConflictError):
            table.cluster(instant=pending[0].instant)
    return expected


_GO_ON = (_resume, _roll_back, _write_what_may_be_written, _write_all_the_same)


@pytest.mark.parametrize("kind", [pytest.param("COPY_ON_WRITE", marks=pytest.mark.slow), "MERGE_ON_READ"])
def test_killed_at_random_moments(tmp_path: Path, clusterings: Forks, kind: str) -> None:
    made = tmp_path / "made"
    _make(made, kind)
    before = _rows(made)
    times = []
    for number in range(3):
        ended, took = clusterings.run(shutil.copytree(made, tmp_path / f"whole{number}"), 0)
        assert ended == "exit 0"
        times.append(took)
    # The quickest: a machine that was busy meanwhile must not move the kills behind the end.
    longest = 1.2 * min(times)
    moments = random.Random(20_261_122)
    ends = {"nothing planned": 0, "planned": 0, "inflight": 0, "completed": 0}
    for number in range(_KILLS // 2):
        uri = shutil.copytree(made, tmp_path / "killed")
        clusterings.run(uri, moments.uniform(0.001, longest))
        assert _rows(uri).equals(before), f"kill {number}: readers see something of it"
        table = hoodoo.Table(uri)
        pending = table.pending_clusterings()
        ends[_end(table)] += 1
        expected = _GO_ON[number % 4](table, uri, pending, before)
        assert _rows(uri).equals(expected), f"kill {number}"
        assert table.pending_clusterings() == ()
        age(uri)
        table.insert(batch(range(_ROWS + 100, _ROWS + 104), "next"))
        assert left_over(uri) == [], f"kill {number}"
        assert _rows(uri).num_rows == expected.num_rows + 4
        assert table.verify().problems == (), f"kill {number}"
        shutil.rmtree(uri)
    print(f"{_KILLS // 2} kills within {longest:.2f} s: {ends}")
    assert ends["inflight"] >= _KILLS // 10, ends
