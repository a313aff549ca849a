"""Secondary indexes: hoodoo and real Hudi write to one table in turns, and both keep them right."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Table
from hoodoo.distributed.indexing import begin_index
from tests.interop.hudi import Hudi
from tests.interop.turns import hudi_reads, one_of
from tests.local_executor import LocalExecutor
from tests.rows import Row, arrow_rows, spark_rows
from tests.secondary_index import entries_of, stored_entries

LISTED = {"hoodie.metadata.enable": "false"}
INDEXED = {
    "hoodie.metadata.enable": "true",
    "hoodie.enable.data.skipping": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
}
_OPTIONS = {
    "hoodie.metadata.enable": "true",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "2",
    "hoodie.metadata.index.partition.stats.enable": "false",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
    "hoodie.record.index.update.partition.path": "true",
    "hoodie.clean.automatic": "false",
    "hoodie.clustering.inline": "false",
    "hoodie.compact.inline": "false",
}
ODD = [None, "", "x$y", "a\\b", "\0z", "ü"]
CONDITIONS = ["name = 'n3'", "name in ('n1', 'x$y', 'ü')", "name = ''", "name is null", "name = 'n2' and ts > 2"]
COLUMNS = {"secondary_index_idx_name": "name", "secondary_index_big": "big"}


def rows(keys: range | list[int], ts: int, part: str | None = None, *, deleted: bool = False) -> pa.Table:
    """Rows of keys; some values are odd, and some are null."""
    return pa.table(
        {
            "id": [f"k{key:04}" for key in keys],
            "ts": pa.array([ts] * len(keys), pa.int64()),
            "name": [ODD[key % 6] if key % 5 == 0 else f"n{key * ts % 7}" for key in keys],
            "big": pa.array([None if key % 4 == 0 else key // 3 * ts for key in keys], pa.int64()),
            "part": [part or f"p{key % 3}" for key in keys],
            "_hoodie_is_deleted": [deleted] * len(keys),
        }
    )


class Turns:
    """A table with secondary indexes, and what both sides read of it."""

    def __init__(self, hudi: Hudi, path: Path, table_type: str, version: str) -> None:
        self.hudi, self.path, self.compared = hudi, path, 0
        self.options = {
            **_OPTIONS,
            "hoodie.table.name": path.name,
            "hoodie.datasource.write.table.type": table_type,
            "hoodie.write.table.version": version,
        }
        hudi.write(rows(range(40), 1), path, "insert", mode="overwrite", **self.options)

    def create_index(self) -> None:
        """Let Hudi make one."""
        name = self.path.name
        self.hudi.sql("set hoodie.write.lock.provider=org.apache.hudi.client.transaction.lock.InProcessLockProvider")
        self.hudi.sql(f"create table if not exists {name} using hudi location '{self.path}'")
        try:
            self.hudi.sql(f"create index idx_name on {name} (name)")
        finally:
            self.hudi.spark.conf.unset("hoodie.write.lock.provider")
        self.compare("Hudi's CREATE INDEX")

    def build_in_tasks(self) -> None:
        """Build both indexes in tasks, and write before they are committed: Hudi finds both parts together."""
        options = {"hoodie.clean.automatic": "false", "hoodie.index.type": "GLOBAL_SIMPLE"}
        Table(self.path).drop_index("record_index")
        begun = begin_index(str(self.path), "secondary_index_idx_name", "name", {**self.options, **options})
        reports = begun.run(LocalExecutor(2))
        meanwhile = Table(self.path, options)
        meanwhile.upsert(rows([11, 12, 60], 2))
        meanwhile.upsert(rows([13, 14], 2, "p7"))
        meanwhile.delete(rows([15, 16], 2))
        done = begun.commit(reports)
        assert {"record_index", "secondary_index_idx_name"} <= set(done.partitions)
        assert list(self.path.glob(".hoodie/metadata/record_index/record-index-*.hfile"))
        self.compare("our index in tasks")
        # By the record index, which tells where these are.
        self.theirs(rows([11, 13, 15, 17, 60, 61], 3), "upsert")

    def theirs(self, data: pa.Table, operation: str) -> None:
        """Let Hudi write, and compare."""
        self.hudi.write(data, self.path, operation, **self.options)
        self.compare(f"Hudi's {operation}")

    def ours(self, operation: str, *data: Any, **options: str) -> hoodoo.Commit | hoodoo.IndexCommit:
        """Act, and compare."""
        given = {key.replace("__", "."): value for key, value in options.items()}
        table = Table(self.path, {"hoodie.clean.automatic": "false", "hoodie.index.type": "GLOBAL_SIMPLE", **given})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            commit: hoodoo.Commit | hoodoo.IndexCommit = getattr(table, operation)(*data)
        self.compare(f"our {operation}")
        return commit

    def compare(self, what: str, *, is_last: bool = False) -> None:
        """Everybody reads the same rows, whatever they filter by, and the indexes have each row.

        Hudi filters in another way each time that it reads, in all ways after the last turn.
        """
        expected = arrow_rows(Table(self.path, LISTED).to_arrow())
        assert arrow_rows(Table(self.path).to_arrow()) == expected, f"hoodoo after {what}"
        if hudi_reads(self.compared, is_last=is_last):
            self._compare_with_hudi(what, expected, is_last=is_last)
        metadata = Table(self.path).metadata_table
        assert metadata is not None
        for index, column in COLUMNS.items():
            if index in metadata.partitions:
                assert entries_of(self.path, index) == stored_entries(self.path, column), f"{index} after {what}"
        assert "secondary_index_idx_name" in metadata.partitions, f"it is gone after {what}"
        self.compared += 1
        for filters in ([("name", "=", "n3")], [("name", "in", ["n1", "x$y", "ü"])], [("big", "=", 6)]):
            one, other = (arrow_rows(Table(self.path, of).to_arrow(filters=filters)) for of in (INDEXED, LISTED))
            assert one == other, f"hoodoo loses rows after {what}: {filters}"
        problems = Table(self.path).verify().problems
        assert not problems, f"after {what}: {problems}"

    def _compare_with_hudi(self, what: str, expected: list[Row], *, is_last: bool) -> None:
        plain = self.hudi.spark.read.format("hudi").options(**LISTED).load(str(self.path))
        indexed = self.hudi.spark.read.format("hudi").options(**INDEXED).load(str(self.path))
        assert spark_rows(plain) == expected, f"Hudi by listing after {what}"
        assert spark_rows(indexed) == expected, f"Hudi by its metadata table after {what}"
        for condition in CONDITIONS if is_last else [one_of(CONDITIONS, self.compared)]:
            found = spark_rows(plain.where(condition))
            assert spark_rows(indexed.where(condition)) == found, f"Hudi loses rows after {what}: {condition}"


@pytest.mark.parametrize(
    ("table_type", "version", "maker", "services"),
    [
        # Services and overwrites beside an index of keys are in test_service_histories every day.
        ("MERGE_ON_READ", "9", "hoodoo", False),
        *(
            pytest.param(*case, True, marks=pytest.mark.slow)
            for case in [
                ("MERGE_ON_READ", "9", "hoodoo"),
                ("COPY_ON_WRITE", "9", "hudi"),
                ("COPY_ON_WRITE", "8", "hoodoo"),
                ("MERGE_ON_READ", "8", "hoodoo"),
                ("MERGE_ON_READ", "8", "hudi"),
                ("MERGE_ON_READ", "9", "hudi"),
            ]
        ),
    ],
)
def test_both_keep_one_index(
    hudi: Hudi, tmp_path: Path, table_type: str, version: str, maker: str, services: bool
) -> None:
    """Whoever makes it."""
    turns = Turns(hudi, tmp_path / f"secondary_{maker}_{table_type[0].lower()}{version}", table_type, version)
    if maker == "hudi":
        turns.create_index()
    else:
        turns.build_in_tasks()
    turns.ours("upsert", rows(range(30, 50), 2))
    turns.theirs(rows(range(45, 55), 3), "upsert")
    if table_type == "COPY_ON_WRITE":
        turns.ours("index", "secondary_index", "big")
    turns.ours("delete", rows([1, 2, 51], 4))
    turns.theirs(rows([3, 52], 5), "delete")
    # Keys that were deleted come back, and keys move to other partitions.
    turns.ours("upsert", rows([1, 2, 3], 6))
    turns.ours("upsert", rows([4, 5], 7, "p9"))
    turns.theirs(rows(range(3, 12), 8), "upsert")
    # Older rows do not win.
    turns.ours("upsert", rows([5, 6], 0))
    turns.ours("upsert", rows([7], 9, deleted=True))
    if services:
        _serve_and_overwrite(turns, table_type)
    turns.compare("all", is_last=True)


def _serve_and_overwrite(turns: Turns, table_type: str) -> None:
    if table_type == "MERGE_ON_READ":
        turns.ours("compact")
        turns.theirs(rows([8, 9], 10), "upsert")
    turns.ours("cluster")
    turns.theirs(rows(range(20, 30), 11), "upsert")
    # Hudi does neither beside a secondary index.
    turns.ours("insert_overwrite", rows([0, 3, 90], 12))
    turns.ours("delete_partitions", ["p1"])
    turns.theirs(rows([1, 4, 91], 13), "upsert")
    turns.ours("rebuild_metadata_table")
    turns.theirs(rows([2, 95], 14), "upsert")
    turns.ours("upsert", rows(range(85, 100), 15))
