"""Random histories of tables with a metadata table, by both sides in turns, read the same with it and without it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from hoodoo import Table
from tests.interop.hudi import Hudi
from tests.interop.metadata_tables import stored_files
from tests.interop.test_writing_metadata import Turns, rows
from tests.record_index import BUILD, WITHOUT_STATISTICS, index_of, stored_keys

_QUICK = 1
_ALL = 200

# Often enough that its services run within a history.
_SERVICES = {
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
}


class _History:
    """A table, and how a side changes it next."""

    def __init__(self, hudi: Hudi, path: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        table_type = self.chance.choice(["COPY_ON_WRITE", "MERGE_ON_READ"])
        self.turns = Turns(hudi, path, table_type, self.chance.choice(["9", "9", "8"]))
        self.indexes: dict[str, str] = {}
        if self.chance.random() < 0.4:
            self.indexes["hoodie.metadata.index.bloom.filter.enable"] = "true"
        self.record_index: str | None = None
        if seed % 3 == 2:
            self.record_index = self.chance.choice(sorted(BUILD))
            self.indexes |= BUILD[self.record_index] | WITHOUT_STATISTICS
            self.turns.options["hoodie.index.type"] = self.record_index
        self.turns.options.update(_SERVICES | self.indexes)
        self.turns.ours_options.update(_SERVICES | self.indexes)
        self.is_merge_on_read = table_type == "MERGE_ON_READ"
        self.done: list[str] = []

    def begin(self) -> None:
        data = rows(range(30), 1)
        if self.chance.random() < 0.5:
            self.turns.theirs(data, "insert", mode="overwrite")
        else:
            self.turns.create(data.schema)
            self.turns.ours("insert", data)

    def step(self, turn: int) -> None:
        at = self.chance.randrange(40)
        keys = range(at, at + self.chance.randint(1, 12))
        steps = ["upsert"] * 5 + ["delete", "delete", "insert", "insert_overwrite"]
        services = ["cluster"] + ["compact", "log_compact"] * self.is_merge_on_read
        services += ["rebuild_metadata_table", "drop_partition"]
        name = self.chance.choice([*steps, *services])
        new = range(1000 + 20 * turn, 1000 + 20 * turn + 5)
        data = rows(new if name == "insert" else keys, self.chance.randint(1, 20))
        theirs = name in steps and self.chance.random() < 0.45
        if self.record_index is not None:
            self.turns.ours_options["hoodie.index.type"] = self.chance.choice(["SIMPLE", self.record_index])
        self.done.append(f"{'their' if theirs else 'our'} {name} {keys}")
        if theirs:
            self.turns.theirs(data, name)
        elif name == "drop_partition":
            self.turns.ours("delete_partitions", [self.chance.choice(data["part"].to_pylist())])
        elif name in steps:
            self.turns.ours(name, data)
        else:
            self.turns.ours(name)
        if self.record_index is not None:
            path = self.turns.path
            assert index_of(path) == stored_keys(path), "the record index"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [pytest.param(n, marks=() if n < _QUICK else pytest.mark.slow) for n in range(_ALL)])
def test_history(hudi: Hudi, tmp_path: Path, seed: int) -> None:
    history = _History(hudi, tmp_path / f"history_{seed}", seed)
    path = history.turns.path
    history.begin()
    try:
        for turn in range(9):
            history.step(turn)
    except (AssertionError, Exception) as e:
        raise AssertionError(f"seed {seed}, {history.turns.options}: {history.done}") from e
    history.turns.compare("all", is_last=True)
    metadata = Table(path).metadata_table
    assert metadata is not None
    listed = {row["file_name"]: row["size"] for row in metadata.to_arrow("files").to_pylist()}
    on_disk = {name.rsplit("/", 1)[-1]: size for name, size in stored_files(path).items()}
    assert listed == on_disk, history.done
    hudi.sql(f"create table if not exists {path.name} using hudi location '{path}'")
    assert hudi.sql(f"call validate_metadata_table_files(table => '{path.name}')") == [], history.done
