"""Filters in SQL as conditions that hoodoo knows."""

from __future__ import annotations

import datetime as dt
import re
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hoodoo.exceptions import InvalidOptionError

if TYPE_CHECKING:
    from hoodoo.spark.pruning import Conditions

__all__ = ["all_conditions_of_text", "conditions_of_text"]

Token = tuple[str, str]
"""The kind of a token, and its text."""

_TOKENS = re.compile(
    r"""(?P<space>\s+)
    |(?P<comment>--|/\*)
    |(?P<number>-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?:BD|[LDFSY])?(?!\w))
    |(?P<string>'[^'\\]*'(?!')|"[^"\\]*"(?!"))
    |(?P<escaped>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|[rR]'[^']*'|[rR]"[^"]*")
    |(?P<quoted>`[^`]+`(?!`))
    |(?P<odd>`(?:[^`]|``)*`)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<symbol><=>|<=|>=|<>|!=|==|[=<>(),])""",
    re.VERBOSE | re.DOTALL,
)
_OPERATORS = {
    "=": "=",
    "==": "=",
    "<=>": "=",
    "!=": "!=",
    "<>": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WORDS = {"AND", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "LIKE", "TRUE", "FALSE", "DATE", "CASE"}
_OPEN, _CLOSE, _AND = ("symbol", "("), ("symbol", ")"), ("word", "AND")


class _NotUnderstoodError(Exception):
    """A part of the text that is none of the conditions."""


def conditions_of_text(text: str) -> Conditions:
    """Return conditions that hold for every row that passes a filter.

    Args:
        text: The filter, in SQL.

    Returns:
        The conditions, without those of parts that are not understood, such as `OR` and functions.

    Examples:
        >>> conditions_of_text("city = 'sf' AND (fare > 5 AND upper(name) = 'X') AND day BETWEEN 1 AND 3")
        [('city', '=', 'sf'), ('fare', '>', 5), ('day', '>=', 1), ('day', '<=', 3)]
    """
    try:
        return _conjunction(_tokens(text), strict=False)
    except _NotUnderstoodError:
        return []


def all_conditions_of_text(text: str) -> Conditions:
    """Return the conditions that a filter is, where nobody applies it again.

    Args:
        text: The filter, in SQL.

    Raises:
        InvalidOptionError: A part of the filter is not understood.

    Examples:
        >>> all_conditions_of_text("city IN ('sf', 'la') AND fare IS NOT NULL")
        [('city', 'in', ['sf', 'la']), ('fare', 'is not null')]
    """
    try:
        return _conjunction(_tokens(text), strict=True)
    except _NotUnderstoodError as error:
        raise InvalidOptionError(
            f"the filter {text!r} has parts that hoodoo does not know: it knows comparisons of a column with a value, "
            "IN, BETWEEN and IS NULL, connected by AND. Filter the DataFrame by the rest"
        ) from error


def _tokens(text: str) -> list[Token]:
    found: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKENS.match(text, position)
        # What is unknown is a token too: only the condition around it is not understood.
        kind, value = ("unknown", text[position]) if match is None else (str(match.lastgroup), match.group())
        position += len(value)
        if kind == "comment" or (kind == "unknown" and value in "'\"`"):
            # What is a comment, or a string that does not end, is not told apart from conditions behind it.
            raise _NotUnderstoodError
        if kind == "word" and value.upper() in _WORDS:
            value = value.upper()
        if kind != "space":
            found.append((kind, value))
    return found


def _conjunction(tokens: list[Token], *, strict: bool) -> Conditions:
    """The conditions of what `AND` connects."""
    tokens = _without_parentheses(tokens)
    parts = _parts(tokens)
    if len(parts) > 1:
        return [condition for part in parts for condition in _conjunction(part, strict=strict)]
    try:
        return _condition(tokens)
    except (_NotUnderstoodError, ValueError, OverflowError) as error:
        if strict:
            raise _NotUnderstoodError from error
        return []


def _without_parentheses(tokens: list[Token]) -> list[Token]:
    while len(tokens) > 1 and tokens[0] == _OPEN and _closing(tokens) == len(tokens) - 1:
        tokens = tokens[1:-1]
    return tokens


def _closing(tokens: list[Token]) -> int:
    """Where the parenthesis that opens first is closed."""
    depth = 0
    for number, token in enumerate(tokens):
        depth += (token == _OPEN) - (token == _CLOSE)
        if depth == 0:
            return number
    raise _NotUnderstoodError


def _parts(tokens: list[Token]) -> list[list[Token]]:
    """What `AND` connects, outside of parentheses."""
    parts: list[list[Token]] = [[]]
    depth, between = 0, False
    for token in tokens:
        depth += (token == _OPEN) - (token == _CLOSE)
        if depth == 0 and token in (("word", "OR"), ("word", "CASE")):
            return [tokens]
        between = between or (depth == 0 and token == ("word", "BETWEEN"))
        if depth == 0 and token == _AND and not between:
            parts.append([])
            continue
        if depth == 0 and token == _AND:
            between = False
        parts[-1].append(token)
    return parts


def _condition(tokens: list[Token]) -> Conditions:
    if len(tokens) == 3 and tokens[1][1] in _OPERATORS and not _is_column(tokens[0]):  # noqa: PLR2004 - a value first
        value, (kind, operator), named = tokens
        tokens = [named, (kind, _TURNED.get(operator, operator)), value]
    column, words, rest = _column(tokens[:1]), [value for _, value in tokens[1:3]], tokens[1:]
    if words[:1] and words[0] in _OPERATORS:
        return [(column, _OPERATORS[words[0]], _value(rest[1:]))]
    if [value for _, value in rest] in (["IS", "NULL"], ["IS", "NOT", "NULL"]):
        return [(column, "is null" if len(rest) == 2 else "is not null")]  # noqa: PLR2004 - IS NULL
    if words[:1] == ["IN"] or words == ["NOT", "IN"]:
        negated = words[0] == "NOT"
        return [(column, "not in" if negated else "in", _values(rest[1 + negated :]))]
    if words[:1] == ["BETWEEN"] and _AND in rest:
        middle = rest.index(_AND)
        return [(column, ">=", _value(rest[1:middle])), (column, "<=", _value(rest[middle + 1 :]))]
    raise _NotUnderstoodError


def _is_column(token: Token) -> bool:
    return token[0] == "quoted" or (token[0] == "word" and token[1] not in _WORDS)


def _column(tokens: list[Token]) -> str:
    if len(tokens) != 1 or not _is_column(tokens[0]):
        raise _NotUnderstoodError
    return tokens[0][1].strip("`")


def _values(tokens: list[Token]) -> list[Any]:
    """The values of a list in parentheses."""
    if len(tokens) < 3 or tokens[0] != _OPEN or tokens[-1] != _CLOSE:  # noqa: PLR2004 - ( value )
        raise _NotUnderstoodError
    values: list[list[Token]] = [[]]
    for token in tokens[1:-1]:
        if token == ("symbol", ","):
            values.append([])
        else:
            values[-1].append(token)
    return [_value(one) for one in values]


def _value(tokens: list[Token]) -> Any:
    if len(tokens) == 2 and tokens[0] == ("word", "DATE") and tokens[1][0] == "string":  # noqa: PLR2004 - DATE 'day'
        return dt.date.fromisoformat(tokens[1][1][1:-1])
    if len(tokens) != 1:
        raise _NotUnderstoodError
    kind, text = tokens[0]
    if kind == "string":
        return text[1:-1]
    if tokens[0] in (("word", "TRUE"), ("word", "FALSE")):
        return text == "TRUE"
    if kind != "number":
        raise _NotUnderstoodError
    return _number(text)


def _number(text: str) -> int | float | Decimal:
    """A number, of the kind that Spark takes it for: 0.5 is a decimal, and 0.5D is not."""
    digits = text.rstrip("BDLFSY")
    suffix = text[len(digits) :]
    if suffix == "F":
        (single,) = struct.unpack("<f", struct.pack("<f", float(digits)))
        return float(single)
    if suffix == "D" or (not suffix and "e" in digits.lower()):
        return float(digits)
    return int(digits) if re.fullmatch(r"-?\d+", digits) and suffix != "BD" else Decimal(digits)
