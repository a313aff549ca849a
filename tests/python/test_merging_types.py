"""Values of `hoodoo.merge` and of mergers keep what they say, whatever types the sides have."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodoo
from hoodoo import SchemaError, Table
from hoodoo.mergers import PerColumn

LOSSY: list[tuple[pa.DataType, Any, pa.DataType, Any]] = [
    (pa.int64(), 1, pa.float64(), 2.7),
    (pa.int64(), 1, pa.decimal128(5, 2), Decimal("2.75")),
    (pa.timestamp("s"), 1, pa.timestamp("us"), 1_999_999),
    (pa.date32(), 1, pa.timestamp("us"), 18_000_000_000),
    (pa.decimal128(10, 2), Decimal("1.00"), pa.decimal128(10, 4), Decimal("1.2345")),
    (pa.float64(), 1.0, pa.int64(), 2**53 + 1),
    (pa.bool_(), False, pa.int64(), 5),
    (pa.struct({"a": pa.int64()}), {"a": 1}, pa.struct({"a": pa.int64(), "b": pa.int64()}), {"a": 1, "b": 2}),
    (pa.list_(pa.int64()), [1], pa.list_(pa.float64()), [2.5]),
]
FITTING: list[tuple[pa.DataType, Any, pa.DataType, Any, Any]] = [
    (pa.int64(), 1, pa.float64(), 2.0, 2),
    (pa.int64(), 1, pa.int32(), 2, 2),
    (pa.float32(), 1.0, pa.float64(), 0.1, pytest.approx(0.1)),
    (pa.string(), "a", pa.large_string(), "b", "b"),
    (pa.string(), "a", pa.dictionary(pa.int32(), pa.string()), "b", "b"),
    (pa.decimal128(10, 2), Decimal("1.00"), pa.decimal128(12, 4), Decimal("1.2500"), Decimal("1.25")),
]


def _side(ids: list[int], column: tuple[pa.DataType, Any], **more: pa.Array) -> pa.Table:
    return pa.table({"id": ids, "x": pa.array([column[1]] * len(ids), column[0]), **more})


@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("case", LOSSY, ids=lambda case: f"{case[0]} from {case[2]}")
def test_a_value_that_would_change_is_refused(case: tuple[Any, ...], is_sorted: bool) -> None:
    older, newer = _side([1], case[:2]), _side([1], case[2:])
    with pytest.raises(pa.ArrowException, match=r"column 'x' is .* in the newer rows and .* in the older ones"):
        hoodoo.merge(older, newer, key="id", sorted=is_sorted).read_all()


@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("case", FITTING, ids=lambda case: f"{case[0]} from {case[2]}")
def test_a_value_that_fits_is_taken(case: tuple[Any, ...], is_sorted: bool) -> None:
    older, newer = _side([1], case[:2]), _side([1, 2], case[2:4])
    merged = hoodoo.merge(older, newer, key="id", sorted=is_sorted).read_all()
    assert merged.schema.field("x").type == case[0]
    assert merged["x"].to_pylist() == [case[4]] * 2


@pytest.mark.parametrize("is_sorted", [False, True])
def test_keys_and_ordering_values_are_not_cut(is_sorted: bool) -> None:
    older = pa.table({"id": [1], "ts": [5], "v": ["old"]})
    for newer in ({"id": [1.9], "ts": [5], "v": ["new"]}, {"id": [1], "ts": [5.9], "v": ["new"]}):
        with pytest.raises(pa.ArrowException, match="in the newer rows"):
            hoodoo.merge(older, pa.table(newer), key="id", ordering=["ts"], sorted=is_sorted).read_all()


STRINGS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int32(), pa.string()),
    pa.binary(),
    pa.large_binary(),
    pa.binary(6),
]


@pytest.mark.parametrize("kind", STRINGS, ids=str)
def test_markers_of_unavailable_values_in_all_string_types(kind: pa.DataType) -> None:
    def column(text: str) -> pa.Array:
        return pa.array([text if "string" in str(kind) else text.encode()], kind)

    older = pa.table({"id": [1], "ts": [1], "v": column("stored")})
    newer = pa.table({"id": [1], "ts": [2], "v": column("__gone")})
    options = {"hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value": "__gone"}
    merged = hoodoo.merge(
        older, newer, key="id", ordering=["ts"], partial_update_mode="FILL_UNAVAILABLE", options=options
    ).read_all()
    assert merged.schema.field("v").type == kind
    assert merged["v"].to_pylist() == column("stored").to_pylist()


def test_nulls_in_the_values_of_a_dictionary() -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array([None], pa.string()))
    older = pa.table({"id": [1], "ts": [1], "v": pa.array(["stored"]).dictionary_encode()})
    newer = pa.table({"id": [1], "ts": [2], "v": values})
    merged = hoodoo.merge(older, newer, key="id", ordering=["ts"], partial_update_mode="IGNORE_DEFAULTS").read_all()
    assert merged["v"].to_pylist() == ["stored"]


def test_a_delete_mark_is_boolean() -> None:
    older, newer = pa.table({"id": [1]}), {"id": [1], "_hoodie_is_deleted": [True]}
    assert hoodoo.merge(older, pa.table(newer), key="id").read_all().num_rows == 0
    for mark in (1, "true", 1.0):
        with pytest.raises(SchemaError, match="not boolean"):
            hoodoo.merge(older, pa.table({"id": [1], "_hoodie_is_deleted": [mark]}), key="id").read_all()


class Largest(PerColumn):
    strategy_id = "a9a4b3c2-3a25-4bb3-8cb5-1d1d6f1f0a01"
    rules: ClassVar = {"at": "max", "first": "min", "flag": "max"}


class Same(hoodoo.RecordMerger):
    """Builds its result from Python values, so that nested fields have pyarrow's names."""

    strategy_id = "a9a4b3c2-3a25-4bb3-8cb5-1d1d6f1f0a02"

    def merge(self, older: Any, newer: Any, context: Any) -> pa.RecordBatch:  # noqa: ARG002
        columns = [
            pc.take(pa.concat_arrays([column, column]), pa.array(range(len(column)))) for column in newer.data.columns
        ]
        return pa.RecordBatch.from_arrays(columns, names=newer.data.schema.names)

    partial_merge = merge


