"""What the core says reaches Python's logging, as the logger `hoodoo`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
ROWS = pa.table({"id": range(10), "v": range(10)}, SCHEMA)


def test_a_commit_says_where_its_time_went(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = hoodoo.Table.create(tmp_path / "t", SCHEMA, name="t", record_key="id")
    with caplog.at_level(logging.INFO, "hoodoo"):
        commit = table.upsert(ROWS)
    [record] = [r for r in caplog.records if r.getMessage().startswith("committed")]
    assert (record.name, record.levelno) == ("hoodoo", logging.INFO)
    said = record.getMessage()
    assert all(f"{stage} " in said for stage in commit.timings)
    assert f"instant={commit.instant}, operation=UPSERT, files=1" in said


def test_each_stage_is_a_span_of_the_debug_level(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = hoodoo.Table.create(tmp_path / "t", SCHEMA, name="t", record_key="id")
    with caplog.at_level(logging.DEBUG, "hoodoo"):
        commit = table.upsert(ROWS)
    spans = [r.getMessage() for r in caplog.records if " took " in r.getMessage()]
    for stage in ("rows", "locate", "files"):
        assert any(f"stage [name={stage}]" in span for span in spans), spans
    assert any(span.startswith("transaction") and commit.instant in span for span in spans), spans


def test_nothing_is_said_below_the_level(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = hoodoo.Table.create(tmp_path / "t", SCHEMA, name="t", record_key="id")
    with caplog.at_level(logging.WARNING, "hoodoo"):
        table.upsert(ROWS)
    assert not [r for r in caplog.records if r.name == "hoodoo"]


def test_calls_of_other_threads_are_logged_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = hoodoo.Table.create(tmp_path / "t", SCHEMA, name="t", record_key="id")
    with caplog.at_level(logging.INFO, "hoodoo"):
        thread = threading.Thread(target=table.upsert, args=(ROWS,))
        thread.start()
        thread.join()
    assert [r for r in caplog.records if r.getMessage().startswith("committed")]


def test_a_write_that_is_planned_again_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Another writer commits while the rows come."""
    uri = tmp_path / "t"
    options = {"hoodoo.write.lease": "false"}
    hoodoo.Table.create(uri, SCHEMA, name="t", record_key="id", options=options).upsert(ROWS)

    def batches() -> Iterator[pa.RecordBatch]:
        hoodoo.Table(uri, options).upsert(ROWS)
        yield from ROWS.to_batches()

    with caplog.at_level(logging.INFO, "hoodoo"):
        hoodoo.Table(uri, options).upsert(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert any("planned anew" in r.getMessage() for r in caplog.records)
