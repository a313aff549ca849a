"""Upgrades of tables that real Hudi wrote, compared with what Hudi's own upgrade made of copies of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import hoodoo
from hoodoo import Table
from hoodoo.cli.commands import app
from tests.rows import arrow_rows
from tests.upgrade_fixtures import NAMES, expected, properties, unpack

_NAMES = pytest.mark.parametrize("name", NAMES)
_PARTITIONS = "hoodie.table.metadata.partitions"


def _comparable(rows: Any) -> Any:
    return json.loads(json.dumps(rows, default=str))


def _rows(path: Path) -> Any:
    return _comparable(arrow_rows(Table(path).to_arrow()))


def _actions(names: list[str]) -> set[tuple[str, str]]:
    """Requested time and final action of completed actions."""
    completed = [name for name in names if "_" in name]
    return {(name.split("_")[0], name.rsplit(".", 1)[1]) for name in completed}


def _names(path: Path) -> list[str]:
    timeline = path / ".hoodie" / "timeline"
    return sorted(file.name for file in timeline.iterdir() if file.is_file() and file.suffix != ".crc")


@_NAMES
@pytest.mark.parametrize("to", [8, 9])
def test_it_becomes_what_hudi_makes_of_it(tmp_path: Path, name: str, to: int) -> None:
    path, hudis = unpack(name, tmp_path / "t"), expected(name)
    assert _rows(path) == hudis["rows"]
    plan = Table(path).plan_upgrade(to)
    assert (plan.version_before, plan.version_after) == (6, to)
    assert plan.writes_to_roll_back == (hudis["failed"],)
    before = properties(path)
    history = {i.requested for i in Table(path).timeline.instants(history=True)}
    done = Table(path).upgrade(to)
    assert (done.version_before, done.version_after, done.warnings) == (6, to, ())
    assert done.rolled_back == (hudis["failed"],)
    assert _rows(path) == hudis["rows"]
    # By Hudi's upgrade a row that the latest write gave goes back to an earlier one: it compacts by another rule.
    assert (hudis[str(to)]["rows"] == hudis["rows"]) is (name != "latest")
    after = properties(path)
    # We build the statistics of partitions with those of columns, as version 9 has them.
    assert after.pop(_PARTITIONS, None) in {None, "", "column_stats,files,partition_stats"}
    theirs = hudis[str(to)]["properties"]
    theirs.pop(_PARTITIONS, None)
    ours = {key: value for key, value in after.items() if not key.endswith("checksum")}
    assert ours == {key: value for key, value in theirs.items() if not key.endswith("checksum")}
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    assert {c.key: c.new for c in plan.properties if c.new is not None} == changed
    # The same actions; and the rollback of the failed write, which each makes when it runs.
    ours_timeline, theirs_timeline = _actions(_names(path)), _actions(hudis[str(to)]["timeline"])
    added = {action for _, action in ours_timeline - theirs_timeline}
    assert added <= {"rollback", "commit", "indexing"}, ours_timeline ^ theirs_timeline
    assert {action for _, action in theirs_timeline - ours_timeline} <= {"rollback", "commit"}
    left = {i.requested for i in Table(path).timeline.instants(history=True)}
    assert history - left == {hudis["failed"]}
    assert not Table(path).verify().problems
    assert not [file for file in (path / ".hoodie").iterdir() if file.name.startswith("2")]
    assert Table(path).upgrade(to).version_before == to


@_NAMES
def test_times_of_completion_are_those_of_hudi(tmp_path: Path, name: str) -> None:
    path = unpack(name, tmp_path / "t")
    theirs = {n for n in expected(name)["8"]["timeline"] if "_" in n}
    Table(path).upgrade(8)
    ours = {n for n in _names(path) if "_" in n}
    both = {n.split("_")[0] for n in theirs} & {n.split("_")[0] for n in ours}
    assert len(both) > 5
    assert {n for n in ours if n.split("_")[0] in both} == {n for n in theirs if n.split("_")[0] in both}


@_NAMES
def test_a_copy_of_a_table(tmp_path: Path, name: str) -> None:
    """Its files do not say when actions completed: by the times of the copy, old logs would be of new slices."""
    path = unpack(name, tmp_path / "t", copied=True)
    before = _rows(path)
    changes = Table(path).plan_upgrade()
    assert changes.version_after == 9
    Table(path).upgrade()
    assert _rows(path) == before
    assert not Table(path).verify().problems
    newest = max(i.requested for i in Table(path).timeline.instants(action="commit"))
    for instant in Table(path).timeline.instants():
        assert instant.completed is not None
        assert instant.completed >= instant.requested
        if instant.action == "deltacommit" and instant.requested < newest:
            assert instant.completed < newest


@_NAMES
@pytest.mark.parametrize("initial", ["8", "9"])
def test_a_table_that_hudi_had_downgraded(tmp_path: Path, name: str, initial: str) -> None:
    """Hudi's downgrade leaves `hoodie.table.initial.version` as it was; its upgrade sets it."""
    path = unpack(name, tmp_path / "t")
    file = path / ".hoodie" / "hoodie.properties"
    kept = [line for line in file.read_text().splitlines() if "initial.version" not in line]
    file.write_text("\n".join([*kept, f"hoodie.table.initial.version={initial}", ""]))
    Table(path).upgrade()
    assert properties(path)["hoodie.table.initial.version"] == "6"
    assert _rows(path) == expected(name)["rows"]


