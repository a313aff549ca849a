"""The page of a table: it loads nothing, and shows strings of the table as they are."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.plot.report_page import report_page

HOSTILE = "</script><img src=x onerror=alert(1)>{{DATA}}<!--\"'"
SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), ("p", pa.string())])


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.links: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value for name, value in attrs if name in {"src", "href", "srcset", "action", "data"}]

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] != ["script"]:
            self.text += data


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> hoodoo.Table:
    made: dict[str, Any] = {"name": HOSTILE, "record_key": "id", "ordering": "n", "partition_by": "p"}
    path = tmp_path_factory.mktemp("report") / "t"
    table = hoodoo.Table.create(path, SCHEMA, table_type="MERGE_ON_READ", **made)
    table.insert({"id": ["a", "b"], "n": [1, 1], "p": ["<b>x</b>", "y"]})
    table.upsert({"id": ["a"], "n": [2], "p": ["<b>x</b>"]})
    return table


def parsed(text: str) -> Page:
    page = Page()
    page.feed(text)
    return page


def test_strings_of_the_table_are_only_text(table: hoodoo.Table, tmp_path: Path):
    text = table.report().write_html(tmp_path / "r.html", table.timeline).read_text(encoding="utf-8")
    page = parsed(text)
    assert HOSTILE in page.text
    assert "<b>x" in page.text
    assert not {"img", "link", "iframe", "object"} & set(page.tags)
    assert page.tags.count("script") == 2
    assert not {name for name in page.attributes if name.startswith("on")}
    assert page.tags.count("b") == 7, "those of the tiles"


def test_hostile_values_of_every_field_are_escaped(table: hoodoo.Table):
    report = table.report()
    service = hoodoo.NextService(HOSTILE, True, HOSTILE, 1, 1, HOSTILE, HOSTILE)
    overlaps = (hoodoo.ColumnOverlap(HOSTILE, 1, 1.0, 1, 0), hoodoo.ColumnOverlap("c", 0, 0.0, 0, 0, HOSTILE))
    metadata = (hoodoo.MetadataPartition(HOSTILE, 1, 1, 1, 1, HOSTILE),)
    pending = (hoodoo.Instant(HOSTILE, None, HOSTILE, HOSTILE),)
    partitions = (hoodoo.PartitionSize(HOSTILE, 1, 1, 1, 1, 1),)
    strings: dict[str, Any] = {"uri": HOSTILE, "name": HOSTILE, "table_type": HOSTILE, "record_key": (HOSTILE,)}
    odd = replace(
        report,
        services=(service,),
        overlaps=overlaps,
        metadata_partitions=metadata,
        pending=pending,
        partitions=partitions,
        **strings,
    )
    page = parsed(report_page(odd))
    assert {"img", "script"} & set(page.tags) == set()
    assert page.text.count(HOSTILE) >= 14
    assert "<img" not in odd._repr_html_()


def test_the_page_loads_nothing(table: hoodoo.Table):
    text = report_page(table.report(), table.timeline.chart())
    assert parsed(text).links == []
    assert not re.search(r"https?:|//cdn|@import|url\(|fetch\(|XMLHttpRequest|import\(", text)
    assert "default-src 'none'" in text


def test_the_page_has_the_numbers_of_the_report(table: hoodoo.Table):
    report = table.report()
    text = parsed(report_page(report, table.timeline.chart())).text
    assert f"{report.log_ratio:.1%}" in text
    assert f"hoodoo compact {table.uri}" in text
    assert "merge 1 log files of 1 file slices" in text
    assert all(one.name in text for one in report.metadata_partitions)
    assert "Pending actions" not in text


def test_many_partitions_are_cut_and_counted(table: hoodoo.Table):
    many = tuple(hoodoo.PartitionSize(f"p={n}", 1, 0, n, 0, 0) for n in range(60))
    text = parsed(report_page(replace(table.report(), partitions=many))).text
    assert "the largest 50; 10 more" in text
    assert "p=59" in text
    assert "p=9\n" not in text
    assert "p=10" in text


def test_a_table_without_files(tmp_path: Path):
    table = hoodoo.Table.create(tmp_path / "t", SCHEMA, name="t", record_key="id")
    text = parsed(report_page(table.report(), table.timeline.chart())).text
    assert "The table has no files." in text
    assert "0.0%" in text
