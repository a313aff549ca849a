"""A write that was under way while a compaction was planned: its log file belongs behind the compaction, for good."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.distributed.write import prepare_write
from tests.local_executor import LocalExecutor

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("v", pa.int64())])


def _rows(*rows: tuple[int, str, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def _read(folder: Path) -> dict[int, int]:
    rows = hoodoo.Table(folder).to_arrow(columns=["id", "v"]).to_pylist()
    assert len(rows) == len({row["id"] for row in rows})
    return {row["id"]: row["v"] for row in rows}


def make(folder: Path, *, cleans: bool) -> hoodoo.Table:
    """Makes a table with a late log in partition `a`, whose write and compaction are both archived."""
    options = {
        "hoodie.compact.inline": "false",
        "hoodie.keep.min.commits": "2",
        "hoodie.metadata.enable": "false",
        "hoodie.keep.max.commits": "3",
        "hoodie.clean.automatic": str(cleans).lower(),
        "hoodie.clean.commits.retained": "1",
        "hoodoo.write.lease": "false",
    }
    table = hoodoo.Table.create(
        folder, SCHEMA, name="t", record_key="id", partition_by="part", table_type="MERGE_ON_READ", options=options
    )
    table.insert(_rows((1, "a", 0), (2, "a", 0), (3, "b", 0)))
    table.upsert(_rows((1, "a", 1)))
    begun = prepare_write(SCHEMA, str(folder), "upsert", options, {}).begin(SCHEMA, 1)
    reports = begun.execute(LocalExecutor(), [_rows((2, "a", 2))], "upsert", options)
    planned = table.schedule_compaction()
    late = begun.commit(reports)
    assert planned is not None
    assert late.instant < planned < late.completed
    table.compact()
    assert _read(folder) == {1: 1, 2: 2, 3: 0}

    for v in range(8):
        table.upsert(_rows((3, "b", v)))
    active = {instant.requested for instant in hoodoo.Table(folder).timeline.instants()}
    assert planned not in active
    assert late.instant not in active
    return table


@pytest.mark.parametrize("cleans", [False, True], ids=["kept", "cleaned"])
def test_a_late_log_stays_behind_its_compaction_when_both_are_archived(tmp_path: Path, cleans: bool) -> None:
    table = make(tmp_path, cleans=cleans)
    assert _read(tmp_path) == {1: 1, 2: 2, 3: 7}
    assert hoodoo.Table(tmp_path).verify().ok
    # A compaction takes it in, and nothing else does away with it.
    table.upsert(_rows((1, "a", 3)))
    table.compact()
    assert _read(tmp_path) == {1: 3, 2: 2, 3: 7}
