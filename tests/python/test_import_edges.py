"""Dependencies point one way: fails on any import between layers that the layout forbids.

Rust: the crates below `rust` see those that their manifests name. Within rust/core each folder is a layer, and
`crate::…` paths are its edges; the crates that it is built on are layers too. Python: the package sees only its native
half; `distributed` sees the package and the native half; `spark` sees `distributed` and the package, and `cli` the
package, but neither the other nor the native half.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.rust_sources import split_group, without_comments_and_strings

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "rust" / "core"
PACKAGE = ROOT / "python" / "hoodoo"

# Which crates of ours each crate may use.
CRATE_EDGES: dict[str, set[str]] = {
    "hfile": set(),
    "runtime": {"hfile"},
    "format": {"hfile", "runtime"},
    "parquet_pages": {"runtime"},
    "merge": {"runtime"},
    "storage": {"runtime"},
    "timeline": {"format", "parquet_pages", "runtime", "storage"},
    "file_group": {"format", "parquet_pages", "runtime", "storage"},
}

BASE = {"format", "storage", "parallel"}
FILES = BASE | {"timeline", "file_group"}
TABLE = FILES | {"merge", "metadata_table"}
# What every layer may use.
COMMON = {"error", "interrupt", "timings"}
# Which layers of rust/core each layer may use, besides itself and the common ones.
RUST_EDGES: dict[str, set[str]] = {
    "timings": set(),
    "sort": {"storage", "parallel"},
    "metadata_table": FILES | {"merge", "sort"},
    "table": TABLE,
    # One action from its instant to its end: writes and services go through it.
    "transaction": TABLE | {"table"},
    "write": TABLE | {"table", "transaction"},
    "services": TABLE | {"table", "sort", "transaction"},
    # Writes and services do not know each other; the client runs both.
    "client": TABLE | {"table", "transaction", "write", "services"},
    # Takes the locks of each.
    "fork": {"storage", "timeline", "file_group", "services"},
}
PYTHON_EDGES: dict[str, set[str]] = {
    "package": {"native"},
    "distributed": {"package", "native"},
    "spark": {"package", "distributed"},
    "cli": {"package"},
}

Edge = tuple[str, str, str]


def first_names(source: str) -> list[str]:
    """The name after `crate::` in every path, each one of a braced group too."""
    names = []
    for match in re.finditer(r"\bcrate\s*::\s*", source):
        rest = source[match.end() :]
        if not rest.startswith("{"):
            names.append(rest)
            continue
        depth = 0
        for end, character in enumerate(rest):
            depth += {"{": 1, "}": -1}.get(character, 0)
            if depth == 0:
                names += split_group(rest[1:end])
                break
    found = [re.match(r"(?:r#)?(\w+)", name) for name in names]
    return [match.group(1) for match in found if match]


def super_names(source: str, depth: int) -> list[str]:
    """Rooms that are reached by climbing out of one's own with `super::super::…`; `depth` is a file's own."""
    climbs = re.finditer(r"((?:super\s*::\s*)+)(\w+)", source)
    return [climb.group(2) for climb in climbs if climb.group(1).count("super") >= depth]


def exported_names(lib: str) -> dict[str, str]:
    """Names that lib.rs re-exports, with the layer each is from: `crate::Table` is an edge to `table`."""
    exports: dict[str, str] = {}
    code = without_comments_and_strings(lib)
    for layer, names in re.findall(r"\bpub\s+use\s+(?:crate\s*::\s*)?(\w+)\s*::([^;]+);", code):
        exports |= dict.fromkeys(re.findall(r"\w+", names), layer)
    return exports


EXPORTS = exported_names((CORE / "lib.rs").read_text(encoding="utf-8"))


def rust_edges(layer: str, source: str, depth: int = 99, exports: dict[str, str] | None = None) -> set[tuple[str, str]]:
    code = without_comments_and_strings(source)
    names = [*first_names(code), *super_names(code, depth)]
    exports = EXPORTS if exports is None else exports
    layers = set(RUST_EDGES) | set(CRATE_EDGES) | {"parallel"}
    reached = {name if name in layers else exports.get(name, "") for name in names} & layers
    return {(layer, name) for name in reached if name not in COMMON | {layer}}


def layer_of(path: Path) -> str:
    first = path.relative_to(CORE).parts[0]
    return first.removesuffix(".rs")


def all_rust_edges() -> set[Edge]:
    found = set()
    for path in sorted(CORE.rglob("*.rs")):
        layer = layer_of(path)
        if layer == "lib":
            continue
        parts = path.relative_to(CORE).with_suffix("").parts
        # How many `super` lead out of the file's module to the crate's root; a nested `mod tests` needs one more.
        depth = len(parts) - (parts[-1] == "mod")
        edges = rust_edges(layer, path.read_text(encoding="utf-8"), depth)
        found |= {(*edge, str(path.relative_to(ROOT))) for edge in edges}
    return found


def python_layer(module: str) -> str | None:
    """Which layer a module of ours is in; None for everybody else's."""
    parts = module.split(".")
    if parts[0] != "hoodoo":
        return None
    second = parts[1] if len(parts) > 1 else ""
    named = {"_native": "native", "distributed": "distributed", "spark": "spark", "cli": "cli"}
    return named.get(second, "package")


