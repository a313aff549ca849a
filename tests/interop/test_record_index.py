"""The record index: hoodoo and real Hudi write to one table in turns, by it and by others, and both keep it right."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Table
from tests.interop.hudi import Hudi
from tests.interop.turns import hudi_reads
from tests.record_index import BUILD, WITHOUT_STATISTICS, index_of, stored_keys
from tests.rows import Row, arrow_rows, spark_rows

LISTED = {"hoodie.metadata.enable": "false"}
INDEXED = {
    "hoodie.metadata.enable": "true",
    "hoodie.enable.data.skipping": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
}
_QUIET = {
    **WITHOUT_STATISTICS,
    "hoodie.clean.automatic": "false",
    "hoodie.clustering.inline": "false",
    "hoodie.compact.inline": "false",
}
BY_INDEX = {"global": "GLOBAL_RECORD_LEVEL_INDEX", "partitioned": "RECORD_LEVEL_INDEX"}


def rows(keys: range | list[int], ts: int, part: str | None = None, *, deleted: bool = False) -> pa.Table:
    """Rows of keys; `part` is their partition where it does not follow from the key."""
    return pa.table(
        {
            "id": [f"k{key:04}" for key in keys],
            "ts": pa.array([ts] * len(keys), pa.int64()),
            "name": [f"n{key * ts}" for key in keys],
            "part": [part or f"p{key % 3}" for key in keys],
            "_hoodie_is_deleted": [deleted] * len(keys),
        }
    )


class Turns:
    """A table of real Hudi with a record index, and what both sides read of it."""

    def __init__(self, hudi: Hudi, path: Path, table_type: str, version: str = "9", layout: str = "global") -> None:
        self.hudi, self.path, self.layout, self.compared = hudi, path, layout, 0
        self.is_long = False
        self.options = {
            "hoodie.metadata.enable": "true",
            "hoodie.table.name": path.name,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.datasource.write.table.type": table_type,
            "hoodie.write.table.version": version,
            "hoodie.index.type": BY_INDEX[layout],
            **BUILD[BY_INDEX[layout]],
            **_QUIET,
        }
        hudi.write(rows(range(40), 1), path, "insert", mode="overwrite", **self.options)
        self.compare("Hudi's first insert")

    def theirs(self, data: pa.Table, operation: str, **options: str) -> None:
        """Let Hudi write, and compare."""
        given = {key.replace("__", "."): value for key, value in options.items()}
        self.hudi.write(data, self.path, operation, **{**self.options, **given})
        self.compare(f"Hudi's {operation}")

    def ours(self, operation: str, *data: Any, index: str = "SIMPLE", **options: str) -> hoodoo.Commit:
        """Write with an index of ours, and compare."""
        given = {key.replace("__", "."): value for key, value in options.items()}
        table = Table(self.path, {"hoodie.index.type": index, "hoodie.clean.automatic": "false", **given})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            commit: hoodoo.Commit = getattr(table, operation)(*data)
        self.compare(f"our {operation} by {index}")
        return commit

    def compare(self, what: str, *, is_last: bool = False) -> None:
        """Everybody reads the same rows, no key is there twice, and the index has each key where it is."""
        expected = arrow_rows(Table(self.path, LISTED).to_arrow())
        assert arrow_rows(Table(self.path).to_arrow()) == expected, f"hoodoo after {what}"
        keys = Counter(row["id"] for row in expected)
        assert not [key for key, times in keys.items() if times > 1], f"keys are there twice after {what}"
        assert index_of(self.path) == stored_keys(self.path), f"the record index after {what}"
        problems = Table(self.path).verify().problems
        assert not problems, f"after {what}: {problems}"
        if not self.is_long or hudi_reads(self.compared, is_last=is_last):
            self._compare_with_hudi(what, expected)
        self.compared += 1

    def _compare_with_hudi(self, what: str, expected: list[Row]) -> None:
        plain = self.hudi.spark.read.format("hudi").options(**LISTED).load(str(self.path))
        indexed = self.hudi.spark.read.format("hudi").options(**INDEXED).load(str(self.path))
        assert spark_rows(plain) == expected, f"Hudi by listing after {what}"
        assert spark_rows(indexed) == expected, f"Hudi by its metadata table after {what}"
        # Half of a thousand keys that are not there would be found by no scan either: the point is that these are.
        wanted = sorted({row["id"] for row in expected})[::7]
        condition = f"id in ({', '.join(repr(key) for key in wanted)})"
        assert spark_rows(indexed.where(condition)) == spark_rows(plain.where(condition)), f"by keys after {what}"


def locations(path: Path) -> dict[tuple[str, str], tuple[str, str]]:
    """What the index says of each key, with the instant."""
    metadata = Table(path).metadata_table
    assert metadata is not None
    found = metadata.to_arrow("record_index").to_pylist()
    return {(row["key"], row["partition"]): (row["file_id"], row["instant_time"]) for row in found}


@pytest.mark.parametrize(
    ("table_type", "version", "services"),
    [
        # Services and overwrites beside such an index are in test_service_histories every day.
        ("MERGE_ON_READ", "9", False),
        pytest.param("MERGE_ON_READ", "9", True, marks=pytest.mark.slow),
        pytest.param("COPY_ON_WRITE", "8", True, marks=pytest.mark.slow),
        pytest.param("COPY_ON_WRITE", "9", True, marks=pytest.mark.slow),
        pytest.param("MERGE_ON_READ", "8", True, marks=pytest.mark.slow),
    ],
)
def test_both_keep_one_index(hudi: Hudi, tmp_path: Path, table_type: str, version: str, services: bool) -> None:
    turns = Turns(hudi, tmp_path / f"turns_{table_type[0].lower()}{version}", table_type, version)
    turns.is_long = True
    by_index = BY_INDEX["global"]
    before = locations(turns.path)
    commit = turns.ours("upsert", rows(range(30, 50), 2))
    after = locations(turns.path)
    # Updates change nothing, not even the instant; inserts have that of the commit.
    assert {key: after[key] for key in before} == before
    assert {instant for key, (_, instant) in after.items() if key not in before} == {commit.instant}
    turns.theirs(rows(range(45, 55), 3), "upsert")
    turns.ours("upsert", rows(range(50, 60), 4), index=by_index)
    turns.ours("delete", rows([1, 2, 51], 5), index="BLOOM")
    turns.theirs(rows([1, 52], 6), "upsert")
    turns.ours("delete", rows([1, 3, 999], 7), index=by_index)
    # A key that was deleted comes back, by an index that looks into files and by one that does not.
    turns.ours("upsert", rows([1, 2], 8), index="SIMPLE")
    turns.ours("upsert", rows([3, 51, 60], 8), index=by_index)
    # Deletes by a column: of a newer version, and of an older one, which does not win.
    turns.ours("upsert", rows([4], 9, deleted=True), index=by_index)
    turns.ours("upsert", rows([5], 0, deleted=True), index=by_index)
    turns.theirs(rows(range(3, 8), 10), "upsert")
    if services:
        _serve_and_overwrite(turns, table_type, by_index)
    turns.compare("all", is_last=True)


def _serve_and_overwrite(turns: Turns, table_type: str, by_index: str) -> None:
    if table_type == "MERGE_ON_READ":
        turns.ours("compact")
        turns.theirs(rows([7, 8], 11), "upsert")
    turns.ours("cluster")
    turns.theirs(rows(range(20, 30), 12), "upsert")
    turns.ours("upsert", rows(range(25, 35), 13), index=by_index)
    turns.ours("insert_overwrite", rows([0, 3, 90, 93], 14))
    turns.theirs(rows([0, 6, 90], 15), "upsert")
    turns.ours("delete_partitions", ["p1"])
    turns.theirs(rows([1, 4, 91], 16), "upsert")
    turns.ours("insert", rows(range(100, 110), 17))
    turns.ours("insert_overwrite_table", rows(range(95, 105), 18))
    turns.theirs(rows(range(100, 112), 19), "upsert")
    turns.ours("upsert", rows(range(90, 100), 20), index=by_index)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", pytest.param("MERGE_ON_READ", marks=pytest.mark.slow)])
def test_keys_move_to_other_partitions(hudi: Hudi, tmp_path: Path, table_type: str) -> None:
    turns = Turns(hudi, tmp_path / f"moves_{table_type[0].lower()}", table_type)
    by_index, moves = BY_INDEX["global"], {"hoodie__record__index__update__partition__path": "true"}
    turns.ours("upsert", rows([0, 1], 2, "p9"), index=by_index, **moves)
    turns.theirs(rows([2, 3], 3, "p9"), "upsert", **moves)
    turns.ours("upsert", rows([2, 4], 4, "p8"), index=by_index, **moves)
    # Older rows do not move.
    turns.ours("upsert", rows([5], 0, "p8"), index=by_index, **moves)
    turns.theirs(rows([0, 4, 5], 5), "upsert", **moves)
    turns.ours("delete", rows([2, 3], 6, "p7"), index=by_index)
    turns.ours("upsert", rows([2, 3], 7), index="GLOBAL_SIMPLE")
    if table_type == "COPY_ON_WRITE":
        # By default they stay where they are.
        turns.ours("upsert", rows([6], 8, "p8"), index=by_index)
        turns.theirs(rows([6, 7], 9), "upsert")


@pytest.mark.parametrize("table_type", [pytest.param("COPY_ON_WRITE", marks=pytest.mark.slow), "MERGE_ON_READ"])
def test_index_by_partition(hudi: Hudi, tmp_path: Path, table_type: str) -> None:
    turns = Turns(hudi, tmp_path / f"parts_{table_type[0].lower()}", table_type, layout="partitioned")
    by_index = BY_INDEX["partitioned"]
    new = {"hoodie__metadata__record__level__index__min__filegroup__count": "2"}
    turns.ours("upsert", rows(range(38, 44), 2))
    # A partition that is new to the index, with letters that are special in names of files.
    turns.ours("upsert", rows([70, 71], 3, "new-1_a"), index=by_index, **new)
    turns.theirs(rows([71, 72], 4, "new-1_a"), "upsert")
    turns.theirs(rows([73, 74], 4, "other_2"), "upsert")
    turns.ours("upsert", rows([74, 75], 5, "other_2"), index=by_index)
    turns.ours("delete", rows([75, 0], 6, "other_2"), index=by_index)
    turns.ours("insert_overwrite", rows([71, 76], 7, "new-1_a"))
    turns.theirs(rows([71, 72], 8, "new-1_a"), "upsert")
    turns.ours("cluster")
    turns.theirs(rows(range(5), 9), "upsert")
    turns.ours("delete_partitions", ["p1"])
    turns.ours("upsert", rows([1, 4], 10), index=by_index)


def test_hudis_content_is_ours(hudi: Hudi, tmp_path: Path) -> None:
    """The same operations on two tables: keys have the same partitions, and instants of the same commits."""
    tables = {}
    for side in ("theirs", "ours"):
        turns = tables[side] = Turns(hudi, tmp_path / side, "COPY_ON_WRITE")
        turns.path = tmp_path / side
    steps = [
        ("upsert", rows(range(35, 45), 2)),
        ("delete", rows([1, 2], 3)),
        ("upsert", rows([1], 4)),
        ("insert_overwrite", rows([0, 3, 90], 5)),
    ]
    for operation, data in steps:
        tables["theirs"].theirs(data, operation)
        tables["ours"].ours(operation, data, index=BY_INDEX["global"])
    commits = {side: [instant.requested for instant in Table(tmp_path / side).timeline.instants()] for side in tables}
    numbered = {
        side: {key: commits[side].index(instant) for key, (_, instant) in locations(tmp_path / side).items()}
        for side in tables
    }
    assert numbered["ours"] == numbered["theirs"]


@pytest.mark.parametrize("table_type", [pytest.param("COPY_ON_WRITE", marks=pytest.mark.slow), "MERGE_ON_READ"])
def test_a_write_that_died_between_both_commits_is_taken_back(hudi: Hudi, tmp_path: Path, table_type: str) -> None:
    """The metadata table has completed it, and the table has not: its keys are not there."""
    turns = Turns(hudi, tmp_path / f"died_{table_type[0].lower()}", table_type)
    before = locations(turns.path)
    commit = turns.ours("upsert", rows(range(30, 50), 2), index=BY_INDEX["global"])
    kind = "commit" if table_type == "COPY_ON_WRITE" else "deltacommit"
    (completed,) = (turns.path / ".hoodie" / "timeline").glob(f"{commit.instant}_*.{kind}")
    completed.unlink()
    assert locations(turns.path) == before
    # The keys are new once more, and none of them is there twice.
    turns.ours("upsert", rows(range(35, 55), 3), index=BY_INDEX["global"])
    turns.theirs(rows(range(45, 60), 4), "upsert")
