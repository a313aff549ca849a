"""Taking commits of a table back, and cleaning, which limits how far that goes."""

from __future__ import annotations

from hoodoo import _native
from hoodoo.arguments import optional_text, text
from hoodoo.display import TupleListing
from hoodoo.progress import Progress, Watch
from hoodoo.recovery import CleanReport, Restore, Rollback, Savepoint

__all__ = ["TableRecovery"]


class TableRecovery:
    """Cleaning, savepoints, rollback and restore of a `Table`."""

    _native: _native.NativeTable
    _progress: Progress

    def clean(self, *, dry_run: bool = False) -> CleanReport:
        """Delete the files that the cleaning policy does not keep.

        Writes clean inline (`hoodie.clean.automatic`). `hoodie.clean.policy` says what stays: the files that queries of
        the last `hoodie.clean.commits.retained` (10) commits read; those of the commits of the last
        `hoodie.clean.hours.retained` (24) hours; or the newest `hoodie.clean.fileversions.retained` (3) versions of
        each file group. What a savepoint or a planned compaction needs always stays. Cleans that a process began and
        did not complete are finished first.

        Args:
            dry_run: Return what would be deleted, and delete nothing.

        Returns:
            What was deleted; without files if there was nothing to delete.

        Raises:
            InvalidOptionError: An option has an invalid value.
            ConflictError: A savepoint or a plan was made meanwhile.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-clean/t", {"id": pa.int64(), "n": pa.int64()}, name="t",
            ...                         record_key="id", options={"hoodie.clean.automatic": "false",
            ...                                                   "hoodie.clean.fileversions.retained": "1"})
            >>> commits = [t.upsert({"id": [1], "n": [n]}) for n in (1, 2, 3)]
            >>> len(t.clean(dry_run=True).files)
            2
            >>> len(t.clean().files), len(t.clean().files)
            (2, 0)
        """
        with Watch(self._progress, "cleaning"):
            return CleanReport.of(self._native, dry_run=dry_run)

    def savepoints(self) -> tuple[Savepoint, ...]:
        """Return the savepoints, oldest commit first.

        Returns:
            The savepoints.

        Raises:
            CorruptFileError: A savepoint cannot be read.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-savepoints/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> made = t.savepoint(comment="before the migration")
            >>> [(s.comment, s.files, s.instant == commit.instant) for s in t.savepoints()]
            [('before the migration', 1, True)]
        """
        return TupleListing.of("savepoints", (Savepoint(*row) for row in _native.savepoints(self._native)))

    def savepoint(self, instant: str | None = None, *, user: str = "", comment: str = "") -> Savepoint:
        """Make a savepoint: no clean deletes the files of the table as it is at a commit.

        The table can be read as of this commit and restored to it until the savepoint is deleted. Hudi keeps to
        savepoints of hoodoo, and the other way round. Commits from a savepoint on stay on the active timeline unless
        `hoodie.archive.beyond.savepoint` is set.

        Args:
            instant: Requested time of the commit; by default the newest one.
            user: Who makes it, for others to read.
            comment: Why.

        Returns:
            The savepoint.

        Raises:
            InvalidOptionError: There is no such commit on the active timeline, it has a savepoint, or files of that
                state were cleaned.
            ConflictError: Others clean the table or roll commits back at the same time.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-savepoint/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> t.savepoint().instant == commit.instant
            True
        """
        chosen = optional_text(instant, "instant", "a Commit.instant")
        for name, value in (("user", user), ("comment", comment)):
            if value != "":
                text(value, name, "'nightly job'")
        return Savepoint(*_native.create_savepoint(self._native, chosen, user, comment))

    def delete_savepoint(self, instant: str) -> None:
        """Delete the savepoint of a commit. The next clean may delete files that only it held.

        Args:
            instant: Requested time of the commit.

        Raises:
            InvalidOptionError: There is no such savepoint.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-unsave/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> t.delete_savepoint(t.savepoint().instant)
            >>> t.savepoints()
            ()
        """
        _native.delete_savepoint(self._native, text(instant, "instant", "a Savepoint.instant"))

    def rollback(self, instant: str) -> Rollback:
        """Take back one write: the newest completed one, or one that did not complete.

        The table is then what it was before the write. Only the newest write can be taken back, and only if no clean
        has deleted what came before it; newest first, several can be. For more, use savepoints and `restore`. Writes
        that did not complete are rolled back by the next write anyway.

        Args:
            instant: Requested time of the write.

        Returns:
            The rollback.

        Raises:
            InvalidOptionError: There is no such write, others were completed after it, it has a savepoint, or files of
                the state before it were cleaned.
            ConflictError: Others write to the table or clean it at the same time.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-rollback/t", {"id": pa.int64(), "n": pa.int64()}, name="t",
            ...                         record_key="id")
            >>> first, second = t.insert({"id": [1], "n": [1]}), t.upsert({"id": [1], "n": [2]})
            >>> done = t.rollback(second.instant)
            >>> t.to_arrow(columns=["n"]).to_pylist()
            [{'n': 1}]
        """
        with Watch(self._progress, "rolling back"):
            return Rollback.of(self._native, instant)

    def restore(self, savepoint: str) -> Restore:
        """Make the table what it was at a savepoint: take back all later writes, compactions, clusterings and plans.

        Nobody may write meanwhile. The savepoint stays. If the process dies, nobody can write to the table until the
        restore is finished: call it again.

        Args:
            savepoint: Requested time of the commit that has the savepoint.

        Returns:
            What was taken back.

        Raises:
            InvalidOptionError: There is no such savepoint, or a later one holds commits that would be taken back.
            CorruptFileError: A file that the savepoint holds is gone. Nothing was changed.
            ConflictError: Others write to the table or clean it.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-restore/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> saved = t.savepoint()
            >>> later = t.insert({"id": [2]}), t.insert({"id": [3]})
            >>> len(t.restore(saved.instant).undone)
            2
            >>> t.to_arrow(columns=["id"]).to_pylist()
            [{'id': 1}]
        """
        with Watch(self._progress, "restoring"):
            return Restore.of(self._native, savepoint)
