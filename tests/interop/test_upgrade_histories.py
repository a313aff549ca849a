"""Random tables of version 6 of real Hudi, upgraded by us and by Hudi: the same rows, properties and timeline."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodoo import Table
from tests.fixtures.upgrade.record import OPTIONS, fail, rows
from tests.interop.hudi import Hudi
from tests.rows import Row, arrow_rows, plain_rows
from tests.upgrade_fixtures import properties

_ALL = 60
_QUICK = 45
_TURNS = 9
_KEYS = 30
_WITH_METADATA: dict[str, Any] = {"hoodie.metadata.enable": "true"}
_QUIET = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
}
_PARTITIONS = "hoodie.table.metadata.partitions"
# The time of each key's row.
Model = dict[int, int]


def _data(keys: list[int], ts: int) -> pa.Table:
    return pa.concat_tables(rows(range(key, key + 1), ts) for key in keys)


def _rows_of(model: Model) -> list[Row]:
    return plain_rows(row for key, ts in model.items() for row in rows(range(key, key + 1), ts).to_pylist())


class _History:
    """A table of version 6, and what it ought to hold."""

    def __init__(self, hudi: Hudi, path: Path, seed: int) -> None:
        self.hudi, self.path, self.chance = hudi, path, random.Random(seed)
        self.is_merge_on_read = seed % 2 == 1
        self.with_metadata = seed // 2 % 2 == 1
        self.model: Model = {}
        self.done: list[str] = []
        table_type = "MERGE_ON_READ" if self.is_merge_on_read else "COPY_ON_WRITE"
        self.options = {
            **OPTIONS,
            "hoodie.table.name": path.name,
            "hoodie.datasource.write.table.type": table_type,
            "hoodie.metadata.enable": str(self.with_metadata).lower(),
            # Else Hudi's inserts double keys.
            "hoodie.merge.allow.duplicate.on.inserts": "false",
            "hoodie.clustering.plan.strategy.small.file.limit": "10000000",
        }
        if self.chance.random() < 0.3:
            # Nothing is archived.
            self.options |= {"hoodie.keep.min.commits": "40", "hoodie.keep.max.commits": "50"}

    def _write(self, operation: str, keys: list[int], ts: int, **options: str) -> None:
        self.done.append(f"{operation} {keys} {ts} {sorted(options)}")
        self.hudi.write(_data(keys, ts), self.path, operation, **{**self.options, **options})

    def _some(self) -> list[int]:
        return sorted(self.chance.sample(range(_KEYS), self.chance.randint(1, 9)))

    def _services(self) -> dict[str, str]:
        kinds = [{}, {}, {}, {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}]
        if self.is_merge_on_read:
            kinds += 2 * [{"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}]
        return self.chance.choice(kinds)

    def write(self) -> None:
        """Let Hudi write a table, leave a plan and a failed write behind, or not."""
        self.model = dict.fromkeys(range(15), 1)
        self._write("insert", list(self.model), 1)
        for turn in range(_TURNS):
            self._turn(10 + turn)
        ending = self.chance.choice(["", "compaction", "clustering", "failed", "failed"])
        if ending == "compaction" and self.is_merge_on_read:
            planned = {"hoodie.compact.schedule.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
            self._upsert(30, **_QUIET, **planned)
            self._upsert(31, **_QUIET)
        if ending == "clustering":
            planned = {"hoodie.clustering.schedule.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
            self._upsert(30, **_QUIET, **planned)
        self.failed = ""
        if ending == "failed":
            self._write("upsert", self._some(), 40, **_QUIET)
            self.failed = fail(self.path)
            self.done.append(f"failed {self.failed}")

    def _upsert(self, ts: int, **options: str) -> None:
        keys = self._some()
        self.model |= dict.fromkeys(keys, ts)
        self._write("upsert", keys, ts, **options)

    def _turn(self, ts: int) -> None:
        kind = self.chance.choice(["upsert"] * 4 + ["late", "delete", "insert", "overwrite"])
        if kind == "upsert":
            self._upsert(ts, **self._services())
        elif kind == "late":
            keys = [key for key in self._some() if key in self.model]
            if keys:
                self._write("upsert", keys, 0, **self._services())
        elif kind == "delete":
            keys = self._some()
            for key in keys:
                self.model.pop(key, None)
            self._write("delete", keys, ts)
        elif kind == "insert":
            keys = list(range(1000 + ts * 10, 1000 + ts * 10 + 4))
            self.model |= dict.fromkeys(keys, ts)
            self._write("insert", keys, ts)
        else:
            keys = self._some()
            partitions = {key % 2 for key in keys}
            kept = {key: at for key, at in self.model.items() if key % 2 not in partitions}
            self.model = kept | dict.fromkeys(keys, ts)
            self._write("insert_overwrite", keys, ts)

    def go_on(self, path: Path, to: int) -> None:
        """Both sides write to what we upgraded, and read the same."""
        options = {**self.options, "hoodie.write.table.version": str(to)}
        if Table(path).pending_clusterings():
            assert Table(path).cluster() is not None
            self.compare(path)
        for ts in (100, 102):
            theirs, ours = self._some(), self._some()
            self.hudi.write(_data(theirs, ts), path, "upsert", **options)
            Table(path).upsert(_data(ours, ts + 1))
            self.model |= dict.fromkeys(theirs, ts)
            self.model |= dict.fromkeys(ours, ts + 1)
            self.compare(path)
        if self.is_merge_on_read:
            Table(path).compact()
            self.compare(path)

    def compare(self, path: Path) -> None:
        """Everybody reads what ought to be there."""
        expected = _rows_of(self.model)
        assert arrow_rows(Table(path).to_arrow()) == expected, "ours"
        assert arrow_rows(Table(path, {"hoodie.metadata.enable": "false"}).to_arrow()) == expected, "ours, by listing"
        assert self.hudi.read(path) == expected, "Hudi"
        assert self.hudi.read(path, **_WITH_METADATA) == expected, "Hudi, by the metadata table"
        assert Table(path).verify().problems == ()


def _actions(path: Path) -> set[tuple[str, str]]:
    """Requested time and action of what is completed, by names on the timeline."""
    names = [file.name for file in (path / ".hoodie" / "timeline").iterdir() if file.suffix != ".crc"]
    return {(name.split("_")[0], name.rsplit(".", 1)[1]) for name in names if "_" in name}


def _comparable(path: Path) -> dict[str, str]:
    found = properties(path)
    # We build the statistics of partitions with those of columns, as version 9 has them.
    found.pop(_PARTITIONS, None)
    return {key: value for key, value in found.items() if not key.endswith("checksum")}


def _copy(path: Path, name: str) -> Path:
    return shutil.copytree(path, path.with_name(f"{path.name}_{name}"), copy_function=shutil.copy2)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [pytest.param(n, marks=() if n == _QUICK else pytest.mark.slow) for n in range(_ALL)])
def test_upgrade(hudi: Hudi, tmp_path: Path, seed: int) -> None:
    history = _History(hudi, tmp_path / f"six_{seed}", seed)
    try:
        history.write()
        path, to = history.path, 8 if seed % 5 == 0 else 9
        assert Table(path).version == 6
        assert hudi.read(path) == arrow_rows(Table(path).to_arrow()) == _rows_of(history.model), "before"
        before = {one.requested for one in Table(path).timeline.instants(history=True)}
        ours, theirs = _copy(path, "ours"), _copy(path, "theirs")
        done = Table(ours).upgrade(to)
        assert (done.version_before, done.version_after) == (6, to)
        hudi.sql(f"create table {theirs.name} using hudi location '{theirs}'")
        hudi.sql(f"call upgrade_table(table => '{theirs.name}', to_version => '{'EIGHT' if to == 8 else 'NINE'}')")
        assert _comparable(ours) == _comparable(theirs), "properties"
        different = _actions(ours) ^ _actions(theirs)
        # The rollback of the failed write, which each makes when it runs; a planned compaction, which we execute.
        assert {action for _, action in different} <= {"rollback", "commit", "indexing"}, different
        left = {one.requested for one in Table(ours).timeline.instants(history=True)}
        assert before - left <= {history.failed}
        history.compare(ours)
        history.go_on(ours, to)
    except Exception as error:
        raise AssertionError(f"seed {seed}, {history.options}: {history.done}") from error
