"""Random histories by hoodoo equal the naive model, after every commit; a part of them equal real Hudi, too."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings

import hoodoo
from tests.interop.hudi import Hudi
from tests.model.histories import History, Step, histories, run
from tests.model.naive_table import NaiveTable
from tests.rows import Row, arrow_rows, plain_rows


def _path(place: str, options: dict[str, str]) -> str:
    return f"place={place}" if options["hoodie.datasource.write.hive_style_partitioning"] == "true" else place


def _write(uri: str, step: Step, options: dict[str, str], table: hoodoo.Table | None) -> tuple[hoodoo.Commit, bool]:
    """Runs one step; gives the commit, and whether the open table was used."""
    if step.operation == "delete_partitions":
        where = table or hoodoo.Table(uri, options=options)
        return where.delete_partitions([_path(p, options) for p in step.places]), table is not None
    if table is None or step.reopen:
        return hoodoo.write(step.table, uri, operation=step.operation, options=options), False
    return getattr(table, step.operation)(step.table), True


def _tells_of_copies(problem: hoodoo.Problem, model: NaiveTable) -> bool:
    """Tells whether it is the error of a key in several rows, in a table to which inserts brought copies of a key."""
    copies = any(model.copies(row) > 1 for row in model.stored)
    return copies and problem.severity == "error" and "in more than one row" in problem.message


def _run_by_hoodoo(uri: str, history: History) -> NaiveTable:
    """Runs the history by hoodoo and checks every commit; gives the model at its end."""
    model = NaiveTable(history.rules)
    table: hoodoo.Table | None = None
    seen: list[tuple[str, list[str], list[Row]]] = []
    for step in history.steps:
        commit, used = _write(uri, step, history.options, table)
        run(model, step)
        table = table if used and table else hoodoo.Table(uri, options=history.options)
        assert arrow_rows(table.to_arrow()) == model.rows
        assert arrow_rows(hoodoo.Table(uri).to_arrow()) == model.rows
        seen.append((commit.instant, model.columns, model.rows))
    assert table is not None
    assert [p for p in table.verify().problems if not _tells_of_copies(p, model)] == []
    if history.options["hoodie.clean.automatic"] == "false":
        for instant, columns, rows in seen:
            then = arrow_rows(table.to_arrow(as_of=instant))
            assert plain_rows({name: row.get(name) for name in columns} for row in then) == rows
    return model


def _run_by_hudi(hudi: Hudi, uri: str, history: History) -> None:
    for step in history.steps:
        if step.operation == "delete_partitions":
            places = ",".join(_path(p, history.options) for p in step.places)
            extra = {"hoodie.datasource.write.partitions.to.delete": places}
            hudi.write(step.table, uri, "delete_partition", **history.options, **extra)
        else:
            hudi.write(step.table, uri, step.operation, **history.options)


@settings(max_examples=100)
@given(histories())
def test_history_equals_the_model(history: History) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _run_by_hoodoo(str(Path(folder) / "table"), history)


@pytest.mark.timeout(3600)
@settings(max_examples=5000)
@given(histories(longest=15))
@pytest.mark.slow
def test_long_history_equals_the_model(history: History) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _run_by_hoodoo(str(Path(folder) / "table"), history)


def _refused_by_hudi(history: History) -> bool:
    """Hudi's row writer (`bulk_insert`) takes no null part in a composite key of an unpartitioned table; others do."""
    composite = history.rules.partition is None and len(history.rules.keys) > 1
    bulk = (step for step in history.steps if step.operation == "bulk_insert")
    return composite and any(step.table.column(key).null_count for step in bulk for key in history.rules.keys)


def _compare_with_hudi(hudi: Hudi, history: History) -> None:
    assume(not _refused_by_hudi(history))
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "ours", Path(folder) / "theirs"
        model = _run_by_hoodoo(str(ours), history)
        assert hudi.read(ours) == model.rows
        _run_by_hudi(hudi, str(theirs), history)
        assert hudi.read(theirs) == model.rows
        assert arrow_rows(hoodoo.Table(str(theirs)).to_arrow()) == model.rows


@pytest.mark.interop
@settings(max_examples=5, derandomize=True)
@given(history=histories(longest=4))
def test_history_equals_hudi(hudi: Hudi, history: History) -> None:
    _compare_with_hudi(hudi, history)


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=300)
@given(history=histories(longest=8))
def test_long_history_equals_hudi(hudi: Hudi, history: History) -> None:
    _compare_with_hudi(hudi, history)
