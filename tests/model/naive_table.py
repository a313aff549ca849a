"""The naive model of a copy-on-write table: a list of rows and the rules of record merging, nothing else.

It knows no files. It says what a history of operations ought to leave; hoodoo and Hudi must agree with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.rows import Row, plain_rows

DELETED = "_hoodie_is_deleted"


@dataclass(frozen=True)
class Rules:
    """What decides a merge in one table."""

    keys: tuple[str, ...]
    partition: str | None
    ordering: tuple[str, ...]
    """Empty: the commit time orders, the later record always wins."""
    global_index: bool = False

    def key(self, row: Row) -> tuple[Any, ...]:
        """Gives the record key."""
        return tuple(row[name] for name in self.keys)

    def place(self, row: Row) -> Any:
        """Gives the partition."""
        return row[self.partition] if self.partition else ""

    def identity(self, row: Row) -> tuple[Any, ...]:
        """Gives what makes two records the same record: the key, within its partition unless the index is global."""
        return self.key(row) if self.global_index else (*self.key(row), self.place(row))

    def order(self, row: Row) -> tuple[Any, ...]:
        """Gives the ordering value."""
        return tuple(row[name] for name in self.ordering)

    def always_deletes(self, row: Row) -> bool:
        """Tells whether a delete has the default ordering value: the one 32-bit integer 0."""
        return self.ordering == ("ordinal",) and row["ordinal"] == 0


def is_delete(row: Row) -> bool:
    """Tells whether the row is marked as deleted; null and false are not."""
    return row.get(DELETED) is True


@dataclass
class NaiveTable:
    """Rows, and the operations on them."""

    rules: Rules
    stored: list[Row] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)

    # --- merging ---------------------------------------------------------------------------------------------

    def newer_of_batch(self, old: Row, new: Row) -> Row:
        """Merges two records of one batch; either may be a delete."""
        rules = self.rules
        if not rules.ordering:
            return new
        if is_delete(old) and rules.always_deletes(old):
            return new
        if is_delete(new) and rules.always_deletes(new):
            return new
        return new if rules.order(new) >= rules.order(old) else old

    def wins_over_stored(self, old: Row, new: Row) -> bool:
        """Tells whether an incoming record, or delete, takes the place of a stored record."""
        rules = self.rules
        if not rules.ordering:
            return True
        if is_delete(new) and rules.always_deletes(new):
            return True
        return rules.order(new) >= rules.order(old)

    def reduced(self, batch: Iterable[Row]) -> list[Row]:
        """Leaves one record of each identity in the batch."""
        winners: dict[tuple[Any, ...], Row] = {}
        for row in batch:
            identity = self.rules.identity(row)
            old = winners.get(identity)
            winners[identity] = row if old is None else self.newer_of_batch(old, row)
        return list(winners.values())

    def copies(self, row: Row) -> int:
        """Counts the stored rows with the identity of this one: `insert` may add a key twice."""
        return sum(self.rules.identity(old) == self.rules.identity(row) for old in self.stored)

    # --- operations ------------------------------------------------------------------------------------------

    def upsert(self, batch: list[Row]) -> None:
        """Merges each record with the stored one; adds it when there is none."""
        for row in self.reduced(batch):
            identity = self.rules.identity(row)
            old = next((old for old in self.stored if self.rules.identity(old) == identity), None)
            if old is not None and not self.wins_over_stored(old, row):
                continue
            self.stored = [kept for kept in self.stored if kept is not old]
            if not is_delete(row):
                self.stored.append(dict(row))

    def insert(self, batch: list[Row]) -> None:
        """Adds all rows, even of known keys; marked ones vanish."""
        self.stored.extend(dict(row) for row in batch if not is_delete(row))

    def delete(self, batch: list[Row]) -> None:
        """Removes the rows with these keys, whatever their ordering value."""
        gone = {self.rules.identity(row) for row in batch}
        self.stored = [row for row in self.stored if self.rules.identity(row) not in gone]

    def insert_overwrite(self, batch: list[Row]) -> None:
        """Replaces the partitions that occur in the batch."""
        self.delete_partitions({self.rules.place(row) for row in batch})
        self.stored.extend(dict(row) for row in batch)

    def insert_overwrite_table(self, batch: list[Row]) -> None:
        """Replaces everything."""
        self.stored = [dict(row) for row in batch]

    def delete_partitions(self, places: Iterable[Any]) -> None:
        """Empties partitions."""
        gone = set(places)
        self.stored = [row for row in self.stored if self.rules.place(row) not in gone]

    def apply(self, operation: str, batch: list[Row]) -> None:
        """Runs an operation by its Hudi name."""
        verbs: dict[str, Callable[[list[Row]], None]] = {
            "upsert": self.upsert,
            "insert": self.insert,
            "bulk_insert": self.insert,
            "delete": self.delete,
            "insert_overwrite": self.insert_overwrite,
            "insert_overwrite_table": self.insert_overwrite_table,
        }
        verbs[operation](batch)

    # --- reading ---------------------------------------------------------------------------------------------

    @property
    def rows(self) -> list[Row]:
        """The rows in comparable form; columns that a row is too old to know are null."""
        return plain_rows({name: row.get(name) for name in self.columns} for row in self.stored)
