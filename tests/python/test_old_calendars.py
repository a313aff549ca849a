"""Base files whose days Spark wrote in the calendar of its old versions: never read as other days."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodoo
from tests.stored_sizes import say_size

_STRUCT = pa.struct([("d", pa.date32())])
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("st", _STRUCT),
        ("days", pa.list_(pa.date32())),
        ("by_name", pa.map_(pa.string(), pa.date32())),
    ]
)
NEW = dt.date(1582, 10, 15)
OLD = dt.date(1582, 10, 14)
DATES = ("d", "st", "days", "by_name")
_LEGACY = "org.apache.spark.legacyDateTime"


def _row(key: str, **values: Any) -> pa.Table:
    early = {
        "d": NEW,
        "t": dt.datetime(1900, 1, 1, tzinfo=dt.timezone.utc),
        "local": dt.datetime(1500, 1, 1),  # noqa: DTZ001
        "st": {"d": NEW},
        "days": [NEW, None],
        "by_name": [("x", NEW)],
    }
    return pa.Table.from_pylist([{"id": key, "ts": 1, **early, **values}], schema=SCHEMA)


def _old(column: str) -> Any:
    """A value of a column that the calendars name differently."""
    of_dates = {"d": OLD, "st": {"d": OLD}, "days": [None, NEW, OLD], "by_name": [("x", NEW), ("y", OLD)]}
    return of_dates.get(column, dt.datetime(1899, 12, 31, 23, 59, 59, tzinfo=dt.timezone.utc))


def _table(folder: Path, rows: pa.Table, table_type: str = "COPY_ON_WRITE", **footer: Any) -> hoodoo.Table:
    """A table whose base file is what Spark wrote: with keys of a footer, and with statistics or without."""
    statistics = footer.pop("statistics", True)
    int96 = footer.pop("int96", False)
    options = {"hoodie.compact.inline": "false"}
    table = hoodoo.Table.create(
        folder / "t", SCHEMA, name="t", record_key="id", ordering="ts", table_type=table_type, options=options
    )
    table.upsert(rows)
    (base,) = (folder / "t").glob("*.parquet")
    stored = pq.ParquetFile(base)
    columns, size = stored.read(), base.stat().st_size
    # The commit has the schema too; and what hoodoo says of the calendar is not what Spark said.
    not_kept = (b"parquet.avro.schema", b"org.apache.spark.version")
    kept = {k: v for k, v in (stored.metadata.metadata or {}).items() if k not in not_kept}
    marks = {key.replace("_", "."): value for key, value in footer.items()}
    types: dict[str, Any] = {"use_deprecated_int96_timestamps": True} if int96 else {"coerce_timestamps": "us"}

    with pq.ParquetWriter(
        base, columns.schema, compression="gzip", write_statistics=statistics, store_schema=False, **types
    ) as writer:
        writer.write_table(columns)
        writer.add_key_value_metadata({**kept, **marks})
    say_size(folder / "t", size, base.stat().st_size)
    return hoodoo.Table(folder / "t", options)


_MARKED: dict[str, Any] = {_LEGACY.replace(".", "_"): ""}


def _refused(column: str, call: Callable[[], object]) -> None:
    with pytest.raises(hoodoo.UnsupportedError, match=rf"column '{column}.* calendar of old Spark") as caught:
        call()
    assert ".parquet" in str(caught.value)
    assert "datetimeRebaseModeInWrite=CORRECTED" in str(caught.value)


@pytest.mark.parametrize("statistics", [True, False], ids=["statistics", "values"])
@pytest.mark.parametrize("column", [*DATES, "t"])
def test_what_the_calendars_name_differently_is_refused(tmp_path: Path, column: str, *, statistics: bool):
    table = _table(tmp_path, _row("a", **{column: _old(column)}), statistics=statistics, **_MARKED)
    _refused(column, table.to_arrow)
    _refused(column, lambda: table.to_arrow(columns=[column]))
    # Filters too look at the days of the file.
    other = {column: _old(column)}[column] if column in ("d", "t") else None
    if other is not None:
        _refused(column, lambda: table.to_arrow(columns=["id"], filters=[(column, "=", other)]))
        _refused(column, lambda: table.to_arrow(columns=["id"], filters=[(column, ">=", other)]))
    assert table.to_arrow(columns=["id", "local"]).num_rows == 1
    # Copied to a new file, it would lose the mark.
    _refused(column, lambda: table.upsert(_row("b")))
    _refused(column, table.cluster)
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 1


def test_compaction_refuses_it(tmp_path: Path):
    table = _table(tmp_path, _row("a", d=OLD), "MERGE_ON_READ", **_MARKED)
    table.upsert(_row("a"))
    _refused("d", table.to_arrow)
    _refused("d", table.compact)


@pytest.mark.parametrize("statistics", [True, False], ids=["statistics", "values"])
def test_later_values_are_read_as_they_are(tmp_path: Path, *, statistics: bool):
    table = _table(tmp_path, _row("a", st=None), statistics=statistics, **_MARKED)
    table.upsert(_row("b"))
    rows = table.to_arrow(columns=SCHEMA.names).sort_by("id")
    assert rows.cast(SCHEMA).to_pylist() == [*_row("a", st=None).to_pylist(), *_row("b").to_pylist()]


@pytest.mark.parametrize(
    ("footer", "refused"),
    [
        ({}, False),
        ({"org_apache_spark_version": "3.5.5"}, False),
        ({"org_apache_spark_version": "3.0.0"}, False),
        ({"org_apache_spark_version": "2.4.8"}, True),
        ({"org_apache_spark_version": "4.0.0", **_MARKED}, True),
        ({"org_apache_spark_legacyINT96": ""}, False),
    ],
)
def test_the_footer_says_which_calendar_it_is(tmp_path: Path, footer: dict[str, str], *, refused: bool):
    table = _table(tmp_path, _row("a", d=OLD), **footer)
    if refused:
        _refused("d", table.to_arrow)
    else:
        assert table.to_arrow().column("d").to_pylist() == [OLD]


@pytest.mark.parametrize(
    ("footer", "refused"),
    [
        (_MARKED, False),
        ({"org_apache_spark_legacyINT96": ""}, True),
        ({"org_apache_spark_version": "3.0.3"}, True),
        ({"org_apache_spark_version": "3.1.0"}, False),
    ],
)
def test_times_of_96_bits_have_a_mark_of_their_own(tmp_path: Path, footer: dict[str, str], *, refused: bool):
    table = _table(tmp_path, _row("a", t=_old("t")), int96=True, **footer)
    # The other column is of 96 bits too, and has a zone so.
    columns = ["id", "t"]
    if refused:
        _refused("t", lambda: table.to_arrow(columns=columns))
    else:
        assert table.to_arrow(columns=columns).column("t").to_pylist() == [_old("t")]


def test_columns_of_few_values_are_refused_too(tmp_path: Path):
    # They are read as dictionaries, and moved to other files by their numbers.
    rows = pa.concat_tables([_row(f"{n:04}", d=(OLD, NEW)[n % 2], t=_old("t")) for n in range(2000)])
    table = _table(tmp_path, rows, **_MARKED)
    _refused("d", lambda: table.cluster(sort_by="id"))
    _refused("d", lambda: table.cluster(sort_by="ts"))


def test_column_statistics_hide_no_such_file(tmp_path: Path):
    table = _table(tmp_path, _row("a", d=OLD), **_MARKED)
    table.index("column_stats", ["d"])
    # The stored day has another name in the old calendar.
    for condition in [("d", "=", dt.date(1582, 10, 4)), ("d", "<", dt.date(1582, 10, 5)), ("d", "=", OLD)]:
        _refused("d", lambda condition=condition: table.to_arrow(columns=["id"], filters=[condition]))  # type: ignore[misc]


def test_files_say_that_their_days_are_those_of_today(tmp_path: Path):
    # Spark reads days before 1582 of no other file, unless an option asks for it.
    table = hoodoo.Table.create(tmp_path / "t", SCHEMA, name="t", record_key="id", ordering="ts")
    table.upsert(_row("a", d=OLD))
    (base,) = (tmp_path / "t").glob("*.parquet")
    assert (pq.ParquetFile(base).metadata.metadata or {})[b"org.apache.spark.version"] >= b"3.1"
