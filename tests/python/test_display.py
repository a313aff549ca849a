"""What notebooks and terminals show of tables, timelines, commits, plans and reports."""

from __future__ import annotations

import io
import pickle
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

import hoodoo
from hoodoo.display import MOST_ROWS, Displayed, TupleListing, View, html_of

HOSTILE = "<script>alert(1)</script>&\"'"
SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), ("s", pa.string())])


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert all(name in {"class", "style"} for name, _ in attrs), attrs
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def parsed(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    assert set(tags.tags) <= {"div", "strong", "table", "thead", "tbody", "tr", "th", "td", "em"}, tags.tags
    return tags


def rich_text(value: object) -> str:
    console = Console(file=io.StringIO(), width=80)
    console.print(value)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture
def table(tmp_path: Path) -> hoodoo.Table:
    made = {"name": HOSTILE, "record_key": "id", "ordering": "n", "table_type": "MERGE_ON_READ"}
    table = hoodoo.Table.create(tmp_path / "t", SCHEMA, **made)  # type: ignore[arg-type]
    table.insert({"id": ["a", "b"], "n": [1, 1], "s": [HOSTILE, HOSTILE]})
    table.upsert({"id": ["a"], "n": [2], "s": [HOSTILE]})
    return table


def shown_objects(table: hoodoo.Table) -> dict[str, Displayed]:
    saved = table.savepoint(user=HOSTILE, comment=HOSTILE)
    shown: dict[str, Any] = {
        "table": table,
        "timeline": table.timeline,
        "instants": table.timeline.instants(),
        "slices": table.file_slices(),
        "verify": table.verify(),
        "savepoint": saved,
        "savepoints": table.savepoints(),
        "clean": table.clean(dry_run=True),
        "archive": table.archive(dry_run=True),
        "plan": table.schedule_clustering(sort_by="n", explain=True),
        "overlap": table.overlap("s"),
        "metadata": table.metadata_table,
        "history": table.timeline.history_files(),
        "report": table.report(["s"]),
        "index": table.index("bloom_filters"),
        "compact": table.compact(),
        "compact_history": table.timeline.compact_history(),
        "restore": table.restore(saved.instant),
    }
    return shown


def test_everything_shows_itself_short_and_escaped(table: hoodoo.Table):
    objects = shown_objects(table)
    texts = {name: parsed(one._repr_html_()).text for name, one in objects.items()}
    for name, one in objects.items():
        assert "<script" not in one._repr_html_(), name
        assert len(one._repr_html_()) < 20_000, name
        assert len(repr(one)) < 2_000, name
        assert rich_text(one).strip(), name
    # The strings are shown as they are.
    assert all(HOSTILE in texts[name] for name in ("table", "savepoint", "savepoints", "report", "overlap")), texts
    assert "active instants, 0 pending" in texts["timeline"]
    assert "no problem found" in texts["verify"]
    assert "deltacommit" in texts["instants"]
    assert "file groups\n1 → 1" in texts["plan"]


def test_a_commit_shows_its_counts(table: hoodoo.Table):
    commit = table.upsert({"id": ["a", "c"], "n": [3, 3], "s": ["", ""]})
    assert (
        repr(commit)
        == f"Commit('{commit.instant}', 'UPSERT', inserted=1, updated=1, deleted=0, files={len(commit.files)})"
    )
    text = parsed(commit._repr_html_()).text
    assert "inserted\n1\nupdated\n1\ndeleted\n0" in text
    assert commit.completed in text


def test_a_problem_comes_with_its_remedy():
    problem = hoodoo.Problem("error", "p/<a>.parquet", "is gone", "restore it")
    report = hoodoo.Report((problem,), {"files": 3})
    assert repr(report) == "Report(ok=False, errors=1, warnings=0)"
    assert "error\np/<a>.parquet\nis gone\nrestore it" in parsed(report._repr_html_()).text
    assert "restore it" in rich_text(report)


def test_long_grids_are_cut_and_say_so():
    rows = [(n,) for n in range(MOST_ROWS + 5)]
    text = parsed(html_of(View("many", headings=("n",), rows=rows))).text
    assert "5 more" in text
    assert f"\n{MOST_ROWS}\n" not in text


def test_lists_stay_what_they_were(table: hoodoo.Table):
    assert table.savepoints() == ()
    assert isinstance(table.savepoints(), tuple)
    instants = table.timeline.instants()
    assert instants == list(instants)
    assert pickle.loads(pickle.dumps(instants)) == instants
    assert repr(TupleListing.of("x", (1, 2))) == "(1, 2)"


def test_a_table_that_cannot_be_read_shows_why(table: hoodoo.Table, tmp_path: Path):
    for path in (tmp_path / "t" / ".hoodie" / "timeline").glob("*.deltacommit"):
        path.write_bytes(b"x")
    text = parsed(table._repr_html_()).text
    assert text.startswith(f"Table('{tmp_path}/t')\nCorruptFileError: "), text
    assert "CorruptFileError" in rich_text(table)


def test_no_rows_are_read_to_show_a_table(table: hoodoo.Table, tmp_path: Path):
    for path in (tmp_path / "t").glob("*.parquet"):
        path.write_bytes(b"no data")
    assert HOSTILE in parsed(table._repr_html_()).text
    assert "deltacommit" in parsed(table.timeline._repr_html_()).text
