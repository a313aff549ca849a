"""DuckDB as the judge: makes data, and counts and hashes rows."""

# ruff: noqa: S608  # the SQL is put together from names that this package spells itself
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .case import DataSet

__all__ = ["Digest", "connect", "digest", "expected"]


@dataclass(frozen=True)
class Digest:
    """A table's content, whatever the order of its rows.

    Attributes:
        rows: How many.
        hashes: Sum of the hashes of the rows, as text: it has up to 39 digits.
    """

    rows: int
    hashes: str


def connect(cores: int | None = None) -> Any:
    """Opens an empty database that prints nothing.

    Args:
        cores: Threads; None for all.
    """
    import duckdb  # noqa: PLC0415  # `--help` works without

    db = duckdb.connect()
    db.execute("SET enable_progress_bar = false")
    if cores is not None:
        db.execute(f"SET threads = {cores}")
    return db


def digest(data: DataSet, relation: str, **views: Any) -> Digest:
    """Counts and hashes the rows of a relation.

    Args:
        data: Says which columns count.
        relation: What stands behind FROM.
        views: Arrow data that the relation names.
    """
    db = connect()
    for name, view in views.items():
        db.register(name, view)
    rows, hashes = db.execute(data.digest_sql(relation)).fetchone()
    return Digest(int(rows), str(hashes))


def expected(data: DataSet) -> Digest:
    """Gives what every peer has to come to: of each key the row that is newest, the change when both are as new."""
    keys = ", ".join(data.keys)
    everything = (
        f"(SELECT * FROM (SELECT *, 0 AS side FROM read_parquet({list(data.base)!r}) "
        f"UNION ALL BY NAME SELECT *, 1 AS side FROM read_parquet('{data.updates}')) "
        f"QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {data.ordering} DESC, side DESC) = 1)"
    )
    return digest(data, everything)
