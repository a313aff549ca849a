"""Merge-on-read tables by hoodoo alone: what is appended to log files is read, and refused where it cannot be."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Table

_SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string()), ("val", pa.string())])
_OPTIONS = {"hoodie.metadata.enable": "false", "hoodie.parquet.small.file.limit": "0"}


def _table(uri: str, **options: str) -> Table:
    given = {key.replace("__", "."): value for key, value in options.items()}
    return Table.create(
        uri,
        _SCHEMA,
        name="mor",
        record_key="id",
        partition_by=["part"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
        options={**_OPTIONS, **given},
    )


def _rows(numbers: range, ts: int, text: str) -> pa.Table:
    rows = [{"id": f"k{n}", "ts": ts, "part": f"p{n % 2}", "val": text} for n in numbers]
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def _values(data: Any) -> dict[str, str]:
    rows = data.to_pylist() if isinstance(data, pa.Table) else data.read_all().to_pylist()
    assert len({r["id"] for r in rows}) == len(rows)
    return {r["id"]: r["val"] for r in rows}


def test_updates_go_to_log_files_and_are_merged(tmp_path: Path) -> None:
    table = _table(str(tmp_path / "t"))
    first = table.insert(_rows(range(6), 5, "first"))
    assert not any(".log." in f for f in first.files)
    second = table.upsert(_rows(range(4, 8), 6, "second"))
    assert (second.updated, second.inserted) == (2, 2)
    assert sorted(".log." in f for f in second.files) == [False, False, True, True]
    stale = table.upsert(_rows(range(2), 1, "stale"))
    assert all(".log." in f for f in stale.files)
    table.delete(_rows(range(2, 4), 0, ""))
    expected = {"k0": "first", "k1": "first", "k4": "second", "k5": "second", "k6": "second", "k7": "second"}
    assert _values(table.to_arrow()) == expected
    assert _values(table.to_arrow(query="read_optimized"))["k4"] == "first"
    assert {i.action for i in table.timeline.instants()} == {"deltacommit"}
    assert _values(table.to_arrow(as_of=second.instant))["k2"] == "first"
    assert _values(table.changes(first.completed, second.completed)) == {f"k{n}": "second" for n in range(4, 8)}
    assert not table.verify().problems


def test_a_deleted_key_may_come_back(tmp_path: Path) -> None:
    table = _table(str(tmp_path / "t"))
    table.insert(_rows(range(2), 5, "first"))
    table.delete(_rows(range(1), 0, ""))
    table.upsert(_rows(range(1), 6, "again"))
    assert _values(table.to_arrow()) == {"k0": "again", "k1": "first"}
    # Behind a delete without ordering value an older row wins over it, but not over the base file: as in Hudi.
    table.delete(_rows(range(1, 2), 0, ""))
    table.upsert(_rows(range(1, 2), 3, "older"))
    assert _values(table.to_arrow()) == {"k0": "again", "k1": "first"}


def test_blocks_are_cut_by_size(tmp_path: Path) -> None:
    table = _table(str(tmp_path / "t"), hoodie__logfile__data__block__max__size="2000")
    table.insert(_rows(range(40_000), 1, "first"))
    table.upsert(_rows(range(40_000), 2, "x" * 20))
    logs = [f for s in table.file_slices() for f in s.log_files]
    assert len(logs) == 2
    for log in logs:
        assert (tmp_path / "t" / log).read_bytes().count(b"#HUDI#") == 2
    assert set(_values(table.to_arrow()).values()) == {"x" * 20}


def test_filters_and_columns(tmp_path: Path) -> None:
    table = _table(str(tmp_path / "t"))
    table.insert(_rows(range(6), 1, "first"))
    table.upsert(_rows(range(3), 2, "second"))
    assert table.to_arrow(columns=["val"], filters=[("val", "=", "first")]).to_pylist() == [{"val": "first"}] * 3
    assert sorted(table.to_arrow(columns=["id"], filters=[("ts", ">", 1)])["id"].to_pylist()) == ["k0", "k1", "k2"]
    assert table.to_arrow(columns=[]).num_columns == 0


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_damaged_log_files(tmp_path: Path, damage: str) -> None:
    """A file that was cut off is an error unless it is to be passed over; so is a block whose inside makes no sense."""
    table = _table(str(tmp_path / "t"))
    table.insert(_rows(range(1), 1, "first"))
    table.upsert(_rows(range(1), 2, "second"))
    (slice_,) = table.file_slices()
    path = tmp_path / "t" / slice_.log_files[0]
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[:-9])
        with pytest.raises(hoodoo.CorruptFileError, match=r"\.log\."):
            table.to_arrow()
        left = Table(table.uri, options={"hoodoo.log.skip.corrupt.blocks": "true"})
        assert _values(left.to_arrow()) == {"k0": "first"}
    else:
        at = content.index(b"second") - 1
        path.write_bytes(content[:at] + b"\x7f" + content[at + 1 :])
        with pytest.raises(hoodoo.CorruptFileError, match=r"\.log\."):
            table.to_arrow()


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    _table(str(tmp_path / "t"))
    table = Table(str(tmp_path / "t"), {"hoodie.logfile.data.block.format": "hfile"})
    with pytest.raises(hoodoo.UnsupportedError, match="HFile"):
        table.insert(_rows(range(1), 1, "first"))
    with pytest.raises(hoodoo.InvalidOptionError, match="MERGE_ON_WRITE"):
        Table.create(str(tmp_path / "u"), _SCHEMA, name="t", record_key="id", table_type="MERGE_ON_WRITE")


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_filter_on_a_column_that_only_the_path_has(table_type: str) -> None:
    """Partition columns that the files lack, looked at by a filter and not asked for."""
    uri = f"memory://path-columns-{table_type}/t"
    table = Table.create(
        uri,
        _SCHEMA,
        name="t",
        record_key="id",
        partition_by=["part"],
        ordering=["ts"],
        table_type=table_type,
        options={
            **_OPTIONS,
            "hoodie.datasource.write.drop.partition.columns": "true",
            "hoodie.datasource.write.hive_style_partitioning": "true",
        },
    )
    table.insert(_rows(range(6), 1, "first"))
    table.upsert(_rows(range(3), 2, "second"))
    filters = [("part", "=", "p0"), ("ts", "<", 2)]
    for columns in (["id"], ["id", "part"], ["val", "id"]):
        found = table.to_arrow(columns=columns, filters=filters)
        assert found.column_names == columns
        assert found["id"].to_pylist() == ["k4"]


@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_rows_of_some_columns(tmp_path: Path, table_type: str, mode: str) -> None:
    options = {"hoodie.compact.inline": "false", "hoodie.record.merge.mode": mode}
    table = Table.create(
        tmp_path / "t", _SCHEMA, name="t", record_key="id", ordering=["ts"], table_type=table_type, options=options
    )
    table.upsert(_rows(range(4), 5, "first"))
    late = mode == "COMMIT_TIME_ORDERING"
    commit = table.upsert({"id": ["k0", "k1", "k9"], "ts": [6, 4, 1], "val": ["new", "late", "born"]}, partial=True)
    assert (commit.updated, commit.inserted) == (2 if late else 1, 1)
    table.upsert({"id": ["k0", "k0"], "ts": [8, 7], "part": ["P8", "P7"]}, partial=True)
    expected = {
        "k0": ("P7" if late else "P8", "new"),
        "k1": ("p1", "late" if late else "first"),
        "k2": ("p0", "first"),
        "k3": ("p1", "first"),
        "k9": (None, "born"),
    }
    for _ in range(2):
        rows = table.to_arrow(columns=["part", "val", "id"]).to_pylist()
        assert {r["id"]: (r["part"], r["val"]) for r in rows} == expected
        assert table.to_arrow(filters=[("val", "=", "born")]).num_rows == 1
        if table_type == "MERGE_ON_READ":
            table.compact()
    assert table.verify().ok


def test_rows_of_some_columns_that_are_refused(tmp_path: Path) -> None:
    schema = pa.schema([*_SCHEMA, pa.field("must", pa.int64(), nullable=False)])
    table = Table.create(tmp_path / "t", schema, name="t", record_key="id", ordering=["ts"])
    whole = {"id": ["a"], "ts": [1], "part": ["p"], "val": ["v"], "must": [1]}
    table.upsert(whole)
    with pytest.raises(hoodoo.InvalidOptionError, match="ordering column 'ts'"):
        table.upsert({"id": ["a"], "val": ["w"]}, partial=True)
    with pytest.raises(hoodoo.SchemaError, match="'must'"):
        table.upsert({"id": ["a", "b"], "ts": [2, 2], "val": ["w", "w"]}, partial=True)
    with pytest.raises(hoodoo.SchemaError, match="'must'"):
        table.upsert({"id": ["a"], "ts": [2], "must": pa.array([None], pa.int64())}, partial=True)
    assert table.to_arrow(columns=["val"]).to_pylist() == [{"val": "v"}]
    table.upsert({"id": ["a"], "ts": [2], "val": ["w"]}, partial=True)
    assert table.to_arrow(columns=["val", "must"]).to_pylist() == [{"val": "w", "must": 1}]
    filled = Table.create(
        tmp_path / "f",
        _SCHEMA,
        name="f",
        record_key="id",
        ordering=["ts"],
        options={"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"},
    )
    filled.upsert(_rows(range(1), 1, "first"))
    with pytest.raises(hoodoo.UnsupportedError, match="partial update mode"):
        filled.upsert({"id": ["k0"], "ts": [2]}, partial=True)


def test_logs_are_compacted(tmp_path: Path) -> None:
    table = _table(str(tmp_path / "t"), hoodie__log__compaction__blocks__threshold="3", hoodie__compact__inline="false")
    table.insert(_rows(range(6), 1, "first"))
    assert table.log_compact() is None
    for turn in range(3):
        table.upsert(_rows(range(turn, 4), 2 + turn, f"turn {turn}"))
    table.delete([{"id": "k5", "part": "p1"}])
    before = _values(table.scan())
    done = table.log_compact()
    assert done is not None
    assert (done.operation, len(done.files)) == ("LOG_COMPACT", 2)
    assert (
        _values(table.scan())
        == before
        == {"k0": "turn 0", "k1": "turn 1", "k2": "turn 2", "k3": "turn 2", "k4": "first"}
    )
    assert table.log_compact() is None, "the new log files stand in for the old ones"
    table.upsert(_rows(range(1), 9, "last"))
    table.compact()
    assert _values(table.scan()) == before | {"k0": "last"}
    assert table.verify().ok
    with pytest.raises(hoodoo.UnsupportedError, match="merge-on-read"):
        Table.create(str(tmp_path / "c"), _SCHEMA, name="c", record_key="id").log_compact()


def test_logs_are_compacted_inline(tmp_path: Path) -> None:
    options = {"hoodie.log.compaction.inline": "true", "hoodie.log.compaction.blocks.threshold": "2"}
    table = _table(str(tmp_path / "t"), **{k.replace(".", "__"): v for k, v in options.items()})
    table.insert(_rows(range(6), 1, "first"))
    for turn in range(4):
        table.upsert(_rows(range(4), 2 + turn, f"turn {turn}"))
    done = [table.timeline.metadata(i)["operationType"] for i in table.timeline.instants(action="deltacommit")]
    assert done.count("LOG_COMPACT") >= 1
    assert _values(table.scan())["k0"] == "turn 3"


@pytest.mark.parametrize("block_format", ["avro", "parquet"])
def test_logs_larger_than_memory(tmp_path: Path, block_format: str) -> None:
    """Every record of the logs goes to the disk, and the rows are the same."""
    uri = str(tmp_path / "t")
    table = _table(uri, hoodie__logfile__data__block__format=block_format, hoodie__compact__inline="false")
    table.insert(_rows(range(500), 1, "first"))
    for turn in range(3):
        table.upsert(_rows(range(turn * 100, 300), 2 + turn, f"turn {turn}"))
    expected = _values(table.scan())
    spilling = Table(uri, options={**_OPTIONS, "hoodoo.memory.budget": "0"})
    assert _values(spilling.scan()) == expected
    spilling.compact()
    assert _values(table.scan()) == expected


@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
@pytest.mark.parametrize("seed", range(6))
def test_rows_move_by_what_is_stored_now(tmp_path: Path, seed: int, index: str) -> None:
    """With a global index: a log file may have deleted the row of the base file, or have a newer one."""
    chance = random.Random(seed)
    table = _table(
        str(tmp_path / "t"),
        hoodie__index__type=index,
        hoodie__compact__inline="false",
        hoodie__bloom__index__update__partition__path="true",
        hoodie__simple__index__update__partition__path="true",
    )
    stored: dict[str, dict[str, Any]] = {}
    for turn in range(25):
        keys = chance.sample(range(8), chance.randint(1, 5))
        rows: list[dict[str, Any]] = [
            {"id": f"k{n}", "ts": chance.randint(1, 9), "part": f"p{chance.randrange(3)}", "val": f"{turn}.{n}"}
            for n in keys
        ]
        if stored and chance.random() < 0.15:
            table.delete(pa.Table.from_pylist(rows, schema=_SCHEMA).select(["id"]))
            for row in rows:
                stored.pop(row["id"], None)
        else:
            table.upsert(pa.Table.from_pylist(rows, schema=_SCHEMA))
            for row in rows:
                if row["id"] not in stored or stored[row["id"]]["ts"] <= row["ts"]:
                    stored[row["id"]] = row
        if turn % 9 == 8:
            table.compact()
        read = sorted(table.to_arrow(columns=_SCHEMA.names).to_pylist(), key=lambda r: r["id"])
        assert read == sorted(stored.values(), key=lambda r: r["id"]), (turn, rows)
    assert not table.verify().problems


def test_log_files_end_at_a_size(tmp_path: Path) -> None:
    options = {"hoodie__logfile__max__size": "400000", "hoodie__logfile__data__block__max__size": "100000"}
    table = _table(str(tmp_path / "t"), **options)
    table.insert(_rows(range(0, 80_000, 2), 1, "first"))
    commit = table.upsert(_rows(range(0, 80_000, 2), 2, "x" * 20))
    table.delete(_rows(range(0, 20, 2), 0, ""))
    (only,) = table.file_slices()
    assert [name.rsplit(".log.", 1)[1][0] for name in only.log_files] == ["1", "2", "3", "1"]
    assert len(commit.files) == 3
    values = _values(table.to_arrow())
    assert len(values) == 39_990
    assert set(values.values()) == {"x" * 20}
    table.compact()
    assert _values(table.to_arrow()) == values
    assert not table.verify().problems


def test_a_compaction_that_another_process_carries_out_is_left_to_it(tmp_path: Path) -> None:
    table = _table(str(tmp_path / "t"))
    table.insert(_rows(range(4), 1, "first"))
    table.upsert(_rows(range(4), 2, "second"))
    instant = table.schedule_compaction()
    assert instant is not None
    folder = tmp_path / "t/.hoodie"
    (folder / f"timeline/{instant}.compaction.inflight").touch()
    # As Hudi's writers have it: an empty file, not two minutes old.
    heartbeat = folder / ".heartbeat" / instant
    heartbeat.parent.mkdir(exist_ok=True)
    heartbeat.touch()
    with pytest.raises(hoodoo.ConflictError, match="its last heartbeat was"):
        table.compact()
    # Inline services leave it alone.
    options = {"hoodie.compact.inline": "true", **_OPTIONS}
    Table(table.uri, options=options).upsert(_rows(range(4), 3, "third"))
    assert (folder / f"timeline/{instant}.compaction.inflight").exists()
    os.utime(heartbeat, (time.time() - 300, time.time() - 300))
    assert table.compact() is not None
    assert not heartbeat.exists()
    assert _values(table.to_arrow()) == {f"k{n}": "third" for n in range(4)}
    assert not table.verify().problems
