"""A commit that stands is returned, and what went wrong behind it is said: whoever tries again would write twice."""

from __future__ import annotations

import warnings
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.cli import commands, render

SCHEMA = pa.schema({"id": pa.int64(), "n": pa.int64()})
FAILING_CLUSTERING = {
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.plan.strategy.sort.columns": "nope",
}
BROKEN_MANIFEST = ("manifest_1", "_version_")


def _create(uri: Path | str, table_type: str = "COPY_ON_WRITE", **options: object) -> hoodoo.Table:
    return hoodoo.Table.create(
        str(uri), SCHEMA, name="t", record_key="id", table_type=table_type, options=options or None
    )


def _break_history(table: Path) -> None:
    history = table / ".hoodie" / "timeline" / "history"
    history.mkdir(parents=True, exist_ok=True)
    for name in BROKEN_MANIFEST:
        (history / name).write_text("1" if name == "_version_" else "broken")


def test_an_insert_whose_clustering_fails_is_committed_once(tmp_path: Path):
    table = hoodoo.Table(_create(tmp_path / "t").uri, options=FAILING_CLUSTERING)
    with pytest.warns(hoodoo.HudiWarning, match="the commit succeeded, but clustering after it failed") as told:
        commit = table.insert({"id": [1], "n": [1]})
    assert [str(warning.message) for warning in told] == list(commit.warnings)
    assert told[0].filename == __file__
    assert "nope" in commit.warnings[0]
    assert table.to_arrow(columns=["id"]).to_pylist() == [{"id": 1}]
    assert (commit.inserted, len(table.timeline.instants(state="COMPLETED"))) == (1, 1)


def test_hoodoo_write_warns_as_well(tmp_path: Path):
    options = {"hoodie.table.name": "t", "hoodie.table.recordkey.fields": "id", **FAILING_CLUSTERING}
    with pytest.warns(hoodoo.HudiWarning, match="clustering") as told:
        commit = hoodoo.write({"id": [1], "n": [1]}, str(tmp_path / "t"), options=options)
    assert len(commit.warnings) == len(told) == 1
    assert told[0].filename == __file__


def test_an_archive_that_fails_behind_a_write(tmp_path: Path):
    table = _create(tmp_path / "t")
    _break_history(tmp_path / "t")
    few = {
        "hoodie.keep.min.commits": 2,
        "hoodie.keep.max.commits": 3,
        "hoodie.clean.commits.retained": 1,
        "hoodie.metadata.enable": False,
    }
    table = hoodoo.Table(table.uri, options=few)
    with pytest.warns(hoodoo.HudiWarning, match="archiving after it failed"):
        commits = [table.insert({"id": [n], "n": [n]}) for n in range(6)]
    assert commits[-1].warnings
    assert table.to_arrow().num_rows == len(commits)


@pytest.mark.parametrize("service", ["compact", "log_compact"])
def test_a_compaction_whose_archive_fails(tmp_path: Path, service: str):
    options = {"hoodie.compact.inline": "false", "hoodie.log.compaction.blocks.threshold": 2}
    table = _create(tmp_path / "t", "MERGE_ON_READ", **options)
    table = hoodoo.Table(table.uri, options=options)
    for n in range(5):
        table.upsert({"id": [1], "n": [n]})
    _break_history(tmp_path / "t")
    few = {
        "hoodie.keep.min.commits": 2,
        "hoodie.keep.max.commits": 3,
        "hoodie.clean.commits.retained": 1,
        "hoodie.metadata.enable": False,
    }
    table = hoodoo.Table(table.uri, options={**options, **few})
    with pytest.warns(hoodoo.HudiWarning, match="archiving after it failed"):
        commit = getattr(table, service)()
    assert commit.warnings
    assert commit.completed in {i.completed for i in table.timeline.instants(state="COMPLETED")}


def test_warnings_that_are_errors_do_not_hide_a_commit(tmp_path: Path):
    table = hoodoo.Table(_create(tmp_path / "t").uri, options=FAILING_CLUSTERING)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        commit = table.insert({"id": [1], "n": [1]})
    assert commit.warnings


def test_a_commit_without_trouble_says_nothing(tmp_path: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        commit = _create(tmp_path / "t").insert({"id": [1], "n": [1]})
    assert commit.warnings == ()


def test_the_command_line_prints_warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    off = {"hoodie.compact.inline": "false"}
    table = hoodoo.Table(_create(tmp_path / "t", "MERGE_ON_READ", **off).uri, options=off)
    for n in range(5):
        table.upsert({"id": [1], "n": [n]})
    _break_history(tmp_path / "t")
    few = (
        "hoodie.keep.min.commits=2",
        "hoodie.keep.max.commits=3",
        "hoodie.clean.commits.retained=1",
        "hoodie.metadata.enable=false",
    )
    arguments = [word for pair in few for word in ("--set", pair)]
    monkeypatch.setattr("sys.argv", ["hoodoo", "compact", table.uri, *arguments])
    monkeypatch.setattr(render.errors, "width", 10_000)
    assert commands.main() == 0
    output = capsys.readouterr().err
    assert output.count("warning:") == 1, output
    assert "archiving after it failed" in output
    assert "commit_warnings" not in output
