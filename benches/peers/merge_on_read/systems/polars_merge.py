"""polars merges frames that it has made of the rows beforehand; the result stays a frame of polars."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from benches.peers.merge_on_read.job import COLUMNS, KEY, ORDERING

from .hoodoo_merge import inputs
from .system import System

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benches.peers.merge_on_read.job import Job


class _Polars(System):
    packages = ("polars",)

    def missing(self, job: Job) -> str | None:
        """Imports it; it counts its threads when it is first used."""
        os.environ["POLARS_MAX_THREADS"] = str(job.cores)
        return super().missing(job)

    def start(self, job: Job) -> None:
        """Reads the rows."""
        import polars as pl  # noqa: PLC0415

        self._older, self._newer = (pl.from_arrow(table).lazy() for table in inputs(job))

    def save(self, job: Job, place: Path, result: Any) -> None:
        """Turns the frame into an Arrow table."""
        super().save(job, place, result.to_arrow())


class PolarsJoin(_Polars):
    """By a lazy full join; the keys of the newer rows must be there once."""

    def prepare(self, job: Job, place: Path) -> Callable[[], Any]:
        """Gives the call."""
        del job, place
        import polars as pl  # noqa: PLC0415

        joined = self._older.with_columns(there=pl.lit(True)).join(
            self._newer.with_columns(given=pl.lit(True)), on=KEY, how="full", coalesce=True, suffix="_new"
        )
        wins = pl.col("given").is_not_null() & (
            pl.col("there").is_null() | (pl.col(f"{ORDERING}_new") >= pl.col(ORDERING))
        )
        chosen = [
            column
            if column == KEY
            else pl.when(wins).then(pl.col(f"{column}_new")).otherwise(pl.col(column)).alias(column)
            for column in COLUMNS
        ]
        return lambda: joined.select(chosen).collect()


class PolarsUnique(_Polars):
    """By a sort and the last row of each key, which is how polars spells the window."""

    def prepare(self, job: Job, place: Path) -> Callable[[], Any]:
        """Gives the call."""
        del job, place
        import polars as pl  # noqa: PLC0415

        both = pl.concat([self._older.with_columns(side=pl.lit(0)), self._newer.with_columns(side=pl.lit(1))])
        last = both.sort(ORDERING, "side").unique(KEY, keep="last", maintain_order=False)
        return lambda: last.select(COLUMNS).collect()
