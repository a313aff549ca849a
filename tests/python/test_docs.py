"""What the README and the quick start show must run as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def python_blocks(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


def run(blocks: list[str], folder: Path) -> None:
    """Runs blocks one after the other in one namespace, with their tables in a folder of the test's own."""
    code = "\n".join(blocks).replace('"/tmp/', f'"{folder}/')
    namespace: dict[str, object] = {"__name__": "docs"}
    exec(compile(code, "docs", "exec"), namespace)


def test_readme_quick_start(tmp_path: Path):
    blocks = python_blocks(ROOT / "README.md")
    quick_start = blocks[0]
    assert len([line for line in quick_start.splitlines() if line.strip()]) <= 20
    run([quick_start], tmp_path)


def test_docs_quick_start(tmp_path: Path):
    run(python_blocks(ROOT / "docs" / "quickstart.md"), tmp_path)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_every_example_is_python(page: Path):
    for block in python_blocks(page):
        compile(block, str(page), "exec")
