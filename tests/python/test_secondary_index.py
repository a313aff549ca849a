"""Secondary indexes of the metadata table: built, kept in step by every action, and asked by reads."""

from __future__ import annotations

import json
import random
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import hoodoo
from hoodoo import Table
from hoodoo.cli.commands import app
from tests.beside_others import MIDDLES, Case, Middle, wrong
from tests.secondary_index import entries_of, stored_entries

NAME, BIG = "secondary_index_name", "secondary_index_big"
LISTED = {"hoodie.metadata.enable": "false"}
BY_INDEX = {"hoodie.metadata.global.record.level.index.enable": "true"}
SHARDS = {
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "3",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "3",
}
QUIET = {"hoodie.clean.automatic": "false", "hoodie.compact.inline": "false", **SHARDS}
ODD = [None, "", "x$y", "a\\b", "\0z", "ü"]
SCHEMA = pa.schema(
    [("id", pa.string()), ("ts", pa.int64()), ("name", pa.string()), ("big", pa.int64()), ("part", pa.string())]
)


def rows(keys: list[int] | range, ts: int, part: str | None = None, names: list[Any] | None = None) -> pa.Table:
    """Rows of keys; some values are odd, and some are null."""
    data = {
        "id": [f"k{key:04}" for key in keys],
        "ts": [ts] * len(keys),
        "name": names or [ODD[key % 6] if key % 5 == 0 else f"n{(key * ts) % 7}" for key in keys],
        "big": [None if key % 4 == 0 else key // 3 * ts for key in keys],
        "part": [part or f"p{key % 3}" for key in keys],
    }
    return pa.table(data, schema=SCHEMA)


def make(path: Path, table_type: str = "COPY_ON_WRITE", version: str = "9") -> Table:
    """A table with rows and two indexes."""
    options = {"hoodie.write.table.version": version, **QUIET}
    table = Table.create(
        str(path),
        SCHEMA,
        name="t",
        record_key="id",
        partition_by="part",
        ordering=["ts"],
        table_type=table_type,
        options=options,
    )
    table.insert(rows(range(40), 1))
    assert NAME in Table(path, SHARDS).index("secondary_index", "name").partitions
    assert BIG in Table(path, SHARDS).index("secondary_index", ["big"]).partitions
    check(path)
    return Table(path, QUIET)


def check(path: Path) -> None:
    """The indexes have each row, and nothing else; reads by them find the same rows."""
    for index, column in ((NAME, "name"), (BIG, "big")):
        assert entries_of(path, index) == stored_entries(path, column), index
    problems = Table(path).verify().problems
    assert not problems, problems
    for filters in ([("name", "=", "n3")], [("name", "in", ["x$y", "a\\b", "n1"])], [("big", "=", 6)]):
        one, other = (Table(path, of).to_arrow(filters=filters).sort_by("id") for of in (BY_INDEX, LISTED))
        assert one.equals(other), filters


@pytest.mark.parametrize("version", ["9", pytest.param("8", marks=pytest.mark.slow)])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_every_action_keeps_it(tmp_path: Path, table_type: str, version: str) -> None:
    path = tmp_path / "t"
    table = make(path, table_type, version)
    definitions = json.loads((path / ".hoodie/.index_defs/index.json").read_text(encoding="utf-8"))
    assert definitions["indexDefinitions"][NAME] == {
        "indexName": NAME,
        "indexType": "secondary_index",
        "indexFunction": "identity",
        "sourceFields": ["name"],
        "indexOptions": {},
        "version": "V2" if version == "9" else "V1",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps: list[Any] = [
            lambda: table.upsert(rows(range(30, 50), 2)),
            lambda: table.upsert(rows([7], 0)),
            lambda: table.delete(rows([1, 2, 51], 3)),
            lambda: table.upsert(rows([1], 4, names=["n1"])),
            lambda: table.upsert(rows([2], 5)),
            lambda: table.compact() if table_type == "MERGE_ON_READ" else None,
            lambda: table.upsert(rows(range(5), 6)),
            lambda: table.cluster() and None,
            lambda: table.insert(rows(range(60, 70), 7)),
            lambda: table.insert_overwrite(rows([0, 3, 90], 8)),
            lambda: table.delete_partitions(["p1"]),
            lambda: table.upsert(rows([1, 4], 9)),
            lambda: table.insert_overwrite_table(rows(range(20, 30), 10)),
            lambda: table.upsert(rows(range(15, 25), 11)),
        ]
        for number, step in enumerate(steps):
            table = Table(path, QUIET)
            step()
            try:
                check(path)
            except AssertionError as error:
                raise AssertionError(f"after step {number}") from error


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 3))])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_random_histories(tmp_path: Path, table_type: str, seed: int) -> None:
    path, chance = tmp_path / "t", random.Random(seed)
    make(path, table_type)
    options = QUIET | {
        "hoodie.metadata.compact.max.delta.commits": "4",
        "hoodie.record.index.update.partition.path": "true",
    }
    for ts in range(2, 16):
        keys = chance.sample(range(60), chance.randint(1, 12))
        # Keys are unique in the table.
        index = chance.choice(["GLOBAL_SIMPLE", "GLOBAL_RECORD_LEVEL_INDEX"])
        table = Table(path, options | {"hoodie.index.type": index})
        match chance.choice(["upsert", "upsert", "move", "delete", "compact", "cluster"]):
            case "move":
                table.upsert(rows(keys, ts, f"p{chance.randint(0, 4)}"))
            case "delete":
                # Some with an older ordering value.
                table.delete(rows(keys, chance.choice([0, ts])))
            case "compact" if table_type == "MERGE_ON_READ":
                table.compact()
            case "cluster":
                table.cluster()
            case _:
                table.upsert(rows(keys, ts))
        check(path)


