"""What log files may hold besides whole rows in Avro: rows of some columns, Parquet, merged logs; by either side."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
import hoodoo.spark
from tests.interop.hudi import Hudi
from tests.interop.layouts import SCHEMA, SIMPLE, batch, row
from tests.interop.merge_on_read import NO_SMALL_FILES, compact_by_hudi, mor_options, same_rows
from tests.rows import Row

_PARQUET = {"hoodie.logfile.data.block.format": "parquet"}
_LOGS = {"hoodie.log.compaction.blocks.threshold": "2"}


def _options(mode: str = "EVENT_TIME_ORDERING", version: int = 9, **more: str) -> dict[str, str]:
    return {**mor_options(SIMPLE, version, mode), **NO_SMALL_FILES, **more}


def _some(numbers: list[int], ts: int, column: str, value: Any) -> pa.Table:
    """Rows of key, partition, ordering value and one more column."""
    names = ["id", "part", "ts", column]
    rows = [{**{k: v for k, v in row(n, ts, "").items() if k in names}, column: value} for n in numbers]
    return pa.Table.from_pylist(rows, schema=pa.schema([SCHEMA.field(name) for name in names]))


def _without_names(rows: list[Row]) -> list[Row]:
    return sorted(({k: v for k, v in r.items() if k != "_hoodie_file_name"} for r in rows), key=str)


def _blocks(uri: str, kind: bytes) -> int:
    """Log files that have these bytes somewhere."""
    return sum(kind in path.read_bytes() for path in Path(uri).rglob(".*.log.*") if not path.name.endswith(".crc"))


@pytest.mark.parametrize(
    ("mode", "block_format", "through"),
    [
        ("EVENT_TIME_ORDERING", "avro", "alone"),
        ("EVENT_TIME_ORDERING", "avro", "spark"),
        pytest.param("EVENT_TIME_ORDERING", "parquet", "alone", marks=pytest.mark.slow),
        pytest.param("COMMIT_TIME_ORDERING", "avro", "alone", marks=pytest.mark.slow),
        ("COMMIT_TIME_ORDERING", "parquet", "alone"),
        pytest.param("COMMIT_TIME_ORDERING", "parquet", "spark", marks=pytest.mark.slow),
    ],
)
def test_rows_of_some_columns_are_read_by_hudi(
    hudi: Hudi, tmp_path: Path, mode: str, block_format: str, through: str
) -> None:
    uri = str(tmp_path / "table")
    options = _options(mode) | {"hoodie.logfile.data.block.format": block_format}
    hoodoo.write(batch([row(n, 5, "first") for n in range(9)]), uri, operation="insert", options=options)
    table = hoodoo.Table(uri, options=options)

    def update(rows: pa.Table) -> None:
        if through == "spark":
            hoodoo.spark.write(hudi.frame(rows), uri, "upsert", options, partial=True)
        else:
            table.upsert(rows, partial=True)

    update(_some([0, 1, 2, 3], 6, "val", "new"))
    update(_some([1, 2, 4], 7, "amount", 7.5))
    update(_some([2, 5], 4, "val", "stale"))
    by_key = {r["id"]: r for r in same_rows(hudi, uri)}
    both = by_key[row(1, 0, "")["id"]]
    assert (both["val"], both["amount"]) == ("new", 7.5)
    hoodoo.write(batch([row(1, 8, "whole"), row(6, 8, "whole")]), uri, operation="upsert", options=options)
    hoodoo.write(batch([row(3, 0, "")]), uri, operation="delete", options=options)
    update(_some([1, 6], 9, "val", "after"))
    before = same_rows(hudi, uri)
    compact_by_hudi(hudi, uri)
    assert _without_names(same_rows(hudi, uri)) == _without_names(before)


@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", pytest.param("COMMIT_TIME_ORDERING", marks=pytest.mark.slow)])
def test_rows_of_some_columns_by_merge_into(hudi: Hudi, tmp_path: Path, mode: str) -> None:
    """Hudi's MERGE INTO writes them; they are read, compacted, and mixed with ours."""
    uri = str(tmp_path / "table")
    name = f"merged_{mode.lower()}"
    # Hudi cannot read such tables of commit time that have an ordering column.
    ordering = "'hoodie.table.ordering.fields'='ts', " if mode == "EVENT_TIME_ORDERING" else ""
    hudi.spark.sql(
        f"create table {name} (id string, ts bigint, val string, amount double) using hudi "
        f"tblproperties (type='mor', primaryKey='id', {ordering}"
        f"'hoodie.record.merge.mode'='{mode}', 'hoodie.metadata.enable'='false', 'hoodie.compact.inline'='false') "
        f"location '{uri}'"
    )
    hudi.spark.sql(f"insert into {name} (id, ts, val, amount) select concat('k', id), 5, 'first', 1.0 from range(6)")
    options = {"hoodie.metadata.enable": "false", "hoodie.compact.inline": "false"}
    table = hoodoo.Table(uri, options=options)
    for turn, (low, high, column, value) in enumerate(
        [(0, 4, "val", "'sql'"), (2, 6, "amount", "2.5d"), (3, 5, "val", "'b'")]
    ):
        hudi.spark.sql(
            f"merge into {name} t using "
            f"(select concat('k', id) id, {6 + turn}L ts, {value} {column} from range({low}, {high})) s "
            f"on t.id = s.id when matched then update set t.{column} = s.{column}, t.ts = s.ts"
        )
        same_rows(hudi, uri)
    assert _blocks(uri, b'"name":"amount"') > 0
    rows = [{"id": f"k{n}", "ts": 20, "amount": 9.0} for n in (0, 3)]
    table.upsert(rows, partial=True)
    before = same_rows(hudi, uri)
    assert {r["id"]: (r["val"], r["amount"]) for r in before}["k3"] == ("b", 9.0)
    table.compact()
    assert _without_names(same_rows(hudi, uri)) == _without_names(before)


