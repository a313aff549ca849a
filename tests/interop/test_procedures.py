"""Procedures have the columns, the types and the rows of Hudi's own, on tables that Hudi and hoodoo wrote."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import hoodoo
from hoodoo import procedures
from tests.interop.hudi import QUICK, Hudi

# Columns that depend on the time of files, and on the machine.
UNKNOWN = {"inflight_time", "time_taken_in_millis", "start_clean_time"}


@pytest.fixture(scope="module")
def table(hudi: Hudi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A table that both wrote, with log files, a compaction, a savepoint and a rollback."""
    path = tmp_path_factory.mktemp("procedures") / "t"
    for key, value in QUICK.items():
        hudi.spark.conf.set(key, value)
    hudi.spark.sql(
        "create table procedures_t (id int, ts bigint, city string) using hudi partitioned by (city) "
        f"location '{path}' "
        "tblproperties (primaryKey='id', type='mor', orderingFields='ts', 'hoodie.compact.inline'='false')"
    )
    hudi.spark.sql("insert into procedures_t values (1, 1, 'a'), (2, 1, 'a'), (3, 1, 'b')")
    hudi.spark.sql("update procedures_t set ts = ts + 1 where id = 1")
    t = hoodoo.Table(path, {"hoodie.compact.inline.max.delta.commits": "1", "hoodie.compact.inline": "false"})
    t.update({"ts": "ts + 1"}, where="id = 2")
    t.compact()
    t.savepoint()
    t.update({"ts": "ts + 1"}, where="id = 1")
    t.rollback(t.upsert({"id": [9], "ts": [1], "city": ["c"]}).instant)
    t.update({"ts": "ts + 1"}, where="id = 3")
    yield str(path)
    hudi.spark.sql("drop table procedures_t")
    for key in QUICK:
        hudi.spark.conf.unset(key)


def _columns(schema: pa.Schema) -> list[tuple[str, str]]:
    return [(f.name, f.dataType.simpleString()) for f in from_arrow_schema(schema).fields]


def _same_seconds(theirs: list[dict[str, Any]], ours: list[dict[str, Any]]) -> None:
    """Take the printed times out of rows of `show_timeline`, after a look that they are the same to a second.

    Hudi prints when a file was modified, by a clock that the system moves on every few milliseconds; ours are the times
    of the timeline. A commit that ends at the turn of a second has two different seconds.
    """
    assert len(theirs) == len(ours)
    for row, other in zip(theirs, ours, strict=True):
        for name in ("requested_time", "completed_time"):
            a, b = (datetime.fromisoformat(f"2000-{r.pop(name)}") for r in (row, other))
            assert abs(a - b) <= timedelta(seconds=1), (name, a, b, row)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("show_commits", ""),
        ("show_timeline", ", limit => 100"),
        ("show_archived_commits", ""),
        ("show_savepoints", ""),
        ("show_clustering", ""),
        ("show_compaction", ""),
        ("show_fsview_latest", ""),
        ("show_table_properties", ", limit => 100"),
        ("show_rollbacks", ""),
        ("show_commit_files", ", instant_time => '{newest}'"),
        ("show_commit_partitions", ", instant_time => '{newest}'"),
        ("show_commit_write_stats", ", instant_time => '{newest}'"),
        ("show_commit_extra_metadata", ", instant_time => '{newest}'"),
    ],
)
def test_what_is_shown_is_what_hudi_shows(hudi: Hudi, table: str, name: str, more: str):
    newest = hoodoo.Table(table).history(limit=1)[0].instant
    asked = more.format(newest=newest)
    theirs = hudi.spark.sql(f"call {name}(table => 'procedures_t'{asked})")
    arguments: dict[str, Any] = {"limit": 100} if "limit" in asked else {}
    if "instant_time" in asked:
        arguments["instant_time"] = newest
    ours = getattr(procedures, name)(table, **arguments)
    assert _columns(ours.schema) == [(f.name, f.dataType.simpleString()) for f in theirs.schema.fields]
    skipped = {n for n in ours.column_names if n in UNKNOWN}
    expected = [{k: v for k, v in row.asDict().items() if k not in skipped} for row in theirs.collect()]
    found = [{k: v for k, v in row.items() if k not in skipped} for row in ours.to_pylist()]
    if name in {"show_table_properties", "show_fsview_latest", "show_commit_extra_metadata", "show_commit_files"}:
        expected, found = sorted(expected, key=str), sorted(found, key=str)
    if name == "show_timeline":
        # Of a commit and its savepoint, which have one instant, Hudi shows now the one first, now the other.
        expected, found = (sorted(rows, key=lambda r: (r["instant_time"], r["action"])) for rows in (expected, found))
        _same_seconds(expected, found)
    assert found == expected
    assert found or name in {"show_archived_commits", "show_clustering"}


def test_what_is_run_has_the_columns_that_hudi_has(hudi: Hudi, tmp_path: Path):
    path = tmp_path / "run"
    hudi.spark.sql(
        f"create table procedures_run (id int, ts bigint) using hudi location '{path}' "
        "tblproperties (primaryKey='id', type='mor')"
    )
    hudi.spark.sql("insert into procedures_run values (1, 1), (2, 1)")
    hudi.spark.sql("update procedures_run set ts = 2 where id = 1")
    newest = hoodoo.Table(path).history(limit=1)[0].instant
    called = "table => 'procedures_run'"
    theirs = {
        "create_savepoint": f"{called}, commit_time => '{newest}'",
        "delete_savepoint": f"{called}, instant_time => '{newest}'",
        "run_compaction": f"op => 'schedule', {called}",
        "run_clustering": f"{called}, op => 'schedule'",
        "run_clean": called,
    }
    expected = {
        name: [(f.name, f.dataType.simpleString()) for f in hudi.spark.sql(f"call {name}({arguments})").schema.fields]
        for name, arguments in theirs.items()
    }
    ours = {
        "create_savepoint": procedures.create_savepoint(path, newest),
        "delete_savepoint": procedures.delete_savepoint(path, newest),
        "run_compaction": procedures.run_compaction(path, "schedule"),
        "run_clustering": procedures.run_clustering(path, op="schedule"),
        "run_clean": procedures.run_clean(path),
    }
    assert {name: _columns(rows.schema) for name, rows in ours.items()} == expected
    hudi.spark.sql("drop table procedures_run")
