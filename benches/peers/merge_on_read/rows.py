"""The rows: made from a seed, kept as Parquet, and what merging them must come to, by DuckDB."""

# ruff: noqa: S608  # the SQL is put together from names that this package spells itself
from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from benches.peers.duck import Digest, connect
from benches.peers.merge_on_read.job import COLUMNS, KEY, ORDERING, VALUES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DELTAS = 4
SHARE = 10
"""One row in so many changes in each delta."""
SMALL = 1_000
"""Rows of the delta that has next to nothing to do."""
SMALL_TABLE = 20_000
PARTITIONS = 4
_SEED = 5
_FIRST_TIME = 1_000
_ROWS_OF_GROUP = 1 << 17


@dataclass
class Rows:
    """Files of rows.

    Attributes:
        folder: Where they are.
        count: Rows of the table.
    """

    folder: Path
    count: int
    _digests: dict[tuple[str, tuple[str, ...], bool], Digest] = field(default_factory=dict)

    @property
    def deltas(self) -> tuple[str, ...]:
        """The changes, in the order of their commits."""
        return tuple(self.file(f"delta-{n}") for n in range(DELTAS))

    def file(self, name: str) -> str:
        """Gives the path of a file."""
        return str(self.folder / f"{name}.parquet")

    def make(self) -> None:
        """Writes all files."""
        import numpy as np  # noqa: PLC0415

        rng = np.random.default_rng(_SEED)
        everything = np.arange(self.count)
        changed = self.count // SHARE
        self._write("base", everything, rng)
        for n in range(DELTAS):
            self._write(f"delta-{n}", rng.choice(self.count, changed, replace=False), rng, n + 1)
        small = np.arange(min(self.count, SMALL_TABLE))
        self._write("small-base", small, rng)
        self._write("small-delta", rng.choice(len(small), SMALL, replace=False), rng, 1)
        new = np.arange(self.count, self.count + changed // SHARE)
        newer = rng.permutation(np.concatenate([rng.choice(self.count, changed, replace=False), new]))
        older = rng.permutation(everything)
        for key in ("string", "int64"):
            self._write(f"older-{key}", older, rng, key=key)
            self._write(f"newer-{key}", newer, rng, 1, key=key)

    def _write(self, name: str, ids: Any, rng: Any, delta: int = 0, key: str = "string") -> None:
        count = len(ids)
        # Some changes are older than what they meet, some as old.
        times = _FIRST_TIME + (10 * delta + rng.integers(-13, 12, count) if delta else 0 * ids)
        # And some do not know the text, for which mergers that fill nulls look elsewhere.
        unknown = (rng.random(count) < 0.1) if delta else None  # noqa: PLR2004
        texts = pa.array([f"delta {delta} {i % 997}" for i in ids.tolist()])
        columns = {
            "id": pa.array([f"key-{i:012d}" for i in ids.tolist()]) if key == "string" else pa.array(ids),
            "ts": pa.array(times, pa.int64()),
            "part": pa.array([f"p{i % PARTITIONS}" for i in ids.tolist()]),
            "a": pa.array(rng.random(count)),
            "b": pa.array(rng.integers(0, 1_000, count)),
            "val": texts if unknown is None else pa.array(texts.to_numpy(zero_copy_only=False), mask=unknown),
        }
        pq.write_table(pa.table(columns), self.file(name), compression="zstd", row_group_size=_ROWS_OF_GROUP)

    def expected(self, older: str, newer: Sequence[str], *, fill: bool) -> Digest:
        """Says what the rows of a merge must be.

        Args:
            older: A file.
            newer: Files of changes, in the order of their commits.
            fill: Nulls of the later version are filled from the other one.
        """
        known = (older, tuple(newer), fill)
        if known not in self._digests:
            self._digests[known] = _filled(older, newer) if fill else _latest(older, newer)
        return self._digests[known]


def join_sql(older: str, newer: str, *, fill: bool = False, key: Sequence[str] = (KEY,)) -> str:
    """SQL that merges two relations by event time with a full join; of equal ones the newer row wins.

    Args:
        older: What stands behind FROM.
        newer: The same; no key comes twice in it.
        fill: Nulls of the winner are filled from the other row.
        key: Columns of the key.
    """
    wins = f"n.given AND (o.there IS NULL OR n.{ORDERING} >= o.{ORDERING})"
    chosen = []
    for column in COLUMNS:
        if column in key:
            chosen.append(column)
            continue
        first, second = f"n.{column}", f"o.{column}"
        if fill and column in VALUES:
            first, second = f"coalesce({first}, {second})", f"coalesce({second}, {first})"
        chosen.append(f"CASE WHEN {wins} THEN {first} ELSE {second} END AS {column}")
    return (
        f"SELECT {', '.join(chosen)} FROM (SELECT *, true AS there FROM {older}) AS o "
        f"FULL OUTER JOIN (SELECT *, true AS given FROM {newer}) AS n USING ({', '.join(key)})"
    )


def window_sql(sides: Sequence[str]) -> str:
    """SQL that merges relations by event time with a window over all their rows.

    Args:
        sides: What stands behind FROM, from the oldest to the newest.
    """
    columns = ", ".join(COLUMNS)
    union = " UNION ALL ".join(f"SELECT {columns}, {n} AS side FROM {name}" for n, name in enumerate(sides))
    place = f"row_number() OVER (PARTITION BY {KEY} ORDER BY {ORDERING} DESC, side DESC)"
    return f"SELECT {columns} FROM (SELECT *, {place} AS place FROM ({union}) AS u) AS w WHERE place = 1"


def digest_of(path: str) -> Digest:
    """Counts and hashes the rows of a file, or of all Parquet files of a folder."""
    return _digest(f"read_parquet('{path}')")


def _digest(relation: str, db: Any = None) -> Digest:
    hashes = f"sum(CAST(hash({', '.join(COLUMNS)}) AS HUGEINT))"
    query = f"SELECT count(*), coalesce({hashes}, 0)::VARCHAR FROM {relation}"
    rows, total = (db or connect()).execute(query).fetchone()
    return Digest(int(rows), str(total))


def _latest(older: str, newer: Sequence[str]) -> Digest:
    return _digest(f"({window_sql([f'read_parquet({file!r})' for file in (older, *newer)])}) AS t")


def _filled(older: str, newer: Sequence[str]) -> Digest:
    """Merges the changes among themselves, then with the rows: filling nulls depends on the order."""
    db = connect()
    db.execute(f"CREATE TABLE changes_0 AS SELECT * FROM read_parquet('{newer[0]}')")
    for n, file in enumerate(newer[1:]):
        merged = join_sql(f"changes_{n}", f"read_parquet('{file}')", fill=True)
        db.execute(f"CREATE TABLE changes_{n + 1} AS {merged}")
    merged = join_sql(f"read_parquet('{older}')", f"changes_{len(newer) - 1}", fill=True)
    return _digest(f"({merged}) AS t", db)