@pytest.mark.parametrize("version", [9, pytest.param(8, marks=pytest.mark.slow)])
def test_parquet_blocks_in_turns(hudi: Hudi, tmp_path: Path, version: int) -> None:
    uri = str(tmp_path / "table")
    options = _options(version=version) | _PARQUET
    chance = random.Random(version)
    hudi.write(batch([row(n, 4, "first") for n in range(12)]), uri, "insert", **options)
    for turn in range(6):
        rows = [row(n, chance.randint(2, 9), f"turn {turn}") for n in chance.sample(range(12), 5)]
        if turn % 2:
            hudi.write(batch(rows), uri, "upsert", **options)
        else:
            hoodoo.write(batch(rows), uri, operation="upsert", options=options)
        same_rows(hudi, uri, turn)
    logs = sum(len(s.log_files) for s in hoodoo.Table(uri).file_slices())
    assert _blocks(uri, b"PAR1") == logs > 4
    before = same_rows(hudi, uri)
    hoodoo.Table(uri, options=options).compact()
    assert _without_names(same_rows(hudi, uri)) == _without_names(before)


@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", pytest.param("COMMIT_TIME_ORDERING", marks=pytest.mark.slow)])
@pytest.mark.parametrize("version", [9, pytest.param(8, marks=pytest.mark.slow)])
def test_logs_compacted_by_hoodoo(hudi: Hudi, tmp_path: Path, mode: str, version: int) -> None:
    uri = str(tmp_path / "table")
    options = _options(mode, version) | _LOGS
    chance = random.Random(mode)
    hoodoo.write(batch([row(n, 4, "first") for n in range(12)]), uri, operation="insert", options=options)
    table = hoodoo.Table(uri, options=options)
    for turn in range(7):
        rows = [row(n, chance.randint(2, 9), f"turn {turn}") for n in chance.sample(range(12), 5)]
        if turn % 3 == 1:
            hudi.write(batch(rows), uri, "upsert", **options)
        else:
            hoodoo.write(batch(rows), uri, operation="upsert", options=options)
        if turn == 4:
            hoodoo.write(batch([row(3, 0, ""), row(4, 0, "")]), uri, operation="delete", options=options)
        if turn in (2, 4, 6):
            before = same_rows(hudi, uri, turn)
            done = table.log_compact()
            assert done is not None
            assert done.operation == "LOG_COMPACT"
            # Records of a log file have the same columns of Hudi's as before: they name the file group.
            assert same_rows(hudi, uri, turn) == before
    compact_by_hudi(hudi, uri)
    assert _without_names(same_rows(hudi, uri)) == _without_names(before)
    hudi.write(batch([row(0, 20, "last")]), uri, "upsert", **options)
    same_rows(hudi, uri)


