"""What is compared with what: groups of systems that do the same work on the same rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benches.peers.merge_on_read import tables
from benches.peers.merge_on_read.job import table_options
from benches.peers.merge_on_read.rows import SMALL, SMALL_TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from benches.peers.merge_on_read.rows import Rows

TASKS = ("append", "fixed", "read", "compact", "merge", "custom", "spark")
FORMATS = ("avro", "parquet")
JAVA = frozenset({"hudi", "hudi-arrow", "hoodoo-spark", "spark-window"})
"""Systems that need Java."""

JVM = 20.0
"""Seconds after which a JVM is warm, however little each run does."""


@dataclass(frozen=True)
class Entry:
    """A system in a group.

    Attributes:
        system: Its name in `systems`.
        label: Its name in the report.
        more: What else it has to know, options of Hudi among it.
        table: A table of its own in place of the group's.
        fill: The rows that are expected have nulls filled.
        only_count: It merges nothing: of its rows only the number can be compared.
        warm_seconds: How long it warms up, once at least.
        runs: Timed runs, where they are not as many as the command line says.
    """

    system: str
    label: str
    more: Mapping[str, str] = field(default_factory=dict)
    table: Callable[[], Path] | None = None
    fill: bool = False
    only_count: bool = False
    warm_seconds: float = 0.0
    runs: int | None = None


@dataclass(frozen=True)
class Group:
    """Systems that do the same; the first is what the others are divided by.

    Attributes:
        task: One of `TASKS`.
        title: What they do.
        rows: How many they handle: the rows that are there and the changes.
        older: The file of rows that the result is expected from.
        newer: The files of changes.
        entries: The systems.
        format: Of the log blocks.
        table: Makes the table, and gives its folder.
    """

    task: str
    title: str
    rows: int
    older: str
    newer: tuple[str, ...]
    entries: tuple[Entry, ...]
    format: str = "avro"
    table: Callable[[], Path] | None = None


HOODOO = Entry("hoodoo", "hoodoo")


class Plan:
    """Puts the groups together.

    Args:
        rows: The rows.
        folder: Where tables are made.
        cores: Threads that make them.
    """

    def __init__(self, rows: Rows, folder: Path, cores: int) -> None:
        self._rows = rows
        self._folder = folder
        self._cores = cores

    def groups(self, tasks: Sequence[str], formats: Sequence[str]) -> list[Group]:
        """Gives the groups of some tasks, in the order of `TASKS`."""
        found: list[Group] = []
        for task in (task for task in TASKS if task in tasks):
            if task in {"append", "fixed", "read", "compact"}:
                for log_format in formats:
                    found += getattr(self, f"_{task}")(log_format)
            elif task == "custom":
                found += self._custom(formats)
            else:
                found += getattr(self, f"_{task}")()
        return found

    def _table(
        self, name: str, base: str, deltas: Sequence[str], log_format: str, more: Mapping[str, str] | None = None
    ) -> Callable[[], Path]:
        options = {**table_options(log_format, self._cores), **(more or {}), "hoodoo.threads": str(self._cores)}
        return lambda: tables.make(self._folder / name, (base,), deltas, options)

    def _with_deltas(self, log_format: str) -> Callable[[], Path]:
        return self._table(f"deltas-{log_format}", self._rows.file("base"), self._rows.deltas, log_format)

    def _append(self, log_format: str) -> list[Group]:
        base, delta = self._rows.file("base"), self._rows.deltas[0]
        title = f"delta commit of 10 %, {log_format} logs"
        entries = (HOODOO, Entry("hudi", "Hudi on Spark", warm_seconds=JVM))
        count = self._rows.count // 10
        return [
            Group("append", title, count, base, (delta,), entries, log_format, self._table("base", base, (), "avro"))
        ]

    def _fixed(self, log_format: str) -> list[Group]:
        rows = self._rows
        entries = (HOODOO, Entry("hudi", "Hudi on Spark", warm_seconds=JVM))
        groups = []
        sizes = [("small", "small-base", SMALL_TABLE)] if rows.count > SMALL_TABLE else []
        for name, base, size in (*sizes, ("base", "base", rows.count)):
            title = f"delta commit of {SMALL:,} rows into {size:,}, {log_format} logs"
            file, delta = rows.file(base), rows.file("small-delta")
            table = self._table(name, file, (), "avro")
            groups.append(Group("fixed", title, SMALL, file, (delta,), entries, log_format, table))
        return groups

    def _read(self, log_format: str) -> list[Group]:
        rows = self._rows
        entries = (
            HOODOO,
            Entry("hudi-rs", "hudi-rs"),
            Entry("hudi", "Hudi on Spark, decode only", warm_seconds=JVM),
            Entry("hudi-arrow", "Hudi on Spark, into Arrow", warm_seconds=JVM),
            Entry("floor", "floor: base files by pyarrow, bytes of the logs", only_count=True),
        )
        title = f"snapshot read into Arrow, {log_format} logs"
        table = self._with_deltas(log_format)
        return [Group("read", title, rows.count, rows.file("base"), rows.deltas, entries, log_format, table)]

    def _compact(self, log_format: str) -> list[Group]:
        rows = self._rows
        entries = (
            HOODOO,
            Entry("hudi", "Hudi on Spark", warm_seconds=JVM),
            Entry("floor", "floor: pyarrow, bytes of the logs", only_count=True),
            Entry("floor-decoded", "floor: pyarrow, rows of the logs from Parquet", only_count=True),
        )
        title = f"compaction, {log_format} logs"
        table = self._with_deltas(log_format)
        return [Group("compact", title, rows.count, rows.file("base"), rows.deltas, entries, log_format, table)]

    def _merge(self) -> list[Group]:
        groups = []
        for key in ("string", "int64"):
            hashed = (
                Entry("hoodoo-merge", "hoodoo.merge"),
                Entry("duckdb-join", "DuckDB full join, Arrow to Arrow"),
                Entry("duckdb-window", "DuckDB window, Arrow to Arrow"),
                Entry("polars-join", "polars full join, frames of its own"),
                Entry("polars-unique", "polars sort + unique, frames of its own"),
            )
            groups.append(self._merging("merge", f"merge, {key} key", key, hashed))
            given = {"sorted": "true"}
            in_order = (
                Entry("hoodoo-merge", "hoodoo.merge(sorted=True)", given),
                Entry("duckdb-join", "DuckDB full join, Arrow to Arrow", given),
                Entry("polars-join", "polars full join, frames of its own", given),
            )
            groups.append(self._merging("merge", f"merge, {key} key, sorted inputs", key, in_order))
        return groups

    def _merging(self, task: str, title: str, key: str, entries: tuple[Entry, ...]) -> Group:
        older, newer = self._rows.file(f"older-{key}"), self._rows.file(f"newer-{key}")
        changes = self._rows.count // 10
        return Group(task, title, self._rows.count + changes + changes // 10, older, (newer,), entries)

    def _custom(self, formats: Sequence[str]) -> list[Group]:
        rules = (("KeepNonNull", "KeepNonNull, in Python"), ("NonNullColumns", "PerColumn of three, in Python"))
        entries = (
            Entry("hoodoo-merge", "built in: event time"),
            Entry("hoodoo-merge", "built in: IGNORE_DEFAULTS", {"rule": "IGNORE_DEFAULTS"}, fill=True),
            *(Entry("hoodoo-merge", label, {"rule": rule}, fill=True) for rule, label in rules),
        )
        groups = [self._merging("custom", "a merger of one's own in hoodoo.merge", "string", entries)]
        rows = self._rows
        base = rows.file("base")
        for log_format in formats:
            # The same rule as `KeepNonNull`, in Rust.
            fills = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
            filled = self._table(f"fills-{log_format}", base, rows.deltas, log_format, fills)
            compacting = [
                Entry("hoodoo", "built in: event time"),
                Entry("hoodoo", "built in: IGNORE_DEFAULTS", fills, filled, fill=True),
            ]
            for rule, label in rules:
                more = tables.merger_options(rule)
                table = self._table(f"{rule}-{log_format}", base, rows.deltas, log_format, more)
                compacting.append(Entry("hoodoo", label, more, table, fill=True))
            title = f"a merger of one's own in a compaction, {log_format} logs"
            table = self._with_deltas(log_format)
            entries = tuple(compacting)
            groups.append(Group("compact", title, rows.count, base, rows.deltas, entries, log_format, table))
        return groups

    def _spark(self) -> list[Group]:
        entries = (
            Entry("hoodoo-spark", "hoodoo.spark.merge", warm_seconds=JVM),
            Entry("spark-window", "Spark SQL: union, window, row_number", warm_seconds=JVM),
        )
        return [self._merging("spark", "merge of DataFrames, noop sink", "string", entries)]
