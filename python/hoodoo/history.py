"""The history: the files that archived actions are kept in."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["History", "HistoryCompaction", "HistoryFile"]


@dataclass(frozen=True)
class HistoryCompaction:
    """What a compaction of the history did.

    Attributes:
        levels: Levels that were compacted.
        files: Files that were merged.
        removed: Old versions and files that were removed.
    """

    levels: int
    files: int
    removed: int


@dataclass(frozen=True)
class HistoryFile:
    """A file of the history.

    Attributes:
        name: Its name in the folder of the history.
        size: Its bytes.
        since: The earliest requested time in it.
        until: The latest requested time in it.
        level: 0 as archiving writes it; a compaction merges files into one of the next level.
    """

    name: str
    size: int
    since: str
    until: str
    level: int


@dataclass(frozen=True)
class History:
    """The history as it is kept.

    Attributes:
        version: Number of the manifest that lists the files; 0 when nothing was archived.
        files: The files, the earliest first; there are none in a table of version 6, whose archive is made of logs.
    """

    version: int
    files: tuple[HistoryFile, ...]
