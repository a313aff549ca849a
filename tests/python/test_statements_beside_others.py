"""A statement with another action in its middle: as if the two had been done one after the other, or nothing of it.

The other action comes between the plan of the statement and its read, between its read and its files, or before its
commit. What is read and what is written would not fit together if a statement did not find out.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.statements import planned_write, target
from tests.beside_others import MIDDLES, SCHEMA, Case, Row, Rows, make, read
from tests.pairs import every_value

SOURCE = pa.table({"id": [2, 9], "part": ["a", "a"], "v": [500, 500], "ts": [1, 1]}, schema=SCHEMA)


def _map(state: Rows, change: Callable[[Row], Row | None]) -> Rows:
    return Counter(row for row in map(change, state.elements()) if row is not None)


def _update(t: hoodoo.Table) -> hoodoo.Commit:
    return t.update({"v": "v + 100"}, where="part = 'a' or id = 4")


def _merge(t: hoodoo.Table) -> hoodoo.Commit:
    merge = t.merge(SOURCE, on=["id"]).when_matched_update({"v": "target.v + source.v"})
    return merge.when_not_matched_insert_all().execute()


def _merge_left(t: hoodoo.Table) -> hoodoo.Commit:
    merge = t.merge(SOURCE, on=["id", "part"]).when_matched_update({"v": "0"})
    return merge.when_not_matched_by_source_update({"v": "target.v + 1"}, "target.part = 'b'").execute()


def _merged(state: Rows) -> Rows:
    known = {row[0] for row in state.elements()}
    new = Counter((i, "a", 500) for i in (2, 9) if i not in known)
    return _map(state, lambda r: (r[0], r[1], r[2] + 500) if r[0] in {2, 9} else r) + new


STATEMENTS: dict[str, tuple[Callable[[hoodoo.Table], hoodoo.Commit], Callable[[Rows], Rows]]] = {
    "update": (_update, lambda s: _map(s, lambda r: (r[0], r[1], r[2] + 100) if r[1] == "a" or r[0] == 4 else r)),
    "delete": (
        lambda t: t.delete(where="v < 50 and id <> 5"),
        lambda s: _map(s, lambda r: None if r[2] < 50 and r[0] != 5 else r),
    ),
    "merge": (_merge, _merged),
    "merge left": (
        _merge_left,
        lambda s: _map(
            s,
            lambda r: (
                (r[0], r[1], 0) if r[:2] in {(2, "a"), (9, "a")} else ((r[0], r[1], r[2] + 1) if r[1] == "b" else r)
            ),
        ),
    ),
}
POINTS = ("plan", "read", "commit")


def _interrupt(monkeypatch: pytest.MonkeyPatch, point: str, middle: Callable[[], None]) -> None:
    """Calls `middle` once at a point of the statement."""
    done: list[bool] = []

    def once() -> None:
        if not done:
            done.append(True)
            middle()

    scanned, run = target.scanned, planned_write._run

    def scan(*arguments: Any) -> Iterator[pa.RecordBatch]:
        if point == "plan":
            once()
        yield from scanned(*arguments)
        if point == "read":
            once()

    def run_and_wait(*arguments: Any) -> list[str]:
        reports = run(*arguments)
        if point == "commit":
            once()
        return reports

    monkeypatch.setattr(target, "scanned", scan)
    monkeypatch.setattr(planned_write, "_run", run_and_wait)


@pytest.mark.parametrize(
    ("statement", "middle", "kind", "ordering", "point"),
    every_value(list(STATEMENTS), list(MIDDLES), ("COPY_ON_WRITE", "MERGE_ON_READ"), (False, True), POINTS),
)
def test_a_statement_and_another_action(
    statement: str,
    middle: str,
    kind: str,
    ordering: bool,
    point: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    case = Case(statement, middle, kind, ordering, "Allow", 9, point)
    given = make(case, tmp_path / "t")
    act, theirs = MIDDLES[middle]
    run, ours = STATEMENTS[statement]
    before = read(tmp_path / "t")
    acted: list[bool] = []

    def other() -> None:
        acted.append(True)
        act(hoodoo.Table(tmp_path / "t", given))

    _interrupt(monkeypatch, point, other)
    try:
        run(hoodoo.Table(tmp_path / "t", given))
        allowed = [ours(theirs(before)), theirs(ours(before))]
    except hoodoo.SchemaError:
        # `*` needs every column of the table, and the source has not the new one.
        assert (statement, middle) == ("merge", "new column")
        allowed = [theirs(before)]
    assert acted
    assert read(tmp_path / "t") in allowed
    assert hoodoo.Table(tmp_path / "t").verify().ok


def test_the_tests_find_a_statement_that_reads_before_it_is_planned(tmp_path: Path):
    """What a statement would lose without a plan: rows that were read, changed by another, and written back."""
    given = make(Case("update", "upsert", "COPY_ON_WRITE", False, "Allow", 9, "read"), tmp_path / "t")
    table = hoodoo.Table(tmp_path / "t", given)
    before = read(tmp_path / "t")
    rows = table.to_arrow(columns=SCHEMA.names, filters=[("id", "=", 2)])
    act, theirs = MIDDLES["upsert"]
    act(table)
    table.upsert(rows)
    assert read(tmp_path / "t") != theirs(before)


@pytest.mark.parametrize("lease", ["true", "false"])
def test_no_increment_is_lost(lease: str, tmp_path: Path):
    options = {"hoodoo.write.lease": lease, "hoodie.write.num.retries.on.conflict.failures": "1000"}
    schema = {"id": pa.int64(), "n": pa.int64()}
    t = hoodoo.Table.create(tmp_path / "t", schema, name="t", record_key="id", options=options)
    t.insert({"id": [1, 2], "n": [0, 0]})
    failures: list[BaseException] = []

    def work(number: int) -> None:
        table = hoodoo.Table(tmp_path / "t", options)
        try:
            for _ in range(5):
                if number % 2:
                    table.update({"n": "n + 1"}, where="id = 1")
                else:
                    merge = table.merge({"id": [1], "by": [1]}, on=["id"])
                    merge.when_matched_update({"n": "target.n + source.by"}).execute()
        except Exception as error:  # noqa: BLE001 - a thread has nobody to raise it to
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(t.to_arrow(columns=["id", "n"]).to_pylist(), key=str) == [{"id": 1, "n": 15}, {"id": 2, "n": 0}]


def test_a_conflict_that_stays_is_an_error_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    options = {"hoodoo.write.lease": "false", "hoodie.write.num.retries.on.conflict.failures": "2"}
    t = hoodoo.Table.create(
        tmp_path / "t", {"id": pa.int64(), "n": pa.int64()}, name="t", record_key="id", options=options
    )
    t.insert({"id": [1], "n": [0]})
    tries = 0
    scanned = target.scanned

    def scan(*arguments: Any) -> Iterator[pa.RecordBatch]:
        nonlocal tries
        tries += 1
        yield from scanned(*arguments)
        t.upsert({"id": [1], "n": [tries]})

    monkeypatch.setattr(target, "scanned", scan)
    with pytest.raises(hoodoo.ConflictError):
        hoodoo.Table(tmp_path / "t", options).update({"n": "n + 100"})
    assert (tries, t.to_arrow(columns=["n"]).to_pylist()) == (3, [{"n": 3}])
    assert t.verify().ok


def test_a_statement_that_fails_leaves_nothing(tmp_path: Path):
    t = hoodoo.Table.create(tmp_path / "t", {"id": pa.int64(), "n": pa.int64()}, name="t", record_key="id")
    t.insert({"id": [1, 2], "n": [1, 0]})
    before = t.timeline.instants()
    for run in (
        lambda: t.update({"n": "10 / n"}),
        lambda: t.delete(where="10 / n > 1"),
        lambda: t.merge({"id": [1], "x": [0]}, on=["id"]).when_matched_update({"n": "1 / source.x"}).execute(),
        lambda: t.merge({"id": [1, 1]}, on=["id"]).when_matched_update({"n": "1"}).execute(),
    ):
        with pytest.raises(hoodoo.HudiError):
            run()
    assert [i for i in t.timeline.instants() if i.action != "rollback"] == before
    assert sorted(t.to_arrow(columns=["n"])["n"].to_pylist()) == [0, 1]
    assert t.update({"n": "5"}).updated == 2
    assert t.verify().ok
