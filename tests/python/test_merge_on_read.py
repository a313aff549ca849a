"""Merge-on-read tables by hoodoo alone: what is appended to log files is read, and refused where it cannot be."""

from __future__ import annotations

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
    """A block that was cut off is passed over, as in Hudi; one whose inside makes no sense is an error."""
    table = _table(str(tmp_path / "t"))
    table.insert(_rows(range(1), 1, "first"))
    table.upsert(_rows(range(1), 2, "second"))
    (slice_,) = table.file_slices()
    path = tmp_path / "t" / slice_.log_files[0]
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[:-9])
        assert _values(table.to_arrow()) == {"k0": "first"}
    else:
        at = content.index(b"second") - 1
        path.write_bytes(content[:at] + b"\x7f" + content[at + 1 :])
        with pytest.raises(hoodoo.CorruptFileError, match=r"\.log\."):
            table.to_arrow()


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    table = _table(str(tmp_path / "t"), hoodie__logfile__data__block__format="parquet")
    with pytest.raises(hoodoo.UnsupportedError, match="parquet"):
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
