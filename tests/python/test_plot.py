"""Plots of timelines: intervals in lanes, a page that fetches nothing, a picture."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hoodoo
from hoodoo import Instant
from hoodoo.plot import draw
from hoodoo.plot.intervals import Interval, chart
from hoodoo.plot.page import page
from hoodoo.plot.picture import picture
from tests.histories import NAMES, unpack

START = datetime(2026, 11, 21)  # noqa: DTZ001
NOW = START + timedelta(days=1)


def name(at: int) -> str:
    time = START + timedelta(milliseconds=at)
    return f"{time:%Y%m%d%H%M%S}{time.microsecond // 1000:03d}"


def instant(begin: int, lasts: int | None, action: str = "commit") -> Instant:
    end = None if lasts is None else name(begin + lasts)
    return Instant(name(begin), end, action, "INFLIGHT" if lasts is None else "COMPLETED")


def data_of(text: str) -> dict[str, object]:
    (found,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)
    parsed: dict[str, object] = json.loads(found)
    return parsed


SPANS = st.lists(
    st.tuples(
        st.integers(0, 200), st.none() | st.integers(0, 60), st.sampled_from(["commit", "clean", "restore", "new"])
    ),
    max_size=40,
)


@given(SPANS)
def test_rows_of_a_lane_do_not_overlap_and_are_no_more_than_needed(spans: list[tuple[int, int | None, str]]):
    drawn = chart([instant(*span) for span in spans], NOW)
    assert drawn.count == len(spans)
    for lane in drawn.lanes:
        assert {one.instant.action for one in lane.intervals} == {lane.action}

        def end(one: Interval) -> float:
            # What took no time is a millisecond wide, so that two at the same time are both seen.
            return float("inf") if one.end is None else max(one.end, one.begin + 1)

        rows: dict[int, float] = {}
        for one in lane.intervals:
            assert one.begin >= rows.get(one.row, 0)
            rows[one.row] = end(one)
        deepest = max(sum(o.begin <= one.begin < end(o) for o in lane.intervals) for one in lane.intervals)
        assert lane.rows == len(rows) == deepest


def test_lanes_begin_with_writes():
    drawn = chart([instant(0, 1, action) for action in ("zzz", "restore", "clean", "deltacommit", "commit")], NOW)
    assert [lane.action for lane in drawn.lanes] == ["commit", "deltacommit", "clean", "restore", "zzz"]


def test_what_has_no_time_is_left_out_and_counted():
    names = ["00000000000001", "00010101000000000", "99991231235959999", "20261341000000000", "x"]
    odd = [Instant(name, name, "commit", "COMPLETED") for name in names]
    drawn = chart([*odd, instant(0, 5)], NOW)
    assert (drawn.count, drawn.left_out) == (1, 5)
    assert "without a time" in page(drawn)


def test_an_old_table_with_a_pending_action_fills_the_view():
    drawn = chart([instant(0, 1000), instant(2000, None)], NOW)
    first, last = drawn.span
    assert last - first == 2000
    assert drawn.pending == 1
    soon = chart([instant(0, 1000), instant(2000, None)], START + timedelta(milliseconds=2300))
    assert soon.span[1] - soon.span[0] == 2300
    assert chart([], NOW).span[0] < chart([], NOW).span[1]


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for key, value in attrs if key in {"src", "href", "srcset", "action", "data"}]


def test_the_page_fetches_nothing():
    text = page(chart([instant(0, 5), instant(2, None, "clean")], NOW, title="t"))
    parser = _Links()
    parser.feed(text)
    assert parser.links == []
    assert not {"link", "iframe", "img", "object"} & set(parser.tags)
    assert not re.search(r"https?:|//cdn|@import|url\(|fetch\(|XMLHttpRequest|import\(", text)
    assert "default-src 'none'" in text


def test_names_in_a_page_are_only_text():
    hostile = '</script><script>alert(1)</script>{{DATA}}<!--"'
    text = page(chart([instant(0, 5, hostile)], NOW, title=hostile))
    assert text.count("<script") == 2
    assert text.count("</script") == 2
    assert "<!--" not in text
    data = data_of(text)
    assert data["title"] == hostile
    lanes = data["lanes"]
    assert isinstance(lanes, list)
    assert lanes[0]["action"] == hostile


@pytest.mark.parametrize("fixture", NAMES)
def test_plots_of_timelines_that_hudi_wrote(fixture: str, tmp_path: Path):
    timeline = hoodoo.Table(unpack(fixture, tmp_path)).timeline
    data = data_of(timeline.plot(tmp_path / "t.html").read_text(encoding="utf-8"))
    lanes = data["lanes"]
    assert isinstance(lanes, list)
    drawn = sorted(
        (time, lane["named"].get(str(n), lane["action"])) for lane in lanes for n, time in enumerate(lane["requested"])
    )
    assert drawn == sorted((i.requested, i.action) for i in timeline.instants(history=True))
    pending = sum(end is None for lane in lanes for end in lane["end"])
    assert pending == sum(i.state != "COMPLETED" for i in timeline.instants())
    assert any(lane["stats"] for lane in lanes)
    active = data_of(timeline.plot(tmp_path / "a.html", history=False, stats=0).read_text(encoding="utf-8"))["lanes"]
    assert isinstance(active, list)
    assert sum(len(lane["requested"]) for lane in active) == len(timeline.instants())
    assert not any(lane["stats"] for lane in active)


def test_a_picture(tmp_path: Path):
    pytest.importorskip("matplotlib")
    image = pytest.importorskip("PIL.Image")
    drawn = chart([instant(n * 5000, 4000) for n in range(2000)] + [instant(0, None, "clean")], NOW, title="$x^")
    with image.open(draw(drawn, tmp_path / "t.PNG")) as png:
        assert png.format == "PNG"
        colours = {pixel for _, pixel in png.convert("RGB").getcolors(1 << 24)}
    assert {(0x3B, 0x82, 0xF6), (0xD9, 0x77, 0x06)} <= colours, "the lanes have their colours"
    assert draw(chart([], NOW), tmp_path / "none.png").stat().st_size > 1000


def test_a_picture_without_matplotlib_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(
        hoodoo.MissingDependencyError, match=r"a PNG needs matplotlib: pip install 'hoodoo\[plot\]'"
    ) as e:
        picture(chart([], NOW), str(tmp_path / "t.png"))
    assert isinstance(e.value, ImportError)
    assert isinstance(e.value, hoodoo.UnsupportedError)
    assert not (tmp_path / "t.png").exists()


def test_other_files_are_refused(tmp_path: Path):
    with pytest.raises(hoodoo.InvalidOptionError, match=r"ends in \.html or \.png"):
        draw(chart([], NOW), tmp_path / "t.svg")
    with pytest.raises(hoodoo.InvalidOptionError, match="limit"):
        hoodoo.Table(unpack("cow_v9_states", tmp_path)).timeline.plot(tmp_path / "t.html", limit=0)


def test_plotting_is_imported_when_it_is_used(tmp_path: Path):
    uri = unpack("cow_v9_states", tmp_path)
    script = f"""
