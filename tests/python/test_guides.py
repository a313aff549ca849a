"""The code of every guide runs as it stands there; tests/spark has those that need a session."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import guides


@pytest.mark.parametrize("name", [name for name in guides.names() if name not in guides.ON_SPARK])
def test_a_guide_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    guides.run(name, tmp_path)


@pytest.mark.parametrize("name", guides.names())
def test_what_is_only_shown_is_python(name: str):
    for block in guides.blocks(name):
        if block.language in {"py", "python"}:
            compile(block.code, f"docs/guides/{name}.md", "exec")


def test_each_guide_is_in_the_navigation_and_on_the_first_page():
    navigation = (guides.ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    first = (guides.ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for name in guides.names():
        assert f": guides/{name}.md\n" in navigation
        assert f"](guides/{name}.md)" in first


def test_guides_on_spark_exist():
    assert set(guides.ON_SPARK) <= set(guides.names())


def test_a_moved_job_keeps_its_options():
    job = guides.blocks("move-a-spark-job")
    found = [re.findall(r"^hudi_options = \{.*?^\}", block.code, re.DOTALL | re.MULTILINE) for block in job]
    before, after = [options for options in found if options]
    assert before == after


def test_a_wrong_guide_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guides, "GUIDES", tmp_path)
    page = tmp_path / "wrong.md"
    page.write_text("```python\nassert False\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError):
        guides.run("wrong", tmp_path)
    page.write_text("```sh\nfalse\ntrue\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="exit status 1"):
        guides.run("wrong", tmp_path)
    page.write_text("```ruby\nputs 1\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="is not run"):
        guides.run("wrong", tmp_path)