@_NAMES
def test_it_is_written_afterwards(tmp_path: Path, name: str) -> None:
    path = unpack(name, tmp_path / "t")
    rows = pa.table({"id": ["k003", "new"], "part": ["p1", "p0"], "ts": [500, 500], "name": ["later", "new"]})
    with pytest.raises(hoodoo.UnsupportedError, match="upgrade"):
        Table(path).upsert(rows)
    before = {row["id"]: row["name"] for row in Table(path).to_arrow().to_pylist()}
    commit = Table(path, {"hoodie.write.auto.upgrade": "true"}).upsert(rows)
    assert Table(path).version == 9
    after = {row["id"]: row["name"] for row in Table(path).to_arrow().to_pylist()}
    assert after == before | {"k003": "later", "new": "new"}
    assert (commit.inserted, commit.updated) == ((1, 1) if "k003" in before else (2, 0))
    assert not Table(path).verify().problems


def test_a_finished_upgrade_that_left_its_note(tmp_path: Path) -> None:
    """Its process was killed at the very end. The metadata table is in use since, and stays when it is done again."""
    path = unpack("mor", tmp_path / "t")
    assert Table(path).upgrade(9).metadata_partitions
    Table(path).upsert({"id": ["new"], "part": ["p0"], "ts": [500], "name": ["new"]})
    rows = _rows(path)
    note = path / ".hoodie" / ".aux" / "upgrade.json"
    note.parent.mkdir(exist_ok=True)
    note.write_text('{"from": 6, "metadata_partitions": ["files"]}', encoding="utf-8")
    # Without this option, the metadata table is made anew at the end.
    Table(path, {"hoodie.metadata.enable": "false"}).upgrade(9)
    assert not note.exists()
    assert _rows(path) == rows
    assert not Table(path).verify().problems


def test_a_live_writer_is_respected(tmp_path: Path) -> None:
    path = unpack("cow", tmp_path / "t")
    heartbeat = path / ".hoodie" / ".heartbeat" / expected("cow")["failed"]
    heartbeat.parent.mkdir(exist_ok=True)
    heartbeat.touch()
    before = sorted(str(file) for file in path.rglob("*"))
    with pytest.raises(hoodoo.ConflictError, match="another writer"):
        Table(path).upgrade()
    assert sorted(str(file) for file in path.rglob("*") if not file.name.startswith(".hoodoo")) == before
    heartbeat.unlink()
    assert Table(path).upgrade().version_after == 9


def test_an_upgrade_that_hudi_did_not_end(tmp_path: Path) -> None:
    """Hudi moves one file after the other."""
    path = unpack("cow", tmp_path / "t")
    timeline = path / ".hoodie" / "timeline"
    timeline.mkdir(exist_ok=True)
    moved = next((path / ".hoodie").glob("*.clean.requested"))
    shutil.move(moved, timeline / moved.name)
    with pytest.raises(hoodoo.UnsupportedError, match="upgrade by Hudi began"):
        Table(path).upgrade()
    assert Table(path).version == 6


