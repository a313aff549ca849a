"""DuckDB rewrites the files of the Hudi table by an outer join. It commits nothing: the result is a folder of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benches.peers.duck import Digest, connect, digest
from benches.peers.tables import folder, hudi_files, prepare_hudi

from .peer import Peer

if TYPE_CHECKING:
    from pathlib import Path

    from benches.peers.case import Case

_INSTANT = "20260101000000000"


class DuckDbJoin(Peer):
    """Carries Hudi's five meta columns along and makes them for the rows that change, as hoodoo has to."""

    label = "DuckDB outer join, meta columns too"
    meta = True

    def missing(self) -> str | None:
        """Imports it."""
        try:
            import duckdb  # noqa: F401, PLC0415
        except ImportError as error:
            return str(error)
        return None

    def versions(self) -> dict[str, str]:
        """Gives DuckDB's."""
        import duckdb  # noqa: PLC0415

        return {"duckdb": duckdb.__version__}

    def prepare(self, case: Case) -> None:
        """Takes hoodoo's table; which files are in which partition is known beforehand."""
        prepare_hudi(case)

    def table(self, case: Case) -> Path:
        """Takes the Hudi table."""
        return folder(case, "hudi")

    def upsert(self, case: Case, table: Path) -> None:
        """Joins partition by partition; each of the threads writes a file, so there are as many files as before."""
        data = case.data
        db = connect(case.cores)
        db.execute("SET preserve_insertion_order = false")
        keys = ", ".join(data.keys)
        for partition, files in hudi_files(case).items():
            value = partition.partition("=")[2]
            old = [str(table / file) for file in files]
            target = table / "duckdb" / partition
            target.mkdir(parents=True)
            db.execute(
                f"COPY (SELECT {self._columns(case, partition)} "  # noqa: S608
                f"FROM (SELECT *, true AS there FROM read_parquet({old!r}, hive_partitioning = false)) AS o "
                f"FULL OUTER JOIN (SELECT *, file_row_number AS row, true AS given "
                f"FROM read_parquet('{data.updates}', file_row_number = true) "
                f"WHERE {data.partition} = '{value}') AS s USING ({keys})) "
                f"TO '{target}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, PER_THREAD_OUTPUT true, "
                f"OVERWRITE_OR_IGNORE true)"
            )

    def _columns(self, case: Case, partition: str) -> str:
        data = case.data
        newer = f"s.given AND (o.there IS NULL OR s.{data.ordering} >= o.{data.ordering})"
        columns = []
        if self.meta:
            made = {
                "_hoodie_commit_time": f"'{_INSTANT}'",
                "_hoodie_commit_seqno": f"'{_INSTANT}_0_' || s.row",
                "_hoodie_record_key": " || ',' || ".join(f"'{key}:' || {key}" for key in data.keys),
                "_hoodie_partition_path": f"'{partition}'",
            }
            columns += [f"CASE WHEN {newer} THEN {new} ELSE o.{name} END AS {name}" for name, new in made.items()]
            columns.append(f"'{partition}.parquet' AS _hoodie_file_name")
        for column in data.columns:
            joined = column in data.keys
            columns.append(column if joined else f"CASE WHEN {newer} THEN s.{column} ELSE o.{column} END AS {column}")
        return ", ".join(columns)

    def digest(self, case: Case, table: Path) -> Digest:
        """Reads the new files."""
        return digest(case.data, f"read_parquet('{table}/duckdb/*/*.parquet', hive_partitioning = false)")


class DuckDbPlainJoin(DuckDbJoin):
    """Leaves the meta columns out, and so has five columns less to read and write than hoodoo."""

    label = "DuckDB outer join, without them"
    meta = False
