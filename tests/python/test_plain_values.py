"""Plain Python values come back from a table as they were given, or are refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import hoodoo
from hoodoo import SchemaError, Table

EAST = dt.timezone(dt.timedelta(hours=5))
STRINGS = pa.map_(pa.string(), pa.string())
CUT: list[tuple[pa.DataType, Any]] = [
    (pa.map_(pa.string(), pa.int64()), {"a": 1.5}),
    (pa.map_(pa.string(), pa.int64()), [("a", Decimal("1.5"))]),
    (pa.map_(pa.string(), pa.date32()), {"a": dt.datetime(2024, 1, 1, 23)}),  # noqa: DTZ001
    (pa.map_(pa.string(), pa.timestamp("ms")), {"a": dt.datetime(2024, 1, 1, 0, 0, 0, 1500)}),  # noqa: DTZ001
    (pa.map_(pa.string(), pa.timestamp("us")), {"a": dt.datetime(2024, 1, 1, 5, tzinfo=EAST)}),
    (pa.map_(pa.string(), pa.timestamp("us", "UTC")), {"a": dt.datetime(2024, 1, 1, 5)}),  # noqa: DTZ001
    (pa.map_(pa.string(), pa.struct([("x", pa.int64())])), {"a": {"x": 1, "y": 2}}),
    (pa.struct([("x", pa.int64()), ("h", pa.binary(2))]), {"x": 1.7, "h": b"ab"}),
    (pa.struct([("x", pa.int64()), ("h", pa.binary(2))]), {"x": 1, "h": b"ab", "new": 5}),
    (pa.list_(pa.struct([("x", pa.int64()), ("m", STRINGS)])), [{"x": 2.9, "m": {}}]),
]
WHOLE: list[tuple[pa.DataType, Any, Any]] = [
    (pa.map_(pa.string(), pa.int64()), {"a": 1, "b": None}, [("a", 1), ("b", None)]),
    (pa.map_(pa.string(), pa.int64()), {"a": 2.0}, [("a", 2)]),
    (pa.map_(pa.string(), pa.float64()), {"a": 1}, [("a", 1.0)]),
    (pa.map_(pa.string(), pa.float32()), {"a": 0.5}, [("a", 0.5)]),
    (pa.map_(pa.string(), pa.timestamp("us", "UTC")), {"a": dt.datetime(2024, 1, 1, 5, tzinfo=EAST)}, None),
    (pa.map_(pa.string(), pa.date32()), {"a": dt.date(2024, 1, 1)}, [("a", dt.date(2024, 1, 1))]),
    (pa.map_(pa.string(), STRINGS), {"a": {"b": "c"}, "d": None}, [("a", [("b", "c")]), ("d", None)]),
    (pa.struct([("x", pa.int64()), ("h", pa.binary(2))]), {"h": b"ab"}, {"x": None, "h": b"ab"}),
    (pa.map_(pa.string(), pa.decimal128(10, 2)), {"a": Decimal("1.5")}, [("a", Decimal("1.50"))]),
    (pa.binary(2), b"ab", b"ab"),
]


def _table(path: Path, data_type: pa.DataType) -> Table:
    return Table.create(path / "t", {"id": pa.int64(), "v": data_type}, name="t", record_key="id")


@pytest.mark.parametrize(("data_type", "value"), CUT, ids=str)
def test_values_that_the_type_of_the_column_would_cut(tmp_path: Path, data_type: pa.DataType, value: Any) -> None:
    table = _table(tmp_path, data_type)
    for rows in ({"id": [1], "v": [value]}, [{"id": 1, "v": value}]):
        with pytest.raises(SchemaError, match="column 'v': the value"):
            table.upsert(rows)
    with pytest.raises(SchemaError, match="column 'v': the value"):
        table.merge([{"id": 1, "v": value}], ["id"]).when_not_matched_insert_all().execute()
    assert table.count() == 0


@pytest.mark.parametrize(("data_type", "value", "stored"), WHOLE, ids=str)
def test_values_that_fit(tmp_path: Path, data_type: pa.DataType, value: Any, stored: Any) -> None:
    table = _table(tmp_path, data_type)
    table.upsert({"id": [1, 2], "v": [value, None]})
    table.upsert([{"id": 3, "v": value}])
    found = table.to_arrow(columns=["id", "v"]).sort_by("id")["v"].to_pylist()
    wanted = pa.array([value], data_type).to_pylist()[0] if stored is None else stored
    assert found == [wanted, None, wanted]


MIXED = [dt.date(2024, 1, 1), dt.datetime(2024, 1, 2, 12)]  # noqa: DTZ001


@pytest.mark.parametrize("data_type", [pa.date32(), pa.timestamp("us"), pa.string()], ids=str)
def test_datetimes_among_dates(tmp_path: Path, data_type: pa.DataType) -> None:
    table = _table(tmp_path, data_type)
    for rows in ({"id": [1, 2], "v": MIXED}, pd.DataFrame({"id": [1, 2], "v": MIXED})):
        with pytest.raises(SchemaError, match="2024-01-02 12:00:00 would be lost"):
            table.upsert(rows)
    with pytest.raises(SchemaError, match="would be lost"):
        table.upsert({"id": [1], "v": [MIXED[0]], "new": [{"a": [MIXED]}]})
    if data_type != pa.timestamp("us"):
        table.upsert(pd.DataFrame({"id": [1, 2], "v": [dt.date(2024, 1, 1), pd.NaT]}))
        assert table.count() == 2


def test_a_key_that_was_not_given_is_not_deleted(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", {"day": pa.date32(), "v": pa.int64()}, name="t", record_key="day")
    table.insert({"day": [dt.date(2024, 1, 1), dt.date(2024, 1, 2)], "v": [1, 2]})
    with pytest.raises(SchemaError, match="would be lost"):
        table.delete(MIXED)
    assert table.count() == 2


def test_nanoseconds_of_pandas(tmp_path: Path) -> None:
    table = _table(tmp_path, pa.timestamp("us"))
    with pytest.raises(SchemaError):
        table.upsert({"id": [1], "v": [pd.Timestamp("2024-01-01 00:00:00.000000001")]})
    table.upsert({"id": [1], "v": [pd.Timestamp("2024-01-01 00:00:00.000001")]})
    assert table.to_arrow(columns=["v"])["v"].to_pylist() == [dt.datetime(2024, 1, 1, 0, 0, 0, 1)]  # noqa: DTZ001


def test_labels_of_pandas_that_are_no_strings(tmp_path: Path) -> None:
    table = _table(tmp_path, pa.date32())
    with pytest.raises(SchemaError, match="name that Avro does not take"):
        table.insert(pd.DataFrame({"id": [1], 1: [dt.date(2024, 1, 1)]}))
    with pytest.raises(SchemaError, match="would be lost"):
        table.insert(pd.DataFrame({"id": [1, 2], 1: MIXED}))


def test_writes_by_options_alone_know_the_types_of_the_table(tmp_path: Path) -> None:
    types = {"id": pa.int64(), "map": pa.map_(pa.string(), pa.int64())}
    table = Table.create(str(tmp_path / "t"), types, name="t", record_key="id")
    uri = str(tmp_path / "t")
    assert hoodoo.write([{"id": 1, "map": {"a": 1}}], uri).inserted == 1
    assert hoodoo.write([], uri).inserted == 0
    assert table.to_arrow(columns=["id", "map"]).to_pylist() == [{"id": 1, "map": [("a", 1)]}]
    assert hoodoo.write([{"id": 1}], uri, "delete").deleted == 1
    # Without a table there are no types but those of the values.
    with pytest.raises(hoodoo.InvalidOptionError, match="no rows, and no schema"):
        hoodoo.write([], str(tmp_path / "none"), options={"hoodie.table.name": "t"})
    assert not (tmp_path / "none").exists()
