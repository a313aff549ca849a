"""Two tables that get the same rows, one by hoodoo alone and one through Spark, and what must be equal of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodoo
import hoodoo.spark
from tests.rows import Row, arrow_rows

_KEYS = ("_hoodie_record_key", "_hoodie_partition_path")


class SameTable:
    """The same writes, to a table without Spark and to a table through Spark."""

    def __init__(self, folder: Path, frame: Callable[..., Any], options: Mapping[str, Any]) -> None:
        """Tables `alone` and `spark` below `folder`; every write gets `options`."""
        self.alone, self.spark = folder / "alone", folder / "spark"
        self.frame, self.options = frame, options

    def write(self, operation: str | None, *tables: pa.Table, **options: Any) -> hoodoo.Commit:
        """Writes rows to both; each table is a partition of the DataFrame. Gives the commit that Spark made."""
        given = {**self.options, **{name.replace("__", "."): value for name, value in options.items()}}
        alone = hoodoo.write(pa.concat_tables(tables), str(self.alone), operation=operation, options=given)
        commit = hoodoo.spark.write(self.frame(*tables), str(self.spark), operation=operation, options=given)
        assert (commit.operation, commit.inserted, commit.updated, commit.deleted) == (
            alone.operation,
            alone.inserted,
            alone.updated,
            alone.deleted,
        )
        assert set(commit.replaced) == set(alone.replaced)
        self.check()
        return commit

    def check(self) -> None:
        """Compares rows, keys and partition folders."""
        ours, theirs = hoodoo.Table(str(self.spark)), hoodoo.Table(str(self.alone))
        generated = "hoodie.datasource.write.recordkey.field" not in self.options
        assert _rows(ours, keys=not generated) == _rows(theirs, keys=not generated)
        assert partitions(self.spark) == partitions(self.alone)
        # Some operations let keys be stored twice; nothing else may be wrong.
        problems = ours.verify().problems
        assert all("in more than one row" in problem.message for problem in problems), problems
        assert bool(problems) == bool(theirs.verify().problems)
        assert not leftovers(self.spark)


def _rows(table: hoodoo.Table, *, keys: bool) -> list[Row]:
    dropped = {"_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name", *(() if keys else _KEYS[:1])}
    rows = arrow_rows(table.to_arrow(), meta=True)
    return sorted(({name: item for name, item in row.items() if name not in dropped} for row in rows), key=repr)


def partitions(table: Path) -> set[str]:
    """Folders of the table that hold a base file."""
    return {str(path.parent.relative_to(table)) for path in table.rglob("*.parquet")}


def leftovers(table: Path) -> list[str]:
    """Marker folders, and data files that no completed commit names."""
    handle = hoodoo.Table(str(table))
    known: set[str] = set()
    for instant in handle.timeline.instants(state="COMPLETED"):
        if instant.action in ("commit", "deltacommit", "replacecommit"):
            stats = handle.timeline.metadata(instant.requested)["partitionToWriteStats"] or {}
            known.update(stat["path"] for written in stats.values() for stat in written)
    files = {os.path.relpath(path, table) for path in table.rglob("*.parquet")}
    temporary = [str(path) for path in table.rglob("*.parquet#*")]
    markers = table / ".hoodie" / ".temp"
    folders = [str(path) for path in markers.iterdir()] if markers.exists() else []
    return sorted(files - known) + temporary + folders
