"""Arguments of procedures."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from hoodoo.exceptions import InvalidOptionError
from hoodoo.table import Table
from hoodoo.table_ref import TableRef

__all__ = ["TableLike", "arrow", "check_limit", "check_text", "open_table", "options_of", "with_options"]

TableLike: TypeAlias = Table | str | os.PathLike[str]
"""A table, or its location."""


def open_table(table: Any) -> Table:
    """Return a table.

    Raises:
        InvalidOptionError: It is neither a table nor a location.
        TableNotFoundError: There is no table at the location.
    """
    if isinstance(table, Table):
        return table
    if not isinstance(table, str | os.PathLike) or not str(table):
        raise InvalidOptionError(
            f"invalid table {table!r} of type {type(table).__name__}: expected a hoodoo.Table or its location"
        )
    return Table(table)


def with_options(table: Table, options: Mapping[str, str]) -> Table:
    """Return the table with more options."""
    if not options:
        return table
    other = Table.__new__(Table)
    known = table._ref  # noqa: SLF001
    other._ref = TableRef(known.uri, {**known.options, **options}, known.storage_options)  # noqa: SLF001 - a copy
    other._progress = table._progress  # noqa: SLF001
    other._native = table._native.with_options(dict(options))  # noqa: SLF001
    return other


def options_of(text: Any) -> dict[str, str]:
    """Return the options of a string such as `a=1,b=2`.

    Raises:
        InvalidOptionError: It has another form.

    Examples:
        >>> options_of("hoodie.clean.policy=KEEP_LATEST_COMMITS, hoodie.clean.commits.retained=2")
        {'hoodie.clean.policy': 'KEEP_LATEST_COMMITS', 'hoodie.clean.commits.retained': '2'}
    """
    if text is None:
        return {}
    if isinstance(text, Mapping):
        return {str(key): str(value) for key, value in text.items()}
    if not isinstance(text, str):
        raise InvalidOptionError(f"invalid options {text!r}: expected 'key=value,key=value'")
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise InvalidOptionError(f"invalid options {text!r}: expected 'key=value,key=value'")
        found[key.strip()] = value.strip()
    return found


def check_limit(limit: Any) -> int:
    """Return a number of rows.

    Raises:
        InvalidOptionError: It is none.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise InvalidOptionError(f"invalid limit {limit!r}: expected 0 or a larger number")
    return limit


def check_text(name: str, value: Any) -> str:
    """Return a string that must not be empty.

    Raises:
        InvalidOptionError: It is none.
    """
    if not isinstance(value, str) or not value.strip():
        raise InvalidOptionError(
            f"invalid {name} {value!r}: expected the requested time of an instant, such as a Commit.instant"
        )
    return value.strip()


def arrow(schema: Mapping[str, pa.DataType], rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Return rows as an Arrow table."""
    columns: list[list[Any]] = [[] for _ in schema]
    for row in rows:
        for column, value in zip(columns, row, strict=True):
            column.append(value)
    arrays = [pa.array(column, data_type) for column, data_type in zip(columns, schema.values(), strict=True)]
    return pa.table(dict(zip(schema, arrays, strict=True)))
