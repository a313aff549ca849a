"""What becomes of the files of before when the fields of a table get ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.distributed.write import prepare_write

KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
NEW_FILES = {"hoodie.parquet.small.file.limit": "0"}


def columns(changing: pa.DataType) -> pa.Schema:
    nested = pa.struct({"x": changing, "y": pa.list_(pa.struct({"z": changing}))})
    return pa.schema({"id": pa.int64(), "c": changing, "n": pa.string(), "st": nested, "ts": pa.int64()})


def rows(key: int, value: Any, changing: pa.DataType, ts: int = 1) -> pa.Table:
    nested = {"x": value, "y": [{"z": value}]}
    row = {"id": key, "c": value, "n": f"n{key}", "st": nested, "ts": ts}
    return pa.Table.from_pylist([row], columns(changing))


def make(path: Path, kind: str, changing: pa.DataType, **options: str) -> hoodoo.Table:
    return hoodoo.Table.create(
        str(path / "t"),
        columns(changing),
        name="t",
        record_key="id",
        ordering=["ts"],
        table_type=kind,
        options={**NEW_FILES, **options},
    )


def rename(table: hoodoo.Table) -> str:
    """Make a change for which fields get ids; its instant."""
    with table.update_schema() as update:
        update.rename_column("n", "nn")
    assert update.commit is not None
    return update.commit.instant


def history(path: Path) -> list[tuple[int, str, str, str]]:
    """Of all schemas, the oldest first: their instants, and the types of `c`, `st.x` and `st.y.element.z`."""
    newest = max((path / "t" / ".hoodie" / ".schema").glob("*.schemacommit"))
    found = []
    for schema in json.loads(newest.read_text(encoding="utf-8"))["schemas"]:
        types = {field["name"]: field["type"] for field in schema["fields"]}
        x, y = (field["type"] for field in types["st"]["fields"])
        found.append((schema["version_id"], types["c"], x, y["element"]["fields"][0]["type"]))
    return sorted(found)


@pytest.mark.filterwarnings("ignore::hoodoo.HudiWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_files_of_before_keep_the_types_that_they_have(tmp_path: Path, kind: str):
    table = make(tmp_path, kind, pa.int32())
    table.insert(rows(1, 7, pa.int32()))
    wide = table.insert(rows(2, 1 << 40, pa.int64()))
    table.insert(rows(3, 8, pa.int64()))
    text = table.upsert(rows(1, "late", pa.string(), ts=2))
    renamed = rename(table)
    types = [("int",) * 3, ("long",) * 3, ("string",) * 3, ("string",) * 3]
    versions = [0, int(wide.instant), int(text.instant), int(renamed)]
    assert history(tmp_path) == [(version, *of) for version, of in zip(versions, types, strict=True)]
    expected = [(1, "late"), (2, str(1 << 40)), (3, "8")]
    for other in (table, hoodoo.Table(table.uri)):
        stored = other.to_arrow(columns=["id", "c", "st"]).to_pylist()
        assert sorted((row["id"], row["c"]) for row in stored) == expected
        assert sorted((row["id"], row["st"]["y"][0]["z"]) for row in stored) == expected
    assert table.verify().ok
    # Another change keeps them, although values of both types do not compare.
    with table.update_schema() as update:
        update.rename_column("nn", "n")
    assert history(tmp_path)[:4] == [(version, *of) for version, of in zip(versions, types, strict=True)]


@pytest.mark.filterwarnings("ignore::hoodoo.HudiWarning")
def test_archived_commits_tell_the_types_too(tmp_path: Path):
    options = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "2"}
    table = make(tmp_path, "COPY_ON_WRITE", pa.int32(), **options)
    table.insert(rows(1, 7, pa.int32()))
    wide = table.insert(rows(2, 1 << 40, pa.int64()))
    for key in range(3, 9):
        table.insert(rows(key, 8, pa.int64()))
    assert table.timeline.instants()[0].requested > wide.instant
    rename(table)
    assert [(version, of) for version, of, *_ in history(tmp_path)][:2] == [(0, "int"), (int(wide.instant), "long")]
    assert sum(table.to_arrow(columns=["c"])["c"].to_pylist()) == 7 + (1 << 40) + 6 * 8


def test_types_that_did_not_change_need_one_schema(tmp_path: Path):
    table = make(tmp_path, "MERGE_ON_READ", pa.int32())
    table.insert(rows(1, 7, pa.int32()))
    table.upsert(rows(1, 9, pa.int32(), ts=2))
    table.compact()
    table.delete([1])
    rename(table)
    assert [version for version, *_ in history(tmp_path)][:-1] == [0]


def partial(key: int, value: int) -> pa.Table:
    return pa.table({"id": [key], "c": pa.array([value], pa.int32()), "ts": [5]})


def test_rows_with_some_columns_are_refused_in_log_files(tmp_path: Path):
    table = make(tmp_path, "MERGE_ON_READ", pa.int32())
    table.insert(rows(1, 7, pa.int32()))
    rename(table)
    before = len(table.timeline.instants())
    with pytest.raises(hoodoo.UnsupportedError, match="Hudi would read null in the other columns"):
        table.upsert(partial(1, 99), partial=True)
    given = partial(1, 99)
    prepared = prepare_write(given.schema, table.uri, "upsert", {}, {}, partial=True)
    with pytest.raises(hoodoo.UnsupportedError, match="write whole rows"):
        prepared.begin(given.schema, 1, partial=True)
    assert len(hoodoo.Table(table.uri).timeline.instants()) == before
    table.update({"c": 99, "ts": 5}, where="id = 1")
    assert table.to_arrow(columns=["c", "nn"]).to_pylist() == [{"c": 99, "nn": "n1"}]


def test_ids_wait_until_such_rows_are_compacted(tmp_path: Path):
    table = make(tmp_path, "MERGE_ON_READ", pa.int32(), **{"hoodie.compact.inline": "false"})
    table.insert(rows(1, 7, pa.int32()))
    table.upsert(partial(1, 99), partial=True)
    assert table.schedule_compaction() is not None
    table.upsert(rows(1, 100, pa.int32(), ts=6))
    before = len(table.timeline.instants())
    with pytest.raises(hoodoo.UnsupportedError, match=r"t\.compact\(\)"):
        rename(table)
    assert len(hoodoo.Table(table.uri).timeline.instants()) == before
    # That needs no ids.
    with table.update_schema() as update:
        update.add_column("last", pa.string())
    table.compact()
    rename(table)
    expected = {"id": 1, "c": 100, "nn": "n1", "last": None}
    assert table.to_arrow(columns=["id", "c", "nn", "last"]).to_pylist() == [expected]
    assert table.verify().ok
