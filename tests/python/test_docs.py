"""What the README and the quick start show must run as it stands there."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import hoodoo
from hoodoo import _native
from hoodoo.sync.keys import KEYS as SYNC_KEYS

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


def test_docs_dataframes(tmp_path: Path):
    run(python_blocks(ROOT / "docs" / "dataframes.md"), tmp_path)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_every_example_is_python(page: Path):
    for block in python_blocks(page):
        compile(block, str(page), "exec")


MODULES = [
    info.name for info in pkgutil.walk_packages(hoodoo.__path__, "hoodoo.") if not info.name.endswith("__main__")
]


@pytest.mark.parametrize("name", [name for name in MODULES if not name.startswith("hoodoo.spark")])
def test_examples_in_docstrings(name: str):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def _section(page: str, title: str) -> list[str]:
    """Gives the lines of a section that tell of one option each."""
    text = page.split(f"## {title}\n")[1].split("\n## ", maxsplit=1)[0]
    return [line for line in text.splitlines() if line.startswith(("| `", "- `"))]


def test_the_page_of_options_has_them_all():
    page = (ROOT / "docs/options.md").read_text(encoding="utf-8")
    titles = {"yes": "Honoured", "refused": "Refused", "warned": "Warned of", "no effect": "Without effect"}
    documented = {
        title: {
            match[0]
            for line in _section(page, title)
            if (match := re.findall(r"`((?:hood(?:ie|oo)|as\.of)\.[^`]+)`", line))
        }
        for title in titles.values()
    }
    for key, spellings, support in _native.option_keys():
        if key in SYNC_KEYS:
            continue
        title = titles[support]
        assert key in documented[title], f"{key} is not under '{title}' in docs/options.md"
        documented[title].remove(key)
        for spelling in spellings:
            assert f"`{spelling}`" in page, spelling
    assert documented == {title: set() for title in titles.values()}


def test_the_page_of_catalogs_has_all_options_of_a_sync():
    page = (ROOT / "docs/catalogs.md").read_text(encoding="utf-8")
    titles = {"yes": "Honoured", "refused": "Refused", "warned": "Warned of", "none": "Without effect"}
    sections = {
        support: page.split(f"### {title}\n")[1].split("\n##", maxsplit=1)[0] for support, title in titles.items()
    }
    for one in SYNC_KEYS.values():
        (line,) = [line for line in sections[one.support].splitlines() if line.startswith(f"| `{one.key}`")]
        default, about = (cell.strip() for cell in line.split("|")[2:4])
        assert (default.strip("`"), about) == (one.default, one.about)
    assert page.count("\n| `hoodie.") == len(SYNC_KEYS)
