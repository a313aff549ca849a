"""`Commit.timings`: where the time of a write goes."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

import hoodoo

STAGES = ["lease", "rows", "locate", "begin", "files", "publish", "services"]
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def test_the_stages_of_a_write_take_about_all_of_its_time() -> None:
    table = hoodoo.Table.create("memory://commit-timings/t", SCHEMA, name="t", record_key="id")
    rows = pa.table({"id": range(200_000), "v": range(200_000)}, SCHEMA)
    table.insert(rows)
    begun = time.perf_counter()
    commit = table.upsert(rows)
    took = time.perf_counter() - begun
    assert list(commit.timings) == STAGES
    assert all(seconds >= 0 for seconds in commit.timings.values())
    assert 0.5 * took < sum(commit.timings.values()) <= took


def test_waiting_for_the_rows_counts_to_the_rows() -> None:
    table = hoodoo.Table.create("memory://commit-timings-slow/t", SCHEMA, name="t", record_key="id")

    def slow() -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            time.sleep(0.2)
            yield pa.record_batch({"id": [1], "v": [1]}, SCHEMA)

        return pa.RecordBatchReader.from_batches(SCHEMA, batches())

    timings = table.upsert(slow()).timings
    assert timings["rows"] >= 0.2
    assert max(timings, key=lambda stage: timings[stage]) == "rows"
