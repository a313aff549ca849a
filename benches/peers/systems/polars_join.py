"""polars rewrites the files of the Hudi table by an outer join, without the meta columns; it commits nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from benches.peers.duck import Digest, digest
from benches.peers.tables import folder, hudi_files, prepare_hudi

from .peer import Peer

if TYPE_CHECKING:
    from pathlib import Path

    from benches.peers.case import Case


class PolarsJoin(Peer):
    """A lazy full join and a streamed sink, one file for each partition."""

    label = "polars full join, without them"

    def missing(self) -> str | None:
        """Imports it."""
        try:
            import polars as pl  # noqa: F401, PLC0415
        except ImportError as error:
            return str(error)
        return None

    def versions(self) -> dict[str, str]:
        """Gives polars's."""
        import polars as pl  # noqa: PLC0415

        return {"polars": pl.__version__}

    def start(self, case: Case) -> None:
        """Polars counts its threads when it is first used."""
        os.environ["POLARS_MAX_THREADS"] = str(case.cores)

    def prepare(self, case: Case) -> None:
        """Takes hoodoo's table; which files are in which partition is known beforehand."""
        prepare_hudi(case)

    def table(self, case: Case) -> Path:
        """Takes the Hudi table."""
        return folder(case, "hudi")

    def upsert(self, case: Case, table: Path) -> None:
        """Joins partition by partition."""
        import polars as pl  # noqa: PLC0415

        data = case.data
        (table / "polars").mkdir()
        for number, (partition, files) in enumerate(hudi_files(case).items()):
            value = partition.partition("=")[2]
            old = pl.scan_parquet([table / file for file in files], hive_partitioning=False).select(*data.columns)
            new = pl.scan_parquet(data.updates).filter(pl.col(data.partition).cast(pl.String) == value)
            joined = old.with_columns(there=pl.lit(True)).join(
                new.with_columns(given=pl.lit(True)), on=list(data.keys), how="full", coalesce=True, suffix="_new"
            )
            ordering = pl.col(f"{data.ordering}_new") >= pl.col(data.ordering)
            newer = pl.col("given").is_not_null() & (pl.col("there").is_null() | ordering)
            chosen = [
                column
                if column in data.keys
                else pl.when(newer).then(pl.col(f"{column}_new")).otherwise(pl.col(column)).alias(column)
                for column in data.columns
            ]
            target = table / "polars" / f"{number}.parquet"
            joined.select(chosen).sink_parquet(target, compression="zstd", compression_level=1)

    def digest(self, case: Case, table: Path) -> Digest:
        """Reads the new files."""
        return digest(case.data, f"read_parquet('{table}/polars/*.parquet')")
