"""Reads through metadata tables that real Hudi writes: rows are those of a listing, and those that Hudi reads."""

from __future__ import annotations

import datetime as dt
import logging
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

from hoodoo import Table
from tests.interop.hudi import Hudi
from tests.interop.metadata_tables import Case, roll_back
from tests.rows import Row, arrow_rows, spark_rows

LISTED = {"hoodie.metadata.enable": "false"}
BY_KEYS = {"hoodie.metadata.global.record.level.index.enable": "true"}
CASES = tuple(
    Case(f"{kind}_{version}", table_type, partitioned=True, version=version)
    for kind, table_type in (("cow", "COPY_ON_WRITE"), ("mor", "MERGE_ON_READ"))
    for version in ("8", "9")
)
AT = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)

# For us, and for Spark.
Filter: TypeAlias = tuple[list[tuple[str, str, Any]], str]
FILTERS: tuple[Filter, ...] = (
    ([("id", "=", "k0012")], "id = 'k0012'"),
    ([("id", "in", ["k0012", "k0033", "none"])], "id in ('k0012', 'k0033', 'none')"),
    ([("id", "<", "k0003")], "id < 'k0003'"),
    ([("ts", "=", 5)], "ts = 5"),
    ([("ts", ">", 9)], "ts > 9"),
    ([("ts", "<", 2)], "ts < 2"),
    ([("small", "=", 7)], "small = 7"),
    ([("small", "<", 2)], "small < 2"),
    ([("name", "=", "n84")], "name = 'n84'"),
    ([("name", ">", "n9")], "name > 'n9'"),
    ([("name", "=", "ü30")], "name = 'ü30'"),
    ([("single", "<", -7.0)], "single < cast(-7.0 as float)"),
    ([("single", "=", 0.0)], "single = cast(0.0 as float)"),
    ([("price", ">", 40.0)], "price > 40.0D"),
    ([("price", "=", 1.5)], "price = 1.5D"),
    ([("amount", "=", Decimal("-1.25"))], "amount = -1.25"),
    ([("amount", ">", Decimal("4.00"))], "amount > 4.00"),
    ([("day", "<", dt.date(1970, 1, 2))], "day < date'1970-01-02'"),
    ([("day", "=", dt.date(1970, 1, 20))], "day = date'1970-01-20'"),
    ([("at", "=", AT + dt.timedelta(hours=9))], "at = timestamp'2026-01-01 09:00:00'"),
    ([("at", ">", AT + dt.timedelta(hours=40))], "at > timestamp'2026-01-02 16:00:00'"),
    ([("flag", "=", True), ("ts", "<", 3)], "flag and ts < 3"),
    ([("part", "=", "p2"), ("ts", ">", 8)], "part = 'p2' and ts > 8"),
    ([("ts", ">", 100)], "ts > 100"),
)


def rows(keys: range, ts: int) -> pa.Table:
    """Make rows of keys, with a column of each type that has statistics; the values follow from key and time."""
    return pa.table(
        {
            "id": [f"k{key:04}" for key in keys],
            "ts": pa.array([ts] * len(keys), pa.int64()),
            "small": pa.array([None if ts == 3 else key % (ts + 1) for key in keys], pa.int32()),
            "name": [None if key % 7 == 0 else f"{'ü' if key == 30 else 'n'}{key * ts}" for key in keys],
            "single": pa.array([math.nan if key == 21 else key / 4 - ts for key in keys], pa.float32()),
            "price": pa.array([math.nan if key == 22 else key * 1.5 - ts for key in keys], pa.float64()),
            "amount": pa.array([Decimal(key - 20) / 4 for key in keys], pa.decimal128(10, 2)),
            "day": pa.array([key - ts for key in keys], pa.date32()),
            "at": pa.array([AT + dt.timedelta(hours=key) for key in keys], pa.timestamp("us", "UTC")),
            "flag": [key % 2 == 0 for key in keys],
            "data": [f"b{key}".encode() for key in keys],
            "part": [f"p{key % 3}" for key in keys],
        }
    )