INDEXES: dict[str, Middle] = {
    "index": (lambda table: table.index("secondary_index", "v"), lambda rows: rows),
    "drop": (lambda table: table.drop_index("secondary_index_v"), lambda rows: rows),
    "rebuild": (lambda table: table.rebuild_metadata_table(), lambda rows: rows),
}
BESIDE = [
    Case(write, middle, kind, ordering, "Allow", version, where)
    for write in ("upsert", "partial", "delete", "insert_overwrite", "delete_partition")
    for middle in [*MIDDLES, *INDEXES]
    for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")
    for ordering, version in ((True, 9), (False, 8))
    for where in ("input", "commit")
    if not (write == "partial" and where == "commit")
]


def _check_beside(cases: list[Case], folder: Path) -> None:
    """Rows, and by `verify` the entries of the index, with another action in the middle of a write."""
    found = []
    for case in cases:
        for index in ("v", None) if case.middle == "index" else ("v",):
            found.append(wrong(case, folder / "t", index=index, others=INDEXES))
            if index and case.middle != "drop":
                metadata = Table(folder / "t").metadata_table
                assert metadata is not None
                kept = "secondary_index_v" in metadata.partitions
                found.append(None if kept else f"{case}: the index is gone")
    assert [problem for problem in found if problem] == []


