"""The rows in files, what must come out of them, and what a query of them touches."""

# ruff: noqa: S608  # the SQL is put together from names that this package spells itself
from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benches.peers.duck import Digest, connect, digest
from benches.peers.merge_on_read.tables import files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benches.peers.case import DataSet
    from benches.peers.clustering.options import Filter

FILES = 16
"""Base files of the table."""


@dataclass
class Rows:
    """Rows, and the judge of what became of them.

    Attributes:
        data: Where they are from.
        folder: Where the files go that tables are made of.
    """

    data: DataSet
    folder: Path
    _digests: dict[str, Digest] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[str, ...]:
        """The files that tables are made of, in the order of the keys."""
        return tuple(str(self.folder / f"part-{n:02}.parquet") for n in range(FILES))

    def make(self) -> None:
        """Writes them."""
        table = pa.concat_tables(pq.read_table(file) for file in self.data.base)
        ends = [n * table.num_rows // FILES for n in range(FILES + 1)]
        for part, begin, end in zip(self.parts, ends, ends[1:], strict=False):
            pq.write_table(table.slice(begin, end - begin), part, compression="zstd")

    def filters(self, column: str, share: float) -> list[Filter]:
        """Gives a filter for a share of the values of a column of integers, from the middle; 0 for one value."""
        values = pa.chunked_array([chunk for file in self.data.base for chunk in _column(file, column).chunks])
        least, most = pc.min(values).as_py(), pc.max(values).as_py()
        first = values[len(values) // 2].as_py() if share == 0 else (least + most) // 2
        return [(column, ">=", first), (column, "<=", first + int((most - least) * share))]

    def expected(self, filters: Sequence[Filter] = ()) -> Digest:
        """Says what the rows must be, those for which all filters hold."""
        holds = " AND ".join(f"{column} {operator} {value}" for column, operator, value in filters) or "true"
        if holds not in self._digests:
            rows = f"(SELECT * FROM read_parquet({list(self.data.base)!r}) WHERE {holds}) AS t"
            self._digests[holds] = digest(self.data, rows)
        return self._digests[holds]

    def digest(self, result: Path) -> Digest:
        """Counts and hashes the rows of a folder."""
        return digest(self.data, f"read_parquet('{result}/*.parquet')")

    def disorder(self, result: Path, columns: Sequence[str]) -> str | None:
        """Says how the files of a folder are not sorted, each in itself and all together; None when they are."""
        db = connect()
        db.execute(
            f"CREATE TABLE laid AS SELECT filename, file_row_number AS n, row({', '.join(columns)}) AS v "
            f"FROM read_parquet('{result}/*.parquet', filename = true, file_row_number = true)"
        )
        within = "SELECT v < lag(v) OVER (PARTITION BY filename ORDER BY n) AS bad FROM laid"
        ends = "SELECT arg_min(v, n) AS first, arg_max(v, n) AS last FROM laid GROUP BY filename"
        across = f"SELECT first < lag(last) OVER (ORDER BY first, last) AS bad FROM ({ends}) AS e"
        for what, query in (("rows come too late in their file", within), ("files overlap the one before", across)):
            bad = db.execute(f"SELECT count(*) FROM ({query}) AS q WHERE bad").fetchone()[0]
            if bad:
                return f"NOT SORTED: {bad:,} {what}"
        return None

    def touched(self, place: Path, filters: Sequence[Filter]) -> dict[str, float]:
        """Counts files of a table, and row groups in them, that may have such rows by the statistics in the footers.

        Args:
            place: The table.
            filters: Of one column.
        """
        (column, _, least), (_, _, most) = filters
        found = dict.fromkeys(("files read", "files", "row groups read", "row groups"), 0.0)
        for base, _ in files(place):
            with pq.ParquetFile(base) as file:
                footer, at = file.metadata, file.schema_arrow.names.index(column)
            ranges = [footer.row_group(n).column(at).statistics for n in range(footer.num_row_groups)]
            meeting = sum(known.max >= least and known.min <= most for known in ranges)
            found["files read"] += meeting > 0
            found["files"] += 1
            found["row groups read"] += meeting
            found["row groups"] += len(ranges)
        return found


def _column(file: str, column: str) -> pa.ChunkedArray:
    return pq.read_table(file, columns=[column])[column]
