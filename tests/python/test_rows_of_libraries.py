"""Writes take the rows of other libraries as they are, and say what to do about those that they do not take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import hoodoo
from hoodoo import HudiError, InvalidOptionError, SchemaError, Table

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string(), "value": pa.float64()})
ROWS = pa.table({"id": list(range(60)), "part": [f"p{n % 3}" for n in range(60)], "value": [n / 4 for n in range(60)]})
ORDER = ["value", "part", "id"]
OPTIONS = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}


def parquet(folder: Path) -> ds.Dataset:
    ds.write_dataset(ROWS, folder / "parquet", format="parquet", existing_data_behavior="overwrite_or_ignore")
    return ds.dataset(folder / "parquet")


FORMS: dict[str, Callable[[Path], Any]] = {
    "polars frame": lambda _: pl.DataFrame(ROWS),
    "polars lazy frame": lambda _: pl.DataFrame(ROWS).lazy().filter(pl.col("id") >= 0),
    "polars scan": lambda folder: pl.scan_parquet(parquet(folder).files),
    "DuckDB relation": lambda _: duckdb.sql("select * from ROWS"),
    "DuckDB connection's relation": lambda _: duckdb.connect().from_arrow(ROWS).order("id desc"),
    "pandas": lambda _: ROWS.to_pandas().set_index(pd.Index(range(60), name="index")),
    "reader": lambda _: ROWS.to_reader(7),
    "dataset": parquet,
    "dataset in memory": lambda _: ds.dataset(ROWS),
    "scanner": lambda folder: parquet(folder).scanner(filter=ds.field("id") >= 0),
    "scanner of a reader": lambda _: ds.Scanner.from_batches(ROWS.to_reader()),
    "generated batches": lambda _: (batch for batch in ROWS.to_batches(7)),
    "generated tables": lambda _: (ROWS.slice(first, 20) for first in range(0, 60, 20)),
    "generated polars frames": lambda _: (frame for frame in pl.DataFrame(ROWS).iter_slices(20)),
    "generated pandas frames": lambda _: (ROWS.slice(first, 20).to_pandas() for first in range(0, 60, 20)),
    "batches in another order of columns": lambda _: [
        ROWS.slice(0, 30),
        ROWS.slice(30).select(["value", "part", "id"]),
    ],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_written(tmp_path: Path, form: str):
    commit = hoodoo.write(FORMS[form](tmp_path), tmp_path / "t", options=OPTIONS)
    assert (commit.inserted, commit.updated) == (60, 0)
    read = Table(tmp_path / "t").to_arrow(columns=SCHEMA.names)
    assert read.schema == SCHEMA
    assert read.sort_by("id").to_pylist() == ROWS.to_pylist()
    assert Table(tmp_path / "t").upsert(FORMS[form](tmp_path)).updated == 60


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(tmp_path / "table", SCHEMA, name="t", record_key="id", partition_by="part")
    made.insert(ROWS)
    return made


def test_a_table_is_written_with_rows_of_itself(table: Table):
    doubled = table.to_polars().select("id", "part", pl.col("value") * 2)
    assert table.upsert(doubled).updated == 60
    dataset = table.to_dataset()
    assert table.upsert(duckdb.sql("select id, part, value + 1 as value from dataset")).updated == 60
    assert dataset.count_rows() == 60
    assert sum(table.to_arrow()["value"].to_pylist()) == sum(2 * n / 4 + 1 for n in range(60))
    assert table.upsert(table.to_dataset().scanner(columns=SCHEMA.names, filter=ds.field("id") < 10)).updated == 10
    assert table.upsert(table).updated == 60
    assert table.to_arrow().num_rows == 60


def test_the_other_operations_take_them_too(table: Table):
    few = pl.DataFrame(ROWS).lazy().filter(pl.col("id") < 6)
    assert table.delete(few.select("id", "part")).deleted == 6
    assert table.delete(duckdb.sql("select id, part from ROWS where id in (6, 7)")).deleted == 2
    assert table.insert(few).inserted == 6
    assert table.bulk_insert(ds.dataset(ROWS.slice(0, 0))).inserted == 0
    assert table.insert_overwrite(few.filter(pl.col("part") == "p1")).inserted == 2
    assert table.insert_overwrite_table(few).inserted == 6
    merged = hoodoo.merge(few, ROWS.slice(0, 2).to_reader(), key="id")
    assert merged.read_all().num_rows == 6


def test_a_lazy_frame_is_collected_in_batches(monkeypatch: pytest.MonkeyPatch):
    frame = pl.LazyFrame({"id": [1, 2]})
    if hasattr(frame, "collect_batches"):
        monkeypatch.setattr(pl.LazyFrame, "collect", None)
    assert hoodoo.rows.record_batch_reader(frame).read_all().to_pylist() == [{"id": 1}, {"id": 2}]


def frame_of(package: str, name: str = "DataFrame") -> Any:
    """An object that looks like one of a library that the tests do not have."""
    return type(name, (), {"__module__": f"{package}.frames", "__iter__": lambda _: iter(())})()


class Convertible:
    def to_arrow(self) -> None: ...


MISTAKES: dict[str, tuple[Any, type[HudiError], str]] = {
    "a column of polars": (pl.Series([1, 2]), InvalidOptionError, "no columns"),
    "a column of pandas": (pd.Series([1, 2]), InvalidOptionError, "dictionaries or record batches"),
    "an array": (pa.array([1]), InvalidOptionError, "no columns"),
    "a file": ("rows.parquet", InvalidOptionError, r"pyarrow\.dataset\.dataset\(path\)"),
    "a path": (Path("rows.parquet"), InvalidOptionError, r"pyarrow\.dataset\.dataset\(path\)"),
    "a number": (3, InvalidOptionError, "expected Arrow data"),
    "numbers": ([1, 2], InvalidOptionError, "dictionaries or record batches"),
    "nothing": (None, InvalidOptionError, "expected Arrow data"),
    "a module": (ModuleType("rows"), InvalidOptionError, "expected Arrow data"),
    "a frame of Dask": (frame_of("dask"), InvalidOptionError, "partitions"),
    "a frame of Spark": (frame_of("pyspark"), InvalidOptionError, r"hoodoo\.spark\.write"),
    "a dataset of Ray": (frame_of("ray", "Dataset"), InvalidOptionError, "iter_batches"),
    "something with to_arrow": (Convertible(), InvalidOptionError, r"with to_arrow\(\)"),
    "batches, then a number": ([ROWS, 3], InvalidOptionError, "behind record batches"),
    "batches of other columns": ([ROWS, ROWS.select(["id"])], SchemaError, "different columns"),
    "batches of other types": (
        [ROWS, ROWS.set_column(0, "id", ROWS["part"])],
        SchemaError,
        "different types",
    ),
    "batches of text behind batches of numbers": (
        (batch for batch in (ROWS, ROWS.set_column(0, "id", pa.array(["7"] * len(ROWS))))),
        SchemaError,
        "different types",
    ),
    "objects": (pd.DataFrame({"id": [object()]}), SchemaError, "astype"),
    "objects of polars": (
        pl.DataFrame({"id": [1], "value": pl.Series([(1, "x")], dtype=pl.Object)}),
        SchemaError,
        "Python objects",
    ),
    "periods of pandas": (
        pd.DataFrame({"id": [1], "value": pd.period_range("2024-01", periods=1, freq="M")}),
        SchemaError,
        "to_timestamp",
    ),
    "a query that polars refuses": (
        pl.LazyFrame({"id": [1]}).select("nope"),
        InvalidOptionError,
        "polars cannot collect",
    ),
    "a query that fails": (
        pl.LazyFrame({"id": ["x"], "part": ["p"], "value": [1.0]}).with_columns(pl.col("id").cast(pl.Int64)),
        InvalidOptionError,
        "polars cannot collect",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_other_forms_are_errors_that_say_what_to_do(table: Table, mistake: str):
    data, error, message = MISTAKES[mistake]
    before = table.timeline.instants()
    with pytest.raises(error, match=message):
        table.upsert(data)
    assert table.to_arrow().num_rows == 60
    assert [i.requested for i in table.timeline.instants(action="commit")] == [
        i.requested for i in before if i.action == "commit"
    ]
