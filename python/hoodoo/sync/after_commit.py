"""Syncs that options ask for after each write."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hoodoo.sync.keys import HIVE, is_sync_asked
from hoodoo.sync.run import sync_table
from hoodoo.warning import warn_of_commit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoodoo import _native
    from hoodoo.commit import Commit

__all__ = ["sync_after_commit"]


def sync_after_commit(commit: Commit, table: _native.NativeTable, options: Mapping[str, str]) -> Commit:
    """Sync a table with its catalogs if options ask for it.

    The commit is valid whatever happens: a failure becomes one of its warnings, and is issued as a `HudiWarning` unless
    `hoodie.datasource.hive_sync.ignore_exceptions` is set.

    Args:
        commit: What was written.
        table: The table.
        options: The options of the write.

    Returns:
        The commit, with a warning for each failure.
    """
    if not is_sync_asked(options):
        return commit
    try:
        failures = list(sync_table(table, options).failures)
    except Exception as error:  # noqa: BLE001 - a caller that saw an error would write the rows again
        failures = [str(error) or type(error).__name__]
    except BaseException as interrupt:
        # As the core does when a signal handler raises after a commit: the exception has it.
        interrupt.commit = commit  # type: ignore[attr-defined]
        raise
    messages = [f"the commit succeeded, but the catalog sync after it failed: {failure}" for failure in failures]
    if options.get(f"{HIVE}ignore_exceptions", "").strip().lower() != "true":
        for message in messages:
            warn_of_commit(message)
    return replace(commit, warnings=(*commit.warnings, *messages)) if messages else commit
