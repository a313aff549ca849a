"""Tables whose columns real Hudi altered with schema on read, and what Hudi read of them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from tests.rows import Row

HERE = Path(__file__).parent / "fixtures" / "schema_history"
NAMES = ("cow", "mor", "parquet_logs")


def unpack(name: str, path: Path) -> str:
    """Unpack a table."""
    with zipfile.ZipFile(HERE / f"{name}.zip") as archive:
        archive.extractall(path)
    return str(path)


def states(name: str) -> list[dict[str, Any]]:
    """Each state of a table: the instant that made it, and the rows that Hudi read."""
    found: list[dict[str, Any]] = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))[name]
    return found


def spelled(rows: list[Row]) -> Any:
    """Rows as `expected.json` has them."""
    return json.loads(json.dumps(rows, default=str, sort_keys=True))