def test_what_is_refused(tmp_path: Path) -> None:
    path = unpack("cow", tmp_path / "t")
    for to in (6, 7, 10):
        with pytest.raises(hoodoo.InvalidOptionError, match="Upgrade to 8 or 9"):
            Table(path).upgrade(to)
    stored = path / ".hoodie" / "hoodie.properties"
    text = stored.read_text(encoding="utf-8")
    stored.write_text(text.replace("keygenerator.type=SIMPLE", "keygenerator.type=COMPLEX"), encoding="utf-8")
    with pytest.raises(hoodoo.InvalidOptionError, match=r"complex\.keygen\.validation"):
        Table(path).upgrade()
    Table(path, {"hoodie.write.complex.keygen.validation.enable": "false"}).upgrade()
    with pytest.raises(hoodoo.UnsupportedError, match="downgrade_table"):
        Table(path).upgrade(8)


def test_a_damaged_instant_changes_nothing(tmp_path: Path) -> None:
    path = unpack("cow", tmp_path / "t")
    damaged = min((path / ".hoodie").glob("*.commit"))
    damaged.write_bytes(damaged.read_bytes()[:100])
    kept = properties(path)
    with pytest.raises(hoodoo.CorruptFileError, match="commit"):
        Table(path).upgrade()
    assert properties(path) == kept
    assert sorted((path / ".hoodie").glob("*.commit"))


def test_version_8(tmp_path: Path) -> None:
    """From 8 to 9 the rule of merging may change: logs are compacted by the old one."""
    payload = "org.apache.hudi.common.model.OverwriteNonDefaultsWithLatestAvroPayload"
    options = {"hoodie.write.table.version": "8", "hoodie.datasource.write.payload.class": payload}
    schema = {"id": pa.string(), "ts": pa.int64(), "name": pa.string()}
    table = Table.create(
        tmp_path / "t", schema, name="t", record_key="id", ordering="ts", table_type="MERGE_ON_READ", options=options
    )
    table.insert({"id": ["a", "b"], "ts": [1, 1], "name": ["a1", "b1"]})
    table.upsert({"id": ["a", "b"], "ts": [5, 0], "name": pa.array([None, "b0"], pa.string())})
    before = arrow_rows(table.to_arrow())
    done = table.upgrade()
    assert len(done.compactions) == 1
    assert arrow_rows(Table(tmp_path / "t").to_arrow()) == before
    stored = properties(tmp_path / "t")
    assert stored["hoodie.record.merge.mode"] == "COMMIT_TIME_ORDERING"
    assert stored["hoodie.table.partial.update.mode"] == "IGNORE_DEFAULTS"
    assert "hoodie.compaction.payload.class" not in stored
    metadata = tmp_path / "t" / ".hoodie" / "metadata"
    assert properties(metadata)["hoodie.table.version"] == "9"
    table.upsert({"id": ["a"], "ts": [2], "name": ["a2"]})
    assert not table.verify().problems


def test_the_command(tmp_path: Path) -> None:
    path = unpack("mor", tmp_path / "t")
    runner = CliRunner()
    dry = runner.invoke(app, ["upgrade", str(path), "--dry-run"])
    assert dry.exit_code == 0
    assert "version 6 → 9" in dry.output
    assert "hoodie.table.version: 6 → 9" in dry.output
    assert Table(path).version == 6
    done = runner.invoke(app, ["upgrade", str(path)])
    assert done.exit_code == 0
    assert expected("mor")["failed"] in done.output
    assert "nothing to do" in runner.invoke(app, ["upgrade", str(path)]).output


def test_superseded_log_files(tmp_path: Path) -> None:
    """Hudi would read them on top of newer base files once their instants are archived."""
    path = unpack("latest", tmp_path / "t")
    older = {file.name for file in path.glob("p*/.*.log.*")}
    before = _rows(path)
    Table(path).upgrade()
    assert _rows(path) == before
    assert len(older) > 3
    assert not [file for file in path.glob("p*/.*.log.*") if file.name in older]
