"""The `hoodoo` command, as a person calls it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import hoodoo
from hoodoo.cli import render
from hoodoo.cli.arguments import pairs
from hoodoo.cli.commands import app, main
from hoodoo.commit_stats import CommitStats, commit_stats

SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("fare", pa.float64()), ("ts", pa.int64())])


def rows(ids: list[str], fare: float, ts: int) -> pa.Table:
    size = len(ids)
    return pa.table({"id": ids, "city": ["sf"] * size, "fare": [fare] * size, "ts": [ts] * size}, schema=SCHEMA)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "trips")
    table = hoodoo.Table.create(uri, SCHEMA, name="trips", record_key="id", partition_by=["city"], ordering=["ts"])
    table.insert(rows(["a", "b", "c"], 1.0, 1))
    table.upsert(rows(["b", "d"], 2.0, 2))
    return uri


def run(*arguments: str) -> str:
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def test_timeline_show_tells_what_each_commit_did(uri: str):
    lines = [line for line in run("timeline", "show", uri).splitlines() if "completed" in line]
    cells = [re.split(r"\s{2,}", line.strip()) for line in lines]
    assert [[*row[2:4], *row[5:10]] for row in cells] == [
        ["commit", "✓ completed", "insert", "1", "3", "0", "0"],
        ["commit", "✓ completed", "upsert", "1", "1", "1", "0"],
    ]
    assert all(re.fullmatch(r"\d+\.\d\d s", row[4]) for row in cells)


def test_timeline_show_limits(uri: str):
    output = run("timeline", "show", uri, "--limit", "1")
    assert output.count("completed") == 1
    assert "1 older actions not shown" in output


def test_timeline_inspect_prints_the_metadata(uri: str):
    instant = hoodoo.Table(uri).timeline.instants()[-1]
    output = run("timeline", "inspect", uri, instant.requested)
    assert '"operationType": "UPSERT"' in output
    assert '"numUpdateWrites": 1' in output


def test_timeline_inspect_of_an_unknown_instant_fails(uri: str):
    result = CliRunner().invoke(app, ["timeline", "inspect", uri, "20000101000000000"])
    assert result.exit_code == 1
    assert "no instant 20000101000000000" in " ".join(result.output.split())


def test_info(uri: str):
    output = run("info", uri)
    assert "trips" in output
    assert re.search(r"record key\s+id", output)
    assert re.search(r"ordering\s+ts", output)
    assert "1 file groups in 1 partitions" in output
    assert "2 completed actions" in output
    assert re.search(r"fare\s+│ double", output)


def test_scan(uri: str):
    output = run("scan", uri, "--columns", "id,fare", "--limit", "2")
    assert "2 rows shown" in output
    assert "city" not in output
    assert "4 rows shown" in run("scan", uri)


def test_compact(tmp_path: Path):
    uri = str(tmp_path / "merged")
    table = hoodoo.Table.create(
        uri, SCHEMA, name="t", record_key="id", partition_by=["city"], ordering=["ts"], table_type="MERGE_ON_READ"
    )
    table.insert(rows(["a", "b"], 1.0, 1))
    assert "nothing to compact" in run("compact", uri)
    table.upsert(rows(["a", "b"], 2.0, 2))
    planned = re.search(r"planned as (\d{17})", run("compact", uri, "--schedule"))
    assert planned is not None
    assert "nothing to compact" in run("compact", uri, "--schedule")
    output = run("compact", uri, "--instant", planned[1])
    assert f"{planned[1]} compacted" in output
    assert re.search(r"after\s+│\s+0\s+│\s+0 B\s+│", output), output
    assert not any(s.log_files for s in hoodoo.Table(uri).file_slices())


def test_verify_of_a_sound_table(uri: str):
    assert "no problem found" in run("verify", uri)


def test_verify_of_a_damaged_table_fails(uri: str):
    newest = max((Path(uri) / "city=sf").glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns, default=None)
    newest = newest or max(Path(uri).glob("sf/*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    newest.write_bytes(newest.read_bytes()[:-20])
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, ["verify", uri])
    assert result.exit_code == 1
    assert "no problem found" not in result.output


def test_a_missing_table_is_one_readable_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("sys.argv", ["hoodoo", "info", str(tmp_path)])
    assert main() == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert "Traceback" not in captured.err + captured.out


def test_storage_options_are_checked():
    assert pairs(["a=1", "b=x=y"]) == {"a": "1", "b": "x=y"}
    result = CliRunner().invoke(app, ["info", "s3://b/t", "-o", "endpoint"])
    assert result.exit_code == 2


def test_text_with_markup_is_shown_as_it_is():
    assert render.cell("[bold]x[/bold]") == r"\[bold]x\[/bold]"
    assert render.cell(None) == "[dim]null[/dim]"
    assert len(render.cell("x" * 1000)) == render.WIDEST_CELL


def test_stats_of_the_other_actions():
    assert commit_stats("clean", {"totalFilesDeleted": 4}).files == 4
    assert commit_stats("savepoint", json.loads('{"savepointedBy": "me"}')) == CommitStats(operation="savepoint")
    replaced = {"operationType": "INSERT_OVERWRITE", "partitionToWriteStats": {"p": [{"path": "p/a", "numInserts": 2}]}}
    assert commit_stats("replacecommit", replaced).inserted == 2
