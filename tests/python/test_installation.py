"""What a plain install can do, what extras add, and that the pages on installing say the same."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "hoodoo"
PAGE = ROOT / "docs" / "installation.md"

# For each extra: a module of it, and a call that needs it, on a table `t` in `folder`.
NEEDS = {
    "spark": ("pyspark", "import hoodoo.spark"),
    "pandas": ("pandas", "t.to_pandas()"),
    "hive": ("pymetastore", "hoodoo.Table.from_catalog('d.t', 'thrift://127.0.0.1:1')"),
    "glue": ("boto3", "hoodoo.Table.from_catalog('d.t', 'glue')"),
    "zookeeper": ("kazoo", "write_with('org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider')"),
    "dynamodb": ("boto3", "write_with('org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider')"),
    "polars": ("polars", "t.to_polars()"),
    "ray": ("ray", "t.to_ray()"),
    "daft": ("daft", "t.to_daft()"),
    "sql": ("sqlglot", "t.update({'id': 1}, where='id = 1')"),
    "plot": ("matplotlib", "t.timeline.plot(f'{folder}/t.png')"),
    "testing": ("hypothesis", "from hoodoo.testing import check_merger; check_merger(None, pa.schema([]), [])"),
}

PLAIN_INSTALL = """
import importlib, importlib.abc, json, pkgutil, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

folder, absent, calls = json.loads(sys.argv[1])
sys.meta_path.insert(0, Absent())
import hoodoo
import pyarrow as pa

failed = {}
for module in pkgutil.walk_packages(hoodoo.__path__, "hoodoo.", onerror=lambda name: None):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ImportError as error:
            failed[module.name] = str(error)

t = hoodoo.Table.create(f"{folder}/t", pa.schema([("id", pa.int64())]), name="t", record_key="id")

def write_with(provider):
    hoodoo.Table(t.uri, {"hoodie.write.lock.provider": provider}).insert({"id": [1]})

said = {}
for extra, call in calls.items():
    try:
        exec(call)
        said[extra] = "no error"
    except hoodoo.UnsupportedError as error:
        # MissingDependencyError is one, and what it is by the time it has come back through Rust, from a lock.
        said[extra] = str(error)
    except Exception as error:
        said[extra] = repr(error)
print(json.dumps([failed, said]))
"""


def project() -> dict[str, Any]:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 reads no TOML")
    loaded: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return loaded


Said = dict[str, str]


@pytest.fixture(scope="module")
def plain_install(tmp_path_factory: pytest.TempPathFactory) -> tuple[Said, Said]:
    """What cannot be imported without any extra, and what calls that need one say."""
    absent = sorted({module for module, _ in NEEDS.values()} | {"botocore", "duckdb", "IPython", "numpy", "thrift"})
    asked = [str(tmp_path_factory.mktemp("plain")), absent, {extra: call for extra, (_, call) in NEEDS.items()}]
    command = [sys.executable, "-c", PLAIN_INSTALL, json.dumps(asked)]
    failed, said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return failed, said


def test_a_plain_install_imports_all_but_what_is_made_of_an_extra(plain_install: tuple[Said, Said]):
    failed = {name.removeprefix("hoodoo.").split(".")[0] for name in plain_install[0]}
    assert failed == {"spark", "polars_frames"}


@pytest.mark.parametrize("extra", NEEDS)
def test_the_error_names_the_extra(plain_install: tuple[Said, Said], extra: str):
    module, _ = NEEDS[extra]
    assert re.fullmatch(rf".+ needs {module}: pip install 'hoodoo\[{extra}\]'", plain_install[1][extra])


def test_the_page_has_each_extra_with_its_packages():
    rows = re.findall(r"^\| `(\w+)` \|[^|]+\| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    documented = {extra: re.findall(r"`([^`]+)`", packages) for extra, packages in rows}
    assert documented == project()["project"]["optional-dependencies"]


def test_each_extra_has_a_call_that_needs_it():
    assert set(NEEDS) == set(project()["project"]["optional-dependencies"])


def test_every_extra_that_is_named_anywhere_exists():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *PACKAGE.rglob("*.py")]
    named = {extra for page in pages for extra in re.findall(r"hoodoo\[(\w+)\]", page.read_text(encoding="utf-8"))}
    code = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    asked = set(re.findall(r'import_extra\("[\w.]+", "(\w+)"', code))
    assert asked == set(NEEDS)
    assert named <= set(NEEDS)


def test_the_recipe_for_conda_asks_for_what_the_wheel_does():
    recipe = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    version = re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert version is not None
    assert f'version: "{version[1]}"' in recipe
    run = recipe.split("\n  run:\n", maxsplit=1)[1].split("\n\n", maxsplit=1)[0]
    asked = [line.strip(" -").replace(" ", "") for line in run.splitlines()]
    assert asked[0] == "python"
    assert asked[1:] == project()["project"]["dependencies"]


def test_the_notes_of_a_release_are_its_part_of_the_changelog(tmp_path: Path):
    script = ROOT / "scripts" / "release_notes.py"
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text(
        "# Changelog\n\n## [Unreleased]\n\n- x\n\n## [0.2.0] - 2027-01-02\n\n- new\n\n## [0.1.0]\n\n- old\n"
    )

    def notes(version: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(script), version, str(changelog)]
        return subprocess.run(command, check=False, capture_output=True, text=True)

    assert notes("0.2.0").stdout == "- new\n"
    assert notes("0.1.0").stdout == "- old\n"
    missing = notes("0.3.0")
    assert missing.returncode == 1
    assert "0.3.0" in missing.stderr