import sys
import hoodoo
def loaded():
    return sorted(name for name in sys.modules if name.startswith(("hoodoo.plot", "matplotlib", "rich", "typer")))
assert loaded() == [], loaded()
table = hoodoo.Table({str(uri)!r})
table.timeline.plot({str(tmp_path / "t.html")!r})
assert "hoodoo.plot.page" in loaded(), loaded()
assert "matplotlib" not in loaded() and "hoodoo.plot.picture" not in loaded(), loaded()
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_services_have_one_lane_before_and_after_they_complete(tmp_path: Path):
    made = {"name": "t", "record_key": "id", "table_type": "MERGE_ON_READ"}
    options = {"hoodie.log.compaction.blocks.threshold": 2}
    table = hoodoo.Table.create(tmp_path / "t", {"id": pa.int64()}, options=options, **made)  # type: ignore[arg-type]
    for _ in range(3):
        table.upsert({"id": [1]})
    assert table.log_compact() is not None
    assert table.compact() is not None
    assert table.cluster() is not None
    table.insert_overwrite_table({"id": [1]})
    pending = table.schedule_clustering()

    def lanes(**given: int) -> dict[str, list[str]]:
        drawn = table.timeline.chart(**given)  # type: ignore[arg-type]
        return {lane.action: [one.instant.action for one in lane.intervals] for lane in drawn.lanes}

    assert pending is not None
    expected = {
        "deltacommit": ["deltacommit"] * 3,
        "replacecommit": ["replacecommit"],
        "compaction": ["commit"],
        "logcompaction": ["deltacommit"],
        "clustering": ["replacecommit", "clustering"],
    }
    assert lanes() == expected
    # Log compactions are told from writes by their metadata alone.
    assert set(lanes(stats=0)) == set(expected) - {"logcompaction"}
    (data,) = [lane for lane in lanes_of(table, tmp_path) if lane["action"] == "clustering"]
    assert data["named"] == {"0": "replacecommit"}
    assert data["state"] == [2, 0]
    assert data["stats"]["0"][5] > 0


def lanes_of(table: hoodoo.Table, folder: Path) -> list[dict[str, Any]]:
    lanes = data_of(table.timeline.plot(folder / "lanes.html").read_text(encoding="utf-8"))["lanes"]
    assert isinstance(lanes, list)
    return lanes


def test_the_tooltip_is_no_child_of_the_box_that_cuts():
    text = page(chart([instant(0, 5)], NOW))
    frame = text[text.index('<div id="frame">') :]
    assert 'id="tip"' not in frame[: frame.index("</div>")]
    assert '<div id="tip"' in frame
