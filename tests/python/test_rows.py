"""Every form of rows that a write takes, and what is said of the others."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import InvalidOptionError
from hoodoo.rows import ArrowArray, ArrowStream, DataFrame, record_batch_reader, rows_of_keys

TABLE = pa.table({"id": [1, 2, 3], "name": ["a", "b", None]})
ROWS = TABLE.to_pylist()


class Stream:
    """What polars and DuckDB give: nothing of pyarrow's."""

    def __arrow_c_stream__(self, requested_schema: Any = None, /) -> Any:
        return TABLE.__arrow_c_stream__(requested_schema)


class Array:
    def __arrow_c_array__(self, requested_schema: Any = None, /) -> Any:
        return TABLE.combine_chunks().to_batches()[0].__arrow_c_array__(requested_schema)


class Frame:
    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        return TABLE.__dataframe__(nan_as_null, allow_copy)


FORMS: dict[str, hoodoo.Rows] = {
    "table": TABLE,
    "reader": TABLE.to_reader(),
    "batch": TABLE.to_batches()[0],
    "batches": TABLE.to_batches(1),
    "generated batches": (batch for batch in TABLE.to_batches(1)),
    "columns": {"id": [1, 2, 3], "name": TABLE["name"]},
    "dictionaries": [{"id": 1, "name": "a"}, {"name": "b", "id": 2}, {"id": 3}],
    "generated dictionaries": (row for row in ROWS),
    "stream": Stream(),
    "array": Array(),
    "arrays": [Array()],
    "data frame": Frame(),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str):
    read = record_batch_reader(FORMS[form]).read_all()
    assert read.to_pylist() == ROWS
    assert read.schema.names == ["id", "name"]


def test_a_pandas_frame_goes_without_its_index():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": [1, 2]}, index=[7, 8])
    assert record_batch_reader(frame).read_all().to_pydict() == {"id": [1, 2]}


def test_forms_have_their_protocols():
    assert isinstance(TABLE.to_batches()[0], ArrowArray)
    assert isinstance(TABLE, ArrowStream)
    assert isinstance(Frame(), DataFrame)
    assert not isinstance(ROWS, ArrowStream | ArrowArray | DataFrame)


def test_no_rows_have_the_columns_of_the_table():
    assert record_batch_reader([], TABLE.schema).read_all().equals(TABLE.slice(0, 0))
    with pytest.raises(InvalidOptionError, match="no rows, and no schema"):
        record_batch_reader([])


@pytest.mark.parametrize("data", [1, "text", b"bytes", object(), None])
def test_what_is_no_rows(data: Any):
    with pytest.raises(InvalidOptionError, match="invalid rows of type"):
        record_batch_reader(data)


@pytest.mark.parametrize("data", [[1], [(1, "a")], ["ab"]])
def test_what_is_no_row(data: Any):
    with pytest.raises(InvalidOptionError, match="invalid row of type"):
        record_batch_reader(data)


def test_values_of_the_key():
    assert rows_of_keys([1, 2], ["id"]) == {"id": [1, 2]}
    assert rows_of_keys({7}, ["id"]) == {"id": [7]}
    assert rows_of_keys(ROWS, ["id"]) is ROWS
    assert rows_of_keys(TABLE, ["id"]) is TABLE
    with pytest.raises(InvalidOptionError, match="2 columns: give rows with the columns id, part"):
        rows_of_keys([1], ["id", "part"])