def _table(path: Path, schema: pa.Schema, merger: type[hoodoo.RecordMerger], kind: str) -> Table:
    options = {
        "hoodie.write.record.merge.mode": "CUSTOM",
        "hoodie.write.record.merge.strategy.id": merger.strategy_id,
        "hoodie.write.record.merge.custom.implementation.classes": f"{merger.__module__}.{merger.__name__}",
        "hoodie.compact.inline": "false",
    }
    return Table.create(str(path / "t"), schema, name="t", record_key="id", table_type=kind, options=options)


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_the_largest_of_timestamps_with_a_zone(tmp_path: Path, kind: str) -> None:
    zoned = pa.timestamp("us", tz="UTC")
    schema = pa.schema({"id": pa.int64(), "at": zoned, "first": zoned, "flag": pa.bool_()})

    def rows(*values: Any) -> pa.Table:
        return pa.Table.from_arrays(
            [pa.array([n], field.type) for n, field in zip(values, schema, strict=True)], schema=schema
        )

    t = _table(tmp_path, schema, Largest, kind)
    t.upsert(rows(1, 10, 10, False))
    t.upsert(rows(1, 5, 5, True))
    t.upsert(rows(1, None, 7, None))
    row = t.to_arrow(columns=["at", "first", "flag"])
    assert [row[name].cast(pa.int64() if name != "flag" else pa.bool_())[0].as_py() for name in row.column_names] == [
        10,
        5,
        True,
    ]


def test_the_largest_beside_nan() -> None:
    class Floats(PerColumn):
        strategy_id = "a9a4b3c2-3a25-4bb3-8cb5-1d1d6f1f0a04"
        rules: ClassVar = {"high": "max", "low": "min"}

    nan = float("nan")
    older = pa.table({"id": [1, 2], "high": [nan, 1.0], "low": [nan, 1.0]})
    newer = pa.table({"id": [1, 2], "high": [2.0, nan], "low": [2.0, nan]})
    merged = hoodoo.merge(older, newer, key="id", merger=Floats()).read_all()
    assert merged.sort_by("id").to_pydict() == {"id": [1, 2], "high": [2.0, 1.0], "low": [2.0, 1.0]}


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_mergers_and_maps(tmp_path: Path, kind: str) -> None:
    schema = pa.schema({"id": pa.int64(), "m": pa.map_(pa.string(), pa.int64()), "l": pa.list_(pa.int64())})
    t = _table(tmp_path, schema, Same, kind)
    t.upsert(pa.Table.from_pylist([{"id": 1, "m": [("a", 1)], "l": [1]}], schema))
    t.upsert(pa.Table.from_pylist([{"id": 1, "m": [("b", 2)], "l": [2]}], schema))
    assert t.to_arrow(columns=["m", "l"]).to_pylist() == [{"m": [("b", 2)], "l": [2]}]
    if kind == "MERGE_ON_READ":
        t.compact()
        assert t.to_arrow(columns=["m"]).to_pylist() == [{"m": [("b", 2)]}]


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_partial_merge_that_returns_a_batch_keeps_stored_values(tmp_path: Path, kind: str) -> None:
    schema = pa.schema({"id": pa.int64(), "a": pa.int64(), "b": pa.string()})
    t = _table(tmp_path, schema, Kept, kind)
    t.upsert({"id": [1], "a": [1], "b": ["keep"]})
    for n in (2, 3):
        t.upsert({"id": [1], "a": [n]}, partial=True)
        assert t.to_arrow(columns=["a", "b"]).to_pylist() == [{"a": n, "b": "keep"}]
    if kind == "MERGE_ON_READ":
        t.compact()
        assert t.to_arrow(columns=["a", "b"]).to_pylist() == [{"a": 3, "b": "keep"}]


