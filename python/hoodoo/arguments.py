"""Arguments of the public API: what has the wrong type is an error that says which type is expected."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hoodoo.exceptions import InvalidOptionError

__all__ = ["location", "names_of", "optional_text", "storage_settings", "text"]


def text(value: Any, name: str, example: str) -> str:
    """Return an argument that has to be a string.

    Args:
        value: The argument.
        name: Its name.
        example: What could be given.

    Raises:
        InvalidOptionError: It is something else, or empty.

    Examples:
        >>> text(7, "instant", "a Commit.instant")
        Traceback (most recent call last):
        ...
        hoodoo.exceptions.InvalidOptionError: invalid instant 7 of type int: expected a string, such as a Commit.instant
    """
    if not isinstance(value, str) or not value:
        raise InvalidOptionError(f"invalid {name} {_shown(value)}: expected a string, such as {example}")
    return value


def optional_text(value: Any, name: str, example: str) -> str | None:
    """Return an argument that has to be a string or None. Arguments and errors as those of `text`."""
    return None if value is None else text(value, name, example)


def names_of(value: Any, name: str) -> list[str]:
    """Return an argument that is the name of one column, or the names of several; an empty list for None.

    Args:
        value: The argument.
        name: Its name.

    Raises:
        InvalidOptionError: It is something else.

    Examples:
        >>> names_of("city", "partition_by"), names_of(("a", "b"), "sort_by"), names_of(None, "sort_by")
        (['city'], ['a', 'b'], [])
    """
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    items = list(value) if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes) else None
    if items is None or not all(isinstance(item, str) for item in items):
        raise InvalidOptionError(f"invalid {name} {_shown(value)}: expected a string or a list of strings")
    return items


def location(uri: Any) -> str:
    """Return the location of a table as a string, without `..` and `~` of local folders.

    Raises:
        InvalidOptionError: It is neither a string nor a path.

    Examples:
        >>> location("s3://lake/a"), location("/lake/a/../b")
        ('s3://lake/a', '/lake/b')
    """
    if not isinstance(uri, str | os.PathLike) or not str(uri):
        raise InvalidOptionError(
            f"invalid location {_shown(uri)}: expected a folder, or a URI such as s3://bucket/path"
        )
    text = str(uri)
    path = Path(text)
    if ":/" in text or not {"..", "~"} & set(path.parts):
        return text
    # Only the links that are there say what `..` means.
    return str(path.expanduser().resolve())


def storage_settings(settings: Any) -> dict[str, str]:
    """Return settings of a storage.

    Raises:
        InvalidOptionError: They are no dictionary of strings.

    Examples:
        >>> storage_settings({"aws_region": "eu-west-1"}), storage_settings(None)
        ({'aws_region': 'eu-west-1'}, {})
    """
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        raise InvalidOptionError(
            f"invalid storage_options {_shown(settings)}: expected a dictionary, such as {{'aws_region': 'eu-west-1'}}"
        )
    for key, value in settings.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidOptionError(f"invalid storage option {key!r}: {_shown(value)}: expected strings")
    return dict(settings)


def _shown(value: Any) -> str:
    shown = repr(value)
    is_plain = len(shown) <= 60 and " at 0x" not in shown  # noqa: PLR2004 - a line of a message
    return f"{shown} of type {type(value).__name__}" if is_plain else f"of type {type(value).__name__}"
