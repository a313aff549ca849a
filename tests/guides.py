"""Runs a guide of docs/guides as it stands there.

Blocks of code are run in their order, in a folder of the test's own that stands for `/tmp`:

- `python`: in one namespace for the guide
- `sh`: by a shell that stops at the first error, with the command `hoodoo` on its path
- any block with a title, such as `python title="job.py"`: written to that file
- `py`, `text`, `crontab`, `toml`: only shown; `py` has to compile
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GUIDES = ROOT / "docs" / "guides"
SHOWN = {"py", "text", "crontab"}
ON_SPARK = ("move-a-spark-job", "stream-with-spark")
"""Guides that need a session: tests/spark runs them."""

_BLOCK = re.compile(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code of a guide."""

    language: str
    file: str
    code: str
    line: int


def names() -> list[str]:
    return sorted(page.stem for page in GUIDES.glob("*.md") if page.stem != "index")


def blocks(name: str) -> list[Block]:
    text = (GUIDES / f"{name}.md").read_text(encoding="utf-8")
    found = [Block(m[1], m[2] or "", m[3], text[: m.start()].count("\n") + 2) for m in _BLOCK.finditer(text)]
    assert 2 * len(found) == len(re.findall(r"^ *```", text, re.MULTILINE)), f"{name}: a block is not understood"
    return found


def run(name: str, folder: Path, given: Mapping[str, object] | None = None) -> dict[str, object]:
    """Runs a guide; gives the namespace of its Python blocks."""
    namespace: dict[str, object] = {"__name__": "guide", **(given or {})}
    ran = 0
    for block in blocks(name):
        code = block.code.replace("/tmp/", f"{folder}/")
        if block.file:
            (folder / block.file).write_text(code, encoding="utf-8")
        elif block.language == "python":
            # Errors name the line of the page.
            exec(compile("\n" * (block.line - 1) + code, f"docs/guides/{name}.md", "exec"), namespace)
            ran += 1
        elif block.language == "sh":
            shell(code, folder, f"{name}, line {block.line}")
            ran += 1
        else:
            assert block.language in SHOWN, f"{name}, line {block.line}: a block of {block.language!r} is not run"
    assert ran, f"{name} has no code that runs"
    return namespace


def shell(code: str, folder: Path, where: str) -> None:
    commands = folder / ".commands"
    commands.mkdir(exist_ok=True)
    # The command is that of the code under test, and not one that is installed elsewhere.
    for command, call in {"hoodoo": f'"{sys.executable}" -m hoodoo.cli', "python": f'"{sys.executable}"'}.items():
        (commands / command).write_text(f'#!/bin/sh\nexec {call} "$@"\n', encoding="utf-8")
        (commands / command).chmod(0o755)
    paths = {"PATH": f"{commands}:{os.environ['PATH']}", "PYTHONPATH": f"{ROOT / 'python'}:{folder}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=folder,
        env={**os.environ, **paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{where}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
