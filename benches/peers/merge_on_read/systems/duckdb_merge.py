"""DuckDB merges Arrow tables into an Arrow table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benches.peers.duck import connect
from benches.peers.merge_on_read.rows import join_sql, window_sql

from .hoodoo_merge import inputs
from .system import System

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benches.peers.merge_on_read.job import Job


class DuckDbJoin(System):
    """By a full join; the keys of the newer rows must be there once."""

    packages = ("duckdb",)
    query = join_sql("older", "newer")

    def start(self, job: Job) -> None:
        """Reads the rows, and names them."""
        self._db = connect(job.cores)
        self._db.execute("SET preserve_insertion_order = false")
        for name, table in zip(("older", "newer"), inputs(job), strict=True):
            self._db.register(name, table)

    def prepare(self, job: Job, place: Path) -> Callable[[], Any]:
        """Gives the call."""
        del job, place
        return lambda: self._db.execute(self.query).to_arrow_table()

    def close(self) -> None:
        """Closes the database."""
        self._db.close()


class DuckDbWindow(DuckDbJoin):
    """By a union and a window."""

    query = window_sql(["older", "newer"])
