"""Clustering from the command line: what it prints, and how files are drawn."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import hoodoo
from hoodoo.cli.commands import app
from hoodoo.cli.overlap_picture import LABEL, MOST_BARS, Span, picture

SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
OPTIONS = {"hoodie.parquet.small.file.limit": "0"}
TARGET = "hoodie.clustering.plan.strategy.target.file.max.bytes"


def rows(numbers: range, city: str = "sf") -> pa.Table:
    size = len(numbers)
    values = {"id": [f"{city}{n:04d}" for n in numbers], "city": [city] * size, "n": list(numbers)}
    values["at"] = [n * 3_600_000_000 for n in numbers]
    return pa.table(values, schema=SCHEMA)


def make(uri: Path, parts: list[range], **more: Any) -> hoodoo.Table:
    table = hoodoo.Table.create(uri, SCHEMA, name="t", record_key="id", partition_by="city", options=OPTIONS, **more)
    for part in parts:
        table.insert(rows(part))
    return table


def invoke(*arguments: str) -> Any:
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, list(arguments))


def run(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return str(result.output)


def drawn(output: str) -> list[str]:
    lines = output.splitlines()
    first = next(number for number, line in enumerate(lines) if " from " in line and " to " in line)
    return lines[first:]


def test_run_sorts_and_tells(tmp_path: Path):
    uri = str(tmp_path / "t")
    table = make(tmp_path / "t", [range(0, 90, 3), range(1, 91, 3), range(2, 92, 3), range(200, 250)])
    sizes = sum(s.size for s in table.file_slices())
    output = run("cluster", "run", uri, "--sort-by", "n,id")
    (piece,) = table.file_slices()
    done = table.timeline.instants()[-1]
    assert re.search(rf"^{done.requested} clustered 140 rows in \d+\.\d\d s$", output, re.MULTILINE)
    assert re.search(rf"in +│ +4 │ +{sizes / 1024:.1f} KiB │ 3 at most, \d\.\d on average", output)
    assert re.search(rf"out +│ +1 │ +{piece.size / 1024:.1f} KiB │ 1 at most, 1\.0 on average", output)
    lines = drawn(output)
    assert lines[0] == "n from 0 to 249"
    assert len(lines) == 1 + 4 + 1 + 1 + 1
    assert all(len(line) <= 80 for line in lines)
    assert lines[6] == "after".ljust(LABEL) + "█" * 72
    assert not table.pending_clusterings()
    assert run("cluster", "run", uri, "--sort-by", "n,id").strip() == "nothing to cluster"


def test_run_carries_plans_out(tmp_path: Path):
    uri = str(tmp_path / "t")
    table = make(tmp_path / "t", [range(40), range(30, 60)])
    planned = run("cluster", "plan", uri, "--sort-by", "n")
    instant = table.pending_clusterings()[0].instant
    assert f"execute it with: hoodoo cluster run {uri} {instant}" in planned
    output = run("cluster", "run", uri, instant)
    assert output.startswith(f"{instant} clustered 70 rows in")
    assert "2 at most" in output, "the plan says what is sorted by"

    # Each takes the partition written since the plan before it; that another order is wanted is no reason to look
    # at partitions that did not change.
    table.insert(rows(range(20), "la"))
    first = table.schedule_clustering()
    table.insert(rows(range(20), "ny"))
    second = table.schedule_clustering(sort_by="at")
    output = run("cluster", "run", uri)
    assert output.startswith(f"{first}, {second} clustered 40 rows in")
    assert "files to open for one at" in output
    assert not table.pending_clusterings()


def test_run_without_order(tmp_path: Path):
    uri = str(tmp_path / "t")
    table = make(tmp_path / "t", [range(40), range(30, 60)], table_type="MERGE_ON_READ")
    table.upsert(rows(range(5)))
    logs = sum(s.size + s.log_size for s in table.file_slices())
    output = run("cluster", "run", uri, "--set", f"{TARGET}=1000000")
    assert re.search(rf"in +│ +2 │ +{logs / 1024:.1f} KiB", output)
    assert " from " not in output
    assert run("cluster", "run", uri).strip() == "nothing to cluster"


def test_rollback(tmp_path: Path):
    uri = str(tmp_path / "t")
    table = make(tmp_path / "t", [range(40), range(30, 60)])
    instant = table.schedule_clustering()
    assert instant is not None
    assert run("cluster", "rollback", uri, instant).startswith(f"{instant} is off the timeline")
    assert not table.pending_clusterings()
    failed = invoke("cluster", "rollback", uri, instant)
    assert isinstance(failed.exception, hoodoo.InvalidOptionError)


def test_what_does_not_go_together(tmp_path: Path):
    uri = str(tmp_path / "t")
    make(tmp_path / "t", [range(4)])
    refused = invoke("cluster", "run", uri, "20260101000000000", "--sort-by", "n")
    assert refused.exit_code == 2
    assert "INSTANT alone" in refused.output
    missing = invoke("cluster", "run", uri, "20260101000000000")
    assert isinstance(missing.exception, hoodoo.InvalidOptionError)
    no_column = invoke("cluster", "run", uri, "--sort-by", "nope")
    assert "no column 'nope'" in str(no_column.exception)


def test_explain_draws_what_is_expected(tmp_path: Path):
    uri = str(tmp_path / "t")
    table = make(tmp_path / "t", [range(80), range(20, 100), range(200, 240)])
    plain = run("cluster", "plan", uri, "--explain", "--sort-by", "n", "--strategy", "OVERLAP")
    lines = drawn(plain)
    assert lines[0] == "n from 0 to 239"
    assert [line[:LABEL].strip() for line in lines] == ["n from 0", "before", "", "", "depth 2", "after", "", "depth 1"]
    # The file that is left alone stays where it is.
    assert lines[3] == lines[6]
    size = max(s.size for s in table.file_slices())
    cut = ("--set", f"{TARGET}={size // 2}", "--set", "hoodie.clustering.plan.strategy.small.file.limit=100000000")
    halves = drawn(run("cluster", "plan", uri, "--explain", "--sort-by", "n", *cut))
    begins = [len(line[LABEL:]) - len(line[LABEL:].lstrip()) for line in halves[5:-1]]
    assert len(begins) > 2
    assert begins == sorted(begins)
    curve = drawn(
        run(
            "cluster",
            "plan",
            uri,
            "--explain",
            "--sort-by",
            "n,id",
            *cut,
            "--set",
            "hoodie.layout.optimize.strategy=ZORDER",
        )
    )
    assert {line[LABEL:] for line in curve[5:-1]} == {"█" * 72}
    assert not table.pending_clusterings()


def test_the_deepest_partition_is_drawn(tmp_path: Path):
    uri = str(tmp_path / "t")
    table = make(tmp_path / "t", [range(10), range(20, 30)])
    for first in (0, 5, 2):
        table.insert(rows(range(first, first + 40), "la"))
    lines = drawn(run("cluster", "run", uri, "--sort-by", "n"))
    assert lines[0] == "n from 0 to 44, of 2 partitions the deepest: la"
    assert len(lines) == 1 + 3 + 1 + 1 + 1


def test_overlap(tmp_path: Path):
    table = make(tmp_path / "t", [])
    assert table.overlap("n") == hoodoo.Overlap("n", hoodoo.OverlapDepth(0, 0.0), ())
    table.insert(rows(range(40)))
    table.insert(rows(range(30, 60)))
    table.insert(rows(range(5), "la"))
    found = table.overlap("n")
    assert found.depth.max == 2
    assert sorted((f.partition, f.rows, f.range) for f in found.files) == [
        ("la", 5, ("0", "4")),
        ("sf", 30, ("30", "59")),
        ("sf", 40, ("0", "39")),
    ]
    sizes = {s.base_file: s.size for s in table.file_slices()}
    assert {f.base_file: f.size for f in found.files} == sizes
    explained = table.schedule_clustering(sort_by="n", explain=True)
    assert explained.before == found.depth
    assert explained.sort_by == ("n",)
    assert table.overlap("_hoodie_record_key").files[0].range is not None
    assert table.overlap("at").files[0].range is not None
    with pytest.raises(hoodoo.InvalidOptionError, match=r"no column 'nope'.*id, city, n, at"):
        table.overlap("nope")


def bars(kind: pa.DataType, *files: tuple[str | None, str | None] | None) -> list[str]:
    spans = [Span("", ends) for ends in files]
    return [line[LABEL:].ljust(10)[:10] for line in picture("c", kind, spans, [], LABEL + 10).splitlines()[1:-3]]


@pytest.mark.parametrize(
    ("kind", "low", "middle", "high"),
    [
        (pa.int32(), "-10", "0", "10"),
        (pa.float64(), "-1.5e3", "0", "1.5e3"),
        (pa.decimal128(10, 2), "-2.50", "0.00", "2.50"),
        (pa.date32(), "2024-01-01", "2024-01-02", "2024-01-03"),
        (pa.timestamp("us"), "2024-01-01T00:00:00", "2024-01-01T12:00:00", "2024-01-02T00:00:00"),
        (pa.timestamp("us", "UTC"), "2024-01-01T00:00:00Z", "2024-01-01T12:00:00.000Z", "2024-01-02T00:00:00Z"),
        (pa.string(), "a", "x", "y"),
        (pa.bool_(), "a", "x", "y"),
        (pa.float64(), "-inf", "3", "inf"),
        (pa.int64(), None, "2", "4"),
    ],
    ids=str,
)
def test_values_are_drawn_by_size_or_order(kind: pa.DataType, low: str | None, middle: str, high: str):
    files = [(low, middle), (middle, high)]
    if low is None:
        # Null is drawn where the min is.
        files = [(None, "0"), ("0", "2"), ("2", "4")]
        assert bars(kind, *files) == ["▌" + " " * 9, "█████     ", "     █████"]
    else:
        assert bars(kind, *files) == ["█████     ", "     █████"]


def test_odd_pictures():
    assert picture("n", pa.int64(), [], [], 80) == ""
    assert picture("n", pa.int64(), [Span("", None)], [Span("", None)], 80) == ""
    assert bars(pa.int64(), ("0", "9"), None) == ["█" * 10, "░" * 10]
    assert bars(pa.int64(), ("7", "7")) == ["▌         "]
    assert bars(pa.int64(), (None, None)) == ["▌         "]
    many = [Span("", (str(n), str(n + 5))) for n in range(500)]
    lines = picture("n", pa.int64(), many, many, 80).splitlines()
    assert len(lines) == 1 + 2 * (MOST_BARS + 1) <= 20
    assert f"… {500 - MOST_BARS + 1} files more" in lines[MOST_BARS]
    assert max(map(len, lines)) <= 80
