"""The words of a statement, one after the other, for statements that sqlglot itself does not read."""

from __future__ import annotations

from typing import Any

from hoodoo.exceptions import InvalidOptionError
from hoodoo.extras import import_extra

__all__ = ["Tokens"]

_NOT_A_NAME = {"NUMBER", "STRING", "L_PAREN", "R_PAREN", "COMMA", "DOT", "LT", "GT", "COLON", "SEMICOLON", "EQ"}


class Tokens:
    """A statement that is read from the left to the right.

    Args:
        text: The statement.
        expected: What is expected in it, for messages.

    Raises:
        InvalidOptionError: A string or a quoted name has no end.
        MissingDependencyError: sqlglot is not installed.
    """

    def __init__(self, text: str, expected: str) -> None:
        """Split the text."""
        import_extra("sqlglot", "sql", "SQL text")
        import sqlglot  # noqa: PLC0415 - an optional package
        from sqlglot.errors import SqlglotError  # noqa: PLC0415 - as above

        self.text, self._expected, self._at = text, expected, 0
        try:
            self._tokens: list[Any] = list(sqlglot.tokenize(text, read="spark"))
        except SqlglotError as error:
            raise InvalidOptionError(f"invalid SQL {text!r}: a string or a quoted name has no end") from error
        while self._tokens and self._tokens[-1].token_type.name == "SEMICOLON":
            self._tokens.pop()

    @property
    def is_end(self) -> bool:
        """Whether all was read."""
        return self._at >= len(self._tokens)

    def follows(self, *words: str) -> bool:
        """Return whether these words are next; they are not read."""
        next_ones = self._tokens[self._at : self._at + len(words)]
        # A quoted word is a name.
        found = [token.text.upper() for token in next_ones if token.token_type.name not in {"IDENTIFIER", "STRING"}]
        return found == list(words)

    def take(self, *words: str) -> bool:
        """Read these words if they are next, and return whether they were."""
        if not self.follows(*words):
            return False
        self._at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Read these words.

        Raises:
            InvalidOptionError: Something else is next.
        """
        if not self.take(*words):
            raise self.invalid(" ".join(words))

    def name(self) -> str:
        """Read one name, quoted or not.

        Raises:
            InvalidOptionError: Something else is next.
        """
        if self.is_end or self._tokens[self._at].token_type.name in _NOT_A_NAME:
            raise self.invalid("a name")
        self._at += 1
        return str(self._tokens[self._at - 1].text)

    def names(self) -> list[str]:
        """Read names with dots between them."""
        found = [self.name()]
        while self.take("."):
            found.append(self.name())
        return found

    def string(self) -> str:
        """Read a string."""
        return self._literal("STRING", "a string in quotes")

    def number(self) -> int:
        """Read a whole number."""
        digits = self._literal("NUMBER", "a whole number")
        if not digits.isdecimal():
            raise self.invalid("a whole number")
        return int(digits)

    def _literal(self, kind: str, what: str) -> str:
        if self.is_end or self._tokens[self._at].token_type.name != kind:
            raise self.invalid(what)
        self._at += 1
        return str(self._tokens[self._at - 1].text)

    def invalid(self, what: str) -> InvalidOptionError:
        """Return the error that something was expected here."""
        found = "its end" if self.is_end else f"`{self._tokens[self._at].text}`"
        return InvalidOptionError(f"invalid SQL {self.text!r}: {what} is expected at {found}. {self._expected}")
