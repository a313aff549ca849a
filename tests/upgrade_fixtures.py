"""Tables of version 6 that real Hudi wrote, with what Hudi's own upgrade makes of them."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "fixtures" / "upgrade"
NAMES = ("cow", "mor", "latest", "partial")


def expected(name: str) -> dict[str, Any]:
    """What Hudi made of a table, and what it read before and afterwards."""
    found: dict[str, Any] = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))[name]
    return found


def unpack(name: str, path: Path, *, copied: bool = False) -> Path:
    """Unpack a table. `copied`: its files have the time of now, as those of a copy, and not that of Hudi's writes."""
    if (HERE / name).is_dir():
        shutil.copytree(HERE / name, path)
    else:
        with zipfile.ZipFile(HERE / f"{name}.zip") as archive:
            archive.extractall(path)
    for file, modified_ms in expected(name)["modified"].items():
        if not copied:
            os.utime(path / file, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))
    return path


def properties(path: Path) -> dict[str, str]:
    """The properties of a table."""
    lines = (path / ".hoodie" / "hoodie.properties").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
