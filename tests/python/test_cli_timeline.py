"""`hoodoo timeline`, as a person calls it, on timelines that real Hudi wrote."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import hoodoo
from hoodoo import ArchiveBlocker, Instant, InvalidOptionError
from hoodoo.cli import render, render_timeline
from hoodoo.cli.commands import app, main
from hoodoo.commit_stats import CommitStats
from hoodoo.instant_time import bound, parse_instant, took
from tests.histories import NAMES, unpack

NOW = datetime(2026, 11, 21, 18, 0)  # noqa: DTZ001


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("histories")
    return {name: unpack(name, folder) for name in NAMES}


def call(*arguments: str) -> Result:
    return CliRunner(env={"NO_COLOR": "1"}).invoke(app, ["timeline", *arguments])


def run(*arguments: str) -> str:
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


def of_json(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json"))


def cells(output: str) -> list[list[str]]:
    """The rows of a table: what stands two spaces apart."""
    return [re.split(r"\s{2,}", line.strip()) for line in output.splitlines() if re.match(r"\s*2026\d{13}", line)]


@pytest.mark.parametrize("name", NAMES)
def test_show_with_the_history_has_every_action(name: str, tables: dict[str, str]):
    told = of_json("show", tables[name], "--history", "--limit", "1000")
    expected = hoodoo.Table(tables[name]).timeline.instants(history=True)
    key = ("requested", "completed", "action", "state")
    assert [tuple(one[name] for name in key) for one in told] == [tuple(vars(i).values()) for i in expected]
    active = {(i.requested, i.action) for i in hoodoo.Table(tables[name]).timeline.instants()}
    assert [one["archived"] for one in told] == [(i.requested, i.action) not in active for i in expected]
    assert all(one["operation"] for one in told if one["state"] == "COMPLETED" and "commit" in one["action"])


def test_show_is_a_table_with_the_newest_last(tables: dict[str, str]):
    output = run("show", tables["cow_v9_states"], "--limit", "4")
    rows = cells(output)
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert [row[2:4] for row in rows] == [
        ["commit", "○ requested"],
        ["indexing", "✓ completed"],
        ["indexing", "◐ inflight"],
        ["indexing", "○ requested"],
    ]
    assert rows[0][4].endswith("…"), "a pending action goes on"
    assert rows[1][4] == "1.95 s"
    assert "4 actions, 3 pending, 32 older actions not shown" in output
    (commit,) = cells(
        run("show", tables["cow_v9_states"], "--action", "commit", "--state", "completed", "--limit", "1")
    )
    assert commit[2:] == ["commit", "✓ completed", "1.49 s", "upsert", "3", "0", "6", "0", "11.2 KiB"]


def test_show_filters(tables: dict[str, str]):
    uri = tables["mor_v9_states"]
    timeline = hoodoo.Table(uri).timeline
    assert {one["state"] for one in of_json("show", uri, "--state", "inflight")} == {"INFLIGHT"}
    for action in ("deltacommit", "clean", "logcompaction"):
        told = of_json("show", uri, "--action", action, "--limit", "100")
        assert [one["requested"] for one in told] == [i.requested for i in timeline.instants(action)]
        assert told
    every = [i.requested for i in timeline.instants()]
    told = of_json("show", uri, "--since", "2026-11-21T17:12", "--until", "2026-11-21 17:12", "--limit", "100")
    assert [one["requested"] for one in told] == [one for one in every if one.startswith("202611211712")]
    assert of_json("show", uri, "--until", "2025") == []
    assert "no actions" in run("show", uri, "--until", "2025")
    assert [one["requested"] for one in of_json("show", uri, "--limit", "3")] == every[-3:]


def test_show_filters_the_history(tables: dict[str, str]):
    uri = tables["mor_v9_levels"]
    every = hoodoo.Table(uri).timeline.instants(history=True)
    deltas = [i.requested for i in every if i.action == "deltacommit"]
    output = run("show", uri, "--history", "--action", "deltacommit", "--limit", "9")
    assert [row[0] for row in cells(output)] == deltas[-9:]
    assert re.search(r"9 actions, \d archived \(dim\), older actions not shown", output)
    told = of_json("show", uri, "--history", "--action", "deltacommit", "--until", deltas[4], "--limit", "3")
    assert [one["requested"] for one in told] == deltas[2:5]
    assert of_json("show", uri, "--history", "--state", "inflight") == []


@pytest.mark.parametrize("name", NAMES)
def test_latest_is_the_end_of_all(name: str, tables: dict[str, str]):
    timeline = hoodoo.Table(tables[name]).timeline
    every = timeline.instants(history=True)
    for action in (None, "commit", "clean"):
        some = [i for i in every if action is None or i.action == action]
        for count in (0, 1, 5, 1000):
            assert timeline.latest(count, action) == (some[-count:] if count else [])
    middle = every[len(every) // 2].requested
    assert timeline.latest(1000, until=middle) == [i for i in every if i.requested <= middle]
    assert timeline.latest(3, state="completed") == [i for i in every if i.state == "COMPLETED"][-3:]
    with pytest.raises(InvalidOptionError, match="done"):
        timeline.latest(3, state="done")


@pytest.mark.parametrize("name", ["cow_v9_states", "mor_v8_states", "mor_v6_states", "mor_v9_levels"])
def test_inspect_tells_all_of_each_action(name: str, tables: dict[str, str]):
    timeline = hoodoo.Table(tables[name]).timeline
    seen = set()
    for one in timeline.instants(history=True):
        if (one.action, one.state) in seen:
            continue
        seen.add((one.action, one.state))
        (told,) = [t for t in of_json("inspect", tables[name], one.requested) if t["action"] == one.action]
        assert told["state"] == one.state == list(told["states"])[-1]
        assert told["states"][one.state] == timeline.metadata(one)
        assert told["plan"] == timeline.plan(one)
    assert {state for _, state in seen} == ({"COMPLETED"} if "levels" in name else set(render_timeline.MARKS))


def test_inspect_is_readable(tables: dict[str, str]):
    output = run("inspect", tables["cow_v9_states"], "20261121170855658")
    assert "○ requested → ◐ inflight → ✓ completed" in output
    assert "2026-11-21 17:08:55.658" in output
    assert output.index("instantToRollback") < output.index("totalFilesDeleted"), "the plan comes first"
    twins = run("inspect", tables["cow_v9_states"], "20261121170846995")
    assert "commit" in twins
    assert "savepointedBy" in twins
    archived = run("inspect", tables["mor_v9_levels"], "20261121170703570")
    assert "the history" in archived
    assert '"operationType"' in archived


def test_history_lists_the_files(tables: dict[str, str]):
    uri = tables["cow_v9_levels"]
    told = of_json("history", uri)
    files = {path.name: path.stat().st_size for path in (Path(uri) / ".hoodie/timeline/history").glob("*.parquet")}
    assert {file["name"]: file["size"] for file in told["files"]}.items() <= files.items()
    assert [file["actions"] for file in told["files"]] == [29, 16, 7]
    assert told["totals"] == {"files": 3, "size": sum(file["size"] for file in told["files"]), "actions": 52}
    assert told["version"] == 25
    assert of_json("history", uri, "--no-rows")["totals"]["actions"] is None
    output = run("history", uri)
    assert "version 25: 3 files (1 of level 3, 1 of level 2, 1 of level 1)" in output
    assert [int(n) for n in re.findall(r"^ +(\d)   2026", output, re.MULTILINE)] == [3, 2, 1]
    assert "20 actions" in run("history", tables["cow_v6_archive"])
    assert "nothing was archived" in run("history", tables["cow_v9_states"])


@pytest.fixture
def written(tmp_path: Path) -> str:
    """Makes a table with seven commits that were not archived."""
    uri = str(tmp_path / "table")
    schema = pa.schema([("id", pa.int64())])
    options = {"hoodie.archive.automatic": "false", "hoodie.metadata.enable": "false"}
    table = hoodoo.Table.create(uri, schema, name="a/b", record_key="id", options=options)
    for number in range(7):
        table.insert({"id": [number]})
    return uri


KEEP = [f"--set=hoodie.{key}" for key in ("keep.min.commits=3", "keep.max.commits=4", "clean.commits.retained=2")]


def test_archive_says_what_would_go_and_then_does_it(written: str):
    before = hoodoo.Table(written).timeline.instants()
    assert "nothing would move" in run("archive", written, "--dry-run")
    dry = of_json("archive", written, "--dry-run", *KEEP)
    assert dry["dry_run"]
    assert dry["instants"]
    assert hoodoo.Table(written).timeline.instants() == before
    output = run("archive", written, *KEEP)
    assert re.search(r"\d actions moved to the history: \d commit", output)
    assert "7 completed writes were on the active timeline; archival starts above 4 and keeps 3" in output
    gone = [row[0] for row in cells(output)]
    assert gone == [one["requested"] for one in dry["instants"]]
    assert hoodoo.Table(written).timeline.instants(history=True) == before
    left = [i.requested for i in hoodoo.Table(written).timeline.instants()]
    assert left == [i.requested for i in before if i.requested not in gone]
    assert of_json("history", written)["totals"]["actions"] == len(gone)


def test_archive_says_what_holds_actions_back(tables: dict[str, str]):
    output = " ".join(run("archive", tables["cow_v9_states"], "--dry-run", *KEEP).split())
    assert "Archive blockers" in output
    assert "20261121170817424 replacecommit INFLIGHT is pending" in output
    assert "→ Finish it, or roll it back if its writer has failed" in output
    blockers = of_json("archive", tables["cow_v9_states"], "--dry-run", *KEEP)["blockers"]
    assert all(ArchiveBlocker(**blocker).remedy for blocker in blockers)


def test_compact_merges_files_of_the_history(written: str):
    table = hoodoo.Table(written)
    for number in range(8, 24):
        table.insert({"id": [number]})
        assert call("archive", written, *KEEP, "--set=hoodie.timeline.compaction.batch.size=100").exit_code == 0
    before = table.timeline.history_files()
    assert len(before.files) > 3
    archived = table.timeline.read_history().read_all()
    done = of_json("compact", written, "--set=hoodie.timeline.compaction.batch.size=3")
    assert done["files"] >= 3
    assert len(table.timeline.history_files().files) < len(before.files)
    assert table.timeline.read_history().read_all() == archived
    assert "nothing to merge" in run("compact", written)


def test_plot_writes_a_page(written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert run("plot", written).strip() == "wrote a_b-timeline.html"
    page = (tmp_path / "a_b-timeline.html").read_text(encoding="utf-8")
    assert all(i.requested in page for i in hoodoo.Table(written).timeline.instants())
    run("plot", written, "--out", "few.html", "--limit", "2")
    few = (tmp_path / "few.html").read_text(encoding="utf-8")
    instants = hoodoo.Table(written).timeline.instants()
    assert [i.requested in few for i in instants] == [False] * 5 + [True] * 2
    assert call("plot", written, "--out", "x.png").exit_code == 2
    assert call("plot", written, "--png", "x.jpg").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("inspect", "", "20000101000000000"), "no instant 20000101000000000"),
        (("show", "", "--since", "yesterday"), "invalid time"),
        (("show", "", "--state", "done"), "invalid state 'done'"),
    ],
)
def test_mistakes_are_readable(
    arguments: tuple[str, ...],
    message: str,
    tables: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    given = [argument or tables["cow_v9_states"] for argument in arguments]
    monkeypatch.setattr("sys.argv", ["hoodoo", "timeline", *given])
    with pytest.raises(SystemExit) as stop:
        raise SystemExit(main())
    assert stop.value.code == 1
    errors = " ".join(capsys.readouterr().err.split())
    assert re.search(message, errors)
    assert "Traceback" not in errors


def test_archiving_and_compacting_version_6_is_refused(tables: dict[str, str]):
    for command in ("archive", "compact"):
        assert isinstance(call(command, tables["cow_v6_archive"]).exception, hoodoo.UnsupportedError)


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160])
def test_no_row_is_broken_on_a_narrow_terminal(width: int, tables: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    timeline = hoodoo.Table(tables["mor_v9_states"]).timeline
    instants = timeline.instants()
    console = Console(width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr(render_timeline, "console", console)
    with console.capture() as captured:
        console.print(render_timeline.timeline_grid(instants, timeline.commit_stats(instants), NOW))
    lines = [line for line in captured.get().splitlines() if re.match(r"\s*2026\d{13}", line)]
    assert len(lines) == len(instants)
    assert max(len(line) for line in lines) <= width
    shown = {name: name in captured.get().splitlines()[1] for name in ("state", "took", "updated", "written")}
    assert shown == {"state": True, "took": width > 60, "updated": width > 80, "written": width > 120}


def test_bounds():
    assert bound("90s", NOW, upper=False) == "20261121175830000"
    assert bound("1w", NOW, upper=True) == "20261114180000000"
    assert bound("2026-11", NOW, upper=False) == "202611"
    assert bound("2026-11-21T17:05:09.25", NOW, upper=False) == "2026112117050925"
    assert bound("20261121170509250", NOW, upper=True) == "20261121170509250"
    assert bound("999999w", NOW, upper=False) < "1"
    for text in ("", "soon", "-3d", "20261121170509250123", "2026-11-21T1"):
        with pytest.raises(InvalidOptionError):
            bound(text, NOW, upper=False)


def grid_of(instant: Instant) -> Any:
    return render_timeline.timeline_grid([instant], {instant: CommitStats()}, NOW)


def test_times_of_odd_names():
    assert parse_instant("20261121170509") == datetime(2026, 11, 21, 17, 5, 9)  # noqa: DTZ001
    assert [parse_instant(name) for name in ("00000000000001", "20261341000000000", "x" * 17, "²" * 17)] == [None] * 4
    backwards = Instant("20261121170509250", "20261121170508000", "commit", "COMPLETED")
    assert took(backwards) == timedelta()
    assert render_timeline.age("00000000000001", NOW) == ""
    odd = Instant("00000000000001", "00000000000001", "bootstrap", "COMPLETED")
    columns = {column.header: [str(c) for c in column.cells] for column in grid_of(odd).columns}
    assert (columns["requested"], columns["age"], columns["took"]) == ([odd.requested], [""], [""])


def test_names_with_markup_are_shown_as_they_are():
    with render.console.capture() as captured:
        render_timeline.show_timeline([Instant("20261121170509250", None, "[bold]x[/]", "REQUESTED")], {}, now=NOW)
    assert "[bold]x[/]" in captured.get()
