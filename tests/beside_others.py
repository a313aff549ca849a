"""One write with another action in its middle: every pair of them, and what may come of it.

Whatever the other one is, the table must be as if the two had been done one after the other, or the write fails with a
`ConflictError` and the table is as the other one left it. What was acknowledged is there.
"""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import hoodoo
from hoodoo.distributed.write import prepare_write
from tests.local_executor import LocalExecutor

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("v", pa.int64()), ("ts", pa.int64())])
Row = tuple[int, str, int]
Rows = Counter[Row]

FIRST = [(1, "a", 0), (2, "a", 0), (3, "a", 0), (4, "b", 0), (5, "b", 0)]
SECOND = [(1, "a", 1), (4, "b", 1)]


@dataclass(frozen=True)
class Case:
    """One write, what happens in its middle, and the table."""

    write: str
    middle: str
    kind: str
    ordering: bool
    strategy: str
    version: int
    where: str

    def __str__(self) -> str:
        parts = (self.write, self.middle, self.kind[:3], "ts" if self.ordering else "-", self.strategy, self.version)
        return " ".join(map(str, (*parts, self.where)))


def batch(rows: list[Row], ts: int) -> pa.RecordBatch:
    ids, parts, values = zip(*rows, strict=True)
    columns = {"id": ids, "part": parts, "v": values, "ts": [ts] * len(rows)}
    return pa.record_batch([pa.array(columns[f.name], f.type) for f in SCHEMA], schema=SCHEMA)


# What each write does to rows that are there: the rows it brings, and the model of its effect.
def put(state: Rows, rows: list[Row]) -> Rows:
    new = Counter(row for row in state.elements() if row[0] not in {r[0] for r in rows})
    return new + Counter(rows)


def delete(state: Rows, ids: set[int]) -> Rows:
    return Counter(row for row in state.elements() if row[0] not in ids)


def without(state: Rows, partition: str | None) -> Rows:
    return Counter(row for row in state.elements() if partition is not None and row[1] != partition)


UPSERT = [(2, "a", 22), (4, "b", 22), (9, "a", 22)]
OVERWRITE = [(2, "a", 33), (7, "a", 33)]
NEW = [(8, "a", 44), (9, "b", 44)]

WRITES: dict[str, tuple[list[Row], Callable[[Rows], Rows]]] = {
    "upsert": (UPSERT, lambda s: put(s, UPSERT)),
    "partial": (UPSERT, lambda s: put(s, UPSERT)),
    "delete": ([(2, "a", 0), (4, "b", 0)], lambda s: delete(s, {2, 4})),
    "insert": (NEW, lambda s: s + Counter(NEW)),
    "bulk_insert": (NEW, lambda s: s + Counter(NEW)),
    "insert_overwrite": (OVERWRITE, lambda s: without(s, "a") + Counter(OVERWRITE)),
    "insert_overwrite_table": (OVERWRITE, lambda _: Counter(OVERWRITE)),
    "delete_partition": ([(0, "a", 0)], lambda s: without(s, "a")),
}

THEIRS = [(2, "a", 77), (9, "a", 77), (6, "b", 77)]
Middle = tuple[Callable[[hoodoo.Table], object], Callable[[Rows], Rows]]
MIDDLES: dict[str, Middle] = {
    "cluster": (lambda t: t.cluster(), lambda s: s),
    "plan clustering": (lambda t: t.schedule_clustering(), lambda s: s),
    "compact": (lambda t: t.compact() if is_mor(t) else None, lambda s: s),
    "plan compaction": (lambda t: t.schedule_compaction() if is_mor(t) else None, lambda s: s),
    "log compact": (lambda t: t.log_compact() if is_mor(t) else None, lambda s: s),
    "writes that clean": (
        lambda t: [t.upsert(batch([(6, "c", n)], 3)) for n in range(4)],
        lambda s: put(s, [(6, "c", 3)]),
    ),
    "archive": (lambda t: t.archive(), lambda s: s),
    "cluster, compact, archive": (
        lambda t: (t.cluster(), t.compact() if is_mor(t) else None, t.archive()),
        lambda s: s,
    ),
    "upsert": (lambda t: t.upsert(batch(THEIRS, 3)), lambda s: put(s, THEIRS)),
    "upsert elsewhere": (lambda t: t.upsert(batch([(6, "c", 77)], 3)), lambda s: put(s, [(6, "c", 77)])),
    "delete": (lambda t: t.delete(batch([(2, "a", 0), (3, "a", 0)], 3)), lambda s: delete(s, {2, 3})),
    "insert": (lambda t: t.insert(batch([(10, "a", 77)], 3)), lambda s: s + Counter([(10, "a", 77)])),
    "overwrite": (
        lambda t: t.insert_overwrite(batch([(2, "a", 77)], 3)),
        lambda s: without(s, "a") + Counter([(2, "a", 77)]),
    ),
    "delete partition": (lambda t: t.delete_partitions(["a"]), lambda s: without(s, "a")),
    "new column": (
        lambda t: t.upsert(batch([(3, "a", 77)], 3).append_column("extra", pa.array([1], pa.int64()))),
        lambda s: put(s, [(3, "a", 77)]),
    ),
}


