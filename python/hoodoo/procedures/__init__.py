"""Procedures of Hudi's SQL as functions that return Arrow tables.

Each has the name, the arguments and the columns of the procedure that Hudi's `CALL` runs, so that a notebook moves over
by changing `CALL show_commits(table => 'trips', limit => 5)` to `show_commits("s3://lake/trips", limit=5)`. On Spark,
`hoodoo.spark.call` returns DataFrames.

Where Hudi takes a name of the catalog or a path, `table` is a `hoodoo.Table` or its location. An argument that Hudi has
and that is missing here is not supported.
"""

from __future__ import annotations

from hoodoo.procedures.commits import (
    show_archived_commits,
    show_commit_extra_metadata,
    show_commit_files,
    show_commit_partitions,
    show_commit_write_stats,
    show_commits,
    show_rollbacks,
    show_timeline,
)
from hoodoo.procedures.files import show_fsview_latest, show_table_properties
from hoodoo.procedures.recovery import (
    create_savepoint,
    delete_savepoint,
    rollback_to_instant,
    rollback_to_savepoint,
    show_savepoints,
)
from hoodoo.procedures.services import run_clean, run_clustering, run_compaction, show_clustering, show_compaction

__all__ = [
    "create_savepoint",
    "delete_savepoint",
    "rollback_to_instant",
    "rollback_to_savepoint",
    "run_clean",
    "run_clustering",
    "run_compaction",
    "show_archived_commits",
    "show_clustering",
    "show_commit_extra_metadata",
    "show_commit_files",
    "show_commit_partitions",
    "show_commit_write_stats",
    "show_commits",
    "show_compaction",
    "show_fsview_latest",
    "show_rollbacks",
    "show_savepoints",
    "show_table_properties",
    "show_timeline",
]