def test_beside_others(tmp_path: Path) -> None:
    """One in thirteen of them, of every kind: no other number of what differs is a multiple of that."""
    _check_beside(BESIDE[::13], tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_beside_others_all(tmp_path: Path) -> None:
    _check_beside(BESIDE, tmp_path)


def test_it_is_built_rebuilt_and_dropped(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path)
    Table(path).upsert(rows(range(30, 50), 2))
    assert {NAME, BIG} <= set(Table(path).rebuild_metadata_table().partitions)
    check(path)
    assert NAME in Table(path).index(NAME).partitions
    check(path)
    # By the name of its partition; a column has its index under one name.
    assert Table(path).drop_index(NAME) == (NAME,)
    Table(path).index("secondary_index_idx", "name")
    assert "secondary_index_idx" in Table(path).index("secondary_index", "name").partitions
    definitions = json.loads((path / ".hoodie/.index_defs/index.json").read_text(encoding="utf-8"))
    assert NAME not in definitions["indexDefinitions"]
    assert entries_of(path, "secondary_index_idx") == stored_entries(path, "name")
    assert set(Table(path).drop_index("record_index")) == {BIG, "secondary_index_idx", "record_index"}
    Table(path).upsert(rows(range(5), 3))
    assert not Table(path).verify().problems


def test_values_have_the_form_that_hudi_gives_them(tmp_path: Path) -> None:
    path = tmp_path / "t"
    data = pa.table(
        {
            "id": ["a", "b"],
            "day": pa.array([20454, None], pa.date32()),
            "at": pa.array([1767225600000001, 5], pa.timestamp("us", "UTC")),
            "price": pa.array([30.0, 1e20], pa.float64()),
            "small": pa.array([1.5, -0.0], pa.float32()),
            "flag": [True, False],
        }
    )
    Table.create(str(path), data.schema, name="t", record_key="id").insert(data)
    expected = {
        "day": [(None, "b"), ("20454", "a")],
        "at": [("1767225600000001", "a"), ("5", "b")],
        "price": [("1.0E20", "b"), ("30.0", "a")],
        "small": [("-0.0", "b"), ("1.5", "a")],
    }
    for column, entries in expected.items():
        Table(path).index("secondary_index", column)
        assert entries_of(path, f"secondary_index_{column}") == entries
    Table(path).upsert(data.slice(0, 1))
    assert not Table(path).verify().problems
    with pytest.raises(hoodoo.UnsupportedError, match="'flag' is of type Boolean"):
        Table(path).index("secondary_index", "flag")


def test_what_cannot_be_built_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path)
    for columns in (None, ["name", "big"]):
        with pytest.raises(hoodoo.InvalidOptionError, match="of one column"):
            Table(path).index("secondary_index", columns)
    with pytest.raises(hoodoo.InvalidOptionError, match="no column 'nothing'"):
        Table(path).index("secondary_index", "nothing")
    other = tmp_path / "other"
    options = {"hoodie.metadata.record.level.index.enable": "true"}
    Table.create(str(other), SCHEMA, name="t", record_key="id", partition_by="part", options=options)
    Table(other, options).insert(rows(range(5), 1))
    with pytest.raises(hoodoo.InvalidOptionError, match="record index of the whole table"):
        Table(other).index("secondary_index", "name")


def test_one_that_cannot_be_kept_is_dropped(tmp_path: Path) -> None:
    """Numbers that become others have another form, and rows that are there already would not be found."""
    path = tmp_path / "t"
    make(path)
    data = rows(range(3), 2)
    data = data.set_column(data.schema.get_field_index("big"), "big", pa.array([0.5, 1.5, 2.5]))
    with pytest.warns(hoodoo.HudiWarning, match=BIG):
        Table(path).upsert(data)
    metadata = Table(path).metadata_table
    assert metadata is not None
    assert NAME in metadata.partitions
    assert BIG not in metadata.partitions
    assert BIG not in (path / ".hoodie/.index_defs/index.json").read_text(encoding="utf-8")
    assert entries_of(path, NAME) == stored_entries(path, "name")


def test_verify_finds_entries_that_are_wrong(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path)
    properties = path / ".hoodie/hoodie.properties"
    before = properties.read_text(encoding="utf-8")
    properties.write_text(before.replace(f",{NAME}", ""), encoding="utf-8")
    assert properties.read_text(encoding="utf-8") != before
    Table(path, QUIET).upsert(rows([1], 2, names=["other"]))
    properties.write_text(before, encoding="utf-8")
    messages = [problem.message for problem in Table(path).verify().problems]
    assert any("lacks rows of the table" in message and "other$k0001" in message for message in messages), messages
    assert any("has entries of rows that the table does not have" in message for message in messages), messages
    Table(path).index(NAME)
    check(path)


def test_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path)
    done = CliRunner().invoke(app, ["metadata", "index", str(path), "secondary_index", "--columns", "name"])
    assert done.exit_code == 0, done.output
    assert NAME in done.output
    done = CliRunner().invoke(app, ["metadata", "drop", str(path), NAME])
    assert f"dropped {NAME}" in done.output