def is_mor(table: hoodoo.Table) -> bool:
    return table.options["hoodie.table.type"] == "MERGE_ON_READ"


def cases() -> Iterator[Case]:
    kinds, strategies = ("COPY_ON_WRITE", "MERGE_ON_READ"), ("Reject", "Allow")
    every = itertools.product(WRITES, MIDDLES, kinds, (False, True), strategies, (8, 9), ("input", "commit"))
    for case in itertools.starmap(Case, every):
        # Rows of some columns are no matter of how the middle of a write is reached.
        if not (case.write == "partial" and case.where == "commit"):
            yield case


def options_of(case: Case) -> dict[str, str]:
    return {
        "hoodie.clustering.updates.strategy": f"Spark{case.strategy}UpdateStrategy",
        "hoodie.write.table.version": str(case.version),
        "hoodie.compact.inline": "false",
        "hoodie.compact.inline.max.delta.commits": "1",
        "hoodie.log.compaction.blocks.threshold": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.clean.commits.retained": "1",
        # As if the two were on different machines: they do not wait for each other.
        "hoodoo.write.lease": "false",
    }


def make(case: Case, folder: Path) -> dict[str, str]:
    shutil.rmtree(folder, ignore_errors=True)
    given = options_of(case)
    table = hoodoo.Table.create(
        folder,
        SCHEMA,
        name="t",
        record_key="id",
        partition_by="part",
        ordering="ts" if case.ordering else None,
        table_type=case.kind,
        options=given,
    )
    table.insert(batch(FIRST, 1))
    given.pop("hoodie.write.table.version")
    hoodoo.Table(folder, given).upsert(batch(SECOND, 2))
    return given


def read(folder: Path) -> Rows:
    return Counter(
        (row["id"], row["part"], row["v"])
        for row in hoodoo.Table(folder).to_arrow(columns=["id", "part", "v"]).to_pylist()
    )


def write_streamed(case: Case, folder: Path, given: dict[str, str], middle: Callable[[], None]) -> None:
    rows, _ = WRITES[case.write]
    table = hoodoo.Table(folder, given)
    if case.write == "delete_partition":
        # Without rows there is no input: the middle comes before it.
        middle()
        table.delete_partitions(["a"])
        return

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch(rows[:1], 4)
        middle()
        yield batch(rows[1:], 4)

    reader = pa.RecordBatchReader.from_batches(SCHEMA, batches())
    if case.write == "partial":
        table.upsert(reader, partial=True)
    else:
        getattr(table, case.write)(reader)


def write_in_tasks(case: Case, folder: Path, given: dict[str, str], middle: Callable[[], None]) -> None:
    rows, _ = WRITES[case.write]
    begun = prepare_write(SCHEMA, str(folder), case.write, given, {}).begin(SCHEMA, 1)
    try:
        data = [pa.Table.from_batches([batch(rows, 4)])]
        reports = begun.execute(LocalExecutor(), data, case.write, given)
        middle()
    except BaseException:
        begun.abort()
        raise
    begun.commit(reports)


def wrong(case: Case, folder: Path, *, index: str | None = None, others: dict[str, Middle] | None = None) -> str | None:
    """What is wrong with what came of a case; None when all is right.

    `index`: a column that has a secondary index. `others`: more that can happen in the middle.
    """
    given = make(case, folder)
    if index is not None:
        hoodoo.Table(folder, given).index("secondary_index", index)
    before = read(folder)
    act, theirs = (MIDDLES | (others or {}))[case.middle]
    _, ours = WRITES[case.write]
    acted: list[bool] = []

    def middle() -> None:
        if not acted:
            acted.append(True)
            act(hoodoo.Table(folder, given))

    run = write_streamed if case.where == "input" else write_in_tasks
    try:
        run(case, folder, given, middle)
        allowed = [ours(theirs(before)), theirs(ours(before))]
        said = "was acknowledged"
    except hoodoo.ConflictError as e:
        allowed, said = [theirs(before)], f"failed: {e}"[:160]
    found = read(folder)
    if found not in allowed:
        return f"{case}: {said}; rows {sorted(found.elements())}, not {[sorted(a.elements()) for a in allowed]}"
    # The next writer goes on, and cleans up.
    hoodoo.Table(folder, {**given, "hoodie.clustering.updates.strategy": "SparkAllowUpdateStrategy"}).upsert(
        batch([(5, "b", 99)], 9)
        if "extra" not in hoodoo.Table(folder).schema.names
        else batch([(5, "b", 99)], 9).append_column("extra", pa.array([None], pa.int64()))
    )
    found, allowed = read(folder), [put(a, [(5, "b", 99)]) for a in allowed]
    problems = [p.message for p in hoodoo.Table(folder).verify().problems]
    if found not in allowed or problems:
        return f"{case}: {said}; then rows {sorted(found.elements())}, {problems}"
    return None
