"""Tasks of a write that run again, with their rows in another order, lead every row to where it went before."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.distributed.write import write_rows
from tests.local_executor import LocalExecutor

_RETRIES = "hoodie.write.num.retries.on.conflict.failures"


class LostShuffle(LocalExecutor):
    """Half of the partitions behind a shuffle read what a first run of the tasks wrote, the others a second one."""

    def map_batches(self, data: Any, function: Any, schema: Any) -> Any:
        first = super().map_batches(data, function, schema)
        if getattr(function, "__name__", "") == "route":
            again = [rows.take(random.Random(7).sample(range(len(rows)), len(rows))) for rows in data]
            self.second = super().map_batches(again, function, schema)
        return first

    def shuffle(self, data: Any, by: Any, sort_by: Any) -> Any:
        first, second = super().shuffle(data, by, sort_by), super().shuffle(self.second, by, sort_by)
        half = self._partitions // 2
        return first[:half] + second[half:]


@pytest.mark.parametrize("key", [{}, {"hoodie.datasource.write.recordkey.field": "id"}])
def test_rows_whose_routes_are_computed_again(tmp_path: Path, key: dict[str, str]) -> None:
    uri = str(tmp_path / "t")
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.operation": "insert", **key}
    first = range(500), range(500, 1000)
    data = [pa.table({"id": list(ids), "v": [f"v{n % 7}" for n in ids], "m": [{"a": n} for n in ids]}) for ids in first]
    commit = write_rows(LostShuffle(4), data, uri, "insert", options)
    assert commit.inserted == 1000
    assert sorted(hoodoo.Table(uri).to_arrow(columns=["id"])["id"].to_pylist()) == list(range(1000))


def test_rows_that_say_the_same_are_all_there(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    write_rows(LostShuffle(4), [pa.table({"v": ["same"] * 50})] * 2, uri, "insert", {"hoodie.table.name": "t"})
    assert hoodoo.Table(uri).count() == 100


@pytest.mark.parametrize("index", ["RECORD_LEVEL_INDEX", "GLOBAL_RECORD_LEVEL_INDEX"])
def test_records_that_are_merged_column_by_column_behind_a_record_index(tmp_path: Path, index: str) -> None:
    uri = str(tmp_path / "t")
    switch = {
        "RECORD_LEVEL_INDEX": "hoodie.metadata.record.level.index.enable",
        "GLOBAL_RECORD_LEVEL_INDEX": "hoodie.metadata.global.record.level.index.enable",
    }[index]
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.index.type": index,
        switch: "true",
        "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
    }
    older = pa.table({"id": [1, 2], "ts": [1, 1], "a": ["x", "x"], "b": ["y", "y"]})
    newer = pa.table({"id": [2, 3], "ts": [2, 2], "a": ["n", "n"], "b": pa.array([None, "m"])})
    write_rows(LocalExecutor(2), [older], uri, "upsert", options)
    write_rows(LocalExecutor(2), [newer], uri, "upsert", options)
    rows = hoodoo.Table(uri).to_arrow(columns=["id", "a", "b"]).sort_by("id").to_pylist()
    assert rows == [{"id": 1, "a": "x", "b": "y"}, {"id": 2, "a": "n", "b": "y"}, {"id": 3, "a": "n", "b": "m"}]
    with pytest.raises(hoodoo.UnsupportedError, match="several rows of one key"):
        write_rows(LocalExecutor(2), [newer, newer], uri, "upsert", options)


class LostLocated(LocalExecutor):
    """Some tasks that apply rows read what a first run of those that look keys up wrote, the others a second one."""

    def __init__(self, partitions: int, *, times: int) -> None:
        super().__init__(partitions)
        self.times = times
        self._again: Any = None

    def map_batches(self, data: Any, function: Any, schema: Any) -> Any:
        first = super().map_batches(data, function, schema)
        name = getattr(function, "__name__", "")
        if name == "key":
            reversed_rows = [rows.take(list(range(len(rows)))[::-1]) for rows in data]
            keyed = super().map_batches(reversed_rows, function, schema)
            self._again = super().shuffle(keyed, ["_hoodie_route"], ["_hoodie_row"])
        if name == "locate":
            self._again = super().map_batches(self._again, function, schema)
        return first

    def shuffle(self, data: Any, by: Any, sort_by: Any) -> Any:
        first = super().shuffle(data, by, sort_by)
        if len(by) == 1 or self.times == 0:
            return first
        self.times -= 1
        second = super().shuffle(self._again, by, sort_by)
        half = self._partitions // 2
        return first[:half] + second[half:]


_GLOBAL = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.index.type": "GLOBAL_SIMPLE",
}


def _tied(start: int) -> list[pa.Table]:
    """Two rows for each key, in two partitions."""
    ids = range(start, start + 400)
    return [pa.table({"id": [n // 2 for n in ids], "p": [f"p{n * 7 % 5}" for n in ids], "v": list(ids)})]


def test_keys_that_are_looked_up_again(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    for times, start in ((1, 0), (2, 100), (0, 200)):
        write_rows(LostLocated(4, times=times), _tied(start), uri, "upsert", _GLOBAL)
        rows = hoodoo.Table(uri).to_arrow(columns=["id", "v"]).sort_by("id")
        assert rows["id"].to_pylist() == list(range((start + 400) // 2))
        # The later of two rows, as in a write without tasks.
        assert rows["v"].to_pylist() == [2 * n + 1 for n in range((start + 400) // 2)]
    assert hoodoo.Table(uri).verify().ok


def test_keys_that_go_other_ways_each_time_are_not_written(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    write_rows(LocalExecutor(4), _tied(0), uri, "upsert", _GLOBAL)
    before = hoodoo.Table(uri).to_arrow().sort_by("id")
    executor = LostLocated(4, times=100)
    with pytest.raises(hoodoo.ConflictError, match="write again"):
        write_rows(executor, _tied(100), uri, "upsert", _GLOBAL | {_RETRIES: "2"})
    assert executor.times == 97
    assert hoodoo.Table(uri).to_arrow().sort_by("id").equals(before)
    assert hoodoo.Table(uri).verify().ok
