"""The record index of the metadata table: built, kept in step by every action, and asked by writes."""

from __future__ import annotations

import contextlib
import json
import random
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Table
from tests.record_index import index_of, stored_keys

Rows = dict[tuple[str, str], int]

GLOBAL = {
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "3",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "3",
}
PARTITIONED = {
    "hoodie.metadata.record.level.index.enable": "true",
    "hoodie.metadata.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.record.level.index.max.filegroup.count": "2",
}
LAYOUTS = {"global": GLOBAL, "partitioned": PARTITIONED}
BY_INDEX = {"global": "GLOBAL_RECORD_LEVEL_INDEX", "partitioned": "RECORD_LEVEL_INDEX"}
LISTED = {"hoodie.metadata.enable": "false"}


def options(table_type: str = "COPY_ON_WRITE", **more: str) -> dict[str, str]:
    """Options of a new table."""
    return {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.clean.automatic": "false",
        **more,
    }


def rows(keys: list[int] | range, ts: int, parts: list[str] | None = None, deleted: bool | None = None) -> pa.Table:
    """Rows of keys."""
    table = pa.table(
        {
            "id": [f"k{key:04}" for key in keys],
            "ts": pa.array([ts] * len(keys), pa.int64()),
            "part": parts or [f"p{key % 3}" for key in keys],
        }
    )
    return table if deleted is None else table.append_column("_hoodie_is_deleted", pa.array([deleted] * len(keys)))


def check(path: Path, expected: Rows | None = None) -> None:
    """The index has each key where it is, and nothing else; the rows are these."""
    assert index_of(path) == stored_keys(path)
    problems = Table(path).verify().problems
    assert not problems, problems
    if expected is not None:
        found = Table(path).to_arrow(columns=["id", "part", "ts"]).to_pylist()
        assert {(row["id"], row["part"]): row["ts"] for row in found} == expected


class Model:
    """What a table should hold, of keys that are unique in the table or in their partition."""

    def __init__(self, path: Path, table_type: str, layout: str, seed: int, **more: str) -> None:
        self.path, self.table_type, self.layout = path, table_type, layout
        self.random = random.Random(seed)
        self.rows: Rows = {}
        self.options = options(table_type, **LAYOUTS[layout], **more)
        self.at = 10

    def key(self) -> tuple[str, str]:
        """A key, and the partition that it has for good: an index of the table and one of partitions agree then."""
        number = self.random.randrange(60)
        return f"k{number:04}", f"p{number % 4}"

    def batch(self, ts: int, deleted: bool) -> tuple[pa.Table, list[tuple[str, str]]]:
        keys = list({self.key() for _ in range(self.random.randrange(1, 15))})
        flags = [deleted and self.random.random() < 0.5 for _ in keys]
        table = pa.table(
            {
                "id": [key for key, _ in keys],
                "ts": pa.array([ts] * len(keys), pa.int64()),
                "part": [part for _, part in keys],
                "_hoodie_is_deleted": flags,
            }
        )
        return table, keys

    def step(self) -> str:
        """Do something, with some index."""
        self.at += 1
        kinds = ["upsert"] * 6 + ["delete"] * 3 + ["insert_overwrite", "cluster", "delete_partitions"]
        kind = self.random.choice([*kinds, "compact"] if self.table_type == "MERGE_ON_READ" else kinds)
        index = self.random.choice(["SIMPLE", "BLOOM", BY_INDEX[self.layout], BY_INDEX[self.layout]])
        table = Table(self.path, {**self.options, "hoodie.index.type": index})
        if kind in {"cluster", "compact"}:
            getattr(table, kind)()
        elif kind == "delete_partitions":
            part = f"p{self.random.randrange(4)}"
            table.delete_partitions([part])
            self.rows = {key: ts for key, ts in self.rows.items() if key[1] != part}
        elif kind == "insert_overwrite":
            data, keys = self.batch(self.at, deleted=False)
            table.insert_overwrite(data)
            parts = {part for _, part in keys}
            self.rows = {key: ts for key, ts in self.rows.items() if key[1] not in parts} | dict.fromkeys(keys, self.at)
        elif kind == "delete":
            data, keys = self.batch(self.at, deleted=False)
            table.delete(data)
            for key in keys:
                self.rows.pop(key, None)
        else:
            # Some rows are late: they do not win, and their deletes do not either.
            ts = self.at if self.random.random() < 0.7 else 0
            data, keys = self.batch(ts, deleted=True)
            table.upsert(data)
            for key, deleted in zip(keys, data["_hoodie_is_deleted"].to_pylist(), strict=True):
                if self.rows.get(key, -1) > ts:
                    continue
                self.rows.pop(key, None)
                if not deleted:
                    self.rows[key] = ts
        return f"{kind} by {index}"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_every_action_keeps_it(tmp_path: Path, table_type: str, layout: str, seed: int) -> None:
    model = Model(tmp_path / "t", table_type, layout, seed)
    first, keys = model.batch(1, deleted=False)
    hoodoo.write(first, str(model.path), operation="insert", options=model.options)
    model.rows = dict.fromkeys(keys, 1)
    check(model.path, model.rows)
    done = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(25):
            done.append(model.step())
            try:
                # A late row does not bring back what a log file deletes, and is new where the delete was carried out.
                check(model.path, model.rows if table_type == "COPY_ON_WRITE" else None)
            except AssertionError as failed:
                raise AssertionError(f"seed {seed}, after {done}") from failed


