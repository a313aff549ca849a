"""The history: the files of the archived timeline."""

from __future__ import annotations

from dataclasses import dataclass

from hoodoo.display import Displayed, View, human_size

__all__ = ["History", "HistoryCompaction", "HistoryFile"]


@dataclass(frozen=True)
class HistoryCompaction(Displayed):
    """The result of `Timeline.compact_history`.

    Attributes:
        levels: How many levels were compacted.
        files: How many files were merged.
        removed: How many old manifests and files were removed.
    """

    levels: int
    files: int
    removed: int

    def _view(self) -> View:
        facts = [("levels compacted", self.levels), ("files merged", self.files), ("old files removed", self.removed)]
        return View("HistoryCompaction", facts)


@dataclass(frozen=True)
class HistoryFile:
    """A file of the history.

    Attributes:
        name: Its name in the folder of the history.
        size: Its size in bytes.
        since: The smallest requested time in it.
        until: The largest requested time in it.
        level: Level of the LSM tree. Archival writes level 0; a compaction merges files into one of the next level.
    """

    name: str
    size: int
    since: str
    until: str
    level: int


@dataclass(frozen=True)
class History(Displayed):
    """One version of the history.

    Attributes:
        version: Version of the manifest that lists the files; 0 when nothing was archived.
        files: The files, oldest first. A table of version 6 has none: its archive consists of log files.
    """

    version: int
    files: tuple[HistoryFile, ...]

    def _view(self) -> View:
        size = human_size(sum(file.size for file in self.files))
        rows = [(file.level, file.name, human_size(file.size), file.since, file.until) for file in self.files]
        headings = ("level", "file", "size", "from", "to") if rows else ()
        return View(f"History, version {self.version}: {len(rows):,} files, {size}", headings=headings, rows=rows)
