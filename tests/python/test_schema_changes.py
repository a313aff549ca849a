"""Values that fit keep the table's types, whatever type they come in; a real change of the schema is never silent."""

from __future__ import annotations

import datetime as dt
import decimal
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo

SCHEMA = pa.schema(
    {
        "id": pa.int32(),
        "n": pa.int32(),
        "f": pa.float32(),
        "s": pa.string(),
        "d": pa.date32(),
        "t": pa.timestamp("us"),
        "c": pa.decimal128(10, 2),
        "l": pa.list_(pa.int32()),
    }
)
ROW: dict[str, Any] = {
    "id": 1,
    "n": 1,
    "f": 0.1,
    "s": "a",
    "d": dt.date(2024, 1, 2),
    "t": dt.datetime(2024, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 - a timestamp without zone
    "c": decimal.Decimal("1.50"),
    "l": [1, None],
}


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> hoodoo.Table:
    table = hoodoo.Table.create(str(tmp_path / "t"), SCHEMA, name="t", record_key="id", table_type=request.param)
    table.insert([ROW, {**ROW, "id": 2}])
    return table


def _types(table: hoodoo.Table) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in table.schema}


@pytest.fixture
def unsaid() -> Any:
    """Fails where anything is warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", hoodoo.HudiWarning)
        yield


@pytest.mark.usefixtures("unsaid")
def test_a_round_trip_through_pandas_changes_no_type(table: hoodoo.Table):
    pytest.importorskip("pandas")
    before = table.to_arrow(columns=SCHEMA.names)
    frame = before.to_pandas()
    frame["n"] = [5, None]  # an integer column with a gap is double in pandas
    frame["f"] = frame["f"].astype("float64")
    frame["s"] = None
    commit = table.upsert(frame)
    assert (commit.updated, commit.schema_changes, commit.warnings) == (2, (), ())
    assert _types(table) == _types(hoodoo.Table(table.uri)) == {f.name: f.type for f in SCHEMA}
    rows = sorted(table.to_arrow(columns=["id", "n", "s", "d", "l"]).to_pylist(), key=lambda row: row["id"])
    assert [(row["n"], row["s"], row["d"], row["l"]) for row in rows] == [
        (5, None, ROW["d"], [1, None]),
        (None, None, ROW["d"], [1, None]),
    ]


@pytest.mark.usefixtures("unsaid")
@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("n", pa.array([7], pa.int64())),
        ("n", pa.array([7.0], pa.float64())),
        ("n", pa.nulls(1)),
        ("n", pa.array([7], pa.uint32())),
        ("f", pa.array([0.1], pa.float64())),
        ("s", pa.array(["x"], pa.large_string())),
        ("s", pa.array(["x"]).dictionary_encode()),
        ("s", pa.nulls(1)),
        ("d", pa.array([ROW["d"]], pa.date64())),
        ("t", pa.array([ROW["t"]], pa.timestamp("ns"))),
        ("c", pa.array([decimal.Decimal("2.500")], pa.decimal128(20, 3))),
        ("l", pa.array([[4, None]], pa.list_(pa.int64()))),
        ("l", pa.array([[4]], pa.large_list(pa.int64()))),
        ("l", pa.array([[]], pa.list_(pa.null()))),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else value,
)
def test_values_that_fit_are_cast(table: hoodoo.Table, column: str, values: pa.Array):
    rows = pa.Table.from_pylist([{**ROW, "id": 2}], SCHEMA)
    rows = rows.set_column(SCHEMA.get_field_index(column), column, values)
    commit = table.upsert(rows, schema_evolution="refuse")
    assert commit.schema_changes == ()
    assert table.schema == SCHEMA
    (got,) = table.to_arrow(columns=[column], filters=[("id", "=", 2)]).to_pylist()
    expected = values.cast(SCHEMA.field(column).type)[0].as_py()
    assert got[column] == expected


@pytest.mark.parametrize("evolution", ["refuse", "allow"])
@pytest.mark.parametrize(
    ("data_type", "values", "fits"),
    [
        (pa.float64(), pa.array([2**53 + 1], pa.int64()), False),
        (pa.float64(), pa.array([-(2**63), 2**53], pa.int64()), True),
        (pa.float64(), pa.array([2**63 - 1], pa.int64()), False),
        (pa.float32(), pa.array([2**24 + 1], pa.int32()), False),
        (pa.float32(), pa.array([2**24, -3], pa.int32()), True),
        (pa.float32(), pa.array([2**53 + 1], pa.int64()), False),
        (pa.float32(), pa.array([2**32 - 1], pa.uint32()), False),
        (pa.list_(pa.float64()), pa.array([[2**53 + 1]], pa.list_(pa.int64())), False),
    ],
)
def test_integers_with_more_digits_than_a_float_are_refused(
    tmp_path: Path, data_type: pa.DataType, values: pa.Array, fits: bool, evolution: Any
) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", data_type)])
    table = hoodoo.Table.create(tmp_path / "t", schema, name="t", record_key="id")
    rows = pa.table({"id": range(len(values)), "v": values})
    if fits:
        table.insert(rows, schema_evolution=evolution)
        assert table.to_arrow(columns=["v"])["v"].to_pylist() == values.to_pylist()
    else:
        with pytest.raises(hoodoo.SchemaError, match="does not fit"):
            table.insert(rows, schema_evolution=evolution)
        assert table.count() == 0


@pytest.mark.parametrize(
    ("column", "value", "old", "new"),
    [
        ("n", 1 << 40, "int32", "int64"),
        ("n", 1.5, "int32", "double"),
        ("n", "seven", "int32", "string"),
        ("f", 0.123456789, "float", "double"),
        ("c", decimal.Decimal("1.2345"), "decimal128(10, 2)", "decimal128(12, 4)"),
        ("new", 1.5, None, "double"),
    ],
)
def test_a_real_change_is_told_and_refused_on_request(
    table: hoodoo.Table, column: str, value: object, old: str | None, new: str
):
    before = table.to_arrow(columns=SCHEMA.names).to_pylist()
    row = {**ROW, "id": 3, column: value}
    with pytest.raises(hoodoo.SchemaError, match=column):
        table.upsert([row], schema_evolution="refuse")
    assert table.to_arrow(columns=SCHEMA.names).to_pylist() == before
    with pytest.warns(hoodoo.HudiWarning, match="changed the table's schema") as told:
        commit = table.upsert([row], schema_evolution="allow")
    assert commit.schema_changes == (hoodoo.SchemaChange(column, old, new),)
    assert len(told) == 1
    assert told[0].filename == __file__
    # A dictionary with one more or another column leaves the others as they were.
    assert {name: kind for name, kind in _types(table).items() if name != column} == {
        f.name: f.type for f in SCHEMA if f.name != column
    }
    (got,) = table.to_arrow(columns=[column], filters=[("id", "=", 3)]).to_pylist()
    assert got[column] == value
    assert table.verify().ok


def test_a_misfit_late_in_a_stream_widens_the_rows_before(tmp_path: Path):
    table = hoodoo.Table.create(
        str(tmp_path / "t"),
        pa.schema({"id": pa.int32(), "n": pa.int32(), "p": pa.string()}),
        name="t",
        record_key="id",
        partition_by="p",
        options={"hoodoo.memory.budget": 100_000},
    )
    table.insert({"id": [0], "n": [0], "p": ["b"]})
    wide = pa.schema({"id": pa.int64(), "n": pa.int64(), "p": pa.string()})

    def batches() -> Any:
        for k in range(20):
            ids = range(k * 1000, (k + 1) * 1000)
            values = [n if k < 19 else n << 32 for n in ids]
            yield pa.record_batch({"id": ids, "n": values, "p": ["a" if n % 2 else "b" for n in ids]}, wide)

    table = hoodoo.Table(table.uri, options={"hoodoo.memory.budget": 100_000})
    with pytest.warns(hoodoo.HudiWarning, match="n: int32 → int64"):
        commit = table.upsert(pa.RecordBatchReader.from_batches(wide, batches()))
    assert [str(change) for change in commit.schema_changes] == ["n: int32 → int64"]
    rows = table.to_arrow(columns=["id", "n"])
    assert rows.schema.types == [pa.int32(), pa.int64()]
    assert all(n == (i if i < 19_000 else i << 32) for i, n in zip(*rows.to_pydict().values(), strict=True))
    assert rows.num_rows == 20_000


def test_the_value_and_the_row_are_named(table: hoodoo.Table):
    rows = pa.Table.from_pylist([{**ROW, "id": n, "n": n} for n in range(10)], SCHEMA)
    rows = rows.set_column(1, "n", pa.array([*range(7), 1 << 40, 8, 9], pa.int64()))
    with pytest.raises(hoodoo.SchemaError, match=r"'n': the value 1099511627776 in row 7") as refused:
        table.upsert(rows, schema_evolution="refuse")
    assert refused.value.context["column"] == "n"


def test_text_is_no_date_and_numbers_become_text_aloud(table: hoodoo.Table):
    with pytest.raises(hoodoo.SchemaError, match="'d'"):
        table.upsert([{**ROW, "d": "2024-01-02"}])
    with pytest.raises(hoodoo.SchemaError, match="'s'"):
        table.upsert([{**ROW, "s": 5}], schema_evolution="refuse")
    with pytest.warns(hoodoo.HudiWarning, match="'s': values of type Int64 are stored as text"):
        commit = table.upsert([{**ROW, "s": 5}])
    assert commit.schema_changes == ()
    assert table.schema == SCHEMA


def test_required_columns_stay_required_without_nulls(tmp_path: Path):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64(), nullable=False)])
    table = hoodoo.Table.create(str(tmp_path / "t"), schema, name="t", record_key="id")
    assert table.insert({"id": [1], "n": [1]}).schema_changes == ()
    assert table.schema == schema
    assert table.insert(pa.table({"id": [2], "n": [2]})).schema_changes == ()
    assert table.schema == schema
    with pytest.raises(hoodoo.SchemaError, match=r"'n'.* null"):
        table.insert({"id": [3, 4], "n": [1, None]})
    # A stream that declares nulls makes it nullable, as in Hudi, once there is one.
    with pytest.warns(hoodoo.HudiWarning, match="n: int64 not null → int64"):
        table.insert(pa.table({"id": [3], "n": pa.nulls(1, pa.int64())}))
    assert table.schema.field("n").nullable


def test_keys_are_not_spelled_anew(tmp_path: Path):
    table = hoodoo.Table.create(str(tmp_path / "t"), pa.schema({"id": pa.int32()}), name="t", record_key="id")
    table.insert({"id": [1]})
    assert table.upsert({"id": pa.array([1.0])}).updated == 1
    with pytest.raises(hoodoo.SchemaError, match="spelled otherwise"):
        table.upsert({"id": pa.array([1.5])})
    with pytest.warns(hoodoo.HudiWarning, match="id: int32 → int64"):
        table.upsert({"id": [1, 1 << 40]})
    assert sorted(table.to_arrow(columns=["id"])["id"].to_pylist()) == [1, 1 << 40]


def test_hoodoo_write_takes_the_keyword_and_the_option(tmp_path: Path):
    uri, options = str(tmp_path / "t"), {"hoodie.table.name": "t", "hoodie.table.recordkey.fields": "id"}
    hoodoo.write(pa.table({"id": pa.array([1], pa.int32())}), uri, options=options)
    more = {"id": [1], "n": [1]}
    for refused in (
        {"options": options, "schema_evolution": "refuse"},
        {"options": {**options, "hoodoo.schema.evolution": "REFUSE"}},
    ):
        with pytest.raises(hoodoo.SchemaError, match="'n' is new"):
            hoodoo.write(more, uri, **refused)
    with pytest.raises(hoodoo.InvalidOptionError, match="never"):
        hoodoo.write(more, uri, options=options, schema_evolution="never")  # type: ignore[arg-type]
    with pytest.warns(hoodoo.HudiWarning, match="n: new → int64"):
        assert hoodoo.write(more, uri, options=options).schema_changes == (hoodoo.SchemaChange("n", None, "int64"),)


def test_values_that_are_of_no_row_change_no_type(tmp_path: Path):
    types = {"id": pa.string(), "l": pa.list_(pa.int32()), "m": pa.map_(pa.string(), pa.int32())}
    table = hoodoo.Table.create(
        tmp_path / "t", {**types, "st": pa.struct([("a", pa.int32())])}, name="t", record_key="id"
    )
    large = 1 << 40
    lists = pa.array([[1], [large]], pa.list_(pa.int64()))
    maps = pa.array([[("a", 1)], [("a", large)]], pa.map_(pa.string(), pa.int64()))
    structs = pa.StructArray.from_arrays([pa.array([1, large])], ["a"], mask=pa.array([False, True]))
    rows = pa.table({"id": ["a", "b"], "l": lists, "m": maps, "st": structs})
    # The second row is not given.
    assert table.insert(rows.slice(0, 1), schema_evolution="refuse").schema_changes == ()
    # It is, but its struct is null; and its list, behind which the value stays.
    hidden = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), lists.values, mask=pa.array([False, True]))
    rows = pa.table({"id": ["a", "b"], "l": hidden, "m": maps.take(pa.array([0, 0])), "st": structs})
    assert table.upsert(rows, schema_evolution="refuse").schema_changes == ()
    first = {"id": "a", "l": [1], "m": [("a", 1)], "st": {"a": 1}}
    expected = [first, {**first, "id": "b", "l": None, "st": None}]
    assert table.to_arrow(columns=["id", "l", "m", "st"]).sort_by("id").to_pylist() == expected
    with pytest.raises(hoodoo.SchemaError, match="does not fit"):
        table.upsert(pa.table({"id": ["a"], "l": lists.slice(1)}), partial=True, schema_evolution="refuse")
