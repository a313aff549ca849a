"""Log files that are gone, shorter or longer than a commit says, or no files at all."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two log files over one base file."""
    path = tmp_path / "t"
    options = {"hoodie.metadata.enable": "false"}
    table = hoodoo.Table.create(
        str(path), SCHEMA, name="t", record_key="id", table_type="MERGE_ON_READ", options=options
    )
    table.insert({"id": list(range(5)), "v": [0] * 5})
    table.upsert({"id": [1, 2], "v": [1, 1]})
    table.upsert({"id": [1, 3], "v": [2, 2]})
    return path


def _values(table: Path, **options: str) -> list[int]:
    read = hoodoo.Table(str(table), options=options).to_arrow(columns=["id", "v"]).sort_by("id")
    values: list[int] = read["v"].to_pylist()
    return values


def _logs(table: Path) -> list[Path]:
    return sorted(table.glob(".*.log.*"))


def _errors(table: Path) -> list[str]:
    return [f"{p.subject}: {p.message}" for p in hoodoo.Table(str(table)).verify().problems if p.severity == "error"]


def test_the_newest_log_is_missed(table: Path) -> None:
    log = _logs(table)[1]
    log.unlink()
    with pytest.raises(hoodoo.CorruptFileError, match="wrote this log file, but it is missing") as caught:
        _values(table)
    assert log.name in str(caught.value)
    assert any(log.name in e for e in _errors(table))


def test_verify_misses_any_log(table: Path) -> None:
    log = _logs(table)[0]
    log.unlink()
    assert any(log.name in e and "is missing" in e for e in _errors(table))


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("harm", ["empty", "half", "garbage"])
def test_a_changed_log_is_an_error(table: Path, which: int, harm: str) -> None:
    log = _logs(table)[which]
    content = log.read_bytes()
    log.write_bytes({"empty": b"", "half": content[: len(content) // 2], "garbage": content + b"garbage" * 10}[harm])
    with pytest.raises(hoodoo.CorruptFileError) as caught:
        _values(table)
    assert log.name in str(caught.value)
    assert any(log.name in e for e in _errors(table))


def test_what_is_left_of_a_log_is_read_on_request(table: Path) -> None:
    log = _logs(table)[0]
    log.write_bytes(log.read_bytes()[:-1])
    with pytest.raises(hoodoo.CorruptFileError, match=r"skip\.corrupt\.blocks"):
        _values(table)
    assert _values(table, **{"hoodoo.log.skip.corrupt.blocks": "true"}) == [0, 2, 0, 2, 0]


def test_a_log_that_no_commit_names_is_passed_over(table: Path) -> None:
    """What a task that failed left behind: Hudi passes over it, and so do we."""
    log = _logs(table)[0]
    (table / (log.name + "9")).write_bytes(log.read_bytes()[:-1])
    assert _values(table) == [0, 2, 1, 2, 0]


def test_logs_do_not_stand_in_for_each_other(table: Path) -> None:
    one, two = _logs(table)
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    with pytest.raises(hoodoo.CorruptFileError, match="a block of the instant"):
        _values(table)


def test_rows_of_another_file_group_are_found(tmp_path: Path) -> None:
    path = tmp_path / "t"
    schema = pa.schema([("id", pa.int64()), ("part", pa.string())])
    table = hoodoo.Table.create(
        str(path), schema, name="t", record_key="id", partition_by=["part"], table_type="MERGE_ON_READ"
    )
    for _ in range(2):
        table.upsert({"id": [1, 2], "part": ["a", "b"]})
    one, two = sorted(path.glob("?/.*.log.*"))
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    assert any("_hoodie_partition_path of a row of the file group is" in e for e in _errors(path))


def test_logs_that_were_compacted_and_cleaned_are_not_missed(table: Path) -> None:
    compacted = hoodoo.Table(str(table), options={"hoodie.clean.commits.retained": "1"})
    compacted.compact()
    for v in range(3, 8):
        compacted.upsert({"id": [1], "v": [v]})
        compacted.compact()
    assert _values(table) == [0, 7, 1, 2, 0]
    assert not _errors(table)


def test_a_base_file_that_is_gone_is_missed(table: Path) -> None:
    (base,) = table.glob("*.parquet")
    base.unlink()
    with pytest.raises(hoodoo.CorruptFileError, match="but no base file"):
        _values(table)
    assert any(base.name in e and "is missing" in e for e in _errors(table))


def test_a_completed_instant_that_is_gone_is_missed(table: Path) -> None:
    newest = max((table / ".hoodie" / "timeline").glob("*.deltacommit"))
    newest.unlink()
    assert any("no markers, so it completed" in e for e in _errors(table))


@pytest.mark.parametrize("what", ["log", "base", "commit"])
def test_only_files_are_opened(table: Path, what: str) -> None:
    """A pipe: to open it would wait for ever, to read it gives nothing."""
    found = {
        "log": _logs(table)[0],
        "base": next(table.glob("*.parquet")),
        "commit": max((table / ".hoodie" / "timeline").glob("*.deltacommit")),
    }
    found[what].unlink()
    os.mkfifo(found[what])
    with pytest.raises(hoodoo.CorruptFileError, match="not a regular file"):
        _values(table)
    assert _errors(table)


def test_a_pipe_in_a_partition_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t"
    schema = pa.schema([("id", pa.int64()), ("part", pa.string()), ("v", pa.int64())])
    table = hoodoo.Table.create(
        str(path), schema, name="t", record_key="id", partition_by=["part"], table_type="MERGE_ON_READ"
    )
    for v in range(3):
        table.upsert({"id": [1], "part": ["a"], "v": [v]})
    log = min((path / "a").glob(".*.log.*"))
    log.unlink()
    os.mkfifo(log)
    with pytest.raises(hoodoo.CorruptFileError, match="not a regular file"):
        _values(path)
