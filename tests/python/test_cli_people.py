"""`hoodoo` for people and programs: rows, files, conditions, JSON, errors, and 80 columns."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import ipc, parquet
from rich.console import Console
from typer.testing import CliRunner

import hoodoo
from hoodoo import InvalidOptionError
from hoodoo.cli import files, render, render_clustering, render_metadata
from hoodoo.cli.commands import app, main
from hoodoo.cli.conditions import conditions

ROWS = pa.table({"id": ["a", "b", "c"], "city": ["sf", "la", None], "fare": [1.5, 2.5, 3.5], "ts": [1, 1, 1]})
KEYS = ("--create", "--record-key", "id", "--ordering", "ts")


def run(*arguments: str, status: int = 0) -> str:
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, [str(one) for one in arguments])
    assert result.exit_code == status, (result.output, result.exception)
    return result.stdout


def of_json(*arguments: str, status: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", status=status))


def lines(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(*arguments, "--json").splitlines()]


def called(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    """Exit status, output and errors of the command as a shell calls it."""
    monkeypatch.setattr("sys.argv", ["hoodoo", *arguments])
    status = main()
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "trips")
    made: dict[str, Any] = {"name": "trips", "record_key": "id", "ordering": "ts", "table_type": "MERGE_ON_READ"}
    table = hoodoo.Table.create(uri, ROWS.schema, **made)
    table.insert(ROWS)
    table.upsert({"id": ["a"], "city": ["sf"], "fare": [9.0], "ts": [2]})
    return uri


def save(path: Path, rows: pa.Table) -> None:
    files.write_rows(path, None, rows.schema, rows.to_batches())


@pytest.mark.parametrize("ending", sorted(files.FORMATS))
def test_load_reads_each_format(ending: str, tmp_path: Path):
    file, uri = tmp_path / f"rows{ending}", str(tmp_path / "new")
    save(file, ROWS)
    assert of_json("load", uri, str(file), *KEYS)["inserted"] == 3
    stored = hoodoo.Table(uri).to_arrow(columns=ROWS.column_names).sort_by("id")
    assert stored.to_pylist() == ROWS.to_pylist()
    assert hoodoo.Table(uri).options["hoodie.table.name"] == "new"


def test_load_reads_arrow_streams(tmp_path: Path):
    file = tmp_path / "rows.arrows"
    with ipc.new_stream(str(file), ROWS.schema) as writer:
        writer.write_table(ROWS)
    assert of_json("load", str(tmp_path / "t"), str(file), *KEYS)["inserted"] == 3


def test_load_upserts_inserts_and_deletes(uri: str, tmp_path: Path):
    file = tmp_path / "rows.csv"
    file.write_text("id,city,fare,ts\na,nyc,7,5\nz,,1,5\n", encoding="utf-8")
    assert "1 inserted, 1 updated, 0 deleted" in run("load", uri, str(file))
    found = hoodoo.Table(uri).to_arrow(filters=[("id", "in", ["a", "z"])]).sort_by("id")
    # The types are those of the table, and an empty cell is null.
    assert found.select(["city", "fare"]).to_pylist() == [{"city": "nyc", "fare": 7.0}, {"city": None, "fare": 1.0}]
    # Nothing else is: NA is a country.
    file.write_text("id,city,fare,ts\na,NA,NaN,6\nz,null,1,6\n", encoding="utf-8")
    run("load", uri, str(file))
    found = hoodoo.Table(uri).to_arrow(filters=[("id", "in", ["a", "z"])]).sort_by("id")
    assert found["city"].to_pylist() == ["NA", "null"]
    assert str(found["fare"].to_pylist()) == "[nan, 1.0]"
    save(tmp_path / "keys.parquet", pa.table({"id": ["a", "b"]}))
    assert of_json("load", uri, str(tmp_path / "keys.parquet"), "--operation", "delete")["deleted"] == 2
    save(tmp_path / "some.jsonl", pa.table({"id": ["c"], "city": ["rome"], "ts": [9]}))
    run("load", uri, str(tmp_path / "some.jsonl"), "--partial")
    (row,) = hoodoo.Table(uri).to_arrow(columns=["city", "fare"], filters=[("id", "=", "c")]).to_pylist()
    assert row == {"city": "rome", "fare": 3.5}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.csv", "id,city,fare,ts\na,sf,oops,1\n", "cannot read .*rows.csv as csv: .*oops"),
        ("rows.parquet", "nonsense", "cannot read .*rows.parquet as parquet"),
        ("rows.jsonl", "{", "cannot read .*rows.jsonl as json"),
        ("rows.arrow", "x", "cannot read .*rows.arrow as arrow"),
        ("rows.xlsx", "x", "add --format"),
        ("gone.csv", None, "cannot read .*gone.csv as csv"),
    ],
)
def test_files_that_cannot_be_read_are_named(name: str, content: str | None, message: str, uri: str, tmp_path: Path):
    if content is not None:
        (tmp_path / name).write_text(content, encoding="utf-8")
    before = hoodoo.Table(uri).timeline.instants()
    with pytest.raises(InvalidOptionError, match=message):
        CliRunner().invoke(app, ["load", uri, str(tmp_path / name)], catch_exceptions=False)
    after = [one for one in hoodoo.Table(uri).timeline.instants() if one.action != "rollback"]
    assert after == before


def test_create_takes_columns_or_a_file(tmp_path: Path):
    told = of_json(
        "create",
        str(tmp_path / "a"),
        "id:string",
        "n:decimal(10, 2)",
        "at:timestamp",
        "i:int32",
        "--partition-by",
        "id",
    )
    assert [field["type"] for field in told["schema"]] == [
        "string",
        "decimal128(10, 2)",
        "timestamp[us, tz=UTC]",
        "int32",
    ]
    assert (told["name"], told["options"]["hoodie.table.partition.fields"], told["file_groups"]) == ("a", "id", 0)
    save(tmp_path / "rows.parquet", ROWS)
    made = ("--record-key", "id", "--type", "merge_on_read", "--name", "x")
    told = of_json("create", str(tmp_path / "b"), "--like", str(tmp_path / "rows.parquet"), *made)
    assert [field["name"] for field in told["schema"]] == ROWS.column_names
    assert (told["name"], told["options"]["hoodie.table.type"]) == ("x", "MERGE_ON_READ")
    for wrong in ("id", ":string", "id:strin"):
        result = CliRunner().invoke(app, ["create", str(tmp_path / "c"), wrong])
        assert isinstance(result.exception, InvalidOptionError), wrong
    run("create", str(tmp_path / "c"), status=2)


def test_conditions_choose_rows(uri: str):
    def ids(*where: str) -> list[str]:
        given = [part for condition in where for part in ("--where", condition)]
        return sorted(row["id"] for row in lines("scan", uri, *given))

    assert ids("fare>=3") == ["a", "c"]
    assert ids("fare >= 3", "city is not null") == ["a"]
    assert ids("city is null") == ["c"]
    assert ids("city in (sf, 'la')") == ["a", "b"]
    assert ids("city not in (sf)", "ts=1") == ["b"]
    assert ids("id != a", "fare<3") == ["b"]
    newest = hoodoo.Table(uri).timeline.instants()[-1].requested
    assert ids(f"_hoodie_commit_time={newest}") == ["a"]
    assert sorted(row["id"] for row in lines("head", uri, "--where", "ts=1")) == ["b", "c"]


def test_values_get_the_type_of_their_column():
    types = {"b": pa.bool_(), "d": pa.date32(), "t": pa.timestamp("us", "UTC"), "n": pa.decimal128(5, 2)}
    schema = pa.schema(types)
    found = conditions(["b=true", "d>2026-01-02", "t<=2026-01-02T03:04:05Z", "n=1.25"], schema)
    assert found is not None
    values = [pa.scalar(one[-1], kind).as_py() for one, kind in zip(found, types.values(), strict=True)]
    assert [str(value) for value in values] == ["True", "2026-01-02", "2026-01-02 03:04:05+00:00", "1.25"]
    among = conditions(["c in ('Smith, J', sf, \"a'b\")"], schema)
    assert among == [("c", "in", ["Smith, J", "sf", "a'b"])]
    for wrong in ("b=maybe", "d=soon", "n=x", "n", "n~1", "=1", "c='sf' and b=true", "c<=>sf", "c in ('a", "c='a'b'"):
        with pytest.raises(InvalidOptionError):
            conditions([wrong], schema)


def test_rows_leave_out_columns_of_hudi(uri: str):
    assert set(lines("scan", uri)[0]) == set(ROWS.column_names)
    assert "_hoodie_commit_time" in lines("scan", uri, "--meta")[0]
    assert len(lines("scan", uri, "-n", "2")) == 2
    assert list(lines("head", uri, "--columns", "ts,id")[0]) == ["ts", "id"]


def test_older_rows_have_the_columns_of_then(uri: str):
    first, second = hoodoo.Table(uri).timeline.instants()
    hoodoo.Table(uri).upsert({"id": ["a"], "city": ["x"], "fare": [1.0], "ts": [9], "new": [1]})
    assert [set(row) for row in lines("scan", uri, "--as-of", first.requested)] == [set(ROWS.column_names)] * 3
    (row,) = lines("scan", uri, "--as-of", second.requested, "--where", "id=a", "--columns", "fare")
    assert row == {"fare": 9.0}
    assert "new" in lines("scan", uri)[0]


def test_changes(uri: str):
    first = hoodoo.Table(uri).timeline.instants()[0]
    assert first.completed is not None
    assert [row["id"] for row in lines("changes", uri, "--since", first.completed)] == ["a"]
    assert len(lines("changes", uri)) == 3
    told = lines("changes", uri, "--mode", "cdc", "--since", first.completed)
    assert [(row["op"], row["before"]["fare"], row["after"]["fare"]) for row in told] == [("u", 1.5, 9.0)]
    assert lines("changes", uri, "--until", "2020-01-01") == []
    assert len(lines("changes", uri, "--since", "2h")) == 3


def test_scan_writes_all_rows_to_a_file(uri: str, tmp_path: Path):
    out = tmp_path / "rows.parquet"
    assert of_json("scan", uri, "--out", str(out), "--where", "ts=1") == {"file": str(out), "rows": 2}
    assert sorted(parquet.read_table(out)["id"].to_pylist()) == ["b", "c"]
    run("scan", uri, "--out", str(tmp_path / "rows"), "--format", "json")
    assert len((tmp_path / "rows").read_text(encoding="utf-8").splitlines()) == 3


def names_of(kind: type) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def test_every_command_prints_json(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert set(of_json("verify", uri)) == {"ok", "problems", "checked"}
    planned = of_json("compact", uri, "--schedule")["instant"]
    assert of_json("compact", uri, "--schedule") == {"instant": None}
    assert set(of_json("compact", uri, "--instant", planned)) == names_of(hoodoo.Commit)
    assert of_json("compact", uri) is None
    plan = of_json("cluster", "plan", uri, "--explain")
    assert (len(plan["groups"]), type(plan["record"])) == (1, dict)
    instant = of_json("cluster", "plan", uri)["instant"]
    assert [one["instant"] for one in of_json("cluster", "status", uri)] == [instant]
    assert of_json("cluster", "rollback", uri, instant) == {"rolled_back": instant}
    assert [one["operation"] for one in of_json("cluster", "run", uri)] == ["CLUSTER"]
    assert set(of_json("clean", uri, "--dry-run")) == names_of(hoodoo.CleanReport)
    saved = of_json("savepoint", "create", uri, "--comment", "<x>")
    assert of_json("savepoint", "list", uri) == [saved]
    hoodoo.Table(uri).insert({"id": ["q"], "city": ["x"], "fare": [0.0], "ts": [1]})
    assert of_json("restore", uri, saved["instant"])["savepoint"] == saved["instant"]
    assert of_json("savepoint", "delete", uri, saved["instant"]) == {"deleted": saved["instant"]}
    newest = hoodoo.Table(uri).insert({"id": ["q"], "city": ["x"], "fare": [0.0], "ts": [1]})
    assert of_json("rollback", uri, newest.instant)["rolled_back"] == newest.instant
    assert {one["name"] for one in of_json("metadata", "show", uri)} >= {"files"}
    assert all(
        set(row) == {"partition", "file_name", "size"} for row in lines("metadata", "show", uri, "--partition", "files")
    )
    assert of_json("metadata", "verify", uri)["ok"] is True
    assert "bloom_filters" in of_json("metadata", "index", uri, "bloom_filters")["partitions"]
    assert of_json("metadata", "drop", uri, "bloom_filters") == {"dropped": ["bloom_filters"]}
    assert "files" in of_json("metadata", "rebuild", uri)["partitions"]
    assert of_json("metadata", "drop", uri) == {"dropped": ["the metadata table"]}
    assert of_json("metadata", "show", uri) is None
    assert of_json("timeline", "plot", uri) == {"files": ["trips-timeline.html"]}
    report = of_json("report", uri)
    assert set(report) == names_of(hoodoo.TableReport) | {"log_ratio"}
    assert not Path("trips-report.html").exists()


def test_a_failed_check_is_exit_status_1_with_json_too(uri: str):
    (path,) = Path(uri).glob("*.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    told = of_json("verify", uri, status=1)
    assert told["ok"] is False
    assert told["problems"][0]["remedy"]


def test_report_writes_a_page(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert "wrote trips-report.html" in run("report", uri)
    page = Path("trips-report.html").read_text(encoding="utf-8")
    assert "What each table service would do next" in page
    assert f"hoodoo compact {uri}" in page
    run("report", uri, "--out", "r.txt", status=2)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["info", "/nowhere/at/all"], 1, "there is no Hudi table"),
        (["scan", "URI", "--where", "fare~1"], 1, "invalid condition"),
        (["scan", "URI", "--columns", "nope"], 1, "nope"),
        (["load", "URI", "nofile.csv"], 1, "nofile.csv"),
        (["scan", "URI", "--out", "/nowhere/x.csv"], 1, "/nowhere/x.csv"),
        (["nope"], 2, "see hoodoo --help"),
        (["scan"], 2, "see hoodoo scan --help"),
        (["scan", "URI", "--limit", "0"], 2, "see hoodoo scan --help"),
        (["load", "URI", "x.csv", "--name", "x"], 2, "belong to --create"),
    ],
)
def test_an_error_is_one_line_that_says_what_to_do(
    arguments: list[str],
    status: int,
    message: str,
    uri: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    given = [uri if one == "URI" else one for one in arguments]
    code, out, err = called(given, monkeypatch, capsys)
    assert (code, out) == (status, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1, err
    assert message in err


def test_a_reader_that_goes_away_is_no_error(uri: str):
    more = {
        "id": [f"{n}" for n in range(20_000)],
        "city": ["x" * 50] * 20_000,
        "fare": [1.0] * 20_000,
        "ts": [1] * 20_000,
    }
    hoodoo.Table(uri).insert(more)
    command = [sys.executable, "-m", "hoodoo.cli", "scan", uri, "-n", "20000", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"{")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


def test_folders_may_be_relative(uri: str, monkeypatch: pytest.MonkeyPatch):
    folder = Path(uri) / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert of_json("info", "..")["name"] == "trips"


def test_version_and_completion(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    assert called(["--version"], monkeypatch, capsys) == (0, f"hoodoo {hoodoo.__version__}\n", "")
    assert "--install-completion" in run("--help")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_output_fits_the_terminal(width: int, uri: str, monkeypatch: pytest.MonkeyPatch):
    console = Console(width=width, force_terminal=True, color_system=None)
    for module in (render, render_clustering, render_metadata):
        monkeypatch.setattr(module, "console", console)
    table = hoodoo.Table(uri)
    table.schedule_clustering(sort_by="ts")
    shown = {
        "rows": ("scan", uri, "--meta"),
        "info": ("info", uri),
        "status": ("cluster", "status", uri),
        "metadata": ("metadata", "show", uri),
    }
    for name, arguments in shown.items():
        with console.capture() as captured:
            run(*arguments)
        text = captured.get()
        assert max(map(len, text.splitlines())) <= width, name
        if name == "rows":
            assert ("columns do not fit" in text) == (width < 200)
        elif width >= 80 and name != "info":
            # No instant is cut.
            assert table.timeline.instants()[-1].requested[:17] in text or name == "metadata"
            assert "…" not in text, text


def test_problems_come_with_what_to_do(monkeypatch: pytest.MonkeyPatch):
    console = Console(width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr(render, "console", console)
    with console.capture() as captured:
        render.show_report(hoodoo.Report((hoodoo.Problem("error", "[b]x[/b]", "is gone", "restore it"),), {"files": 1}))
    assert "error  [b]x[/b]" in captured.get()
    assert "       → restore it" in captured.get()


def test_alter_changes_columns(uri: str):
    changes = ("--rename", "city=town", "--drop", "fare", "--add", "note:string")
    assert of_json("alter", uri, *changes)["operation"] == "ALTER_SCHEMA"
    table = hoodoo.Table(uri)
    assert table.schema.names == ["id", "town", "ts", "note"]
    assert "alter_schema" in run("alter", uri, "--type", "ts:bigint", "--add", "n:int")
