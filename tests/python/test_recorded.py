"""Recordings of what Hudi did: they answer for Hudi only where Hudi would do the same again."""

from __future__ import annotations

import datetime as dt
import math
import os
from decimal import Decimal
from pathlib import Path

import pytest

from tests.interop.recorded import Recordings, digest, spelled
from tests.rows import Row


class Engine:
    """What stands for Hudi: adds a file to a table at each call, and counts its calls."""

    def __init__(self, recordings: Recordings, table: Path) -> None:
        self.recordings, self.table, self.calls = recordings, str(table), 0

    def write(
        self, asked: str, *, removes: str | None = None, content: bytes = b"of Hudi", answer: tuple[Row, ...] = ()
    ) -> list[Row]:
        def work() -> list[Row]:
            self.calls += 1
            folder = Path(self.table) / "folder" / "empty"
            folder.mkdir(parents=True, exist_ok=True)
            if removes:
                (Path(self.table) / removes).unlink()
            (Path(self.table) / f"{asked}.file").write_bytes(content)
            return list(answer)

        return self.recordings.change(self.table, asked, work)

    def read(self, asked: str, rows: list[Row]) -> list[Row]:
        def work() -> list[Row]:
            self.calls += 1
            return rows

        return self.recordings.answer(self.table, asked, work)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A folder with the recordings of two writes and of a read after them."""
    engine = Engine(Recordings(tmp_path / "kept", replays=True, records=True), tmp_path / "first")
    engine.write("a")
    engine = Engine(Recordings(tmp_path / "kept", replays=True, records=True), tmp_path / "second")
    engine.write("a")
    engine.write("b", removes="a.file")
    engine.read("r", [{"id": 1}])
    assert engine.calls == 2
    return tmp_path / "kept"


def replaying(recorded: Path, table: Path) -> Engine:
    return Engine(Recordings(recorded, replays=True, records=False), table)


def test_the_same_questions_are_answered_without_the_engine(recorded: Path, tmp_path: Path):
    engine = replaying(recorded, tmp_path / "t")
    engine.write("a")
    assert (tmp_path / "t" / "a.file").read_bytes() == b"of Hudi"
    assert (tmp_path / "t" / "folder" / "empty").is_dir()
    engine.write("b")
    assert sorted(one.name for one in (tmp_path / "t").iterdir()) == ["b.file", "folder"]
    assert engine.read("r", []) == [{"id": 1}]
    assert engine.calls == 0


def test_what_a_change_answers_is_answered_again(tmp_path: Path):
    answer = ({"done": True, "at": dt.datetime(2026, 1, 1), "size": Decimal("1.50")}, {"done": None})  # noqa: DTZ001
    engine = Engine(Recordings(tmp_path / "kept", replays=True, records=True), tmp_path / "first")
    assert engine.write("a", answer=answer) == list(answer)
    engine = replaying(tmp_path / "kept", tmp_path / "t")
    assert engine.write("a") == list(answer)
    assert engine.calls == 0


def test_an_answer_that_names_the_path_of_the_table_is_not_recorded(tmp_path: Path):
    for table in ("first", "second"):
        engine = Engine(Recordings(tmp_path / "kept", replays=True, records=True), tmp_path / table)
        engine.write("a", answer=({"path": str(tmp_path / table)},))
        assert engine.calls == 1


def test_files_keep_their_times(tmp_path: Path):
    engine = Engine(Recordings(tmp_path / "kept", replays=True, records=True), tmp_path / "first")
    engine.write("a")
    time = (tmp_path / "first" / "a.file").stat().st_mtime
    replaying(tmp_path / "kept", tmp_path / "t").write("a")
    assert (tmp_path / "t" / "a.file").stat().st_mtime == pytest.approx(time, abs=0.001)


def test_another_question_goes_to_the_engine_and_so_do_all_after_it(recorded: Path, tmp_path: Path):
    engine = replaying(recorded, tmp_path / "t")
    engine.write("c")
    engine.write("b")
    engine.read("r", [])
    assert engine.calls == 3


@pytest.mark.parametrize("change", ["content", "added", "removed", "touched"])
def test_a_table_that_another_has_changed_goes_to_the_engine(recorded: Path, tmp_path: Path, change: str):
    engine = replaying(recorded, tmp_path / "t")
    engine.write("a")
    file = tmp_path / "t" / "a.file"
    if change == "content":
        file.write_bytes(b"of ours")
    elif change == "added":
        (tmp_path / "t" / "folder" / "another").touch()
    elif change == "removed":
        file.unlink()
    else:
        os.utime(file, (1, 1))
    engine.write("b")
    assert engine.read("r", []) == []
    assert engine.calls == 2


def test_a_folder_that_holds_something_goes_to_the_engine(recorded: Path, tmp_path: Path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "foreign").touch()
    engine = replaying(recorded, tmp_path / "t")
    engine.write("a")
    assert engine.calls == 1


def test_after_a_failure_of_the_engine_nothing_is_recorded(tmp_path: Path):
    recordings = Recordings(tmp_path / "kept", replays=True, records=True)
    engine = Engine(recordings, tmp_path / "t")
    engine.write("a")

    def fails() -> list[Row]:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        recordings.change(engine.table, "b", fails)
    engine.write("c")
    assert len(list((tmp_path / "kept").iterdir())) == 1


def test_a_table_that_names_its_place_is_not_recorded(tmp_path: Path):
    engine = Engine(Recordings(tmp_path / "kept", replays=True, records=True), tmp_path / "t")
    engine.write("a", content=f"{tmp_path}/t/file".encode())
    engine.write("b")
    engine.read("r", [])
    assert engine.calls == 3
    assert not (tmp_path / "kept").exists()


def test_without_replays_the_engine_works_each_time(recorded: Path, tmp_path: Path):
    engine = Engine(Recordings(recorded, replays=False, records=False), tmp_path / "t")
    engine.write("a")
    engine.write("b", removes="a.file")
    assert engine.read("r", []) == []
    assert engine.calls == 3


def test_rows_of_all_kinds_come_back(tmp_path: Path):
    engine = Engine(Recordings(tmp_path / "kept", replays=True, records=True), tmp_path / "t")
    engine.write("a")
    rows: list[Row] = [
        {"id": 1, "day": dt.date(2024, 1, 1), "time": dt.datetime(2024, 1, 1, 5, 0, 0, 1)},  # noqa: DTZ001
        {"price": Decimal("1.50"), "wide": math.inf, "low": -math.inf, "raw": b"\0\xff", "none": None, "flag": True},
        {"text": "two\nlines\u2028'\"", "list": [{"a": [1, 2.5]}, {}], "nan": "NaN"},
    ]
    assert engine.read("r", rows) == rows
    again = replaying(tmp_path / "kept", tmp_path / "again")
    again.write("a")
    assert again.read("r", []) == rows
    assert again.calls == 0


def test_rows_that_have_no_spelling_are_read_each_time(tmp_path: Path):
    engine = Engine(Recordings(tmp_path / "kept", replays=True, records=True), tmp_path / "t")
    engine.write("a")
    for _ in range(2):
        engine.read("r", [{"nan": math.nan}])
    assert engine.calls == 3


def test_names_of_questions():
    assert digest("a", "bc") != digest("ab", "c")
    assert digest(b"a") == digest("a")
    assert spelled({"a": "1", "b": "2"}) == spelled({"b": "2", "a": "1"})
