"""`Table.update_schema`: files of before keep their meaning, whatever reads or writes them afterwards."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo

NO_STATISTICS = {"hoodie.metadata.index.column.stats.enable": "false"}
KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "a": pa.int32(),
        "b": pa.float32(),
        "c": pa.string(),
        "d": pa.int32(),
        "st": pa.struct({"x": pa.int32(), "y": pa.string()}),
        "l": pa.list_(pa.struct({"u": pa.int32(), "v": pa.int32()})),
        "m": pa.map_(pa.string(), pa.struct({"k": pa.int32()})),
        "ts": pa.int64(),
    }
)
NAMES = SCHEMA.names
IS_NULL: list[Any] = [("d", "is null")]
IS_SET: list[Any] = [("d", "is not null")]


def row(key: int, **other: Any) -> dict[str, Any]:
    return {
        "id": key,
        "a": key * 10,
        "b": 0.1,
        "c": f"c{key}",
        "d": key + 50,
        "st": {"x": key, "y": f"y{key}"},
        "l": [{"u": key, "v": key}],
        "m": [("k", {"k": key})],
        "ts": 1,
        **other,
    }


def make(path: Path, kind: str, **options: str) -> hoodoo.Table:
    table = hoodoo.Table.create(
        str(path / "t"),
        SCHEMA,
        name="t",
        record_key="id",
        ordering=["ts"],
        table_type=kind,
        options={**NO_STATISTICS, **options},
    )
    table.insert(pa.Table.from_pylist([row(key) for key in range(1, 5)], SCHEMA))
    table.upsert(pa.Table.from_pylist([row(2, ts=2, c="late", d=99)], SCHEMA))
    return table


def alter(table: hoodoo.Table) -> hoodoo.Commit:
    with table.update_schema() as update:
        update.rename_column("c", "cc").drop_column("d").add_column("d", pa.string(), doc="another", after="id")
        update.change_column("a", pa.int64()).change_column("b", pa.float64()).move_column("ts", first=True)
        update.rename_column("st.x", "xx").drop_column("l.element.v").add_column("l.element.v", "int64")
        update.add_column("m.value.n", pa.int32(), first=True).rename_column("l", "items")
    assert update.commit is not None
    return update.commit


def rows_of(table: hoodoo.Table, **read: Any) -> dict[int, dict[str, Any]]:
    names = table.schema.names if "as_of" not in read else NAMES
    return {one["id"]: one for one in table.to_arrow(columns=names, **read).to_pylist()}


def altered(key: int, **other: Any) -> dict[str, Any]:
    return {
        "ts": 1,
        "id": key,
        "d": None,
        "a": key * 10,
        "b": 0.1,
        "cc": f"c{key}",
        "st": {"xx": key, "y": f"y{key}"},
        "items": [{"u": key, "v": None}],
        "m": [("k", {"n": None, "k": key})],
        **other,
    }


EXPECTED = {1: altered(1), 2: altered(2, ts=2, cc="late"), 3: altered(3), 4: altered(4)}


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_before_are_read_by_ids(tmp_path: Path, kind: str):
    table = make(tmp_path, kind)
    before, last = rows_of(table), table.timeline.instants()[-1].requested
    commit = alter(table)
    assert (commit.operation, commit.files) == ("ALTER_SCHEMA", ())
    assert table.schema.names == ["ts", "id", "d", "a", "b", "cc", "st", "items", "m"]
    assert rows_of(table) == EXPECTED == rows_of(hoodoo.Table(table.uri))
    assert rows_of(table, as_of=last) == before
    assert table.to_arrow(columns=["id"], filters=[("cc", "=", "late")])["id"].to_pylist() == [2]
    assert table.to_arrow(filters=IS_SET).num_rows == 0
    assert table.verify().ok
    changed = table.changes("0", columns=["id", "cc", "d"]).read_all().to_pylist()
    assert sorted((one["id"], one["cc"], one["d"]) for one in changed) == [
        (1, "c1", None),
        (2, "late", None),
        (3, "c3", None),
        (4, "c4", None),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_writes_and_services_go_on(tmp_path: Path, kind: str):
    table = make(tmp_path, kind)
    alter(table)
    expected = dict(EXPECTED)
    expected[3] = altered(3, ts=5, d="new", cc="three", items=[{"u": 1, "v": 1 << 40}])
    expected[9] = altered(9)
    table.upsert(pa.Table.from_pylist([expected[3], expected[9]], table.schema))
    assert rows_of(table) == expected
    assert table.verify().ok
    # A write adds a column, as before.
    with pytest.warns(hoodoo.HudiWarning, match="more: new"):
        table.upsert([{**expected[4], "ts": 6, "more": 7}])
    expected = {key: {**one, "more": None} for key, one in expected.items()}
    expected[4] = {**expected[4], "ts": 6, "more": 7}
    assert rows_of(table) == expected
    with table.update_schema() as update:
        update.rename_column("more", "c").rename_column("cc", "more").drop_column("b")
    expected = {
        key: {**{n: v for n, v in one.items() if n not in {"b", "cc", "more"}}, "more": one["cc"], "c": one["more"]}
        for key, one in expected.items()
    }
    assert rows_of(table) == expected
    table.delete([1])
    del expected[1]
    assert rows_of(table) == expected
    if kind == "MERGE_ON_READ":
        table.compact()
        assert rows_of(table) == expected
    table.cluster(sort_by=["more"])
    assert rows_of(table) == expected
    report = table.verify()
    assert report.ok, report


def test_a_service_that_was_planned_before_writes_the_columns_of_its_time(tmp_path: Path):
    table = make(tmp_path, "MERGE_ON_READ")
    assert table.schedule_compaction() is not None
    alter(table)
    table.upsert(pa.Table.from_pylist([altered(4, ts=7, cc="logged", d="d")], table.schema))
    expected = {**EXPECTED, 4: altered(4, ts=7, cc="logged", d="d")}
    assert rows_of(table) == expected
    table.compact()
    assert rows_of(table) == expected
    assert table.verify().ok


def test_partial_updates_and_change_feeds(tmp_path: Path):
    options = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "data_before_after"}
    table = make(tmp_path, "COPY_ON_WRITE", **options)
    alter(table)
    table.upsert(pa.Table.from_pylist([altered(1, ts=3, cc="one")], table.schema))
    feed = table.changes("0", columns=["id", "cc", "d"], mode="cdc").read_all().to_pylist()
    images = [(one["op"], one["before"] and one["before"]["cc"], one["after"]["cc"], one["after"]["d"]) for one in feed]
    assert sorted(images[:4], key=str) == [("i", None, f"c{key}", None) for key in range(1, 5)]
    assert images[4:] == [("u", "c2", "late", None), ("u", "c1", "one", None)]
    other = make(tmp_path / "other", "COPY_ON_WRITE")
    alter(other)
    other.upsert(pa.table({"id": [3], "ts": [4], "cc": ["part"]}), partial=True)
    assert rows_of(other) == {**EXPECTED, 3: altered(3, ts=4, cc="part")}


def test_types(tmp_path: Path):
    schema = pa.schema({"id": pa.int64(), **{f"c{n}": t for n, (t, _, _, _) in enumerate(CASES)}})
    table = hoodoo.Table.create(str(tmp_path / "t"), schema, name="t", record_key="id", options=NO_STATISTICS)
    table.insert(pa.Table.from_pylist([{"id": 1, **{f"c{n}": v for n, (_, v, _, _) in enumerate(CASES)}}], schema))
    with table.update_schema() as update:
        for number, (_, _, new, _) in enumerate(CASES):
            update.change_column(f"c{number}", new)
    (got,) = table.to_arrow(columns=[f"c{n}" for n in range(len(CASES))]).to_pylist()
    assert list(got.values()) == [expected for _, _, _, expected in CASES]
    for number, (_, _, _, expected) in enumerate(CASES):
        assert table.to_arrow(filters=[(f"c{number}", "=", expected)]).num_rows == 1, number


D = decimal.Decimal
CASES: list[tuple[pa.DataType, Any, pa.DataType, Any]] = [
    (pa.int32(), 7, pa.int64(), 7),
    (pa.int32(), 7, pa.string(), "7"),
    (pa.int64(), 7, pa.float64(), 7.0),
    (pa.int64(), 7, pa.decimal128(10, 2), D("7.00")),
    (pa.float32(), 0.1, pa.float64(), 0.1),
    (pa.float32(), 0.1, pa.decimal128(10, 3), D("0.100")),
    (pa.float64(), 1.005, pa.decimal128(10, 2), D("1.01")),
    (pa.float64(), 1.5, pa.string(), "1.5"),
    (pa.decimal128(6, 2), D("1.50"), pa.decimal128(8, 3), D("1.500")),
    (pa.decimal128(6, 2), D("1.50"), pa.string(), "1.50"),
    (pa.date32(), dt.date(2024, 5, 1), pa.string(), "2024-05-01"),
    (pa.string(), "2024-05-01", pa.date32(), dt.date(2024, 5, 1)),
    (pa.string(), "1.5", pa.decimal128(10, 2), D("1.50")),
]


def test_a_value_that_does_not_fit_is_named(tmp_path: Path):
    table = make(tmp_path, "COPY_ON_WRITE")
    with table.update_schema() as update:
        update.change_column("c", pa.date32())
    with pytest.raises(hoodoo.SchemaError, match="'c' has become a date, and its value 'c1'"):
        table.to_arrow()
    assert table.to_arrow(columns=["id"]).num_rows == 4


def test_plain_changes_take_no_ids(tmp_path: Path):
    schema = pa.schema({"id": pa.int64(), "t": pa.timestamp("us"), "n": pa.int32()})
    table = hoodoo.Table.create(str(tmp_path / "t"), schema, name="t", record_key="id")
    table.insert({"id": [1], "t": pa.array([dt.datetime(2024, 1, 1)]), "n": pa.array([1], pa.int32())})  # noqa: DTZ001
    with table.update_schema() as update:
        update.add_column("more", pa.string()).change_column("n", pa.int64())
    assert list((tmp_path / "t" / ".hoodie" / ".schema").iterdir()) == []
    assert table.to_arrow(columns=["n", "more"]).to_pylist() == [{"n": 1, "more": None}]
    with pytest.raises(hoodoo.UnsupportedError, match=r"'t' is .* Hudi cannot read"), table.update_schema() as update:
        update.rename_column("n", "m")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda u: u.rename_column("none", "x"), hoodoo.SchemaError),
        (lambda u: u.rename_column("c", "D"), hoodoo.SchemaError),
        (lambda u: u.rename_column("c", "_hoodie_x"), hoodoo.SchemaError),
        (lambda u: u.rename_column("c", "not-a-name"), hoodoo.SchemaError),
        (lambda u: u.add_column("c", pa.int32()), hoodoo.SchemaError),
        (lambda u: u.add_column("n", pa.time64("us")), hoodoo.UnsupportedError),
        (lambda u: u.add_column("a.b", pa.int32()), hoodoo.SchemaError),
        (lambda u: u.drop_column("_hoodie_record_key"), hoodoo.SchemaError),
        (lambda u: u.drop_column("id"), hoodoo.UnsupportedError),
        (lambda u: u.rename_column("ts", "t"), hoodoo.UnsupportedError),
        (lambda u: u.change_column("id", pa.string()), hoodoo.UnsupportedError),
        (lambda u: u.change_column("c", pa.int32()), hoodoo.SchemaError),
        (lambda u: u.change_column("c", nullable=False), hoodoo.SchemaError),
        (lambda u: u.move_column("c", after="none"), hoodoo.SchemaError),
        (lambda u: u.move_column("c"), hoodoo.InvalidOptionError),
        (lambda u: u.add_column("n", "no type"), hoodoo.InvalidOptionError),
        (lambda u: u.add_column("n", pa.int32(), first=True, after="id"), hoodoo.InvalidOptionError),
    ],
)
def test_what_is_refused_changes_nothing(tmp_path: Path, change: Any, error: type[Exception]):
    table = make(tmp_path, "COPY_ON_WRITE")
    before, files = table.schema, len(table.timeline.instants())

    def both() -> None:
        with table.update_schema() as update:
            update.add_column("fine", pa.string(), first=True)
            change(update)

    def interrupted() -> None:
        with table.update_schema() as update:
            update.drop_column("c")
            raise KeyError

    with pytest.raises(error):
        both()
    with pytest.raises(KeyError):
        interrupted()
    again = hoodoo.Table(table.uri)
    assert (again.schema, len(again.timeline.instants())) == (before, files)
    assert [instant for instant in again.timeline.instants() if not instant.completed] == []


def test_columns_with_an_index_stay(tmp_path: Path):
    table = make(tmp_path, "COPY_ON_WRITE", **{"hoodie.metadata.index.column.stats.enable": "true"})
    table.index("record_index")
    table.index("secondary_index", columns=["c"])
    with pytest.raises(hoodoo.UnsupportedError, match="the index secondary_index_"), table.update_schema() as update:
        update.rename_column("c", "cc")
    with table.update_schema() as update:
        update.rename_column("a", "aa").drop_column("d").add_column("d", pa.int64())
    table.upsert(pa.Table.from_pylist([{**rows_of(table)[1], "ts": 9, "c": "indexed", "d": 1}], table.schema))
    asked = hoodoo.Table(table.uri, options={"hoodie.metadata.global.record.level.index.enable": "true"})
    assert asked.to_arrow(columns=["id"], filters=[("c", "=", "indexed")])["id"].to_pylist() == [1]
    assert table.to_arrow(columns=["id"], filters=[("d", "=", 1)])["id"].to_pylist() == [1]
    assert table.to_arrow(columns=["id"], filters=IS_NULL).num_rows == 3
    report = table.verify()
    assert report.ok, report
    for change in (
        lambda u: u.change_column("b", pa.string()),
        lambda u: u.drop_column("d").add_column("d", pa.string()),
    ):
        with pytest.raises(hoodoo.UnsupportedError, match="drop_index"), table.update_schema() as update:
            change(update)
    with pytest.raises(hoodoo.UnsupportedError, match="secondary index of a table with a schema history"):
        table.index("secondary_index", columns=["b"])
    table.index("bloom_filters")
    metadata = table.metadata_table
    assert metadata is not None
    (secondary,) = (name for name in metadata.partitions if name.startswith("secondary_index_"))
    table.drop_index(secondary)
    table.rebuild_metadata_table()
    assert table.to_arrow(columns=["id"], filters=IS_NULL).num_rows == 3
    assert table.verify().ok


def test_the_history_outlives_the_archive(tmp_path: Path):
    options = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "2"}
    table = make(tmp_path, "MERGE_ON_READ", **options)
    alter(table)
    expected = dict(EXPECTED)
    for number in range(6):
        expected[4] = altered(4, ts=10 + number, cc=f"n{number}")
        table.upsert(pa.Table.from_pylist([expected[4]], table.schema))
    assert len(table.timeline.instants()) < len(table.timeline.instants(history=True))
    files = sorted((tmp_path / "t" / ".hoodie" / ".schema").iterdir())
    assert len(files) < 6
    assert rows_of(hoodoo.Table(table.uri)) == expected


def test_a_lost_history_is_an_error(tmp_path: Path):
    table = make(tmp_path, "MERGE_ON_READ")
    alter(table)
    for file in (tmp_path / "t" / ".hoodie" / ".schema").iterdir():
        file.unlink()
    with pytest.raises(hoodoo.CorruptFileError, match=r"\.hoodie/\.schema"):
        hoodoo.Table(table.uri).to_arrow()


def test_a_write_that_began_before_is_refused(tmp_path: Path):
    table = make(tmp_path, "COPY_ON_WRITE")
    schema = table.schema

    def batches() -> Any:
        yield pa.RecordBatch.from_pylist([row(1, ts=8)], schema)
        with hoodoo.Table(table.uri, options={"hoodoo.write.lease": "false"}).update_schema() as update:
            update.rename_column("c", "cc")
        yield pa.RecordBatch.from_pylist([row(2, ts=8)], schema)

    other = hoodoo.Table(table.uri, options={"hoodoo.write.lease": "false"})
    with pytest.raises(hoodoo.ConflictError, match="changed the columns"):
        other.upsert(pa.RecordBatchReader.from_batches(schema, batches()))
    assert rows_of(table)[1]["cc"] == "c1"
    assert table.verify().ok


def test_a_change_can_be_taken_back(tmp_path: Path):
    table = make(tmp_path, "MERGE_ON_READ")
    before = rows_of(table)
    commit = alter(table)
    table.rollback(commit.instant)
    assert (table.schema, rows_of(table)) == (SCHEMA, before)
    with table.update_schema() as update:
        update.rename_column("c", "other")
    assert {key: one["other"] for key, one in rows_of(table).items()} == {k: one["c"] for k, one in before.items()}
    assert table.verify().ok


def test_sorted_files_are_sorted_again_under_another_name(tmp_path: Path):
    table = make(tmp_path, "COPY_ON_WRITE")
    table.cluster(sort_by=["a"])
    with table.update_schema() as update:
        update.rename_column("a", "before").rename_column("c", "a")
    table.upsert(pa.Table.from_pylist([{**rows_of(table)[1], "a": "zz", "ts": 9}], table.schema))
    table.cluster(sort_by=["a"])
    assert table.to_arrow(columns=["a"])["a"].to_pylist() == ["c3", "c4", "late", "zz"]
