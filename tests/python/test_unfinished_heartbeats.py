"""A heartbeat that was half written when its process was killed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa

import hoodoo


def test_the_next_write_removes_it_unless_it_is_new(tmp_path: Path):
    table = hoodoo.Table.create(str(tmp_path / "t"), {"id": pa.string()}, name="t", record_key="id")
    table.upsert(pa.table({"id": ["a"]}))
    folder = tmp_path / "t/.hoodie/.heartbeat"
    folder.mkdir(exist_ok=True)
    old, new = folder / "20260101000000000#1", folder / "20260101000000001#1"
    for file in (old, new):
        file.write_text("half")
    os.utime(old, (time.time() - 60,) * 2)
    table.upsert(pa.table({"id": ["b"]}))
    assert not old.exists()
    assert new.exists()
    assert table.to_arrow(columns=["id"]).num_rows == 2