def test_a_delete_that_is_late_takes_no_key_out(tmp_path: Path) -> None:
    path = tmp_path / "t"
    hoodoo.write(rows(range(6), 5), str(path), operation="insert", options=options("MERGE_ON_READ", **GLOBAL))
    by_index = {**GLOBAL, "hoodie.index.type": BY_INDEX["global"]}
    Table(path, by_index).upsert(rows([1], 3, deleted=True))
    Table(path, by_index).upsert(rows([2], 9, deleted=True))
    check(path)
    assert {key for key, _ in index_of(path)} == {"k0000", "k0001", "k0003", "k0004", "k0005"}
    # It comes back where it was, found by its base file.
    Table(path, {"hoodie.index.type": "SIMPLE"}).upsert(rows([2], 10, deleted=False))
    check(path)
    assert len(index_of(path)) == 6


@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_it_is_built_for_a_table_that_has_none(tmp_path: Path, table_type: str, layout: str) -> None:
    path = tmp_path / "t"
    hoodoo.write(rows(range(50), 1), str(path), operation="insert", options=options(table_type))
    Table(path).upsert(rows(range(20, 60), 2))
    Table(path).delete(rows([3, 4], 2))
    metadata = Table(path).metadata_table
    assert metadata is not None
    assert "record_index" not in metadata.partitions
    commit = Table(path, {**LAYOUTS[layout], "hoodie.index.type": BY_INDEX[layout]}).upsert(rows(range(55, 70), 3))
    assert not commit.warnings
    check(path)
    metadata = Table(path).metadata_table
    assert metadata is not None
    assert metadata.partitions["record_index"].shards == (3 if layout == "global" else 6)
    definitions = json.loads((path / ".hoodie/.index_defs/index.json").read_text(encoding="utf-8"))
    assert definitions["indexDefinitions"]["record_index"]["indexOptions"] == {
        "isPartitioned": "true" if layout == "partitioned" else "false"
    }
    Table(path, {"hoodie.index.type": BY_INDEX[layout]}).upsert(rows(range(60, 80), 4))
    check(path)


def test_little_memory_makes_no_difference(tmp_path: Path) -> None:
    path = tmp_path / "t"
    data = rows(range(9000), 1)
    small = options("COPY_ON_WRITE", **GLOBAL, **{"hoodoo.memory.budget": "65536"})
    hoodoo.write(data, str(path), operation="insert", options=small)
    Table(path, {**small, "hoodie.index.type": BY_INDEX["global"]}).upsert(rows(range(4000, 12000), 2))
    check(path)
    Table(path, small).cluster()
    Table(path, small).insert_overwrite_table(rows(range(11000, 15000), 3))
    check(path)
    assert len(index_of(path)) == 4000


def test_keys_move_with_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "t"
    moves = {**GLOBAL, "hoodie.index.type": BY_INDEX["global"], "hoodie.record.index.update.partition.path": "true"}
    hoodoo.write(rows(range(9), 5), str(path), operation="insert", options=options("MERGE_ON_READ", **GLOBAL))
    Table(path, moves).upsert(rows([0, 1, 20], 6, ["new", "new", "new"]))
    Table(path, moves).upsert(rows([2], 1, ["new"]))
    check(path)
    parts = dict(index_of(path).keys())
    assert (parts["k0000"], parts["k0001"], parts["k0020"], parts["k0002"]) == ("new", "new", "new", "p2")
    Table(path, moves).delete(rows([0, 5], 7, ["other", "other"]))
    check(path)
    assert not {"k0000", "k0005"} & {key for key, _ in index_of(path)}


def test_without_the_index_keys_are_looked_for_in_the_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t"
    hoodoo.write(rows(range(9), 5), str(path), operation="insert", options=options())
    Table(path, {"hoodie.index.type": "RECORD_INDEX"}).upsert(rows(range(5, 12), 6))
    assert "no record index" in caplog.text
    assert len(stored_keys(path)) == 12


def test_an_index_without_one_of_its_shards_is_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t"
    hoodoo.write(rows(range(40), 5), str(path), operation="insert", options=options(**GLOBAL))
    for file in (path / ".hoodie/metadata/record_index").glob("*record-index-0001-0*"):
        file.unlink()
    with pytest.warns(UserWarning, match="record_index"):
        commit = Table(path, {"hoodie.index.type": BY_INDEX["global"]}).upsert(rows(range(30, 50), 7))
    assert "record index cannot be used" in caplog.text
    assert any("record_index" in warning for warning in commit.warnings)
    assert len(stored_keys(path)) == 50
    metadata = Table(path).metadata_table
    assert metadata is not None
    assert "record_index" not in metadata.partitions
    Table(path, GLOBAL).upsert(rows(range(45, 55), 8))
    check(path)


