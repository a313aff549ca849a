"""What is compared with what: groups of systems that do the same work on the same rows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from benches.peers.clustering.options import DATA, DEFAULTS, SUBJECTS, clustering_options, table_options
from benches.peers.clustering.rows import FILES, Rows
from benches.peers.merge_on_read import tables
from benches.peers.merge_on_read.plan import JVM, Entry, Group

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import hoodoo

TASKS = ("sorted", "sorted-defaults", "sorted-by-two", "presorted", "unsorted", "queries")
COPIES = frozenset({"floor", "floor-pyarrow", "copy", "cp"})
"""Systems that leave rows in the order in which they are."""
LEAST_ROWS = 1_000

_BUDGET = 64
"""MiB of a small memory budget."""
_QUERIES = 20
"""Timed runs of a query."""
_FLOOR = Entry("floor", "floor: arrow-rs reads and writes the files")
_PYARROW = Entry("floor-pyarrow", "floor: pyarrow reads and writes the files")


class Plan:
    """Puts the groups together.

    Args:
        rows: The rows.
        folder: Where tables are made.
        cores: Threads that make them, and files that rows become which are not sorted: one for each task of Hudi's.
        outputs: Files that sorted rows are to become.
    """

    def __init__(self, rows: Rows, folder: Path, cores: int, outputs: int) -> None:
        self._rows = rows
        self._folder = folder
        self._cores = cores
        self._outputs = outputs
        self._subject = SUBJECTS[rows.data.name]

    def groups(self, tasks: Sequence[str]) -> list[Group]:
        """Gives the groups of some tasks, in the order of `TASKS`."""
        made: dict[str, Callable[[], list[Group]]] = {
            "sorted": lambda: [self._sorted("sorted", (self._subject.sort,))],
            "sorted-defaults": lambda: [self._with_defaults()],
            "sorted-by-two": lambda: [self._sorted("sorted-by-two", (self._subject.other, self._subject.sort))],
            "presorted": lambda: [self._presorted()],
            "unsorted": lambda: [self._unsorted()],
            "queries": self._queries,
        }
        return [group for task in TASKS if task in tasks for group in made[task]()]

    def _group(self, task: str, title: str, entries: Sequence[Entry], table: Callable[[], Path] | None = None) -> Group:
        about = tuple(replace(e, more={DATA: self._rows.data.name, **e.more}) for e in entries)
        return Group(
            task, title, self._rows.data.rows, "", self._rows.parts, about, table=table or self._table("table")
        )

    def _table(self, name: str, then: Callable[[hoodoo.Table], object] | None = None) -> Callable[[], Path]:
        options = {**table_options(self._subject, self._cores), "hoodoo.threads": str(self._cores)}

        def make() -> Path:
            place = tables.make(self._folder / name, self._rows.parts, (), options, then)
            found = len(tables.files(place))
            # After a clustering by size there are about as many.
            if found != FILES and (then is None or found < self._outputs // 2):
                raise RuntimeError(f"{name} has {found} base files")
            return place

        return make

    def _by_hudi(self) -> Path:
        """Hudi makes it itself, when it is there first."""
        return self._folder / "by-hudi"

    def _by_hudi_with_defaults(self) -> Path:
        """The same."""
        return self._folder / "by-hudi-with-defaults"

    def _sorted(self, task: str, columns: Sequence[str]) -> Group:
        how = {"sort": ",".join(columns), "outputs": str(self._outputs)}
        small = {**how, "hoodoo.memory.budget": str(_BUDGET << 20)}
        entries = (
            Entry("hoodoo", "hoodoo", how),
            Entry("hoodoo", f"hoodoo, memory budget {_BUDGET} MiB", small),
            _FLOOR,
            _PYARROW,
            Entry("duckdb", "DuckDB COPY … ORDER BY, one file", how),
            Entry("polars", "polars scan, sort, sink, one file", how),
            Entry("hoodoo-spark", "hoodoo on Spark", how, warm_seconds=JVM),
            Entry("hudi", "Hudi on Spark", how, table=self._by_hudi, warm_seconds=JVM),
        )
        return self._group(task, f"sorted by {', '.join(columns)} into {self._outputs} files", entries)

    def _with_defaults(self) -> Group:
        how = {"sort": self._subject.sort, "outputs": str(self._outputs), DEFAULTS: "true"}
        small = {**how, "hoodoo.memory.budget": str(_BUDGET << 20)}
        table = self._by_hudi_with_defaults
        entries = (
            Entry("hudi", "Hudi on Spark: gzip, metadata table", how, table=table, warm_seconds=JVM),
            Entry("hoodoo", "hoodoo: zstd, no metadata table", how, table=table),
            Entry("hoodoo", f"hoodoo, memory budget {_BUDGET} MiB", small, table=table),
        )
        return self._group(
            "sorted-defaults", f"a table of Hudi's, sorted by {self._subject.sort}, each with its defaults", entries
        )

    def _presorted(self) -> Group:
        # What is sorted already would be left alone.
        anew = {"hoodoo.clustering.rewrite.clustered": "true"}
        how = {"sort": self._subject.sort, "outputs": str(self._outputs), **anew}
        small = {**how, "hoodoo.memory.budget": str(_BUDGET << 20)}
        entries = (
            Entry("hoodoo", "hoodoo, merge only", how),
            Entry("hoodoo", f"hoodoo, memory budget {_BUDGET} MiB", small),
            _FLOOR,
            _PYARROW,
        )
        table = self._table("presorted", lambda t: t.cluster(sort_by=self._subject.sort, strategy="SINGLE_FILE"))
        return self._group("presorted", f"sorted by {self._subject.sort}, inputs are sorted by it each", entries, table)

    def _unsorted(self) -> Group:
        how = {"outputs": str(self._cores)}
        entries = (
            Entry("hoodoo", "hoodoo", how),
            Entry("copy", "all files into one, by Python"),
            Entry("cp", "cp of the files"),
            _FLOOR,
            _PYARROW,
            Entry("hudi", "Hudi on Spark", how, table=self._by_hudi, warm_seconds=JVM),
        )
        return self._group("unsorted", f"unsorted, into {self._cores} larger files", entries)

    def _queries(self) -> list[Group]:
        def cluster(table: hoodoo.Table) -> None:
            total = sum(piece.size for piece in table.file_slices())
            table.cluster(sort_by=self._subject.sort, options=clustering_options(total, self._outputs))

        before, after = self._table("table"), self._table("clustered", cluster)
        groups = []
        for title, share in (
            (f"point query: {self._subject.sort} = x", 0.0),
            (f"range query: 1 % of {self._subject.sort}", 0.01),
        ):
            how = {"filters": json.dumps(self._rows.filters(self._subject.sort, share))}
            entries = (
                Entry("hoodoo-query", "before clustering", how, before, runs=_QUERIES),
                Entry("hoodoo-query", "after clustering", how, after, runs=_QUERIES),
            )
            groups.append(self._group("query", title, entries))
        return groups
