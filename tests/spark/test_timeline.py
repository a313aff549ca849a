"""The DataFrame of a timeline has what `Timeline.to_arrow` has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hoodoo
import hoodoo.spark
from tests.histories import unpack


def rows_of(frame: Any) -> list[dict[str, Any]]:
    rows = [
        {key: bytes(v) if isinstance(v, bytearray) else v for key, v in r.asDict().items()} for r in frame.collect()
    ]
    return sorted(rows, key=lambda row: (row["requested"], row["action"]))


@pytest.mark.parametrize("name", ["mor_v9_levels", "cow_v9_states", "cow_v6_archive"])
def test_all_actions(name: str, spark: Any, tmp_path: Path):
    uri = unpack(name, tmp_path)
    every = hoodoo.Table(uri).timeline.to_arrow().to_pylist()
    frame = hoodoo.spark.timeline(spark, uri)
    assert frame.columns == ["requested", "completed", "action", "state"]
    assert rows_of(frame) == every
    pending = frame.where("completed is null").count()
    assert pending == sum(row["state"] != "COMPLETED" for row in every)
    middle = every[len(every) // 2]["requested"]
    some = hoodoo.spark.timeline(spark, uri, since=middle)
    assert rows_of(some) == [row for row in every if row["requested"] >= middle]


def test_metadata_and_plans(spark: Any, tmp_path: Path):
    uri = unpack("mor_v9_levels", tmp_path)
    frame = hoodoo.spark.timeline(spark, uri, columns="full")
    assert frame.columns == ["requested", "completed", "action", "state", "metadata", "plan"]
    archived = {r["instantTime"]: r for r in hoodoo.Table(uri).timeline.read_history("full").read_all().to_pylist()}
    rows = {row["requested"]: row for row in rows_of(frame)}
    assert len(rows) > len(archived)
    for requested, expected in archived.items():
        assert (rows[requested]["metadata"], rows[requested]["plan"]) == (expected["metadata"], expected["plan"])
    assert all(rows[i.requested]["metadata"].startswith(b"Obj\x01") for i in hoodoo.Table(uri).timeline.instants())
    assert hoodoo.spark.timeline(spark, uri, columns="time").columns == ["requested", "completed"]


def test_a_table_without_actions(spark: Any, tmp_path: Path):
    uri = unpack("mor_v9_levels", tmp_path)
    assert hoodoo.spark.timeline(spark, uri, since="2027").count() == 0
    with pytest.raises(hoodoo.InvalidOptionError, match="columns"):
        hoodoo.spark.timeline(spark, uri, columns="every")
