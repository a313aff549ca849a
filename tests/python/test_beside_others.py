"""A write with another action in its middle: nothing that was acknowledged is lost, and no row is wrong."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from tests.beside_others import SCHEMA, Case, batch, cases, make, read, wrong

_ALL = list(cases())
# Some at random, the same each time.
_FEW = random.Random(19).sample(_ALL, 60)


@pytest.mark.parametrize("part", range(4))
def test_a_sample_of_all_pairs(tmp_path: Path, part: int):
    found = [said for case in _FEW[part::4] if (said := wrong(case, tmp_path / "t")) is not None]
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(8))
def test_all_pairs(tmp_path: Path, part: int):
    found = [said for case in _ALL[part::8] if (said := wrong(case, tmp_path / "t")) is not None]
    assert not found, "\n".join(found)


def test_a_write_that_meets_a_clustering_is_planned_anew(tmp_path: Path):
    case = Case("upsert", "cluster", "MERGE_ON_READ", ordering=False, strategy="Reject", version=9, where="input")
    given = make(case, tmp_path / "t")
    before = read(tmp_path / "t")

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch([(2, "a", 22)], 4)
        assert hoodoo.Table(tmp_path / "t", given).cluster() is not None
        yield batch([(9, "a", 22)], 4)

    table = hoodoo.Table(tmp_path / "t", given)
    commit = table.upsert(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert (commit.inserted, commit.updated) == (1, 1)
    before.subtract([(2, "a", 0)])
    before.update([(2, "a", 22), (9, "a", 22)])
    assert read(tmp_path / "t") == +before
    # Nothing is left of the first try.
    assert not list((tmp_path / "t/.hoodie/.heartbeat").glob("*"))
    assert {i.state for i in table.timeline.instants()} == {"COMPLETED"}


def test_without_retries_it_fails_and_nothing_of_it_is_seen(tmp_path: Path):
    case = Case("upsert", "cluster", "COPY_ON_WRITE", ordering=False, strategy="Reject", version=9, where="input")
    given = {**make(case, tmp_path / "t"), "hoodie.write.num.retries.on.conflict.failures": "0"}
    before = read(tmp_path / "t")

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch([(2, "a", 22)], 4)
        hoodoo.Table(tmp_path / "t", given).cluster()
        yield batch([(9, "a", 22)], 4)

    with pytest.raises(hoodoo.ConflictError, match="replaced a file group") as caught:
        hoodoo.Table(tmp_path / "t", given).upsert(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert caught.value.retryable
    assert read(tmp_path / "t") == before


def test_a_lock_provider_is_kept_with_the_table(tmp_path: Path):
    provider = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
    folder = tmp_path / "t"
    hoodoo.Table.create(
        folder,
        SCHEMA,
        name="t",
        record_key="id",
        options={"hoodie.write.lock.provider": provider, "hoodie.write.lock.filesystem.path": str(tmp_path / "locks")},
    ).insert(batch([(1, "a", 1)], 1))
    (tmp_path / "locks/lock").touch()
    impatient = {"hoodie.write.lock.wait_time_ms": "20", "hoodie.write.lock.client.num_retries": "0"}
    with pytest.raises(hoodoo.LockError, match="locks/lock"):
        hoodoo.Table(folder, impatient).upsert(batch([(1, "a", 2)], 1))
    other = {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider"}
    with pytest.raises(hoodoo.InvalidOptionError, match="FileSystemBasedLockProvider"):
        hoodoo.Table(folder, other).upsert(batch([(1, "a", 2)], 1))
    (tmp_path / "locks/lock").unlink()
    hoodoo.Table(folder, impatient).upsert(batch([(1, "a", 2)], 1))