def write_table(hudi: Hudi, path: Path, case: Case) -> None:
    """Write a table: inserts, a rollback, upserts, deletes, a clustering, cleans, a dropped partition, logs last."""
    options = {**case.options, "hoodie.metadata.index.column.stats.max.columns.to.index": "32"}
    clustering = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
    hudi.write(rows(range(40), 1), path, "insert", mode="overwrite", **options)
    # Not where the metadata table is compacted meanwhile, as in version 8: Hudi rolls nothing back across that.
    if case.version == "9":
        hudi.write(rows(range(5, 9), 9), path, "upsert", **options)
        roll_back(hudi, path)
    hudi.write(rows(range(2, 10), 2), path, "upsert", **options)
    hudi.write(rows(range(3, 9), 3), path, "delete", **options)
    hudi.write(rows(range(40, 60), 4), path, "insert", **options)
    hudi.write(rows(range(10, 20), 5), path, "upsert", **options, **clustering)
    hudi.write(rows(range(18, 26), 6), path, "upsert", **options)
    dropped = {"hoodie.datasource.write.partitions.to.delete": "p1"}
    hudi.write(rows(range(1), 7), path, "delete_partition", **options, **dropped)
    hudi.write(rows(range(30, 34), 8), path, "upsert", **options)
    hudi.write(rows(range(9, 13), 10), path, "upsert", **options)
    hudi.write(rows(range(50, 52), 11), path, "delete", **options)


@pytest.fixture(
    scope="module",
    params=[pytest.param(case, id=case.name, marks=pytest.mark.slow if case.name != "mor_9" else ()) for case in CASES],
)
def path(request: pytest.FixtureRequest, hudi: Hudi, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("reading") / request.param.name
    write_table(hudi, folder, request.param)
    return folder


def ours(path: Path, options: dict[str, str] | None = None, **query: Any) -> list[Row]:
    return arrow_rows(Table(path, options=options).to_arrow(**query))


def skipped(caplog: pytest.LogCaptureFixture) -> int:
    """How many file slices the last scan left out."""
    said = [r.getMessage() for r in caplog.records if "planned a scan" in r.getMessage()][-1]
    return sum(int(count) for count in re.findall(r"by_\w+: (\d+)", said))


def test_rows_are_those_of_hudi(hudi: Hudi, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """For a filter on a column of each type, with and without the metadata table."""
    frame = hudi.spark.read.format("hudi").options(**LISTED).load(str(path))
    slices, found, left_out = Table(path).file_slices(), 0, 0
    assert any(one.log_files for one in slices) == path.name.startswith("mor")
    assert ours(path) == ours(path, LISTED) == spark_rows(frame)
    with caplog.at_level(logging.DEBUG, "hoodoo"):
        for filters, condition in FILTERS:
            expected = spark_rows(frame.where(condition))
            assert ours(path, LISTED, filters=filters) == expected, condition
            assert ours(path, filters=filters) == expected, condition
            left_out += skipped(caplog)
            assert ours(path, BY_KEYS, filters=filters) == expected, condition
            found += len(expected)
    assert found > 0
    # Most of them look for few values.
    assert left_out > len(FILTERS) * len(slices) / 4, (left_out, len(slices))
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


def test_earlier_states_and_changes_are_those_of_hudi(hudi: Hudi, path: Path) -> None:
    """Of the instants that are not cleaned."""
    instants = Table(path).timeline.instants()
    writes = [one for one in instants if one.action in {"commit", "deltacommit", "replacecommit"}]
    for instant in [one for one in writes if one.state == "completed"][-3:]:
        as_of = instant.requested
        assert ours(path, as_of=as_of) == ours(path, LISTED, as_of=as_of) == hudi.read_as_of(path, as_of)
        filters = [("ts", ">", 5)]
        assert ours(path, as_of=as_of, filters=filters) == ours(path, LISTED, as_of=as_of, filters=filters)
    since = writes[-3].completed
    assert since is not None
    by_files, by_listing = (arrow_rows(Table(path, options=one).changes(since).read_all()) for one in (None, LISTED))
    assert by_files == by_listing


def _statistics(path: Path) -> list[Row]:
    metadata = Table(path).metadata_table
    assert metadata is not None
    found: list[Row] = metadata.to_arrow("column_stats").to_pylist()
    return found


def test_a_file_without_statistics_is_read(hudi: Hudi, tmp_path: Path) -> None:
    """Hudi gives a file with a Spark short no statistics, takes those of the partition for exact, and loses rows."""
    path = tmp_path / "short"
    options = Case("short", "COPY_ON_WRITE", partitioned=True, version="9").options
    plain = pa.table({"id": ["a", "b"], "ts": [1, 2], "small": pa.array([1, 2], pa.int32()), "part": ["p", "p"]})
    hudi.write(plain, path, "insert", mode="overwrite", **options)
    late = pa.table({"id": ["c"], "ts": [50], "small": pa.array([3], pa.int16()), "part": ["p"]})
    hudi.write(late, path, "bulk_insert", **options)
    statistics = _statistics(path)
    files = {Path(one.base_file or "").name for one in Table(path).file_slices()}
    assert files - {row["file_name"] for row in statistics}
    for filters in ([("ts", "=", 50)], [("id", "=", "c")]):
        for more in (None, LISTED, BY_KEYS):
            assert [row["id"] for row in ours(path, more, filters=filters)] == ["c"], (filters, more)
