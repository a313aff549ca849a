"""Reads Rust sources as far as the tests of the project's structure need it."""

from __future__ import annotations

import re

_COMMENT_OR_STRING = re.compile(
    r'//[^\n]*|/\*.*?\*/|\bb?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"' + r"|b?'(?:\\.[^']*|[^'\\])'", re.DOTALL
)
_TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod \w+ \{", re.MULTILINE)


def without_comments_and_strings(source: str) -> str:
    """The code alone, on the same lines: a path in a comment or a message is no use of a module."""
    return _COMMENT_OR_STRING.sub(lambda match: " " + "\n" * match[0].count("\n"), source)


def without_tests(code: str) -> str:
    """The code in front of the module of its unit tests, which is the last one of a file."""
    found = _TESTS.search(code)
    return code[: found.start()] if found else code


def split_group(group: str) -> list[str]:
    """The members of `{a, b::{c, d}, e}`, without the braces."""
    members, depth, begin = [], 0, 0
    for position, character in enumerate(group):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            members.append(group[begin:position])
            begin = position + 1
    return [member.strip() for member in [*members, group[begin:]] if member.strip()]


def end_of_braces(code: str, begin: int) -> int:
    """The position behind the brace that closes the one at `begin`; the end of the code if there is none."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(code, begin):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return len(code)
