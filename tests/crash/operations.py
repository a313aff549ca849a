"""The operations of a table that are killed, each on a table on which it has something to do."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from hoodoo import Table

PARTITIONS = 3
ROWS = 6_000
# Services that are due often, those of the metadata table too, so that a kill may come in the middle of each.
OPTIONS = {
    "hoodie.table.name": "killed",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clustering.plan.strategy.target.file.max.bytes": "60000",
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
    "hoodie.log.compaction.blocks.threshold": "2",
    "hoodie.compact.inline.max.delta.commits": "3",
    "hoodie.metadata.compact.max.delta.commits": "4",
    "hoodie.metadata.log.compaction.enable": "true",
    "hoodie.metadata.log.compaction.blocks.threshold": "2",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "2",
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
}


def batch(numbers: range, ts: int) -> pa.Table:
    """Makes rows; the partition is the remainder of the number."""
    return pa.table(
        {
            "id": [f"key-{n:06d}" for n in numbers],
            "part": [f"p{n % PARTITIONS}" for n in numbers],
            "ts": pa.array([ts] * len(numbers), pa.int64()),
            "val": [f"{ts} {n * 7919 % 104729:x}" for n in numbers],
        }
    )


def nothing(_: Table) -> None:
    """What an operation needs that finds its work in every table."""


@dataclass(frozen=True)
class Operation:
    """An operation.

    Args:
        run: What is killed.
        prepare: What has to be done before it.
        merge_on_read: Whether only such tables have it.
        repeats: Whether it is done again after the kill, by which nothing changes if it had been done.
    """

    run: Callable[[Table], object]
    prepare: Callable[[Table], object] = nothing
    merge_on_read: bool = False
    repeats: bool = False


def _add_column(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("note", pa.string())


def _rename_column(table: Table) -> None:
    with table.update_schema() as update:
        update.rename_column("val", "renamed")


def _some(ts: int) -> pa.Table:
    """Rows of which a half is new."""
    return batch(range(ROWS // 2, ROWS + ROWS // 2, 10), ts)


def _keys(count: int) -> pa.Table:
    return batch(range(0, ROWS, ROWS // count), 0).select(["id", "part"])


def _cluster_in_two_steps(table: Table) -> None:
    table.schedule_clustering(sort_by="ts")


def _roll_back_clustering(table: Table) -> None:
    table.rollback_clustering(table.pending_clusterings()[0].instant)


def _is_due(table: Table) -> Table:
    return Table(table.uri, OPTIONS | {"hoodie.compact.inline.max.delta.commits": "1"})


def _execute_compaction(table: Table) -> None:
    table.compact(next(i.requested for i in table.timeline.instants() if i.action == "compaction"))


def _roll_back(table: Table) -> None:
    writes = ("commit", "deltacommit", "replacecommit")
    table.rollback([i.requested for i in table.timeline.instants(state="COMPLETED") if i.action in writes][-1])


def _restore(table: Table) -> None:
    table.restore(table.savepoints()[0].instant)


def _lose_a_partition_metadata_file(table: Table) -> None:
    (Path(table.uri.removeprefix("file://")) / "p0" / ".hoodie_partition_metadata").unlink()


def _write_on(table: Table) -> None:
    for ts in (20, 21):
        table.upsert(_some(ts))


OPERATIONS = {
    "insert": Operation(lambda t: t.insert(batch(range(ROWS, 2 * ROWS), 9))),
    "upsert": Operation(lambda t: t.upsert(_some(9))),
    "upsert of some columns": Operation(lambda t: t.upsert(_some(9).drop(["val"]).slice(0, 200), partial=True)),
    "bulk_insert": Operation(lambda t: t.bulk_insert(batch(range(ROWS, 2 * ROWS), 9))),
    "delete": Operation(lambda t: t.delete(_keys(500))),
    "delete by a filter": Operation(lambda t: t.delete(where="val < '1 8'")),
    "update": Operation(lambda t: t.update({"val": "upper(val)"}, where="ts = 1")),
    "merge": Operation(
        lambda t: (
            t.merge(_some(9), "target.id = source.id").when_matched_update_all().when_not_matched_insert_all().execute()
        )
    ),
    "insert_overwrite": Operation(lambda t: t.insert_overwrite(batch(range(0, ROWS, 2 * PARTITIONS), 9))),
    "insert_overwrite_table": Operation(lambda t: t.insert_overwrite_table(batch(range(0, ROWS, 5), 9))),
    "delete_partitions": Operation(lambda t: t.delete_partitions(["p1"])),
    "cluster": Operation(lambda t: t.cluster(sort_by="val")),
    "cluster by a plan": Operation(lambda t: t.cluster(), _cluster_in_two_steps),
    "schedule_clustering": Operation(lambda t: t.schedule_clustering(sort_by="val")),
    "rollback_clustering": Operation(_roll_back_clustering, _cluster_in_two_steps),
    "compact": Operation(lambda t: _is_due(t).compact(), merge_on_read=True),
    "compact by a plan": Operation(_execute_compaction, lambda t: _is_due(t).schedule_compaction(), merge_on_read=True),
    "schedule_compaction": Operation(lambda t: _is_due(t).schedule_compaction(), merge_on_read=True),
    "log_compact": Operation(lambda t: t.log_compact(), merge_on_read=True),
    "clean": Operation(lambda t: Table(t.uri, OPTIONS | {"hoodie.clean.commits.retained": "1"}).clean(), repeats=True),
    "archive": Operation(
        lambda t: Table(
            t.uri,
            OPTIONS
            | {
                "hoodie.keep.min.commits": "2",
                "hoodie.keep.max.commits": "3",
                "hoodie.clean.commits.retained": "1",
                "hoodie.archive.beyond.savepoint": "true",
            },
        ).archive(),
        repeats=True,
    ),
    "savepoint": Operation(lambda t: t.savepoint()),
    "delete_savepoint": Operation(lambda t: t.delete_savepoint(t.savepoints()[0].instant)),
    "rollback": Operation(_roll_back),
    "restore": Operation(_restore, _write_on),
    "repair": Operation(lambda t: t.repair(), _lose_a_partition_metadata_file),
    "index of record keys": Operation(
        lambda t: t.index("record_index"), lambda t: t.drop_index("record_index"), repeats=True
    ),
    "index of a column": Operation(lambda t: t.index("secondary_index", "val"), repeats=True),
    "index of an expression": Operation(lambda t: t.index("expression_index", "val", expression="upper"), repeats=True),
    "drop_index": Operation(lambda t: t.drop_index("record_index"), repeats=True),
    "rebuild_metadata_table": Operation(lambda t: t.rebuild_metadata_table(), repeats=True),
    "drop_metadata_table": Operation(lambda t: t.drop_metadata_table(), repeats=True),
    "add a column": Operation(_add_column),
    "rename a column": Operation(_rename_column),
}


def make(path: Path, table_type: str) -> None:
    """Makes a table with log files, a savepoint, and files and commits that the next write cleans and archives."""
    table = Table.create(path, batch(range(1), 1).schema, table_type=table_type, options=OPTIONS)
    table.bulk_insert(batch(range(ROWS), 1))
    table.upsert(batch(range(0, ROWS, 4), 2))
    table.delete(_keys(50))
    table.upsert(batch(range(0, ROWS, 6), 3))
    table.savepoint()
    # The next write compacts a merge-on-read table.
    for ts in range(4, 8):
        table.upsert(batch(range(ts, ROWS, 5), ts))


def prepared(made: Path, name: str, path: Path) -> Path:
    """Copies a table, and makes it one on which an operation has something to do."""
    OPERATIONS[name].prepare(Table(shutil.copytree(made, path), OPTIONS))
    return path


def run(path: str) -> None:
    """Runs the operation that the folder above the table is named by."""
    OPERATIONS[Path(path).parent.name].run(Table(path, OPTIONS))


@functools.cache
def names(table_type: str) -> list[str]:
    """The operations that a type of table has."""
    return [name for name, one in OPERATIONS.items() if table_type == "MERGE_ON_READ" or not one.merge_on_read]
