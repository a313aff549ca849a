"""Repairs of what `verify` finds."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import hoodoo
from hoodoo import Table
from hoodoo.cli.commands import app

_SCHEMA = {"id": pa.string(), "part": pa.string(), "n": pa.int64()}
_HOURS = 2 * 3600


def _table(path: Path, table_type: str = "COPY_ON_WRITE") -> Table:
    table = Table.create(path, _SCHEMA, name="t", record_key="id", partition_by="part", table_type=table_type)
    table.insert({"id": ["a", "b"], "part": ["p", "q"], "n": [1, 1]})
    table.upsert({"id": ["a"], "part": ["p"], "n": [2]})
    return table


def _rows(table: Table) -> dict[str, int]:
    return {row["id"]: row["n"] for row in table.to_arrow().to_pylist()}


def _old(file: Path) -> None:
    then = time.time() - _HOURS
    os.utime(file, (then, then))


def _orphan(path: Path) -> None:
    (base, *_) = (path / "p").glob("*.parquet")
    name = base.name.rsplit("_", 1)[0] + "_29990101000000000.parquet"
    shutil.copy(base, path / "p" / name)
    _old(path / "p" / name)


def _change_data(path: Path) -> None:
    """As a rollback by Hudi leaves it."""
    file = path / "p" / ".5f0a8fd2-6c0e-4a55-9e0b-6a3c4a2a5a11-0_29990101000000000.log.1_0-1-2.cdc"
    file.write_bytes(b"#HUDI#")
    _old(file)


def _markers(path: Path) -> None:
    folder = path / ".hoodie" / ".temp" / "20200101000000000" / "p"
    folder.mkdir(parents=True)
    (folder / "x.parquet.marker.CREATE").touch()


def _failed_write(path: Path) -> None:
    newest = max((path / ".hoodie" / "timeline").glob("*_*.*commit"), key=lambda file: file.name)
    newest.unlink()
    (path / ".hoodie" / ".temp" / newest.name.split("_")[0] / "p").mkdir(parents=True)


def _properties(path: Path) -> None:
    shutil.copy(path / ".hoodie" / "hoodie.properties", path / ".hoodie" / "hoodie.properties.backup")


def _partition(path: Path) -> None:
    (path / "q" / ".hoodie_partition_metadata").unlink()


def _depth(path: Path) -> None:
    (path / "q" / ".hoodie_partition_metadata").write_text("commitTime=1\npartitionDepth=7\n", encoding="utf-8")


def _metadata_table(path: Path) -> None:
    for file in (path / ".hoodie" / "metadata" / "files").glob(".files*"):
        file.write_bytes(file.read_bytes()[:-30])


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(
    ("damage", "action"),
    [
        (_orphan, "delete the file"),
        (_change_data, "delete the file"),
        (_markers, "roll back what failed"),
        (_properties, "end the change of the properties"),
        (_partition, "write the metadata of the partition"),
        (_depth, "write the metadata of the partition"),
        (_metadata_table, "make the metadata table anew"),
    ],
)
def test_what_is_repaired(tmp_path: Path, table_type: str, damage: object, action: str) -> None:
    path = tmp_path / "t"
    table = _table(path, table_type)
    assert callable(damage)
    damage(path)
    found = Table(path).verify()
    assert found.problems
    before = sorted((str(file), file.stat().st_mtime_ns) for file in path.rglob("*") if file.is_file())
    dry = Table(path).repair(dry_run=True)
    assert {repair.action for repair in dry.repairs} == {action}
    assert sorted((str(file), file.stat().st_mtime_ns) for file in path.rglob("*") if file.is_file()) == before
    done = Table(path).repair()
    assert {repair.action for repair in done.repairs} == {action}
    assert not done.left.problems
    assert _rows(table) == {"a": 2, "b": 1}
    table.upsert({"id": ["b"], "part": ["q"], "n": [3]})
    assert _rows(table) == {"a": 2, "b": 3}
    assert not table.verify().problems


def test_a_failed_write(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = _table(path)
    _failed_write(path)
    done = Table(path).repair()
    assert "roll back what failed" in {repair.action for repair in done.repairs}
    assert not done.left.problems
    assert _rows(table) == {"a": 1, "b": 1}


def test_a_live_write_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = _table(path)
    _orphan(path)
    _failed_write(path)
    newest = max(i.requested for i in Table(path).timeline.instants())
    heartbeat = path / ".hoodie" / ".heartbeat" / newest
    heartbeat.parent.mkdir(exist_ok=True)
    heartbeat.touch()
    files = sorted(path.rglob("*.parquet"))
    done = Table(path).repair()
    assert not done.repairs
    assert sorted(path.rglob("*.parquet")) == files
    assert [i.requested for i in table.timeline.instants(state="INFLIGHT")] == [newest]


def test_a_young_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "t"
    _table(path)
    _orphan(path)
    (orphan,) = path.rglob("*_2999*.parquet")
    os.utime(orphan)
    assert not Table(path).repair().repairs
    assert orphan.exists()


def test_what_is_not_repaired_stays_named(tmp_path: Path) -> None:
    path = tmp_path / "t"
    _table(path)
    file = max((path / "p").glob("*.parquet"), key=lambda one: one.name.rsplit("_", 1)[1])
    file.unlink()
    done = Table(path).repair()
    assert not done.left.ok
    assert any(file.name in problem.subject for problem in done.left.problems)


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "t"
    _table(path)
    _markers(path)
    runner = CliRunner()
    dry = runner.invoke(app, ["verify", str(path), "--repair", "--dry-run"])
    assert dry.exit_code == 0
    assert "would be repaired: roll back what failed" in dry.output
    done = json.loads(runner.invoke(app, ["verify", str(path), "--repair", "--json"]).output)
    assert (done["ok"], [one["action"] for one in done["repairs"]]) == (True, ["roll back what failed"])
    assert runner.invoke(app, ["verify", str(path), "--dry-run"]).exit_code != 0
    assert "nothing that can be repaired" in runner.invoke(app, ["verify", str(path), "--repair"]).output
    assert isinstance(Table(path).repair(), hoodoo.RepairReport)
