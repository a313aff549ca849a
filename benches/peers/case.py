"""What is to be done, in a form that goes to another process."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

PROJECT = Path(__file__).resolve().parents[2]

NEW_SHARE = 0.01
"""New keys, as a share of the rows of the table."""
LATE = 4
"""Every so many of the changes is older than what the table has, and must lose."""


@dataclass(frozen=True)
class DataSet:
    """Rows of a table, and changes to them.

    Attributes:
        name: `lineitem`, `flights` or `events`.
        origin: Where the rows come from, for the report.
        columns: SQL types by column.
        keys: Columns of the record key.
        partition: Column of the partition.
        ordering: Column that tells which of two rows is newer.
        rows: Rows of the table before.
        changes: Rows of the batch of changes.
        base: Parquet files with the rows; each becomes one file in every partition.
        updates: Parquet file with the changes.
    """

    name: str
    origin: str
    columns: dict[str, str]
    keys: tuple[str, ...]
    partition: str
    ordering: str
    rows: int
    changes: int
    base: tuple[str, ...]
    updates: str

    @property
    def data_columns(self) -> str:
        """All columns as a list for SQL."""
        return ", ".join(self.columns)

    def digest_sql(self, relation: str) -> str:
        """SQL that counts the rows of a relation and adds up their hashes, whatever their order.

        Args:
            relation: What stands behind FROM.
        """
        typed = ", ".join(f"CAST({column} AS {kind})" for column, kind in self.columns.items())
        return f"SELECT count(*), coalesce(sum(CAST(hash({typed}) AS HUGEINT)), 0)::VARCHAR FROM {relation}"  # noqa: S608


@dataclass(frozen=True)
class Case:
    """One comparison.

    Attributes:
        data: Rows and changes.
        cores: Cores that each peer has.
        runs: Timed runs of each.
        java_memory: Heap of the JVM, as Java spells it.
        tables: Folder with the tables before the change, one for each format.
        scratch: Folder for copies.
    """

    data: DataSet
    cores: int
    runs: int
    java_memory: str
    tables: str
    scratch: str

    @property
    def options(self) -> dict[str, str]:
        """Hudi's options, the same dictionary for hoodoo and for Hudi."""
        return {
            "hoodie.table.name": self.data.name,
            "hoodie.datasource.write.recordkey.field": ",".join(self.data.keys),
            "hoodie.datasource.write.partitionpath.field": self.data.partition,
            "hoodie.datasource.write.precombine.field": self.data.ordering,
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.parquet.compression.codec": "zstd",
            "hoodie.metadata.enable": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.upsert.shuffle.parallelism": str(self.cores),
            "hoodie.simple.index.parallelism": str(self.cores),
        }

    def to_json(self) -> str:
        """Spells the case as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Case:
        """Reads what `to_json` wrote."""
        values: dict[str, Any] = json.loads(text)
        values["data"] = data_set(values["data"])
        return cls(**values)


def data_set(values: Mapping[str, Any]) -> DataSet:
    """Makes a data set of its JSON form."""
    return DataSet(**{**values, "keys": tuple(values["keys"]), "base": tuple(values["base"])})