class Kept(hoodoo.RecordMerger):
    strategy_id = "a9a4b3c2-3a25-4bb3-8cb5-1d1d6f1f0a03"

    def merge(self, older: Any, newer: Any, context: Any) -> pa.RecordBatch:  # noqa: ARG002
        return newer.data

    def partial_merge(self, older: Any, newer: Any, context: Any) -> pa.RecordBatch:  # noqa: ARG002
        columns = []
        for name, value in zip(newer.data.schema.names, newer.data.columns, strict=True):
            has = None if newer.present is None else newer.present[name]
            columns.append(value if has is None else pc.if_else(has, value, older.data[name]))
        return pa.RecordBatch.from_arrays(columns, schema=newer.data.schema)


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("ordering", [(0, None), (None, 5)])
def test_a_delete_without_one_of_its_ordering_values_wins(tmp_path: Path, kind: str, ordering: tuple[Any, Any]) -> None:
    schema = pa.schema({"id": pa.int64(), "a": pa.int64(), "b": pa.int64(), "_hoodie_is_deleted": pa.bool_()})
    t = Table.create(str(tmp_path / "t"), schema, name="t", record_key="id", ordering=["a", "b"], table_type=kind)
    row = {"id": 1, "a": 1, "b": 1, "_hoodie_is_deleted": False}
    gone = {"id": 1, "a": ordering[0], "b": ordering[1], "_hoodie_is_deleted": True}
    t.upsert(pa.Table.from_pylist([row], schema))
    t.upsert(pa.Table.from_pylist([gone], schema))
    assert t.to_arrow().num_rows == 0
    merged = hoodoo.merge(
        pa.Table.from_pylist([row], schema), pa.Table.from_pylist([gone], schema), key="id", ordering=["a", "b"]
    )
    assert merged.read_all().num_rows == 0


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(("data_type", "value"), [(pa.float64(), 1.5), (pa.bool_(), True), (pa.list_(pa.int32()), [1])])
def test_partitions_without_rows_are_clustered(tmp_path: Path, kind: str, data_type: pa.DataType, value: Any) -> None:
    schema = pa.schema({"id": pa.string(), "part": pa.string(), "ts": pa.int64(), "c": data_type})
    options = {"hoodie.compact.inline": "false", "hoodie.parquet.small.file.limit": "0"}
    t = Table.create(
        str(tmp_path / "t"), schema, name="t", record_key="id", partition_by="part", table_type=kind, options=options
    )
    rows = [{"id": i, "part": p, "ts": 1, "c": value} for i, p in (("a", "p0"), ("b", "p1"), ("c", "p1"))]
    t.insert(pa.Table.from_pylist(rows[:2], schema))
    t.insert(pa.Table.from_pylist(rows[2:], schema))
    t.delete([{"id": "a", "part": "p0"}])
    if kind == "MERGE_ON_READ":
        t.compact()
    assert t.cluster(sort_by=["ts"]) is not None
    assert not t.pending_clusterings()
    t.upsert(pa.Table.from_pylist(rows[1:2], schema))
    assert sorted(t.to_arrow(columns=["id"])["id"].to_pylist()) == ["b", "c"]


@pytest.mark.parametrize("before", [pa.float32(), pa.float64()])
def test_an_ordering_column_of_floats_that_became_strings(tmp_path: Path, before: pa.DataType) -> None:
    schema = pa.schema({"id": pa.int64(), "ts": before, "v": pa.string()})
    options = {"hoodie.compact.inline": "false"}
    t = Table.create(
        str(tmp_path / "t"),
        schema,
        name="t",
        record_key="id",
        ordering=["ts"],
        table_type="MERGE_ON_READ",
        options=options,
    )
    t.upsert(pa.table({"id": [1, 2], "ts": pa.array([1.5, 1.5], before), "v": ["a", "b"]}))
    t.delete(pa.table({"id": [1], "ts": pa.array([5.5], before)}))
    t.upsert(pa.table({"id": [3], "ts": ["9.5"], "v": ["c"]}))
    assert t.schema.field("ts").type == pa.string()
    assert sorted(t.to_arrow(columns=["id"])["id"].to_pylist()) == [2, 3]
    t.compact()
    assert sorted(t.to_arrow(columns=["id"])["id"].to_pylist()) == [2, 3]


