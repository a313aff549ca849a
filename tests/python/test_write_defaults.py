"""What a write does where its options say nothing of it: the table decides."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Table
from hoodoo.distributed.write import write_rows
from tests.local_executor import LocalExecutor

EXTRACTOR = "hoodie.datasource.hive_sync.partition_extractor_class"
_TYPES = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])


@_TYPES
@pytest.mark.parametrize("stated", [{}, {"hoodie.table.name": "t"}])
def test_rows_go_by_the_keys_of_the_table(tmp_path: Path, table_type: str, stated: dict[str, str]) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    table = Table.create(tmp_path / "t", schema, name="t", record_key="id", table_type=table_type)
    for n in range(3):
        done = hoodoo.write({"id": [1, 2], "v": [str(n)] * 2}, table.uri, options=stated)
        assert (done.operation, done.inserted, done.updated) == ("UPSERT", 0 if n else 2, 2 if n else 0)
    done = write_rows(LocalExecutor(), [pa.table({"id": [2, 3], "v": ["x", "x"]})], table.uri, options=stated)
    assert (done.operation, done.inserted, done.updated) == ("UPSERT", 1, 1)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_rows_without_keys_are_added(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", pa.schema([("v", pa.string())]), name="t")
    for _ in range(2):
        assert hoodoo.write({"v": ["a"]}, table.uri).operation == "BULK_INSERT"
    assert table.count() == 2
    assert hoodoo.write({"v": ["a"]}, table.uri, options={"hoodie.datasource.write.operation": "insert"}).inserted == 1


_KEYS: dict[str, tuple[pa.DataType, list[Any], Any]] = {
    "floats for integers": (pa.int64(), [1, 2, 3], [1.0, 2.0]),
    "a pandas column for integers": (pa.int64(), [1, 2, 3], pd.DataFrame({"id": [1.0, 2.0]})),
    "integers for floats": (pa.float64(), [1.0, 2.0, 3.0], [1, 2]),
    "small integers": (pa.int64(), [1, 2, 3], pa.table({"id": pa.array([1, 2], pa.int8())})),
    "decimals of another scale": (
        pa.decimal128(10, 2),
        [Decimal("1.50"), Decimal(2), Decimal(3)],
        [Decimal("1.5"), Decimal(2)],
    ),
    "text": (pa.int64(), [1, 2, 3], ["1", "2"]),
    "numbers for text": (pa.string(), ["1", "2", "3"], [1, 2]),
}


@_TYPES
@pytest.mark.parametrize("keys", _KEYS)
def test_keys_of_deletes_take_the_type_of_the_column(tmp_path: Path, table_type: str, keys: str) -> None:
    kind, stored, given = _KEYS[keys]
    for spark in (False, True):
        schema = pa.schema([("id", kind), ("v", pa.int64())])
        table = Table.create(tmp_path / str(spark), schema, name="t", record_key="id", table_type=table_type)
        table.insert(pa.table([pa.array(stored, kind), pa.array([1, 2, 3])], schema=schema))
        if spark:
            rows = pa.table({"id": given}) if isinstance(given, list) else given
            rows = pa.Table.from_pandas(rows) if isinstance(rows, pd.DataFrame) else rows
            done = write_rows(LocalExecutor(), [rows], table.uri, "delete")
        else:
            done = table.delete(given)
        assert done.deleted == 2
        assert table.to_arrow()["id"].to_pylist() == stored[2:]


@pytest.mark.parametrize(
    ("stored", "given"),
    [
        ([1, 2], [2.5]),
        ([1, 2], [1.0, 2.5]),
        ([1, 2], [float("nan")]),
        ([dt.date(2024, 1, 1), dt.date(2024, 1, 2)], [dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)]),
    ],
)
def test_keys_that_no_row_can_have_are_errors(tmp_path: Path, stored: list[Any], given: list[Any]) -> None:
    schema = pa.schema([("id", pa.array(stored).type), ("v", pa.int64())])
    table = Table.create(tmp_path / "t", schema, name="t", record_key="id")
    table.insert(pa.table([pa.array(stored), pa.array([1, 2])], schema=schema))
    with pytest.raises(hoodoo.SchemaError, match="id"):
        table.delete(given)
    assert table.count() == 2


def test_keys_of_another_kind_are_named_as_those_of_the_data(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", pa.schema([("id", pa.date32())]), name="t", record_key="id")
    table.insert({"id": [dt.date(2024, 1, 1)]})
    with pytest.raises(hoodoo.SchemaError, match="Date32 in the table and Int64 in the data"):
        table.delete(pa.table({"id": [5]}))


@pytest.mark.parametrize("fields", ["id,", " id , ", ",id"])
def test_blanks_and_commas_around_key_columns_mean_nothing(tmp_path: Path, fields: str) -> None:
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": fields}
    for inserted in (1, 0):
        assert hoodoo.write({"id": [1]}, tmp_path / "t", options=options).inserted == inserted
    assert Table(tmp_path / "t").options["hoodie.table.recordkey.fields"] == "id"


@pytest.mark.parametrize("below", ["", "t"])
def test_a_file_in_place_of_a_new_table_is_named(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    for create in (
        lambda uri: Table.create(uri, pa.schema([("id", pa.int64())]), name="t", record_key="id"),
        lambda uri: hoodoo.write({"id": [1]}, uri, options={"hoodie.table.name": "t"}),
    ):
        with pytest.raises(hoodoo.InvalidOptionError, match=f"a file in its place.*{file.name}"):
            create(file / below)
    assert file.read_text() == "x"


@pytest.mark.parametrize(
    "generator",
    [
        {"hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator"},
        {"hoodie.datasource.write.keygenerator.type": "NON_PARTITION"},
    ],
)
def test_a_generator_without_partitions_takes_no_partition_columns(tmp_path: Path, generator: dict[str, str]) -> None:
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "p",
        **generator,
    }
    for inserted in (1, 0):
        assert hoodoo.write({"id": [1], "p": ["a"]}, tmp_path / "t", options=options).inserted == inserted
    table = Table(tmp_path / "t")
    assert table.options["hoodie.table.partition.fields"] == ""
    assert [row.partition for row in table.file_slices()] == [""]


@pytest.mark.parametrize(
    ("options", "extractor"),
    [
        ({}, "MultiPartKeysValueExtractor"),
        ({"hoodie.datasource.write.partitionpath.field": ""}, "NonPartitionedExtractor"),
        ({"hoodie.datasource.write.partitionpath.field": "p"}, "SinglePartPartitionValueExtractor"),
        ({"hoodie.datasource.write.partitionpath.field": "p,q"}, "MultiPartKeysValueExtractor"),
        (
            {
                "hoodie.datasource.write.partitionpath.field": "p",
                "hoodie.datasource.write.hive_style_partitioning": "true",
            },
            "HiveStylePartitionValueExtractor",
        ),
        (
            {
                "hoodie.datasource.write.partitionpath.field": "p",
                "hoodie.datasource.write.slash.separated.date.partitioning": "true",
            },
            "SlashEncodedDayPartitionValueExtractor",
        ),
        (
            {
                "hoodie.datasource.write.partitionpath.field": "p",
                EXTRACTOR: "org.apache.hudi.hive.MultiPartKeysValueExtractor",
            },
            "MultiPartKeysValueExtractor",
        ),
    ],
)
def test_the_extractor_that_syncs_use(tmp_path: Path, options: dict[str, str], extractor: str) -> None:
    """As real Hudi 1.2 stores it."""
    given = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id", **options}
    hoodoo.write({"id": [1], "p": ["2024-01-02"], "q": ["x"]}, tmp_path / "t", options=given)
    stored = Table(tmp_path / "t").options["hoodie.table.partition_extractor_class"]
    assert stored == f"org.apache.hudi.hive.{extractor}"
