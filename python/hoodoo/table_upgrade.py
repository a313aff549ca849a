"""Upgrading a table to a newer version."""

from __future__ import annotations

from hoodoo import _native
from hoodoo.upgrade import Upgrade, UpgradePlan
from hoodoo.warning import warn_of_commit

__all__ = ["TableUpgrade"]


class TableUpgrade:
    """Upgrades of a `Table`."""

    _native: _native.NativeTable

    def plan_upgrade(self, to: int = 9) -> UpgradePlan:
        """Return what `upgrade` would do now.

        Args:
            to: The version that the table is to get: 8 or 9.

        Returns:
            The plan. Nothing is written.

        Raises:
            InvalidOptionError: There is no such version, or an option has to say something about the keys.
            UnsupportedError: The table has a newer version.
            CorruptFileError: The timeline cannot be read.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-plan-upgrade/t", {"id": pa.int64()}, name="t", record_key="id",
            ...                         options={"hoodie.write.table.version": "8"})
            >>> plan = t.plan_upgrade()
            >>> plan.version_before, plan.version_after
            (8, 9)
            >>> next(change.new for change in plan.properties if change.key == "hoodie.table.version")
            '9'
        """
        return UpgradePlan.from_native(_native.plan_upgrade(self._native, to))

    def upgrade(self, to: int = 9) -> Upgrade:
        """Upgrade the table: from version 6 or 8 to 8 or 9. End an upgrade that was interrupted.

        Afterwards older readers cannot read the table: version 8 needs Hudi 1.0, version 9 needs Hudi 1.1. The
        properties are those that Hudi's own upgrade gives. Log files are compacted, failed writes are rolled back, and
        the metadata table of a version 6 table is made anew. Readers see the same rows at any moment. Stop the writers
        of version 6 before: a writer that has a heartbeat is respected, others cannot be seen.

        Instants of version 6 do not say when they completed; as with Hudi it is the time at which their files were
        modified. Unlike Hudi, hoodoo notices when the table was copied and these times say nothing.

        Args:
            to: The version that the table gets: 8 or 9.

        Returns:
            What was done. A table that has the version stays as it is.

        Raises:
            InvalidOptionError: There is no such version, or an option has to say something about the keys.
            UnsupportedError: The table has a newer version, or Hudi began an upgrade and did not end it.
            ConflictError: Another writer works on the table.
            CorruptFileError: The timeline cannot be read. Nothing has changed then.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-upgrade/t", {"id": pa.int64()}, name="t", record_key="id",
            ...                         options={"hoodie.write.table.version": "8"})
            >>> done = t.upgrade()
            >>> done.version_before, done.version_after, t.version
            (8, 9, 9)
        """
        done = Upgrade.from_native(_native.upgrade_table(self._native, to))
        for warning in done.warnings:
            warn_of_commit(warning)
        return done
