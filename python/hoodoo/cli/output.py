"""Output for programs: JSON documents, and JSON lines for rows."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

# Terminals take these for commands too, and JSON allows them as they are; it escapes the others by itself.
_CONTROLS = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}

__all__ = ["json_line", "limited", "plain", "print_json", "print_rows", "without_meta"]


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it.

    Args:
        value: Anything: dataclasses become objects with the same names, tuples lists, bytes base64, dates and decimals
            strings, and numbers that JSON does not have null.

    Returns:
        Dictionaries, lists, strings, numbers, booleans and None.

    Examples:
        >>> plain({"a": (1, float("nan")), "b": b"x"})
        {'a': [1, None], 'b': 'eA=='}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def json_line(value: Any, indent: int | None = None) -> str:
    r"""Return a value as JSON without control characters.

    Args:
        value: See `plain`.
        indent: Spaces of a level; None for one line.

    Returns:
        The JSON.

    Examples:
        >>> json_line({"a": "b\x1b\x9bé"})
        '{"a": "b\\u001b\\u009bé"}'
    """
    return json.dumps(plain(value), indent=indent, ensure_ascii=False).translate(_CONTROLS)


def print_json(value: Any) -> None:
    """Print one JSON document.

    Args:
        value: See `plain`.
    """
    typer.echo(json_line(value, 2))


def print_rows(reader: pa.RecordBatchReader, limit: int | None = None) -> None:
    """Print rows as JSON lines, one object a row, and read no further than asked.

    Args:
        reader: The rows.
        limit: How many of them; None for all.
    """
    with reader:
        for batch in limited(reader, limit):
            for row in batch.to_pylist():
                typer.echo(json_line(row))


def without_meta(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return rows without Hudi's `_hoodie_*` columns.

    Args:
        reader: The rows.

    Returns:
        The same rows.
    """
    names = [name for name in reader.schema.names if not name.startswith("_hoodie_")]
    schema = pa.schema([reader.schema.field(name) for name in names])
    return pa.RecordBatchReader.from_batches(schema, (batch.select(names) for batch in reader))


def limited(reader: pa.RecordBatchReader, limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield batches until there are that many rows.

    Args:
        reader: The rows.
        limit: How many of them; None for all.

    Yields:
        The batches; the last one may be cut.
    """
    left = limit
    for batch in reader:
        found = batch if left is None else batch.slice(0, left)
        yield found
        if left is not None:
            left -= found.num_rows
            if left <= 0:
                return
