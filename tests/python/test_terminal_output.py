"""Names and values of a table command no terminal: control characters are shown, and not sent."""

from __future__ import annotations

import io
import json
import logging
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console
from typer.testing import CliRunner

from hoodoo import HudiError, Table
from hoodoo.cli.commands import app, main

# Sets the title of the window, clears the screen, and the same with the single characters of C1.
_EVIL = "\x1b]0;title\x07\x1b[2J\x9b2J\x7f"
_CONTROLS = [chr(code) for code in [*range(0x20), *range(0x7F, 0xA0)] if chr(code) not in "\n\t"]


def _clean(text: str) -> bool:
    return not any(control in text for control in _CONTROLS)


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A table with such characters wherever its files can hold them."""
    path = tmp_path_factory.mktemp("evil") / "table"
    schema = pa.schema({"id": pa.string(), "note": pa.string(), "ts": pa.int64(), "part": pa.string()})
    keys = {"record_key": "id", "ordering": "ts", "partition_by": ["part"]}
    options = {"hoodie.datasource.write.partitionpath.urlencode": "true", "_evil": _EVIL}
    table = Table.create(str(path), schema, name="t", table_type="MERGE_ON_READ", options=options, **keys)  # type: ignore[arg-type]
    for ts in range(2):
        commit = table.upsert({"id": [f"a{_EVIL}"], "note": [_EVIL], "ts": [ts], "part": [f"p{_EVIL}"]})
    table.savepoint(commit.instant, user=_EVIL, comment=_EVIL)
    properties = path / ".hoodie" / "hoodie.properties"
    kept = [
        line
        for line in properties.read_text().splitlines()
        if not line.startswith(("hoodie.table.name=", "hoodie.table.checksum="))
    ]
    name = "".join(rf"\u{ord(letter):04x}" for letter in _EVIL)
    checksum = zlib.crc32(f".{_EVIL}".encode())
    properties.write_text("\n".join([*kept, f"hoodie.table.name={name}", f"hoodie.table.checksum={checksum}", ""]))
    return Table(str(path), options)


_COMMANDS = [
    ["info"], ["scan"], ["scan", "--meta"], ["head"], ["changes"], ["verify"], ["savepoint", "list"],
    ["clean", "--dry-run"], ["timeline", "show"], ["timeline", "history"],
    ["timeline", "archive", "--dry-run"], ["metadata", "show"],
]  # fmt: skip


@pytest.mark.parametrize("as_json", [False, True], ids=["people", "json"])
@pytest.mark.parametrize("command", _COMMANDS, ids=" ".join)
def test_the_command_line_shows_control_characters(evil: Table, command: list[str], as_json: bool) -> None:
    names = [word for word in command if not word.startswith("-")]
    arguments = [*names, evil.uri, *command[len(names) :], *(["--json"] if as_json else [])]
    result = CliRunner(env={"COLUMNS": "300", "NO_COLOR": "1"}).invoke(app, arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    assert _clean(result.output)
    if as_json and command == ["head"]:
        assert json.loads(result.output)["note"] == _EVIL
    elif command == ["head"]:
        assert "␛" in result.output


def test_metadata_and_errors_show_control_characters(
    evil: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (
        ["timeline", "inspect", evil.uri, evil.timeline.instants()[-1].requested],
        ["timeline", "inspect", evil.uri, _EVIL],
        ["scan", evil.uri, "--columns", f"x{_EVIL}"],
        ["scan", evil.uri, "--where", f"ts={_EVIL}"],
        ["info", f"{evil.uri}{_EVIL.replace('/', '')}"],
    ):
        monkeypatch.setattr("sys.argv", ["hoodoo", *arguments])
        main()
        shown = "".join(capsys.readouterr())
        assert shown
        assert _clean(shown)


def test_objects_show_control_characters(evil: Table) -> None:
    objects: list[Any] = [evil, evil.report(), evil.timeline, evil.savepoints(), evil.file_slices()]
    for shown in objects:
        out = io.StringIO()
        Console(file=out, width=300).print(shown)
        assert _clean(out.getvalue())
        assert _clean(shown._repr_html_())


def test_errors_of_the_core_show_control_characters(evil: Table) -> None:
    with pytest.raises(HudiError) as caught:
        evil.scan(columns=[f"x{_EVIL}"])
    assert _clean(str(caught.value))
    with pytest.raises(HudiError) as caught:
        Table(f"{evil.uri}/{_EVIL}")
    assert _clean(str(caught.value))


def test_records_of_the_log_show_control_characters(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # Other ones are in no path of a table.
    path = tmp_path / "a\x9b31m"
    with caplog.at_level(logging.DEBUG, logger="hoodoo"):
        Table.create(path, {"id": pa.string()}, name="t", record_key="id").insert({"id": ["a"]})
    messages = [record.getMessage() for record in caplog.records if record.name == "hoodoo"]
    assert any(r"a\u{9b}31m" in message for message in messages)
    assert all(map(_clean, messages))
