"""What cleaning, savepoints, rollbacks and restores give back."""

from __future__ import annotations

from dataclasses import dataclass

from hoodoo import _native
from hoodoo.arguments import text
from hoodoo.display import Displayed, View
from hoodoo.warning import warn_of_commit

__all__ = ["CleanReport", "Restore", "Rollback", "Savepoint"]


@dataclass(frozen=True)
class CleanReport(Displayed):
    """What a clean deleted, or would delete.

    Attributes:
        instant: Requested time of the clean; None if nothing was deleted.
        files: Paths of the deleted files, relative to the table.
        partitions: Partitions that have no files any more.
        earliest_to_retain: Requested time of the earliest commit whose queries find their files; None if the policy
            does not depend on commits, or nothing is deleted.
        dry_run: Whether nothing was deleted.
    """

    instant: str | None
    files: tuple[str, ...]
    partitions: tuple[str, ...]
    earliest_to_retain: str | None
    dry_run: bool

    @classmethod
    def of(
        cls, table: _native.NativeTable, tasks: _native.FileTasks | None = None, *, dry_run: bool = False
    ) -> CleanReport:
        """Clean a table, or plan to, and report it. `tasks` runs tasks of an engine."""
        row = (_native.plan_clean if dry_run else _native.clean_table)(table, tasks)
        instant, earliest, files, partitions, _ = row or ("", "", [], [], 0)
        paths = tuple(f"{partition}/{name}" if partition else name for partition, name in files)
        return cls(instant or None, paths, tuple(partitions), earliest or None, dry_run)

    def __repr__(self) -> str:
        """Return the instant and the counts."""
        counts = f"files={len(self.files)}, partitions={len(self.partitions)}"
        return f"CleanReport({self.instant!r}, {counts}, dry_run={self.dry_run})"

    def _view(self) -> View:
        verb = "would be deleted" if self.dry_run else "deleted"
        title = f"Clean: {len(self.files):,} files {verb}" if self.files else "Clean: there is nothing to delete"
        facts = [
            ("instant", self.instant),
            ("earliest instant to retain", self.earliest_to_retain),
            ("partitions without files afterwards", self.partitions),
        ]
        headings = ("file",) if self.files else ()
        return View(title, [fact for fact in facts if fact[1]], headings, [(path,) for path in self.files])


@dataclass(frozen=True)
class Savepoint(Displayed):
    """A commit whose files no clean deletes.

    Attributes:
        instant: Requested time of the commit.
        completed: When the savepoint was made: a completion time, 17 digits.
        user: Who made it.
        comment: Why.
        files: Number of files that it holds.
    """

    instant: str
    completed: str
    user: str
    comment: str
    files: int

    def _view(self) -> View:
        facts = [("commit", self.instant), ("completed", self.completed), ("files", self.files)]
        return View("Savepoint", [*facts, ("user", self.user), ("comment", self.comment)])


@dataclass(frozen=True)
class Rollback(Displayed):
    """A write that was rolled back.

    Attributes:
        instant: Requested time of the rollback.
        rolled_back: Requested time of the write.
        files: Number of files that were deleted.
    """

    instant: str
    rolled_back: str
    files: int

    @classmethod
    def of(cls, table: _native.NativeTable, instant: object, tasks: _native.FileTasks | None = None) -> Rollback:
        """Roll back a write, and return what was done. `tasks` runs tasks of an engine."""
        chosen = text(instant, "instant", "a Commit.instant")
        done, files = _native.roll_back(table, chosen, tasks)
        return cls(done, chosen, len(files))

    def _view(self) -> View:
        return View(f"Rollback of {self.rolled_back}", [("instant", self.instant), ("deleted files", self.files)])


@dataclass(frozen=True)
class Restore(Displayed):
    """A table that was restored to a savepoint.

    Attributes:
        instant: Requested time of the restore.
        completed: Its completion time.
        savepoint: Requested time of the commit that is the newest again.
        undone: Requested times of the writes and plans that were undone, newest first; of archived ones too.
        files: Number of data files that were deleted.
        warnings: What went wrong after it was completed.
    """

    instant: str
    completed: str
    savepoint: str
    undone: tuple[str, ...]
    files: int
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: _native.NativeTable, savepoint: object, tasks: _native.FileTasks | None = None) -> Restore:
        """Restore a table, and return what was done. `tasks` runs tasks of an engine."""
        chosen = text(savepoint, "savepoint", "a Savepoint.instant")
        instant, completed, undone, files, warnings = _native.restore_table(table, chosen, tasks)
        for message in warnings:
            warn_of_commit(message)
        return cls(instant, completed, chosen, tuple(undone), files, tuple(warnings))

    def _view(self) -> View:
        facts: list[tuple[str, object]] = [
            ("instant", self.instant),
            ("completed", self.completed),
            ("deleted files", self.files),
        ]
        facts += [("warning", message) for message in self.warnings]
        return View(f"Restore to {self.savepoint}", facts, ("instant taken back",), [(one,) for one in self.undone])
