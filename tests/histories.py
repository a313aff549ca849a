"""Timelines that real Hudi wrote, unpacked: see fixtures/timeline/README.md."""

from __future__ import annotations

import tarfile
from pathlib import Path

HISTORIES = Path(__file__).resolve().parent / "fixtures" / "timeline" / "histories"
NAMES = sorted(path.name.removesuffix(".tar.gz") for path in HISTORIES.glob("*.tar.gz"))


def unpack(name: str, folder: Path) -> str:
    """Unpacks a table with its modification times: version 6 has its completion times there. Gives its location."""
    with tarfile.open(HISTORIES / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return str(folder / name)
