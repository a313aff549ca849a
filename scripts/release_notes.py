"""Prints what CHANGELOG.md says of a version: `python scripts/release_notes.py 0.1.0 [CHANGELOG]`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).resolve().parent.parent / "CHANGELOG.md"


def notes(changelog: str, version: str) -> str:
    """Gives the section of the version, or nothing when there is none."""
    found = re.search(rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return found.group(1).strip() if found else ""


def main() -> int:
    """Prints the notes; fails when the changelog has none."""
    version, *given = sys.argv[1:]
    path = Path(given[0]) if given else CHANGELOG
    found = notes(path.read_text(encoding="utf-8"), version)
    if not found:
        print(f"{path.name} has no section [{version}]", file=sys.stderr)
        return 1
    print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
