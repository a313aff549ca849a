"""File slices: what a snapshot reads of a file group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hoodoo import _native

__all__ = ["FileSlice"]


@dataclass(frozen=True)
class FileSlice:
    """A base file with the log files that change it.

    Attributes:
        partition: Partition path; empty for an unpartitioned table.
        file_id: The id of the file group.
        base_instant: Requested time of the commit that began the slice.
        base_file: Path of the base file relative to the table; None when there is none.
        size: Size of the base file in bytes; 0 when there is none.
        log_files: Paths of the log files relative to the table.
        log_size: Total size of the log files in bytes.
    """

    partition: str
    file_id: str
    base_instant: str
    base_file: str | None
    size: int
    log_files: tuple[str, ...]
    log_size: int

    @classmethod
    def from_native(cls, row: _native.SliceRow) -> FileSlice:
        """Make a file slice of a row of the core."""
        partition, file_id, base_instant, base_file, size, log_files, log_sizes = row
        return cls(partition, file_id, base_instant, base_file, size or 0, tuple(log_files), sum(log_sizes))
