"""The bucket index through Spark: rows are routed by bucket, and a bucket has one file group, whatever the tasks do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from tests.buckets import INDEX, bucket_of, check, groups
from tests.interop.layouts import SIMPLE, batch, row
from tests.spark.same_table import SameTable


def _rows(numbers: range, ts: int, text: str) -> pa.Table:
    return batch([row(n, ts, f"{text} {n}") for n in numbers])


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_writes_go_by_bucket(frame: Callable[..., Any], tmp_path: Path, table_type: str) -> None:
    options = {
        **SIMPLE.options(),
        **INDEX,
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.compact.inline": "false",
    }
    same = SameTable(tmp_path, frame, options)
    same.write("bulk_insert", _rows(range(30), 1, "first"), _rows(range(30, 60), 1, "first"))
    before = groups(same.spark)
    same.write("upsert", _rows(range(0, 90, 2), 2, "second"), _rows(range(60, 70), 1, "other"))
    same.write("delete", _rows(range(0, 90, 7), 3, ""))
    same.write("insert", _rows(range(50, 100), 4, "third"))
    assert groups(same.spark) == before
    assert any(s.log_files for s in hoodoo.Table(same.spark).file_slices()) == (table_type == "MERGE_ON_READ")
    check(same.spark, lambda one: bucket_of(str(one["id"])), options)
