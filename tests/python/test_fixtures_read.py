"""Tables that other implementations wrote read as real Hudi reads them."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from tests.rows import META_COLUMNS, golden_line

_TABLES = Path(__file__).resolve().parents[1] / "fixtures" / "tables"
_EXPECTED: dict[str, dict[str, dict[str, Any]]] = json.loads((_TABLES / "expected.json").read_text())

_CASES = [(name, query) for name, queries in sorted(_EXPECTED.items()) for query in sorted(queries)]
_READABLE = [(name, query) for name, query in _CASES if "error" not in _EXPECTED[name][query]]
_HUDI_FAILS = [(name, query) for name, query in _CASES if "error" in _EXPECTED[name][query]]


def _unpack(name: str, folder: Path) -> Path:
    with zipfile.ZipFile(_TABLES / name) as archive:
        archive.extractall(folder)
    (properties,) = [p for p in folder.rglob("hoodie.properties") if "metadata" not in p.parts[:-1][-2:-1]]
    return properties.parent.parent


def _lines(table: pa.Table, *, meta: bool) -> list[str]:
    rows = table.to_pylist(maps_as_pydicts="strict")
    kept = ({n: v for n, v in row.items() if meta or n not in META_COLUMNS} for row in rows)
    return sorted(golden_line(row) for row in kept)


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@pytest.mark.parametrize(("name", "query"), _READABLE)
def test_rows_are_those_of_hudi(tmp_path: Path, name: str, query: str) -> None:
    expected = _EXPECTED[name][query]
    table = hoodoo.Table(str(_unpack(name, tmp_path))).to_arrow(query=query)
    meta = any(column in META_COLUMNS for column in expected["columns"])
    lines = _lines(table, meta=meta)
    assert len(lines) == expected["rows"]
    assert set(expected["sample"]) <= set(lines)
    assert {c for c in table.column_names if meta or c not in META_COLUMNS} == set(expected["columns"])
    assert _digest(lines) == expected["sha256"]
    assert _digest(_lines(table, meta=False)) == expected["data_sha256"]


@pytest.mark.parametrize(("name", "query"), _READABLE)
def test_columns_can_be_chosen(tmp_path: Path, name: str, query: str) -> None:
    table = hoodoo.Table(str(_unpack(name, tmp_path)))
    whole = table.to_arrow(query=query)
    for column in (whole.column_names[-1], whole.column_names[len(whole.column_names) // 2]):
        one = table.to_arrow(columns=[column], query=query)
        assert one.column_names == [column]
        assert one.column(0).to_pylist() == whole.column(column).to_pylist()


@pytest.mark.parametrize(("name", "query"), _READABLE)
def test_reading_twice_gives_the_same_order(tmp_path: Path, name: str, query: str) -> None:
    table = hoodoo.Table(str(_unpack(name, tmp_path)))
    assert table.to_arrow(query=query).equals(table.to_arrow(query=query))


@pytest.mark.parametrize(("name", "query"), _HUDI_FAILS)
def test_tables_that_hudi_cannot_open(tmp_path: Path, name: str, query: str) -> None:
    """Where Hudi fails we read the rows that are there, or refuse with a typed error: never a crash."""
    table = _unpack(name, tmp_path)
    try:
        rows = hoodoo.Table(str(table)).to_arrow(query=query)
    except hoodoo.HudiError as error:
        assert str(error)  # noqa: PT017  # either outcome is right
    else:
        assert rows.num_rows >= 0
        assert len(set(rows.column_names)) == len(rows.column_names)


def test_moving_a_table_changes_nothing(tmp_path: Path) -> None:
    name = next(n for n, _ in _READABLE if "v9_txns_simple_overwrite" in n and "__cow__" in n)
    table = _unpack(name, tmp_path / "here")
    before = hoodoo.Table(str(table)).to_arrow()
    moved = tmp_path / "there with a space"
    shutil.move(table, moved)
    assert hoodoo.Table(str(moved)).to_arrow().equals(before)


def _with_a_hole(tmp_path: Path, policy: str | None = None) -> hoodoo.Table:
    """A table of version 6 whose first commit is under way although the second is complete."""
    folder = _unpack("sample_table__cow__v6_nonpartitioned.zip", tmp_path)
    (folder / ".hoodie" / "20240418173550988.commit").unlink()
    options = {} if policy is None else {"hoodie.read.timeline.holes.resolution.policy": policy}
    return hoodoo.Table(str(folder), options=options)


def test_changes_behind_a_hollow_commit(tmp_path: Path) -> None:
    with pytest.raises(hoodoo.ConflictError, match=r"20240418173550988.*holes\.resolution\.policy"):
        _with_a_hole(tmp_path / "fail").changes("0")
    assert _with_a_hole(tmp_path / "block", "BLOCK").changes("0").read_all().num_rows == 0
    completed = _with_a_hole(tmp_path / "transition", "use_transition_time").changes("0").read_all()
    assert set(completed["_hoodie_commit_time"].to_pylist()) == {"20240418173551906"}
    with pytest.raises(hoodoo.InvalidOptionError, match="USE_TRANSITION_TIME"):
        _with_a_hole(tmp_path / "other", "IGNORE").changes("0")
    # A snapshot has no such problem: the complete commit carried the rows of the other along.
    assert _with_a_hole(tmp_path / "scan").to_arrow().num_rows == 4
