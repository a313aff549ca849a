"""The guards that scripts/guards.py takes out of the library are in it."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _guards() -> list[dict[str, Any]]:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 reads no TOML")
    text = (ROOT / "tests/rust/simulation/guards.toml").read_text(encoding="utf-8")
    guards: list[dict[str, Any]] = tomllib.loads(text)["guard"]
    return guards


def test_each_guard_is_there_once():
    found = Counter((g["name"], (ROOT / g["file"]).read_text(encoding="utf-8").count(g["old"])) for g in _guards())
    assert {count for _, count in found} == {1}


def test_each_guard_can_be_taken_out_and_is_documented():
    text = (ROOT / "docs/simulation.md").read_text(encoding="utf-8")
    for guard in _guards():
        assert "OFF" in guard["new"]
        assert f"`{guard['name']}`" in text
