"""Tables whose columns were renamed, dropped, added again, widened and moved by real Hudi (schema on read)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from tests.rows import arrow_rows
from tests.schema_history import NAMES, spelled, states, unpack


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_those_that_hudi_reads(name: str, tmp_path: Path):
    table = hoodoo.Table(unpack(name, tmp_path / "t"))
    for state in states(name):
        assert spelled(arrow_rows(table.to_arrow(as_of=state["as_of"]))) == state["rows"], state["as_of"]
    assert spelled(arrow_rows(table.to_arrow())) == states(name)[-1]["rows"]
    assert table.verify().ok


@pytest.mark.parametrize("name", NAMES)
def test_filters_and_columns_go_by_the_names_of_now(name: str, tmp_path: Path):
    table = hoodoo.Table(unpack(name, tmp_path / "t"))
    rows = table.to_arrow().to_pylist()
    for column in ("cc", "c"):
        for value in {row[column] for row in rows}:
            wanted = [row["id"] for row in rows if row[column] == value]
            filters: list[Any] = [(column, "is null")] if value is None else [(column, "=", value)]
            got = table.to_arrow(columns=["id"], filters=filters)["id"].to_pylist()
            assert sorted(got) == sorted(wanted), (column, value)


@pytest.mark.parametrize("name", NAMES)
def test_changes_have_the_columns_of_now(name: str, tmp_path: Path):
    table = hoodoo.Table(unpack(name, tmp_path / "t"))
    rows = {row["id"]: row for row in table.to_arrow().to_pylist()}
    for row in table.changes("0").read_all().to_pylist():
        assert row == rows[row["id"]]


@pytest.mark.parametrize("name", NAMES)
def test_hoodoo_goes_on(name: str, tmp_path: Path):
    table = hoodoo.Table(unpack(name, tmp_path / "t"))
    before = {row["id"]: row for row in table.to_arrow().to_pylist()}
    names = table.schema.names
    new = {**{n: before[1][n] for n in names}, "ts": 10, "cc": "ours"}
    commit = table.upsert(pa.Table.from_pylist([new], table.schema))
    assert (commit.updated, commit.schema_changes) == (1, ())
    rows = {row["id"]: row for row in table.to_arrow().to_pylist()}
    assert {n: rows[1][n] for n in names} == new
    assert {key: {n: rows[key][n] for n in names} for key in (2, 3, 4)} == {
        key: {n: before[key][n] for n in names} for key in (2, 3, 4)
    }
    assert table.verify().ok
    if name != "cow":
        table.compact()
        again = {row["id"]: row for row in table.to_arrow().to_pylist()}
        assert {k: {n: r[n] for n in names} for k, r in again.items()} == {
            k: {n: r[n] for n in names} for k, r in rows.items()
        }
