"""Progress: the callback, bars, and what others see of the logger meanwhile."""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import progress_bar
from hoodoo.progress import STAGES, Watch, number_of_rows
from hoodoo.progress_bar import Bar, notebook_bar

SCHEMA = pa.schema([("id", pa.int64())])
ROWS = pa.table({"id": range(100)}, SCHEMA)
Event = tuple[int, "int | None", str]


@pytest.fixture
def events() -> list[Event]:
    return []


def make(path: Path, events: list[Event], **given: Any) -> hoodoo.Table:
    made = {"name": "t", "record_key": "id", "progress": lambda *event: events.append(event)}
    return hoodoo.Table.create(path, SCHEMA, **{**made, **given})


def test_a_write_tells_its_rows_and_stages(tmp_path: Path, events: list[Event]):
    commit = make(tmp_path / "t", events).upsert(pa.concat_tables([ROWS.slice(0, 60), ROWS.slice(60)]))
    assert [event for event in events if event[2] == "rows"] == [(60, 100, "rows"), (100, 100, "rows")]
    assert [done for done, total, unit in events if unit == "stages"] == list(range(8))
    assert {total for _, total, unit in events if unit == "stages"} == {len(STAGES)}
    assert tuple(commit.timings) == STAGES


def test_a_stream_has_no_total(tmp_path: Path, events: list[Event]):
    make(tmp_path / "t", events).insert(batch for batch in ROWS.to_batches(50))
    assert [event for event in events if event[2] == "rows"] == [(50, None, "rows"), (100, None, "rows")]


def test_write_takes_a_callback_too(tmp_path: Path, events: list[Event]):
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    hoodoo.write(ROWS, tmp_path / "t", options=options, progress=lambda *event: events.append(event))
    assert (100, 100, "rows") in events
    assert events[-1] == (7, 7, "stages")


def test_others_see_of_the_logger_what_they_saw_before(tmp_path: Path, events: list[Event]):
    logger, seen = logging.getLogger("hoodoo"), logging.StreamHandler(io.StringIO())
    before = (logger.level, list(logger.filters))
    logger.addHandler(seen)
    try:
        for level, expected in ((logging.WARNING, []), (logging.INFO, ["committed"])):
            logger.setLevel(level)
            make(tmp_path / str(level), events).insert(ROWS)
            lines = seen.stream.getvalue().splitlines()
            assert [line.split(":")[0] for line in lines] == expected
            assert (logger.level, logger.filters) == (level, before[1])
    finally:
        logger.removeHandler(seen)
        logger.setLevel(before[0])
    assert (7, 7, "stages") in events


def test_a_write_that_fails_leaves_the_logger_alone(tmp_path: Path, events: list[Event]):
    def rows() -> Iterator[pa.RecordBatch]:
        yield ROWS.to_batches()[0]
        raise ValueError("mine")

    table, logger = make(tmp_path / "t", events), logging.getLogger("hoodoo")
    before = (logger.level, list(logger.filters))
    with pytest.raises(ValueError, match="mine"):
        table.insert(rows())
    assert (logger.level, logger.filters) == before
    assert table.to_arrow().num_rows == 0


def test_an_error_of_the_callback_is_a_warning(tmp_path: Path):
    calls: list[Event] = []

    def callback(*event: Any) -> None:
        calls.append(event)
        raise KeyError("x")

    table = make(tmp_path / "t", [], progress=callback)
    with pytest.warns(hoodoo.HudiWarning, match="the progress callback raised KeyError") as caught:
        assert table.insert(ROWS).inserted == 100
    assert (len(calls), len(caught)) == (1, 1)


def test_other_threads_tell_only_their_rows(tmp_path: Path, events: list[Event]):
    table = make(tmp_path / "t", events)
    thread = threading.Thread(target=table.insert, args=(ROWS,))
    thread.start()
    thread.join()
    assert events == [(100, 100, "rows")]


