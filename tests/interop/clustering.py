"""What the interop tests of clustering have in common: tables, Hudi's procedure, what may change and what may not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import hoodoo
from tests.interop.hudi import QUICK, Hudi
from tests.interop.layouts import SIMPLE, Layout, batch, row
from tests.interop.merge_on_read import NO_SMALL_FILES, mor_options, same_rows
from tests.rows import Row, arrow_rows

FLAT = Layout("nonpartitioned", partitions="")
NO_META = {"hoodie.populate.meta.fields": "false"}
PARQUET_LOGS = {"hoodie.logfile.data.block.format": "parquet"}
# The only index of Spark by which new rows go to log files, without a base file.
LOGS_ONLY = {"hoodie.index.type": "INMEMORY"}
# Cleans and archives what it can after each commit.
TIDY = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
_UPDATES = "hoodie.clustering.updates.strategy"
ALLOW = {_UPDATES: "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"}
SORT_COLUMNS = "hoodie.clustering.plan.strategy.sort.columns"
TARGET = "hoodie.clustering.plan.strategy.target.file.max.bytes"
# Partitions where nothing was written since the last clustering are looked at all the same.
EVERYWHERE = {"hoodie.table.services.incremental.enabled": "false"}
LAYOUT_STRATEGY = "hoodie.layout.optimize.strategy"

Write = Callable[[list[Row], str], Any]


def clustering_options(
    kind: str, version: int = 9, layout: Layout = SIMPLE, mode: str = "EVENT_TIME_ORDERING"
) -> dict[str, str]:
    """Gives the options of a table of many small files, that nobody compacts or clusters unasked."""
    options = layout.options(version, mode) if kind == "cow" else mor_options(layout, version, mode)
    return {**options, **NO_SMALL_FILES}


def writes(hudi: Hudi | None, uri: str, options: dict[str, str]) -> Write:
    """Gives the function that writes to a table, by Hudi when there is one, else by hoodoo."""

    def write(rows: list[Row], operation: str) -> Any:
        if hudi is not None:
            return hudi.write(batch(rows), uri, operation, **options)
        return hoodoo.write(batch(rows), uri, operation=operation, options=options)

    return write


def fill(write: Write, kind: str, seed: str = "") -> None:
    """Three files a partition, with nulls to sort; and for merge-on-read, rows that log files change and delete."""
    chance = random.Random(seed)
    for turn in range(3):
        numbers = range(turn * 8, turn * 8 + 8)
        texts = {n: chance.choice([None, "", "b", "a", f"first {turn}.{n}"]) for n in numbers}
        write([{**row(n, chance.randint(2, 5), ""), "val": texts[n]} for n in numbers], "insert")
    if kind == "mor":
        for turn in range(2):
            write([row(n, chance.randint(0, 9), f"again {turn}") for n in chance.sample(range(26), 10)], "upsert")
        write([row(1, 5, ""), row(7, 5, "")], "delete")


def cluster_by_hudi(
    hudi: Hudi, uri: str, step: str = "scheduleandexecute", options: dict[str, str] | None = None, **arguments: str
) -> None:
    """Runs a step of a clustering with options that a `call` would cut at commas."""
    given = {**QUICK, **(options or {})}
    for key, value in given.items():
        hudi.spark.conf.set(key, value)
    try:
        hudi.call("run_clustering", uri, op=step, **arguments)
    finally:
        for key in given:
            hudi.spark.conf.unset(key)


def planned_by_hudi(hudi: Hudi, uri: str, options: dict[str, str] | None = None, **arguments: str) -> str:
    """Lets Hudi plan a clustering; gives its requested time."""
    known = {p.instant for p in hoodoo.Table(uri).pending_clusterings()}
    cluster_by_hudi(hudi, uri, "schedule", options, **arguments)
    (planned,) = {p.instant for p in hoodoo.Table(uri).pending_clusterings()} - known
    return planned


def without_names(rows: Iterable[Row]) -> list[Row]:
    """Clustering changes the file that a row is in, and nothing else."""
    return sorted(({k: v for k, v in r.items() if k != "_hoodie_file_name"} for r in rows), key=str)


def files_of(uri: str, instant: str) -> dict[str, list[Path]]:
    """Gives the data files that a commit wrote, by partition, in the order of its metadata."""
    stats = hoodoo.Table(uri).timeline.metadata(instant)["partitionToWriteStats"]
    return {partition: [Path(uri) / s["path"] for s in per] for partition, per in stats.items()}


def in_order(uri: str, instant: str, columns: list[str]) -> dict[str, list[tuple[Any, ...]]]:
    """Gives values of the rows that a clustering wrote, as they stand in its files."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for partition, files in files_of(uri, instant).items():
        tables = [pq.read_table(file, columns=columns, partitioning=None) for file in files]
        found[partition] = [tuple(r[c] for c in columns) for t in tables for r in t.to_pylist()]
    return found


def files_of_groups(uri: str, replaced: dict[str, list[str]]) -> list[Path]:
    """Gives the data and log files on the disk of the file groups that a clustering replaced."""
    ids = {file_id for per in replaced.values() for file_id in per}
    found = [p for p in Path(uri).rglob("*_*") if p.is_file() and ".hoodie" not in p.parts and p.suffix != ".crc"]
    return [p for p in found if p.name.lstrip(".").split("_")[0] in ids]


def same_changes(hudi: Hudi, uri: str, since: str, until: str | None = None) -> list[Row]:
    """Reads incrementally with both; gives Hudi's rows."""
    expected = hudi.read_changes(uri, since, until)
    assert arrow_rows(hoodoo.Table(uri).changes(since, until)) == expected, (since, until)
    return expected


def goes_on(
    hudi: Hudi, uri: str, options: dict[str, str], done: hoodoo.Commit, *, meta: bool = True, turns: int = 4
) -> None:
    """Hudi writes on top of a clustering, until the replaced files are cleaned and the clustering is in the history."""
    assert files_of_groups(uri, done.replaced)
    write = writes(hudi, uri, {**options, **TIDY})
    for turn in range(turns):
        write([row(n, 100 + turn, f"after {turn}") for n in range(turn, turn + 4)], "upsert")
        if turn < 2:
            now = {r["id"]: r["val"] for r in same_rows(hudi, uri, turn, meta=meta)}
            assert {now[f"key-{n:03d}"] for n in range(turn, turn + 4)} == {f"after {turn}"}
    gone = [row(n, 200, "") for n in (0, 12)]
    write(gone, "delete")
    left = same_rows(hudi, uri, meta=meta)
    assert left
    assert not {r["id"] for r in left} & {r["id"] for r in gone}
    assert files_of_groups(uri, done.replaced) == []
    timeline = hoodoo.Table(uri).timeline
    assert done.instant not in {i.requested for i in timeline.instants()}, "it went to the history"
    assert timeline.metadata(done.instant)["operationType"] == "CLUSTER"
