"""Bad input of a Spark job: an error that names the cause, and the table reads as before."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
import hoodoo.spark
from tests.interop.layouts import SCHEMA, SIMPLE, batch, row
from tests.rows import arrow_rows
from tests.spark.same_table import leftovers

Frame = Callable[..., Any]
OPERATIONS = ("insert", "bulk_insert", "upsert", "delete", "insert_overwrite", "insert_overwrite_table")


def _good(count: int = 20) -> pa.Table:
    return batch([row(n, 10, "x") for n in range(count)])


@pytest.fixture
def table(frame: Frame, tmp_path: Path) -> Path:
    path = tmp_path / "table"
    hoodoo.spark.write(frame(_good()), str(path), options=SIMPLE.options())
    return path


def _unchanged(path: Path, write: Callable[[], object], error: type[BaseException], *said: str) -> None:
    before = arrow_rows(hoodoo.Table(str(path)).to_arrow(), meta=True)
    with pytest.raises(error) as caught:
        write()
    text = str(caught.value)
    assert all(part in text for part in said), text
    table = hoodoo.Table(str(path))
    assert arrow_rows(table.to_arrow(), meta=True) == before
    assert not table.verify().problems
    assert not leftovers(path)
    assert all(instant.state == "COMPLETED" for instant in table.timeline.instants())


@pytest.mark.parametrize("operation", OPERATIONS)
def test_null_key(operation: str, table: Path, frame: Frame):
    bad = batch([{**row(100, 11, "null key"), "id": None}])
    _unchanged(
        table,
        lambda: hoodoo.spark.write(frame(_good(60), bad), str(table), operation, SIMPLE.options()),
        hoodoo.SchemaError,
        'record key "id" is null',
        "Fill the column",
    )


def test_missing_key_column(table: Path, frame: Frame):
    for operation in OPERATIONS:
        without = frame(_good().drop_columns(["id"]))
        _unchanged(
            table,
            functools.partial(hoodoo.spark.write, without, str(table), operation, SIMPLE.options()),
            hoodoo.exceptions.HudiError,
            "id",
        )


def test_missing_ordering_and_other_columns(table: Path, frame: Frame):
    for column in ("ts", "part", "val"):
        without = frame(_good().drop_columns([column]))
        _unchanged(
            table,
            functools.partial(hoodoo.spark.write, without, str(table), "upsert", SIMPLE.options()),
            hoodoo.SchemaError,
            column,
        )


def test_narrower_type(table: Path, frame: Frame):
    narrow = _good().set_column(SCHEMA.get_field_index("ts"), "ts", pa.array([True] * 20))
    _unchanged(
        table, lambda: hoodoo.spark.write(frame(narrow), str(table), options=SIMPLE.options()), hoodoo.SchemaError, "ts"
    )


def test_contradicting_options(table: Path, frame: Frame):
    options = {**SIMPLE.options(), "hoodie.table.ordering.fields": "amount"}
    _unchanged(
        table,
        lambda: hoodoo.spark.write(frame(_good()), str(table), options=options),
        hoodoo.InvalidOptionError,
        "hoodie.table.ordering.fields",
    )


def test_delete_from_no_table(frame: Frame, tmp_path: Path):
    with pytest.raises(hoodoo.TableNotFoundError):
        hoodoo.spark.write(frame(_good()), str(tmp_path / "none"), "delete", SIMPLE.options())
    assert not (tmp_path / "none").exists()
