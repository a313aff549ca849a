"""Keys and partitions of timestamps where nothing names a zone: that of the process, as Hudi takes that of its JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# What real Hudi 1.2 makes of them with -Duser.timezone=America/New_York.
CASES = {
    "numbers": ("ms", {"timestamp.type": "EPOCHMILLISECONDS"}, "2024-01-01 22"),
    "numbers, zone": ("ms", {"timestamp.type": "EPOCHMILLISECONDS", "output.timezone": "UTC"}, "2024-01-02 03"),
    "text, zone of the path": (
        "text",
        {
            "timestamp.type": "DATE_STRING",
            "input.dateformat": "yyyy-MM-dd HH:mm:ss",
            "output.timezone": "UTC",
        },
        "2024-01-02 08",
    ),
    "text": (
        "text",
        {"timestamp.type": "DATE_STRING", "input.dateformat": "yyyy-MM-dd HH:mm:ss"},
        "2024-01-02 03",
    ),
}
WRITE = """
import json, sys
import pyarrow as pa, hoodoo
uri, column, given = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
options = {
    "hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": column,
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
    "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd HH",
    **{f"hoodie.keygen.timebased.{name}": value for name, value in given.items()},
}
rows = pa.table({"id": [1], "ms": [1704164400000], "text": ["2024-01-02 03:00:00"]})
hoodoo.write(rows, uri, "upsert", options=options)
print(*hoodoo.Table(uri).to_arrow(columns=["_hoodie_partition_path"])[0].to_pylist())
"""
LOGICAL = """
import sys, datetime as dt
import pyarrow as pa, hoodoo
options = {
    "hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "at",
    "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled": "true",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
}
rows = pa.table({"at": pa.array([dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc)], pa.timestamp("us", "UTC"))})
hoodoo.write(rows, sys.argv[1], "upsert", options=options)
print(*hoodoo.Table(sys.argv[1]).to_arrow(columns=["_hoodie_record_key"])[0].to_pylist())
"""


def _run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *arguments],
        env={**os.environ, "TZ": "America/New_York"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("name", CASES)
def test_partitions(tmp_path: Path, name: str):
    column, options, expected = CASES[name]
    assert _run(WRITE, str(tmp_path / "t"), column, json.dumps(options)) == expected


def test_keys_of_consistent_timestamps(tmp_path: Path):
    assert _run(LOGICAL, str(tmp_path / "t")) == "2024-01-01 19:00:00.0"
