"""An ordering column may be a field of a struct column, as a key may."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.distributed.compaction import begin_compaction, execute_compaction
from hoodoo.distributed.write import write_rows
from hoodoo.mergers import KeepNonNull
from tests.local_executor import LocalExecutor

_STRUCT = pa.struct([("p", pa.int64()), ("note", pa.string())])
SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("st", _STRUCT), ("v", pa.string())])
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.table.ordering.fields": "st.p",
    "hoodie.compact.inline": "false",
}
TYPES = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])


def _rows(*rows: tuple[str, int | None, str], part: str = "a") -> pa.Table:
    """Rows; one without a number has no struct at all."""
    made = [{"id": k, "part": part, "st": None if p is None else {"p": p}, "v": v} for k, p, v in rows]
    return pa.Table.from_pylist(made, schema=SCHEMA)


def _values(uri: Path) -> dict[str, str]:
    rows = hoodoo.Table(uri).to_arrow(columns=["id", "v"]).to_pylist()
    return {row["id"]: row["v"] for row in rows}


def _options(table_type: str, **more: str) -> dict[str, str]:
    return {**OPTIONS, "hoodie.datasource.write.table.type": table_type, **more}


@TYPES
@pytest.mark.parametrize("in_tasks", [False, True])
def test_the_row_with_the_largest_value_wins(tmp_path: Path, table_type: str, in_tasks: bool):
    uri, options, executor = tmp_path / "t", _options(table_type), LocalExecutor(2)

    def write(rows: pa.Table) -> None:
        if in_tasks:
            write_rows(executor, [rows], str(uri), "upsert", options)
        else:
            hoodoo.write(rows, uri, "upsert", options)

    write(_rows(("a", 5, "five"), ("b", None, "none"), ("c", 1, "one")))
    # One write combines its rows by it too.
    write(_rows(("a", 2, "two"), ("a", 3, "three"), ("b", 0, "zero"), ("c", 2, "two")))
    assert _values(uri) == {"a": "five", "b": "zero", "c": "two"}
    write(_rows(("a", 9, "nine"), ("b", None, "none")))
    write(_rows(("a", 7, "seven")))
    expected = {"a": "nine", "b": "zero", "c": "two"}
    assert _values(uri) == expected
    if table_type == "MERGE_ON_READ":
        if in_tasks:
            pending = begin_compaction(str(uri), options=options)
            assert pending is not None
            execute_compaction(executor, pending)
        else:
            assert hoodoo.Table(uri, options).compact() is not None
        assert _values(uri) == expected
    assert hoodoo.Table(uri).verify().ok


@TYPES
def test_deletes_and_partial_updates_go_by_it(tmp_path: Path, table_type: str):
    uri, options = tmp_path / "t", _options(table_type, **{"hoodie.write.set.null.for.missing.columns": "true"})
    hoodoo.write(_rows(("a", 5, "five"), ("b", 5, "five"), ("c", 5, "five")), uri, "upsert", options)
    table = hoodoo.Table(uri, options)
    marked = _rows(("a", 4, ""), ("b", 6, "")).append_column("_hoodie_is_deleted", pa.array([True, True]))
    table.upsert(marked)
    assert _values(uri) == {"a": "five", "c": "five"}
    # What is older than the delete stays deleted.
    table.upsert(_rows(("b", 5, "late")))
    assert ("b" in _values(uri)) == (table_type == "COPY_ON_WRITE")
    with pytest.raises(hoodoo.InvalidOptionError, match=r"lack the ordering column 'st\.p'"):
        table.upsert(_rows(("a", 9, "nine")).drop_columns(["st"]), partial=True)
    table.upsert(_rows(("a", 4, "old"), ("c", 9, "nine")), partial=True)
    assert _values(uri)["a"] == "five"
    assert _values(uri)["c"] == "nine"
    table.delete({"id": ["a"], "part": ["a"]})
    assert "a" not in _values(uri)


@TYPES
def test_a_move_to_another_partition_goes_by_it(tmp_path: Path, table_type: str):
    index = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}
    uri, options = tmp_path / "t", _options(table_type, **index)
    hoodoo.write(_rows(("a", 5, "five"), ("b", 5, "five")), uri, "upsert", options)
    hoodoo.write(_rows(("a", 4, "four"), ("b", 6, "six"), part="z"), uri, "upsert", options)
    rows = hoodoo.Table(uri).to_arrow(columns=["id", "part", "v"]).sort_by("id").to_pylist()
    assert [(row["part"], row["v"]) for row in rows] == [("a", "five"), ("z", "six")]


def test_a_field_that_is_not_there_makes_no_table(tmp_path: Path):
    for field in ("st.q", "v.p", "st.p.x", "other.p"):
        options = {**_options("MERGE_ON_READ"), "hoodie.table.ordering.fields": field}
        with pytest.raises(hoodoo.SchemaError, match=f"ordering column '{field}' is not in the data"):
            hoodoo.write(_rows(("a", 1, "")), tmp_path / "t", "upsert", options)
        assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("merger", [None, KeepNonNull()])
def test_merging_streams(merger: Any):
    older, newer = _rows(("a", 5, "five"), ("b", 5, "five")), _rows(("a", 4, "four"), ("b", 6, "six"))
    merged = hoodoo.merge(older, newer, key=["id"], ordering=["st.p"], merger=merger).read_all()
    assert merged.column("v").to_pylist() == ["five", "six"]
    with pytest.raises(hoodoo.SchemaError, match=r"no column 'st\.q'"):
        hoodoo.merge(older, newer, key=["id"], ordering=["st.q"])


def test_its_type_stays(tmp_path: Path):
    table = hoodoo.Table.create(tmp_path / "t", SCHEMA, options=_options("COPY_ON_WRITE"))
    table.insert(_rows(("a", 9, "first")))
    # As strings 10 would be before 9.
    for field in ("st.p", "st"):
        new = pa.string() if field == "st.p" else pa.struct([("p", pa.string()), ("note", pa.string())])
        with pytest.raises(hoodoo.HudiError, match="goes by it"), table.update_schema() as update:
            update.change_column(field, new)
    with table.update_schema() as update:
        update.change_column("st.note", doc="what it is")
    table.upsert(_rows(("a", 10, "second")))
    assert _values(tmp_path / "t") == {"a": "second"}