BATCHES: list[tuple[pa.Array, pa.Array, Any]] = [
    (pa.array([True]), pa.array([7]), None),
    (pa.array([0.5], pa.float32()), pa.array([0.123456789012]), None),
    (pa.array([0.5], pa.float32()), pa.array([16777217.0]), None),
    (pa.array([0.5]), pa.array([Decimal("12345678901234567890.123")]), None),
    (pa.array([1], pa.timestamp("us")), pa.array([5]), None),
    (pa.array([5]), pa.array([1], pa.timestamp("us")), None),
    (pa.array([1], pa.timestamp("us", tz="UTC")), pa.array([1], pa.timestamp("us")), None),
    (pa.array([1], pa.timestamp("us")), pa.array([1], pa.date32()), None),
    (pa.array([1], pa.date32()), pa.array([5], pa.int32()), None),
    (pa.array(["a"]), pa.array([1]), None),
    (pa.array([1]), pa.array([2], pa.int32()), 2),
    (pa.array([0.5]), pa.array([float("nan")], pa.float32()), "nan"),
    (pa.array(["a"]), pa.array(["b"], pa.large_string()), "b"),
    (pa.array([1]), pa.array([None], pa.string()), None),
]


@pytest.mark.parametrize("case", BATCHES, ids=lambda case: f"{case[0].type} then {case[1].type}")
def test_later_batches_are_not_cast_with_losses(tmp_path: Path, case: tuple[pa.Array, pa.Array, Any]) -> None:
    first, second, stored = case
    batches = [pa.record_batch({"id": pa.array([n]), "x": column}) for n, column in enumerate((first, second))]
    schema = pa.schema({"id": pa.int64(), "x": first.type})
    t = Table.create(str(tmp_path / "t"), schema, name="t", record_key="id")
    if stored is None and second.null_count == 0:
        with pytest.raises(SchemaError, match="batches have columns of different types: 'x' is"):
            t.upsert(iter(batches))
        return
    t.upsert(iter(batches))
    (found,) = (row["x"] for row in t.to_arrow(columns=["id", "x"]).to_pylist() if row["id"] == 1)
    assert str(found) == str(stored)


def test_keys_of_a_delete_in_tables() -> None:
    t = Table.create("memory://merging-types/keys", {"id": pa.int64()}, name="t", record_key="id")
    t.upsert({"id": list(range(6))})
    t.delete([pa.table({"id": [1]}), pa.table({"id": [2, 3]})])
    assert sorted(t.to_arrow(columns=["id"])["id"].to_pylist()) == [0, 4, 5]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+02:00"])
@pytest.mark.parametrize("in_order", [False, True])
def test_keys_that_are_timestamps_of_a_zone(zone: str, in_order: bool) -> None:
    keys = pa.array([0, 3_600_000_000, 1_700_000_000_000_001], pa.timestamp("us", zone))
    older = pa.table({"at": keys, "v": [1, 2, 3]})
    newer = pa.table({"at": keys.slice(1).cast(pa.timestamp("us", "Asia/Tokyo")), "v": [20, 30]})
    for more in ({}, {"id": pa.array([7, 7, 7])}):
        before, after = older, newer
        for name, column in more.items():
            before, after = before.append_column(name, column), after.append_column(name, column.slice(1))
        merged = hoodoo.merge(before, after, key=["at", *more], sorted=in_order).read_all()
        assert merged["at"].to_pylist() == keys.to_pylist()
        assert merged["v"].to_pylist() == [1, 20, 30]


class Scaled(hoodoo.RecordMerger):
    strategy_id = "0f4c5b1e-7c4e-4a57-9d3c-0d1c2a3b4c5d"

    def merge(self, older: hoodoo.Records, newer: hoodoo.Records, context: hoodoo.MergeContext) -> pa.RecordBatch:
        factor = int(context.properties["factor"])
        values = pc.add(older.data["v"], pc.multiply(newer.data["v"], factor))
        return newer.data.set_column(newer.data.schema.get_field_index("v"), "v", values)


def test_a_merger_gets_its_properties() -> None:
    options = {"hoodie.record.merge.property.factor": "10", "hoodoo.memory.budget": "1000000"}
    merged = hoodoo.merge({"id": [1], "v": [1]}, {"id": [1], "v": [2]}, key="id", merger=Scaled(), options=options)
    assert merged.read_all()["v"].to_pylist() == [21]


def test_rules_for_columns_that_are_not_there() -> None:
    class Misspelt(PerColumn):
        strategy_id = "0f4c5b1e-7c4e-4a57-9d3c-0d1c2a3b4c5e"
        rules: ClassVar = {"v": "sum", "clikcs": "sum"}

    with pytest.warns(hoodoo.HudiWarning, match="Misspelt name the column 'clikcs'"):
        merged = hoodoo.merge({"id": [1], "v": [1]}, {"id": [1], "v": [2]}, key="id", merger=Misspelt()).read_all()
    assert merged["v"].to_pylist() == [3]
