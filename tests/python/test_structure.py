"""Keeps the Rust sources easy to read: files do not import each other in circles, and functions are not long."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.rust_sources import end_of_braces, split_group, without_comments_and_strings, without_tests

ROOT = Path(__file__).resolve().parents[2]
CRATES = [ROOT / "rust" / "core", *sorted((ROOT / "rust").glob("*/src"))]
LONGEST_FUNCTION = 80
"""Lines of a function, from its `fn` to its closing brace."""

Module = tuple[str, ...]
"""The names of a module from the crate's root on: `("table", "view")`."""

_USE = re.compile(r"^[ \t]*(pub(?:\([^)]*\))?[ \t]+)?use\s+([^;]+);", re.MULTILINE)
_PATH = re.compile(r"\b(?:crate|super)(?:\s*::\s*\w+)+")
_FUNCTION = re.compile(r"^[ \t]*(?:pub(?:\([^)]*\))?\s+)?(?:const\s+|async\s+|unsafe\s+)*fn\s+(\w+)", re.MULTILINE)

_BRACKET = re.compile(r"[()\[\]{};]")


def is_test(path: Path) -> bool:
    """Whether a file has only tests."""
    return "tests" in path.parts or "test" in path.stem


@cache
def sources(root: Path) -> dict[Path, str]:
    """The code of each file, without comments, strings and tests."""
    paths = [path for path in sorted(root.rglob("*.rs")) if not is_test(path.relative_to(root))]
    return {path: without_tests(without_comments_and_strings(path.read_text(encoding="utf-8"))) for path in paths}


def module_of(path: Path, root: Path) -> Module:
    """The module that a file is."""
    parts = path.relative_to(root).with_suffix("").parts
    return parts[:-1] if parts[-1] in {"mod", "lib"} else parts


def used_paths(tree: str) -> list[tuple[Module, str]]:
    """The paths of a `use`, each with the name that it gets: `a::{b, c as d}` are `a::b` as `b` and `a::c` as `d`."""
    head, brace, _ = tree.partition("{")
    if brace:
        members = split_group(tree[len(head) + 1 : end_of_braces(tree, len(head)) - 1])
        return [used for member in members for used in used_paths(head + member)]
    path, _, alias = tree.partition(" as ")
    names = tuple(re.findall(r"\w+|\*", path))
    # `use a::{self}` is `use a`.
    names = names[:-1] if len(names) > 1 and names[-1] == "self" else names
    return [(names, alias.strip() or names[-1])]


class Crate:
    """Which module uses which."""

    def __init__(self, files: dict[Module, str]) -> None:
        self.uses: dict[Module, set[Module]] = {module: set() for module in files}
        self.re_exports: dict[Module, dict[str, Module]] = {module: {} for module in files}
        for module, code in files.items():
            self._read(module, code)

    def _read(self, module: Module, code: str) -> None:
        for match in _USE.finditer(code):
            for names, alias in used_paths(" ".join(match[2].split())):
                path = self._absolute(module, names)
                if path is None:
                    continue
                if match[1]:
                    self.re_exports[module][alias] = path
                else:
                    self.uses[module].add(path)
        for match in _PATH.finditer(_USE.sub("", code)):
            path = self._absolute(module, tuple(re.findall(r"\w+", match[0])))
            if path is not None:
                self.uses[module].add(path)

    def _absolute(self, module: Module, names: Module) -> Module | None:
        """The path from the crate's root; None for other crates."""
        if names[0] == "crate":
            return names[1:]
        if names[0] == "self":
            return module + names[1:]
        ups = next((at for at, name in enumerate(names) if name != "super"), len(names))
        if ups:
            return module[: len(module) - ups] + names[ups:]
        return module + names if (*module, names[0]) in self.uses else None

    def _file_of(self, path: Module, depth: int = 0) -> Module | None:
        """The module whose file has what a path names, through re-exports."""
        for length in range(len(path), -1, -1):
            module = path[:length]
            if module not in self.uses:
                continue
            exported = self.re_exports[module].get(path[length]) if length < len(path) else None
            if exported is None or depth > len(self.uses):
                return module
            return self._file_of(exported + path[length + 1 :], depth + 1)
        return None

    def circles(self) -> list[str]:
        """Modules that use each other, directly or through others, each circle as `a -> b -> a`."""
        graph = {module: {self._file_of(path) for path in paths} - {module} for module, paths in self.uses.items()}
        done: set[Module | None] = set()
        found: list[str] = []

        def visit(module: Module | None, way: list[Module | None]) -> None:
            if module in way:
                circle = [*way[way.index(module) :], module]
                found.append(" -> ".join("::".join(name) if name else "crate" for name in circle if name is not None))
            elif module is not None and module not in done:
                for used in sorted(graph[module], key=str):
                    visit(used, [*way, module])
                done.add(module)

        for module in graph:
            visit(module, [])
        return found


def body_of(code: str, begin: int) -> int | None:
    """Where the body of a function begins whose name ends at `begin`; None if it has none."""
    depth = 0
    for match in _BRACKET.finditer(code, begin):
        if depth == 0 and match[0] in "{;":
            return match.start() if match[0] == "{" else None
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(match[0], 0)
    return None


def long_functions(code: str, longest: int) -> list[str]:
    """Functions of more lines than that, as `name: lines`."""
    found = []
    for match in _FUNCTION.finditer(code):
        begin = body_of(code, match.end())
        lines = 0 if begin is None else code.count("\n", match.start(1), end_of_braces(code, begin)) + 1
        if lines > longest:
            found.append(f"{match[1]}: {lines} lines")
    return found


@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: str(crate.relative_to(ROOT)))
def test_files_do_not_import_each_other_in_circles(crate: Path):
    files = {module_of(path, crate): code for path, code in sources(crate).items()}
    assert files
    assert Crate(files).circles() == []


def test_functions_are_not_long():
    found = [
        f"{path.relative_to(ROOT)}: {function}"
        for path, code in sources(ROOT / "rust").items()
        for function in long_functions(code, LONGEST_FUNCTION)
    ]
    assert found == []


def test_a_circle_is_found():
    files: dict[Module, str] = {
        (): "mod a;",
        ("a",): "pub use b::B;\nmod b;\nmod c;",
        ("a", "b"): "use super::{c::C, d};",
        ("a", "c"): "fn f() { crate::a::B::new(); }",
    }
    assert Crate(files).circles() == ["a::b -> a::c -> a::b"]
    files["a", "c"] = "use std::fmt;\nuse self::x::Y;"
    assert Crate(files).circles() == []


def test_a_long_function_is_found():
    code = "pub(crate) fn f(a: [u8; 2]) -> [u8; 2]\nwhere\n    T: X,\n{\n    g(|| {\n    })\n}\n"
    code += "trait T {\n    fn g();\n}\n"
    assert long_functions(code, 6) == ["f: 7 lines"]
    assert long_functions(code, 7) == []


def test_braces_in_strings_and_tests_do_not_count():
    code = "fn f() {\n    let a = \"{\"; // {\n    let b = '{';\n}\n#[cfg(test)]\nmod tests {\n    fn g() {\n    }\n}\n"
    assert long_functions(without_tests(without_comments_and_strings(code)), 3) == ["f: 4 lines"]