def test_logs_compacted_by_tasks(hudi: Hudi, tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    # Otherwise the next action takes a planned log compaction back.
    options = _options() | _LOGS | {"hoodie.clean.failed.writes.policy": "LAZY", "hoodie.metadata.enable": "false"}
    hoodoo.write(batch([row(n, 4, "first") for n in range(12)]), uri, operation="insert", options=options)
    for turn in (5, 6, 7):
        hoodoo.write(batch([row(n, turn, f"{turn}") for n in range(turn)]), uri, operation="upsert", options=options)
    hoodoo.write(batch([row(3, 0, ""), row(4, 0, "")]), uri, operation="delete", options=options)
    before = same_rows(hudi, uri)
    planned = hoodoo.Table(uri, options=options).log_compact()
    assert planned is not None
    # Back to where it was only planned.
    for file in Path(uri).rglob(f"*{planned.instant}*"):
        if not file.name.endswith(".requested"):
            file.unlink()
    assert same_rows(hudi, uri) == before
    done = hoodoo.spark.compact(hudi.spark, uri, instant=planned.instant, options=options)
    assert done is not None
    assert (done.instant, done.operation) == (planned.instant, "LOG_COMPACT")
    written = [file.name for file in Path(uri).rglob(f"*{planned.instant}*") if ".hoodie" not in file.parts]
    assert written
    assert all(".log." in name for name in written)
    assert same_rows(hudi, uri) == before
    hudi.write(batch([row(0, 20, "last")]), uri, "upsert", **options)
    before = same_rows(hudi, uri)
    compact_by_hudi(hudi, uri)
    assert _without_names(same_rows(hudi, uri)) == _without_names(before)


def test_logs_of_some_columns_compacted(hudi: Hudi, tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    options = _options() | _LOGS
    hoodoo.write(batch([row(n, 5, "first") for n in range(9)]), uri, operation="insert", options=options)
    table = hoodoo.Table(uri, options=options)
    table.upsert(_some([0, 1, 2, 3], 6, "val", "new"), partial=True)
    table.upsert(_some([1, 2, 4], 7, "amount", 7.5), partial=True)
    hoodoo.write(batch([row(3, 8, "whole"), row(5, 8, "whole")]), uri, operation="upsert", options=options)
    before = same_rows(hudi, uri)
    assert table.log_compact() is not None
    assert same_rows(hudi, uri) == before
    table.upsert(_some([1, 5], 9, "val", "after"), partial=True)
    before = same_rows(hudi, uri)
    table.compact()
    assert _without_names(same_rows(hudi, uri)) == _without_names(before)


def test_logs_compacted_by_hudi(hudi: Hudi, tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    inline = {"hoodie.log.compaction.enable": "true", "hoodie.log.compaction.inline": "true"}
    options = _options() | _LOGS | inline
    hudi.write(batch([row(n, 4, "first") for n in range(12)]), uri, "insert", **options)
    for turn in range(4):
        rows = [row(n, 5 + turn % 2, f"turn {turn}") for n in range(turn, turn + 6)]
        hudi.write(batch(rows), uri, "upsert", **options)
        same_rows(hudi, uri, turn)
    operations = [
        hoodoo.Table(uri).timeline.metadata(i)["operationType"]
        for i in hoodoo.Table(uri).timeline.instants(state="COMPLETED")
    ]
    assert "LOG_COMPACT" in operations
    hoodoo.write(batch([row(2, 30, "ours")]), uri, operation="upsert", options=_options())
    before = same_rows(hudi, uri)
    hoodoo.Table(uri, options=_options()).compact()
    assert _without_names(same_rows(hudi, uri)) == _without_names(before)
