"""`_native.pyi` says what the built module has: the same names, and the same parameters of what is called."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hoodoo import _native

STUB = Path(__file__).resolve().parents[2] / "python/hoodoo/_native.pyi"
# Parameters of a callable, each with whether it has a default; None for what is not called.
Members = dict[str, "list[tuple[str, bool]] | None"]


def is_public(name: str) -> bool:
    return not name.startswith("_") or name == "__version__"


def parameters_in_stub(function: ast.FunctionDef) -> list[tuple[str, bool]] | None:
    if any(isinstance(d, ast.Name) and d.id == "property" for d in function.decorator_list):
        return None
    given = function.args
    assert given.posonlyargs + given.kwonlyargs == [], function.name
    assert given.vararg is given.kwarg is None, function.name
    required = len(given.args) - len(given.defaults)
    return [(argument.arg, number >= required) for number, argument in enumerate(given.args) if argument.arg != "self"]


def members_in_stub(body: list[ast.stmt]) -> tuple[Members, dict[str, Members]]:
    members: Members = {}
    classes: dict[str, Members] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            members[node.name] = parameters_in_stub(node)
        elif isinstance(node, ast.ClassDef):
            members[node.name] = None
            classes[node.name], _ = members_in_stub(node.body)
        # Aliases of types are for the stub alone.
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) != "TypeAlias":
            members[ast.unparse(node.target)] = None
    return members, classes


def members_of(owner: ModuleType | type) -> Members:
    members: Members = {}
    for name, value in vars(owner).items():
        if is_public(name):
            called = isinstance(value, staticmethod) or (callable(value) and not isinstance(value, type))
            members[name] = parameters_of(getattr(owner, name)) if called else None
    return members


def parameters_of(function: Any) -> list[tuple[str, bool]]:
    assert function.__text_signature__ is not None, function
    given = inspect.signature(function).parameters.values()
    return [(p.name, p.default is not inspect.Parameter.empty) for p in given if p.name != "self"]


def differences(stub: str, module: ModuleType) -> list[str]:
    members, classes = members_in_stub(ast.parse(stub).body)
    pairs = [("", members, members_of(module))]
    pairs += [(f"{name}.", of_stub, members_of(getattr(module, name, object))) for name, of_stub in classes.items()]
    found = []
    for prefix, of_stub, of_module in pairs:
        found += [f"{prefix}{name} is not in the module" for name in of_stub.keys() - of_module.keys()]
        found += [f"{prefix}{name} is not in the stub" for name in of_module.keys() - of_stub.keys()]
        for name in of_stub.keys() & of_module.keys():
            if of_stub[name] != of_module[name]:
                found.append(f"{prefix}{name} takes {of_module[name]}, not {of_stub[name]}")
    return sorted(found)


def test_the_stub_and_the_module_are_the_same():
    assert differences(STUB.read_text(encoding="utf-8"), _native) == []


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("def option_keys(", "def option_names(", "option_keys is not in the stub"),
        ("DEBUG_BUILD: bool", "RELEASE_BUILD: bool", "RELEASE_BUILD is not in the module"),
        ("def uri(self)", "def location(self)", "NativeTable.uri is not in the stub"),
        ("def add(self, batch: ", "def add(self, rows: ", "NativePacker.add takes [('batch', False)]"),
        ("instant: str | None = None) -> NativeCompaction", "instant: str) -> NativeCompaction", "('instant', True)]"),
        ("class NativePacker:", "class NativeKeyer:", "NativePacker is not in the stub"),
    ],
)
def test_a_difference_is_found(old: str, new: str, difference: str):
    stub = STUB.read_text(encoding="utf-8")
    assert stub.count(old) == 1
    assert any(difference in line for line in differences(stub.replace(old, new), _native))
