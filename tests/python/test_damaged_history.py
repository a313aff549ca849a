"""Files of the history that are gone, zeroed or not what the manifest says: verify names them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
OPTIONS = {
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.clean.commits.retained": "1",
    # Archiving would wait for its compaction.
    "hoodie.metadata.enable": "false",
}


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """The history folder of a table with archived instants; the first write's file group has no later one."""
    path = tmp_path / "t"
    hoodoo.Table.create(str(path), SCHEMA, name="t", record_key="id")
    table = hoodoo.Table(str(path), options={**OPTIONS, "hoodie.parquet.small.file.limit": "0"})
    table.insert({"id": [1], "v": [0]})
    for v in range(12):
        table.upsert({"id": [2], "v": [v]})
    table.archive()
    folder = path / ".hoodie" / "timeline" / "history"
    assert len(list(folder.glob("*.parquet"))) > 1
    assert not _errors(folder)
    return folder


def _errors(history: Path) -> list[str]:
    problems = hoodoo.Table(str(history.parents[2])).verify().problems
    return [f"{p.subject}: {p.message}" for p in problems if p.severity == "error"]


def _newest_manifest(history: Path) -> Path:
    return max(history.glob("manifest_*"), key=lambda p: int(p.name.split("_")[1]))


def _zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("harm", [Path.unlink, _zero, _halve, _empty])
@pytest.mark.parametrize("what", ["file", "manifest"])
def test_a_damaged_file_is_named(history: Path, what: str, harm: Callable[[Path], None]) -> None:
    damaged = _newest_manifest(history) if what == "manifest" else min(history.glob("*.parquet"))
    harm(damaged)
    assert any(damaged.name in e for e in _errors(history)), _errors(history)


@pytest.mark.parametrize("content", ["", "x", "999", "1"])
def test_the_version_is_that_of_the_manifest(history: Path, content: str) -> None:
    (history / "_version_").write_text(content)
    assert any("_version_" in e or f"manifest_{content}:" in e for e in _errors(history)), _errors(history)


def test_files_do_not_stand_in_for_each_other(history: Path) -> None:
    one, two = sorted(history.glob("*.parquet"))[:2]
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    assert any(one.name in e for e in _errors(history))


def test_a_base_file_of_an_archived_commit_is_missed(history: Path) -> None:
    table = history.parents[2]
    oldest = min(table.glob("*.parquet"), key=lambda p: p.stem.rsplit("_", 1)[1])
    oldest.unlink()
    assert any(oldest.name in e and "is missing" in e for e in _errors(history))