def imported_modules(module: str, source: str, *, is_package: bool = False) -> set[str]:
    """Every module that a source imports, relative imports made absolute, `from x import y` as `x.y`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parent = node.module or ""
            if node.level:
                up = node.level - 1 if is_package else node.level
                base = module.split(".")
                parent = ".".join([*base[: len(base) - up], *([node.module] if node.module else [])])
            found |= {f"{parent}.{alias.name}" for alias in node.names}
    return found


def python_edges(module: str, source: str, *, is_package: bool = False) -> set[tuple[str, str]]:
    layer = python_layer(module)
    assert layer is not None
    reached = {python_layer(name) for name in imported_modules(module, source, is_package=is_package)}
    return {(layer, name) for name in reached if name not in {None, layer}}


def all_python_edges() -> set[Edge]:
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = list(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        module = ".".join(parts[:-1] if is_package else parts)
        edges = python_edges(module, path.read_text(encoding="utf-8"), is_package=is_package)
        found |= {(*edge, str(path.relative_to(ROOT))) for edge in edges}
    return found


def forbidden(edges: set[Edge], allowed: dict[str, set[str]]) -> list[str]:
    return sorted(
        f"{path}: {layer} may not use {used}" for layer, used, path in edges if used not in allowed.get(layer, set())
    )


def test_rust_layers_use_only_layers_below():
    assert forbidden(all_rust_edges(), RUST_EDGES) == []


def crates_of(manifest: str) -> set[str]:
    """The crates of ours that a manifest names, by their folders."""
    dependencies = manifest.partition("[dependencies]")[2].partition("\n[")[0]
    return {name.replace("-", "_") for name in re.findall(r"^hoodoo-([\w-]+)", dependencies, re.MULTILINE)}


def test_crates_use_only_crates_below():
    folders = {path.parent.name for path in (ROOT / "rust").glob("*/Cargo.toml")} - {"bindings"}
    assert folders == set(CRATE_EDGES)
    for crate, allowed in CRATE_EDGES.items():
        manifest = (ROOT / "rust" / crate / "Cargo.toml").read_text(encoding="utf-8")
        assert crates_of(manifest) <= allowed, crate
        assert "pyo3" not in manifest, crate


def test_every_rust_layer_is_known():
    layers = {layer_of(path) for path in CORE.rglob("*.rs")} - {"lib"}
    assert layers
    assert layers <= set(RUST_EDGES)


def test_core_knows_nothing_of_python():
    manifest = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    dependencies = manifest.split("[dependencies]")[1].split("\n[")[0]
    assert "pyo3" not in dependencies
    offenders = [path for path in CORE.rglob("*.rs") if "pyo3" in without_comments_and_strings(path.read_text())]
    assert offenders == []


def test_python_package_spark_and_cli_keep_apart():
    assert forbidden(all_python_edges(), PYTHON_EDGES) == []


@pytest.mark.parametrize(
    ("layer", "source"),
    [
        ("sort", "use crate::format::Store;"),
        ("sort", "use crate::{error::Result, table::{Config, Snapshot}};"),
        ("table", "fn f() { let x = crate::write::commit(); }"),
        ("write", "use crate::services::clean;"),
        ("services", "use crate :: { format, write :: commit };"),
    ],
)
def test_a_forbidden_rust_edge_is_found(layer: str, source: str):
    edges = {(*edge, "x.rs") for edge in rust_edges(layer, source)}
    assert len(forbidden(edges, RUST_EDGES)) == 1


def test_a_re_export_of_the_crate_hides_no_edge():
    exports = exported_names("pub use error::{Error, Result};\npub use table::{Table, config::Config as Settings};")
    assert rust_edges("sort", "use crate::{Result, Settings};", exports=exports) == {("sort", "table")}


def test_climbing_out_of_a_layer_is_found():
    # rust/core/sort/rows.rs: one `super` is the layer, two are the crate.
    edges = {(*edge, "x.rs") for edge in rust_edges("sort", "use super::super::table::Config;", depth=2)}
    assert forbidden(edges, RUST_EDGES) == ["x.rs: sort may not use table"]
    assert rust_edges("sort", "use super::table::Column;", depth=2) == set()


@pytest.mark.parametrize(
    ("layer", "source"),
    [
        ("table", "use crate::{error::{Error, Result}, format::schema, timeline::Instant, table::Config};"),
        ("sort", '// use crate::format::Store;\n/* crate::write */ const X: &str = "crate::table::x";'),
        ("sort", 'const X: &str = r#"crate::table "quoted" crate::write"#; use crate::error::Error;'),
        ("write", "pub(crate) fn storage() -> crate::Result<()> { Ok(()) }"),
    ],
)
def test_an_allowed_rust_edge_passes(layer: str, source: str):
    edges = {(*edge, "x.rs") for edge in rust_edges(layer, source)}
    assert forbidden(edges, RUST_EDGES) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("hoodoo.table", "import hoodoo.spark"),
        ("hoodoo.table", "def f():\n    from .cli import main"),
        ("hoodoo.table", "from hoodoo.distributed import Executor"),
        ("hoodoo.distributed.write", "from hoodoo.spark import write"),
        ("hoodoo.spark.tables", "from hoodoo.cli import render"),
        ("hoodoo.spark.tables", "from hoodoo import _native"),
        ("hoodoo.cli.commands", "from ..spark import read"),
        ("hoodoo.cli.commands", "import hoodoo._native as native"),
    ],
)
def test_a_forbidden_python_edge_is_found(module: str, source: str):
    edges = {(*edge, "x.py") for edge in python_edges(module, source)}
    assert len(forbidden(edges, PYTHON_EDGES)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("hoodoo.table", "from hoodoo import _native\nfrom .options import Options\nimport pyarrow"),
        ("hoodoo.distributed.write", "from hoodoo import _native\nfrom hoodoo.options import Options"),
        (
            "hoodoo.spark.tables",
            "from hoodoo.distributed.read import read_table\nfrom hoodoo import Table\nimport pyspark",
        ),
        ("hoodoo.cli.commands", "from hoodoo.cli import render\nfrom hoodoo import Table"),
    ],
)
def test_an_allowed_python_edge_passes(module: str, source: str):
    edges = {(*edge, "x.py") for edge in python_edges(module, source)}
    assert forbidden(edges, PYTHON_EDGES) == []
