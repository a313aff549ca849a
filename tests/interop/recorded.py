"""What real Hudi wrote and read, kept in files, so that a test need not wait for it to do the same again.

A recording belongs to one question: all that Hudi was asked for, on a table that only Hudi has touched so far and that
is itself recorded. Where hoodoo, or anything else, has changed the table, where a value or an option is another, and in
`make test-all`, real Hudi does the work. With HOODOO_RECORD=1, what it does where a recording is missing is kept.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import json
import math
import os
import shutil
import tarfile
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.rows import Row

FOLDER = Path(__file__).parents[1] / "fixtures" / "hudi_recorded"
_REMOVED, _ANSWER = "removed.json", "answer.rows"
_LARGEST_ANSWER = 100_000
"""Characters of rows that are worth a file."""

_Files = dict[str, tuple[int, int]]


def digest(*parts: bytes | str) -> str:
    """Give the name of what was asked for."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "little") + data)
    return found.hexdigest()[:20]


def spelled(options: Mapping[str, str]) -> str:
    """Give options as one string, whatever their order."""
    return json.dumps(dict(options), sort_keys=True)


class Recordings:
    """What Hudi did to the tables of one session, and the recordings of it in a folder."""

    def __init__(self, folder: Path = FOLDER, *, replays: bool | None = None, records: bool | None = None) -> None:
        """By default replays except in `make test-all`, and records where HOODOO_RECORD is 1."""
        self._folder = folder
        self._replays = "HOODOO_TEST_ALL" not in os.environ if replays is None else replays
        self._records = os.environ.get("HOODOO_RECORD") == "1" if records is None else records
        self._known: dict[str, tuple[str, _Files]] = {}

    def change(self, path: str, asked: str, work: Callable[[], list[Row]]) -> list[Row]:
        """Let `work` change the table at `path`, or do what it did when it was asked for the same; give its rows."""
        state = self._state(path)
        if state is None:
            return work()
        before = _files(path)
        file = self._folder / f"{digest(state, asked)}.tar.xz"
        if self._replays and file.exists():
            found = _unpack(file, Path(path))
        else:
            self._known.pop(path, None)
            found = work()
            if not (self._records and _pack(file, Path(path), before, found)):
                return found
        self._known[path] = (digest(file.read_bytes()), _files(path))
        return found

    def answer(self, path: str, asked: str, work: Callable[[], list[Row]]) -> list[Row]:
        """Give the rows that `work` reads of the table at `path`, or read when it was asked for the same."""
        state = self._state(path)
        if not state:
            return work()
        file = self._folder / f"{digest(state, asked)}.rows"
        if self._replays and file.exists():
            return _rows(file.read_text(encoding="utf-8"))
        found = work()
        spelling = _spelling(found)
        if self._records and len(spelling) <= _LARGEST_ANSWER and _says(spelling, found):
            self._folder.mkdir(exist_ok=True)
            file.write_text(spelling, encoding="utf-8")
        return found

    def _state(self, path: str) -> str | None:
        """Give the name of what is at a path: empty for nothing, None for what is not recorded."""
        if not (self._replays or self._records) or "://" in path:
            return None
        found = _files(path)
        if not found:
            return ""
        state, files = self._known.get(path, (None, None))
        return state if files == found else None


def _files(path: str) -> _Files:
    """List the files below a path, with their sizes and times."""
    found = {}
    for folder, _, names in os.walk(path):
        for name in names:
            file = Path(folder, name)
            stat = file.stat()
            found[os.path.relpath(file, path)] = (stat.st_size, stat.st_mtime_ns)
    return found


def _pack(file: Path, table: Path, before: _Files, rows: list[Row]) -> bool:
    """Keep what became of a table; not where that names its path, which is another one in the next run."""
    after = _files(str(table))
    changed = sorted(name for name, stat in after.items() if before.get(name) != stat)
    spelling = _spelling(rows)
    if str(table) in spelling or not _says(spelling, rows):
        return False
    if any(str(table).encode() in (table / name).read_bytes() for name in changed):
        return False
    about = {_REMOVED: json.dumps(sorted(before.keys() - after.keys()))}
    if rows:
        about[_ANSWER] = spelling
    file.parent.mkdir(exist_ok=True)
    beside = file.with_suffix(f".{os.getpid()}")
    with tarfile.open(beside, "w:xz", format=tarfile.PAX_FORMAT) as archive:
        for name, content in about.items():
            member = tarfile.TarInfo(name)
            member.size = len(content.encode())
            archive.addfile(member, io.BytesIO(content.encode()))
        for folder, _, _ in sorted(os.walk(table)):
            archive.add(folder, f"table/{os.path.relpath(folder, table)}", recursive=False, filter=_without_owner)
        for name in changed:
            archive.add(table / name, f"table/{name}", filter=_without_owner)
    beside.replace(file)
    return True


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _unpack(file: Path, table: Path) -> list[Row]:
    """Bring a table to what became of it, and give the rows of the answer. Not with the owners of the recording: any
    user runs the tests.
    """
    rows: list[Row] = []
    with tarfile.open(file, "r:xz") as archive:
        for member in archive:
            if member.name == _REMOVED:
                held = archive.extractfile(member)
                for name in json.load(held) if held else []:
                    (table / name).unlink()
                continue
            if member.name == _ANSWER:
                held = archive.extractfile(member)
                rows = _rows(held.read().decode()) if held else []
                continue
            to = table / Path(member.name).relative_to("table")
            if member.isdir():
                to.mkdir(parents=True, exist_ok=True)
                continue
            held = archive.extractfile(member)
            if held is not None:
                with to.open("wb") as out:
                    shutil.copyfileobj(held, out)
                os.utime(to, (member.mtime, member.mtime))
    return rows


def _spelling(rows: list[Row]) -> str:
    return "".join(f"{row!r}\n" for row in rows)


def _says(spelling: str, rows: list[Row]) -> bool:
    try:
        return _rows(spelling) == rows
    except NameError:
        return False


def _rows(spelling: str) -> list[Row]:
    names: dict[str, Any] = {"__builtins__": {}, "datetime": dt, "Decimal": Decimal, "inf": math.inf}
    return [eval(line, names) for line in spelling.split("\n") if line]  # a file of this project
