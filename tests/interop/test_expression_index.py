"""Expression indexes: hoodoo and real Hudi write to one table in turns, and Hudi's filters by them find all rows."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Table
from tests.expression_index import LISTED, check_index
from tests.interop.hudi import Hudi
from tests.interop.turns import hudi_reads, one_of
from tests.rows import Row, arrow_rows, spark_rows

INDEXED = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
_OPTIONS = {
    "hoodie.metadata.enable": "true",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.clean.automatic": "false",
    "hoodie.clustering.inline": "false",
    "hoodie.compact.inline": "false",
    # Without it, Hudi fails to write to a table that has an expression index.
    "hoodie.embed.timeline.server": "true",
}
START = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)


# Function, column, options, what it says of a value in UTC, and conditions by which Hudi asks the index. One index for
# each column: Hudi confuses several.
INDEXES: dict[str, tuple[str, str, dict[str, str], Callable[[Any], set[Any]], list[str]]] = {
    "low": (
        "lower",
        "name",
        {},
        lambda name: {name.lower()},
        ["lower(name) = 'nü3'", "lower(name) in ('nü1', 'nü44', 'x')", "lower(name) = 'n'"],
    ),
    "by_year": ("year", "day", {}, lambda day: {day.year}, ["year(day) = 2022", "year(day) in (2020, 2027)"]),
    "by_day": (
        "from_unixtime",
        "seconds",
        {"format": "yyyy-MM-dd"},
        lambda seconds: {dt.datetime.fromtimestamp(seconds, dt.timezone.utc).strftime("%Y-%m-%d")},
        ["from_unixtime(seconds, 'yyyy-MM-dd') = '2020-01-03'", "from_unixtime(seconds, 'yyyy-MM-dd') = '2020-03-09'"],
    ),
    "by_hour": (
        "date_format",
        "at",
        {"format": "yyyy-MM-dd HH"},
        lambda at: {at.strftime("%Y-%m-%d %H")},
        ["date_format(at, 'yyyy-MM-dd HH') = '2020-01-06 01'", "date_format(at, 'yyyy-MM-dd HH') = '2020-02-28 12'"],
    ),
}
CONDITIONS = [condition for *_, conditions in INDEXES.values() for condition in conditions]


def rows(keys: range | list[int], ts: int, part: str | None = None) -> pa.Table:
    """Rows of keys; the values of a partition are near each other, and some are null."""
    return pa.table(
        {
            "id": [f"k{key:04}" for key in keys],
            "ts": pa.array([ts] * len(keys), pa.int64()),
            "name": [None if key % 9 == 0 else f"NÜ{key}" for key in keys],
            "day": pa.array([None if key % 7 == 0 else 18_300 + key * 50 for key in keys], pa.date32()),
            "seconds": pa.array([1_577_880_000 + key * 100_000 + ts for key in keys], pa.int64()),
            "at": pa.array([START + dt.timedelta(hours=25 * key) for key in keys], pa.timestamp("us", "UTC")),
            "part": [part or f"p{key // 15}" for key in keys],
        }
    )


class Turns:
    """A table with expression indexes, and what both sides read of it."""

    def __init__(self, hudi: Hudi, path: Path, table_type: str, version: str) -> None:
        self.hudi, self.path, self.compared = hudi, path, 0
        # In tables of version 8, Hudi fails on values of another type than the column's.
        self.conditions = CONDITIONS if version == "9" else INDEXES["low"][-1]
        self.options = {
            **_OPTIONS,
            "hoodie.table.name": path.name,
            "hoodie.datasource.write.table.type": table_type,
            "hoodie.write.table.version": version,
        }
        hudi.write(rows(range(45), 1), path, "insert", mode="overwrite", **self.options)

    def hudi_makes_them(self) -> None:
        """By CREATE INDEX of Spark SQL."""
        name = self.path.name
        self.hudi.sql("set hoodie.write.lock.provider=org.apache.hudi.client.transaction.lock.InProcessLockProvider")
        self.hudi.sql(f"create table if not exists {name} using hudi location '{self.path}'")
        try:
            for index, (function, column, options, *_) in INDEXES.items():
                given = ", ".join(f"{option}='{value}'" for option, value in {"expr": function, **options}.items())
                self.hudi.sql(f"create index {index} on {name} using column_stats({column}) options({given})")
        finally:
            self.hudi.spark.conf.unset("hoodie.write.lock.provider")
        self.compare("Hudi's CREATE INDEX")

    def hoodoo_makes_them(self) -> None:
        """By `Table.index`."""
        for index, (function, column, options, *_) in INDEXES.items():
            with pytest.warns(hoodoo.HudiWarning, match="skipping"):
                Table(self.path).index("expression_index", column, expression=function, name=index, **options)
        self.compare("our index")

    def theirs(self, data: pa.Table, operation: str) -> None:
        """Let Hudi write, and compare."""
        self.hudi.write(data, self.path, operation, **self.options)
        self.compare(f"Hudi's {operation}")

    def ours(self, operation: str, *data: Any, **options: str) -> None:
        """Act, and compare."""
        given = {key.replace("__", "."): value for key, value in options.items()}
        table = Table(self.path, {"hoodie.clean.automatic": "false", **given})
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            getattr(table, operation)(*data)
        assert not [str(warning.message) for warning in told]
        self.compare(f"our {operation}")

    def compare(self, what: str, conditions: list[str] | None = None) -> None:
        """Everybody reads the same rows, whatever they filter by, and the indexes hold each value.

        Hudi filters in another way each time that it reads, in all ways after the last turn.
        """
        expected = arrow_rows(Table(self.path, LISTED).to_arrow())
        assert arrow_rows(Table(self.path).to_arrow()) == expected, f"hoodoo after {what}"
        for index, (_, column, _, values, _) in INDEXES.items():
            assert check_index(self.path, f"expr_index_{index}", column, values), f"{index} is of no use after {what}"
        if hudi_reads(self.compared, is_last=conditions is not None):
            chosen = [one_of(self.conditions, self.compared)] if conditions is None else conditions
            self._compare_with_hudi(what, expected, chosen)
        self.compared += 1
        problems = Table(self.path).verify().problems
        assert not problems, f"after {what}: {problems}"

    def _compare_with_hudi(self, what: str, expected: list[Row], conditions: list[str]) -> None:
        plain = self.hudi.spark.read.format("hudi").options(**LISTED).load(str(self.path))
        indexed = self.hudi.spark.read.format("hudi").options(**INDEXED).load(str(self.path))
        assert spark_rows(plain) == expected, f"Hudi after {what}"
        for condition in conditions:
            found = spark_rows(plain.where(condition))
            assert spark_rows(indexed.where(condition)) == found, f"Hudi loses rows after {what}: {condition}"

    def files_read(self, condition: str, options: dict[str, str]) -> int:
        """How many files Hudi reads for a condition."""
        frame = self.hudi.spark.read.format("hudi").options(**options).load(str(self.path)).where(condition)
        frame.collect()
        leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
        return int(leaves.head().metrics().apply("numFiles").value())

    def in_other_time_zones(self) -> None:
        """Sessions of other time zones than the writers' compute other values."""
        for zone in ("America/Los_Angeles", "Asia/Tokyo"):
            self.hudi.spark.conf.set("spark.sql.session.timeZone", zone)
            try:
                self.compare(f"a change to {zone}", [one for one in self.conditions if "yyyy" in one])
            finally:
                self.hudi.spark.conf.set("spark.sql.session.timeZone", "UTC")


