"""Apache Hudi tables for Python and PySpark, with a Rust core and without the JVM bundle.

hoodoo is an independent project; "Apache Hudi" is a trademark of the Apache Software Foundation.
"""

from __future__ import annotations

import warnings

from hoodoo import _native, mergers, procedures
from hoodoo.clustering import ClusteringGroup, ClusteringPlan, FileRange, Overlap, OverlapDepth, PendingClustering
from hoodoo.commit import Commit, SchemaChange
from hoodoo.commit_history import CommitHistory, CommitRecord, PartitionFigures
from hoodoo.commit_stats import CommitStats
from hoodoo.exceptions import (
    CatalogError,
    ConflictError,
    CorruptFileError,
    HudiError,
    HudiWarning,
    InternalError,
    InvalidOptionError,
    LockError,
    MissingDependencyError,
    SchemaError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
)
from hoodoo.file_slice import FileSlice
from hoodoo.history import History, HistoryCompaction, HistoryFile
from hoodoo.metadata_table import MetadataPartition, MetadataTable
from hoodoo.record_merger import MergeContext, RecordMerger, Records, RowMerger
from hoodoo.recovery import CleanReport, Restore, Rollback, Savepoint
from hoodoo.report import Problem, Repair, RepairReport, Report
from hoodoo.row_merging import merge
from hoodoo.rows import Rows
from hoodoo.sync.report import CatalogTable, ColumnChange, SyncReport
from hoodoo.table import Table
from hoodoo.table_indexes import IndexCommit
from hoodoo.table_merge import MergeBuilder
from hoodoo.table_report import ColumnOverlap, NextService, PartitionSize, SizeClass, TableReport
from hoodoo.timeline import ArchiveBlocker, ArchiveReport, Instant, Timeline
from hoodoo.upgrade import PropertyChange, Upgrade, UpgradePlan
from hoodoo.writer import write

__version__ = _native.__version__

__all__ = [
    "ArchiveBlocker",
    "ArchiveReport",
    "CatalogError",
    "CatalogTable",
    "CleanReport",
    "ClusteringGroup",
    "ClusteringPlan",
    "ColumnChange",
    "ColumnOverlap",
    "Commit",
    "CommitHistory",
    "CommitRecord",
    "CommitStats",
    "ConflictError",
    "CorruptFileError",
    "FileRange",
    "FileSlice",
    "History",
    "HistoryCompaction",
    "HistoryFile",
    "HudiError",
    "HudiWarning",
    "IndexCommit",
    "Instant",
    "InternalError",
    "InvalidOptionError",
    "LockError",
    "MergeBuilder",
    "MergeContext",
    "MetadataPartition",
    "MetadataTable",
    "MissingDependencyError",
    "NextService",
    "Overlap",
    "OverlapDepth",
    "PartitionFigures",
    "PartitionSize",
    "PendingClustering",
    "Problem",
    "PropertyChange",
    "RecordMerger",
    "Records",
    "Repair",
    "RepairReport",
    "Report",
    "Restore",
    "Rollback",
    "RowMerger",
    "Rows",
    "Savepoint",
    "SchemaChange",
    "SchemaError",
    "SizeClass",
    "StorageError",
    "SyncReport",
    "Table",
    "TableNotFoundError",
    "TableReport",
    "Timeline",
    "UnsupportedError",
    "Upgrade",
    "UpgradePlan",
    "__version__",
    "merge",
    "mergers",
    "procedures",
    "write",
]

if _native.DEBUG_BUILD:
    warnings.warn("this is a debug build of hoodoo: many times slower than a release build", stacklevel=2)