def test_an_index_that_is_behind_is_not_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A writer that knows nothing of the metadata table leaves it as it was."""
    path = tmp_path / "t"
    hoodoo.write(rows(range(40), 5), str(path), operation="insert", options=options(**GLOBAL))
    properties = path / ".hoodie/hoodie.properties"
    before = properties.read_text(encoding="utf-8")
    saved = {file: file.read_bytes() for file in (path / ".hoodie/metadata").rglob("*") if file.is_file()}
    Table(path, LISTED | {"hoodie.clean.automatic": "false"}).upsert(rows(range(40, 60), 6))
    for file, content in saved.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    properties.write_text(before, encoding="utf-8")
    Table(path, {"hoodie.index.type": BY_INDEX["global"]}).upsert(rows(range(50, 70), 7))
    assert "metadata table cannot be used" in caplog.text
    assert len(stored_keys(path)) == 70


@contextlib.contextmanager
def index_that_nobody_keeps(path: Path) -> Iterator[None]:
    """The table does not name its index for a while: it learns nothing of what is done."""
    properties = path / ".hoodie/hoodie.properties"
    with_index = properties.read_text(encoding="utf-8")
    properties.write_text(with_index.replace(",record_index", ""), encoding="utf-8")
    assert properties.read_text(encoding="utf-8") != with_index
    yield
    properties.write_text(with_index, encoding="utf-8")


WRONG: list[tuple[str, Callable[[Table], object], str]] = [
    ("gone", lambda table: table.delete(rows(range(5), 6)), "has keys that the file group does not have (5 keys"),
    ("lacking", lambda table: table.upsert(rows(range(40, 44), 6)), "lacks keys of the file group"),
    ("elsewhere", lambda table: table.cluster(), "names a file group that is not there for keys that are in another"),
]


@pytest.mark.parametrize(("change", "message"), [one[1:] for one in WRONG], ids=[one[0] for one in WRONG])
def test_verify_finds_keys_that_are_wrong(tmp_path: Path, change: Callable[[Table], object], message: str) -> None:
    path = tmp_path / "t"
    hoodoo.write(rows(range(40), 5), str(path), operation="insert", options=options(**GLOBAL))
    with index_that_nobody_keeps(path):
        change(Table(path, {"hoodie.clean.automatic": "false"}))
    problems = [problem for problem in Table(path).verify().problems if "record_index" in problem.subject]
    assert any(message.split(" (", maxsplit=1)[0] in problem.message for problem in problems), problems
    counted = sum(int(re.findall(r"\((\d+) keys", problem.message)[0]) for problem in problems)
    assert counted == {"has keys": 5, "lacks keys": 4, "names a": 40}[" ".join(message.split()[:2])]


@pytest.mark.parametrize("change", [one[1] for one in WRONG if one[0] != "lacking"])
def test_an_index_that_is_wrong_is_not_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: Callable[[Table], object]
) -> None:
    """Keys that are not where it says: all are looked for in the files."""
    path = tmp_path / "t"
    hoodoo.write(rows(range(40), 5), str(path), operation="insert", options=options(**GLOBAL))
    with index_that_nobody_keeps(path):
        change(Table(path, {"hoodie.clean.automatic": "false"}))
    Table(path, {"hoodie.index.type": BY_INDEX["global"]}).upsert(rows(range(45), 7))
    assert caplog.text.count("keys are looked for in the files") == 1
    assert len(stored_keys(path)) == 45


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_it_is_built_when_asked_for_and_with_the_metadata_table(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "t"
    hoodoo.write(rows(range(30), 1), str(path), operation="insert", options=options("MERGE_ON_READ"))
    Table(path).upsert(rows(range(25, 35), 2))
    Table(path).delete(rows([3], 3))
    Table(path, LAYOUTS[layout]).index("record_index")
    check(path)
    Table(path).upsert(rows(range(30, 50), 4))
    # Built anew, it keeps its form.
    for build in (lambda table: table.index("record_index"), lambda table: table.rebuild_metadata_table()):
        build(Table(path))
        check(path)
        definitions = json.loads((path / ".hoodie/.index_defs/index.json").read_text(encoding="utf-8"))
        index = definitions["indexDefinitions"]["record_index"]
        assert index["indexOptions"]["isPartitioned"] == ("true" if layout == "partitioned" else "false")
    Table(path).drop_index("record_index")
    Table(path).upsert(rows(range(45, 55), 5))
    metadata = Table(path).metadata_table
    assert metadata is not None
    assert "record_index" not in metadata.partitions