def _take_turns(turns: Turns, table_type: str) -> None:
    turns.ours("upsert", rows(range(30, 50), 2))
    turns.theirs(rows(range(45, 62), 3), "upsert")
    turns.ours("delete", rows([1, 2, 55], 4))
    if table_type == "MERGE_ON_READ":
        turns.ours("compact")
    turns.ours("cluster")
    turns.ours("insert_overwrite", rows([0, 7, 8], 8))
    turns.ours("delete_partitions", ["p1"])
    services = {"hoodie__clean__automatic": "true", "hoodie__clean__commits__retained": "1"}
    turns.ours("upsert", rows([10, 21], 10), hoodie__metadata__compact__max__delta__commits="1", **services)
    turns.theirs(rows([11, 22], 11), "upsert")
    turns.compare("all of them", turns.conditions)
    condition = "lower(name) = 'nü44'"
    assert turns.files_read(condition, INDEXED) < turns.files_read(condition, LISTED)


@pytest.mark.parametrize(
    ("table_type", "version"),
    [
        ("MERGE_ON_READ", "9"),
        pytest.param("COPY_ON_WRITE", "9", marks=pytest.mark.slow),
        pytest.param("COPY_ON_WRITE", "8", marks=pytest.mark.slow),
    ],
)
def test_hudi_makes_them(hudi: Hudi, tmp_path: Path, table_type: str, version: str) -> None:
    """And writes to them in turns with hoodoo."""
    turns = Turns(hudi, tmp_path / f"expr_hudi_{table_type[0].lower()}{version}", table_type, version)
    turns.hudi_makes_them()
    _take_turns(turns, table_type)


@pytest.mark.parametrize(
    ("table_type", "version"),
    [
        ("COPY_ON_WRITE", "9"),
        pytest.param("MERGE_ON_READ", "9", marks=pytest.mark.slow),
        pytest.param("MERGE_ON_READ", "8", marks=pytest.mark.slow),
    ],
)
def test_hoodoo_makes_them(hudi: Hudi, tmp_path: Path, table_type: str, version: str) -> None:
    """Hudi lists them, uses them and goes on."""
    turns = Turns(hudi, tmp_path / f"expr_hoodoo_{table_type[0].lower()}{version}", table_type, version)
    turns.hoodoo_makes_them()
    turns.in_other_time_zones()
    name = turns.path.name
    hudi.sql(f"create table if not exists {name} using hudi location '{turns.path}'")
    listed = {row["index_name"] for row in hudi.sql(f"show indexes from {name}")}
    assert {f"expr_index_{index}" for index in INDEXES} <= listed
    _take_turns(turns, table_type)