def test_services_work_while_they_are_watched(tmp_path: Path, events: list[Event]):
    table = make(tmp_path / "t", events, table_type="MERGE_ON_READ")
    for _ in range(2):
        table.upsert(ROWS)
    assert table.compact() is not None
    assert table.verify().ok
    assert table.overlap("id").depth.max == 1
    assert table.to_arrow().num_rows == 100


def test_numbers_of_rows():
    batch = ROWS.to_batches()[0]
    assert [number_of_rows(data) for data in (ROWS, batch, [batch, batch], [{"id": 1}], {"id": [1, 2]}, [])] == [
        100,
        100,
        200,
        1,
        None,
        0,
    ]
    pandas = pytest.importorskip("pandas")
    assert number_of_rows(pandas.DataFrame({"id": [1, 2, 3]})) == 3


class Drawing:
    drawn: list[tuple[str, int, int | None]]
    closed: int

    def __init__(self) -> None:
        Drawing.drawn, Drawing.closed = [], 0
        APPEARED.set()

    def update(self, what: str, done: int, total: int | None) -> None:
        Drawing.drawn.append((what, done, total))

    def close(self) -> None:
        Drawing.closed += 1


APPEARED = threading.Event()


def test_a_bar_appears_after_a_while_and_goes_away(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress_bar, "_Terminal", Drawing)
    monkeypatch.setattr(progress_bar, "DELAY", 0.01)
    APPEARED.clear()
    bar = Bar("upsert")
    bar.start()
    assert APPEARED.wait(10)
    bar.update(3, 7, "stages")
    bar.stop()
    assert Drawing.drawn == [("upsert", 0, None), ("upsert: begin", 3, 7)]
    assert Drawing.closed == 1
    bar.update(4, 7, "stages")
    assert len(Drawing.drawn) == 2


def test_a_short_call_draws_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress_bar, "_Terminal", Drawing)
    Drawing.drawn = []
    bar = Bar("upsert")
    bar.start()
    bar.update(1, 7, "stages")
    bar.stop()
    assert Drawing.drawn == []


def test_it_is_quiet_where_nobody_looks(monkeypatch: pytest.MonkeyPatch):
    assert not sys.stderr.isatty()
    assert all(Watch(progress, "x")._bar is None for progress in (True, False, None))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setitem(sys.modules, "IPython", None)
    assert Watch(True, "x")._bar is not None
    assert Watch(None, "x")._bar is None


def test_ipython_in_a_terminal_shows_a_bar_by_itself(monkeypatch: pytest.MonkeyPatch):
    module = type(sys)("IPython")
    module.get_ipython = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", module)
    assert Watch(None, "x")._bar is None, "its output goes to a file"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert Watch(None, "x")._bar is not None
    assert Watch(False, "x")._bar is None


class Handle:
    shown: list[str]

    def update(self, value: str) -> None:
        Handle.shown.append(value)


def test_a_notebook_shows_a_bar_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shell, module, display = type("Shell", (), {"kernel": 1})(), type(sys)("IPython"), type(sys)("IPython.display")
    module.get_ipython = lambda: shell  # type: ignore[attr-defined]
    display.HTML = str  # type: ignore[attr-defined]
    display.display = lambda *_, **__: Handle()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(progress_bar, "DELAY", 0.01)
    monkeypatch.setattr(progress_bar, "_REFRESH", 0.01)
    Handle.shown = []
    waited = threading.Event()

    def rows() -> Iterator[pa.RecordBatch]:
        yield ROWS.to_batches()[0]
        waited.wait(0.3)
        yield ROWS.to_batches()[0]

    hoodoo.Table.create(tmp_path / "t", SCHEMA, name="t", record_key="id").insert(rows())
    assert any("insert: 100 rows" in shown for shown in Handle.shown), Handle.shown
    assert Handle.shown[-1] == ""


def test_a_bar_of_html_is_escaped():
    assert "<script" not in notebook_bar("<script>", 1, 2, 3.0)
