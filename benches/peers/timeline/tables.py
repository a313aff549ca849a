"""Tables whose timelines are what is measured; they hold no rows."""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow as pa

import hoodoo
from benches.peers.case import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

METADATA_BYTES = 840
"""Bytes of metadata of one action, about what Hudi's published figures had."""

OPTIONS = {
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.metadata.enable": "false",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
    "hoodie.clean.commits.retained": "1",
}


def build_tool() -> None:
    """Compiles the program that writes histories."""
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--example", "make_history"]
    subprocess.run(command, check=True, cwd=PROJECT)


def empty(place: Path) -> hoodoo.Table:
    """Creates a table, in place of one that may be there."""
    shutil.rmtree(place, ignore_errors=True)
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64())])
    return hoodoo.Table.create(str(place), schema, name="t", record_key="id", ordering=["ts"], options=OPTIONS)


def with_history(place: Path, actions: int, per_file: int) -> Path:
    """Makes a table with archived actions, unless it is there: files of level 0 of `per_file` actions, compacted.

    Args:
        place: Its folder.
        actions: How many.
        per_file: Actions that each archiving brought.
    """
    made = place / ".made"
    if not made.exists():
        empty(place)
        tool = PROJECT / "target" / "release" / "examples" / "make_history"
        numbers = [str(n) for n in (actions, METADATA_BYTES, per_file, 10)]
        subprocess.run([str(tool), str(place), *numbers], check=True)
        made.touch()
    return place


def history(place: Path) -> Path:
    """Gives the folder of the history."""
    return place / ".hoodie" / "timeline" / "history"


def with_commits(place: Path, commits: int) -> Path:
    """Makes a table with so many commits on the active timeline, each with a body as Hudi writes it (about 4.5 KB).

    Args:
        place: Its folder.
        commits: How many.
    """
    table = empty(place)
    table.insert({"id": ["a"], "ts": [1]})
    timeline = place / ".hoodie" / "timeline"
    (completed,) = timeline.glob("*.commit")
    body = completed.read_bytes()
    for file in timeline.glob("2*"):
        file.unlink()
    start = datetime(2025, 1, 1, tzinfo=timezone.utc)

    def instant(seconds: float) -> str:
        return (start + timedelta(seconds=seconds)).strftime("%Y%m%d%H%M%S%f")[:17]

    for n in range(commits):
        requested = instant(n * 10)
        (timeline / f"{requested}.commit.requested").touch()
        (timeline / f"{requested}.inflight").touch()
        (timeline / f"{requested}_{instant(n * 10 + 3)}.commit").write_bytes(body)
    return place


def sizes_in_manifest(place: Path) -> None:
    """Writes the manifest anew after its files were replaced by others of the same names."""
    folder = history(place)
    version = (folder / "_version_").read_text().strip()
    manifest = folder / f"manifest_{version}"
    named = json.loads(manifest.read_text())
    for file in named["files"]:
        file["fileLen"] = (folder / file["fileName"]).stat().st_size
    manifest.write_text(json.dumps(named, indent=2))
    for checksum in folder.glob(".*.crc"):
        checksum.unlink()
