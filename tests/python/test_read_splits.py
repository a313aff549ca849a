"""Reads are divided into tasks of about the same size."""

from __future__ import annotations

import json
from uuid import uuid4

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.distributed.read import PlannedRead, plan_table_read, unit_bytes

MIB = 1 << 20


def _planned(*sizes: int) -> PlannedRead:
    table = hoodoo.Table.create(f"memory://splits/{uuid4()}", {"id": pa.int64()}, name="t", record_key="id")
    units = [json.dumps({"Slice": {"base": {"size": size}, "logs": []}}) for size in sizes]
    return PlannedRead(plan_table_read(table.uri).task, units)


@pytest.mark.parametrize(
    ("sizes", "split_bytes", "splits", "expected"),
    [
        ((), 128 * MIB, 4, []),
        ((0,), 128 * MIB, 4, [0]),
        ((300 * MIB, 10 * MIB, 10 * MIB, 10 * MIB), 128 * MIB, 1, [20 * MIB, 10 * MIB, 300 * MIB]),
        ((60 * MIB, 60 * MIB, 60 * MIB, 60 * MIB), 128 * MIB, 1, [120 * MIB, 120 * MIB]),
        ((60 * MIB, 60 * MIB, 60 * MIB, 60 * MIB), 128 * MIB, 4, [60 * MIB] * 4),
        ((MIB,) * 20, 128 * MIB, 2, [10 * MIB, 10 * MIB]),
        ((MIB,) * 3, 1, 1, [MIB] * 3),
    ],
)
def test_groups(sizes: tuple[int, ...], split_bytes: int, splits: int, expected: list[int]):
    planned = _planned(*sizes)
    groups = planned.balanced(split_bytes, splits)
    assert sorted(unit for group in groups for unit in group) == sorted(planned.units)
    assert sorted(sum(map(unit_bytes, group)) for group in groups) == sorted(expected)


def test_a_task_reads_its_units():
    table = hoodoo.Table.create(
        "memory://splits/read", {"id": pa.int64(), "p": pa.string()}, name="t", record_key="id", partition_by="p"
    )
    table.insert([{"id": n, "p": f"p{n % 5}"} for n in range(20)])
    planned = plan_table_read(table.uri, ["id"])
    groups = planned.balanced(9 * MIB, 1)
    assert len(groups) == 3
    rows = [batch["id"].to_pylist() for group in groups for batch in planned.task.read(group)]
    assert sorted(number for part in rows for number in part) == list(range(20))
