"""What a secondary index says, and what it has to say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoodoo import Table

if TYPE_CHECKING:
    from pathlib import Path

# Value and record key.
Entries = list[tuple[str | None, str]]


def _sorted(entries: Entries) -> Entries:
    return sorted(entries, key=lambda entry: (entry[0] is not None, entry[0] or "", entry[1]))


def entries_of(path: Path | str, partition: str) -> Entries:
    """The values and keys of an index."""
    metadata = Table(path).metadata_table
    assert metadata is not None
    found = metadata.to_arrow(partition).to_pylist()
    return _sorted([(row["value"], row["record_key"]) for row in found])


def stored_entries(path: Path | str, column: str) -> Entries:
    """The same, by the rows of the table; of a column of strings or integers."""
    table = Table(path, {"hoodie.metadata.enable": "false"})
    found = table.to_arrow(columns=["_hoodie_record_key", column]).to_pylist()
    return _sorted([(_text(row[column]), row["_hoodie_record_key"]) for row in found])


def _text(value: object) -> str | None:
    return None if value is None else str(value)
