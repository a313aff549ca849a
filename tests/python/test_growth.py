"""Nothing grows faster than its work: CPU time of tables of some and of four times as many partitions or columns."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from hoodoo import Table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TIMES = 4
MOST = TIMES**1.38
"""2.6 for twice the size: what grows with the square takes 16 times as long."""
OPTIONS = {"hoodie.metadata.enable": "false", "hoodie.clean.automatic": "false", "hoodoo.threads": "1"}


def _partitioned(folder: Path, count: int) -> None:
    def rows(ts: int) -> pa.Table:
        names = [f"{n:05}" for n in range(count)]
        return pa.table({"id": names, "ts": pa.array([ts] * count, pa.int64()), "part": names})

    # On a disk: looking through a folder costs its files there.
    uri = str(folder / f"t-{uuid.uuid4()}")
    table = Table.create(
        uri, rows(1).schema, name="t", record_key="id", partition_by="part", ordering="ts", options=OPTIONS
    )
    table.bulk_insert(rows(1))
    assert table.upsert(rows(2)).updated == count


def _wide(_: Path, count: int) -> None:
    def rows(ts: int) -> pa.Table:
        given = {"id": pa.array(["a", "b"]), "ts": pa.array([ts, ts], pa.int64())}
        return pa.table({**given, **{f"c{i}": pa.array([i, ts], pa.int64()) for i in range(count)}})

    uri = f"memory://growth-{uuid.uuid4()}/t"
    table = Table.create(uri, rows(1).schema, name="t", record_key="id", ordering="ts", options=OPTIONS)
    table.insert(rows(1))
    assert table.upsert(rows(2)).updated == 2
    assert table.to_arrow(columns=[f"c{count - 1}"]).num_rows == 2


def _cpu(work: Callable[[Path, int], None], folder: Path, size: int) -> float:
    begun = time.process_time()
    work(folder, size)
    return time.process_time() - begun


@pytest.mark.parametrize(("work", "size"), [(_partitioned, 100), (_wide, 1000)])
def test_four_times_the_size_takes_about_four_times_as_long(
    tmp_path: Path, work: Callable[[Path, int], None], size: int
) -> None:
    work(tmp_path, 2)
    small = large = float("inf")
    for _ in range(3):
        # The least of some runs: other processes of the machine make single ones slower.
        small, large = min(small, _cpu(work, tmp_path, size)), min(large, _cpu(work, tmp_path, TIMES * size))
        if large / small < MOST:
            return
    pytest.fail(f"{small:.3f} s of CPU for {size}, {large:.3f} s for {TIMES * size}")
