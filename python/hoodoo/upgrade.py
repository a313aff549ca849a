"""What upgrades give back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hoodoo import _native

__all__ = ["PropertyChange", "Upgrade", "UpgradePlan"]


@dataclass(frozen=True)
class PropertyChange:
    """A property of the table that an upgrade changes.

    Attributes:
        key: The property.
        old: Its value; None if it was not there.
        new: Its value afterwards; None if it is not there any more.
    """

    key: str
    old: str | None
    new: str | None


@dataclass(frozen=True)
class UpgradePlan:
    """What an upgrade would do.

    Attributes:
        version_before: The version of the table.
        version_after: The version that it would get.
        instants: Files of the active timeline that would be written anew.
        archived: Archived instants that would be written anew.
        file_slices_to_compact: File slices that have log files.
        writes_to_roll_back: Requested times of failed writes.
        metadata_partitions: Partitions of the metadata table that would be made anew.
        properties: The properties that would change, by name.
    """

    version_before: int
    version_after: int
    instants: int
    archived: int
    file_slices_to_compact: int
    writes_to_roll_back: tuple[str, ...]
    metadata_partitions: tuple[str, ...]
    properties: tuple[PropertyChange, ...]

    @classmethod
    def from_native(cls, row: _native.UpgradePlanRow) -> UpgradePlan:
        """Make a plan of what the core returns."""
        before, after, instants, archived, slices, failed, partitions, changes = row
        properties = tuple(PropertyChange(*change) for change in changes)
        return cls(before, after, instants, archived, slices, tuple(failed), tuple(partitions), properties)


@dataclass(frozen=True)
class Upgrade:
    """What an upgrade did.

    Attributes:
        version_before: The version that the table had.
        version_after: The version that it has.
        compactions: Requested times of the compactions of its log files.
        rolled_back: Requested times of the failed writes that were rolled back.
        metadata_partitions: Partitions of the metadata table that was made anew.
        warnings: What could not be done. The table is upgraded nevertheless.
    """

    version_before: int
    version_after: int
    compactions: tuple[str, ...]
    rolled_back: tuple[str, ...]
    metadata_partitions: tuple[str, ...]
    warnings: tuple[str, ...]

    @classmethod
    def from_native(cls, row: _native.UpgradeRow) -> Upgrade:
        """Make a report of what the core returns."""
        before, after, compactions, rolled_back, partitions, warnings = row
        return cls(before, after, tuple(compactions), tuple(rolled_back), tuple(partitions), tuple(warnings))
