"""Record mergers of one's own: chosen by strategy id, called with aligned pairs, held to what they are to give back."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodoo
from hoodoo import MergeContext, RecordMerger, Records, RowMerger
from hoodoo.mergers import ColumnGroups, KeepNonNull, PerColumn
from hoodoo.testing import check_merger

SCHEMA = pa.schema(
    {"id": pa.string(), "ts": pa.int64(), "n": pa.int64(), "tags": pa.list_(pa.string()), "note": pa.string()}
)
CLASSES = "hoodie.write.record.merge.custom.implementation.classes"


class Totals(PerColumn):
    """Adds up, keeps the highest and appends."""

    strategy_id = "4b1ff5a5-2f6a-4a0a-8a54-60cbf6f80001"
    rules: ClassVar = {"n": "sum", "tags": "append", "note": "non_null"}


class Other(KeepNonNull):
    """The same as KeepNonNull under another id."""

    strategy_id = "4b1ff5a5-2f6a-4a0a-8a54-60cbf6f80002"


class Vanishing(RecordMerger):
    """Deletes every record that is updated, as the second write says."""

    strategy_id = "4b1ff5a5-2f6a-4a0a-8a54-60cbf6f80003"

    def merge(self, older: Records, newer: Records, context: MergeContext) -> Records:  # noqa: ARG002
        gone = pc.equal(newer.data["note"], "gone")
        return Records(newer.data, newer.keys, pc.or_(newer.deleted, pc.fill_null(gone, False)))


class Wrong(RecordMerger):
    """Gives back whatever the test asks for."""

    strategy_id = "4b1ff5a5-2f6a-4a0a-8a54-60cbf6f80004"
    answer: Any = None

    def merge(self, older: Records, newer: Records, context: MergeContext) -> Any:
        return Wrong.answer(older, newer, context)


class ByRow(RowMerger):
    """The longer note wins."""

    strategy_id = "4b1ff5a5-2f6a-4a0a-8a54-60cbf6f80005"

    def merge_rows(self, older: Any, newer: Any, context: MergeContext) -> Any:  # noqa: ARG002
        if newer is None or older is None:
            return newer
        return max(older, newer, key=lambda r: len(r["note"] or ""))


def _options(merger: type[RecordMerger], *classes: str) -> dict[str, str]:
    return {
        "hoodie.write.record.merge.mode": "CUSTOM",
        "hoodie.write.record.merge.strategy.id": merger.strategy_id,
        CLASSES: ",".join(classes or (f"{merger.__module__}.{merger.__name__}",)),
        "hoodie.compact.inline": "false",
    }


def _table(path: Path, merger: type[RecordMerger], table_type: str = "COPY_ON_WRITE", **more: str) -> hoodoo.Table:
    options = _options(merger) | {name.replace("__", "."): value for name, value in more.items()}
    return hoodoo.Table.create(
        path / "t", SCHEMA, name="t", record_key="id", ordering=["ts"], table_type=table_type, options=options
    )


def _rows(table: hoodoo.Table) -> list[dict[str, Any]]:
    return sorted(table.to_arrow(columns=SCHEMA.names).to_pylist(), key=lambda r: r["id"])


def _row(
    key: str, ts: int, n: int | None = 1, tags: list[str] | None = None, note: str | None = None
) -> dict[str, Any]:
    return {"id": key, "ts": ts, "n": n, "tags": tags, "note": note}


def _write(table: hoodoo.Table, *rows: dict[str, Any]) -> hoodoo.Commit:
    return table.upsert(pa.Table.from_pylist(list(rows), SCHEMA))


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", ["9", "8"])
def test_a_table_is_merged_by_it_everywhere(tmp_path: Path, table_type: str, version: str) -> None:
    table = _table(tmp_path, Totals, table_type, hoodie__write__table__version=version)
    _write(table, _row("a", 1, 1, ["x"], "first"), _row("b", 1, 5), _row("c", 1))
    _write(table, _row("a", 2, 2, ["y"]), _row("b", 3, None, ["z"], "b"))
    # In one write, late for the stored record, and several times.
    _write(table, _row("a", 1, 3, ["late"]), _row("a", 4, 4, ["w"]), _row("d", 1))
    expected = [
        _row("a", 4, 10, ["x", "y", "late", "w"], "first"),
        _row("b", 3, 5, ["z"], "b"),
        _row("c", 1),
        _row("d", 1),
    ]
    assert _rows(table) == expected
    assert table.to_arrow(columns=["n"]).num_rows == 4
    table.delete(["c"])
    assert _rows(table) == [r for r in expected if r["id"] != "c"]
    if table_type == "MERGE_ON_READ":
        table.compact()
        assert _rows(table) == [r for r in expected if r["id"] != "c"]
    assert table.verify().ok


def test_the_table_says_which_merger(tmp_path: Path) -> None:
    table = _table(tmp_path, Totals)
    assert table.options["hoodie.record.merge.strategy.id"] == Totals.strategy_id
    assert table.options["hoodie.record.merge.mode"] == "CUSTOM"
    here = f"{__name__}."
    classes = ["com.acme.Merger", "org.apache.hudi.DefaultSparkRecordMerger", here + "Other", here + "Totals"]
    _write(table, _row("a", 1, 1))
    chosen = hoodoo.Table(tmp_path / "t", options={CLASSES: ",".join(classes)})
    _write(chosen, _row("a", 2, 2))
    assert _rows(chosen) == [_row("a", 2, 3)]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_without_the_merger_its_id_is_named(tmp_path: Path, table_type: str) -> None:
    table = _table(tmp_path, Totals, table_type)
    _write(table, _row("a", 1, 1))
    without = hoodoo.Table(tmp_path / "t")
    assert _rows(without) == [_row("a", 1, 1)], "nothing is to be merged yet"
    with pytest.raises(hoodoo.UnsupportedError, match=Totals.strategy_id):
        _write(without, _row("a", 2, 2))
    _write(table, _row("a", 2, 2))
    if table_type == "MERGE_ON_READ":
        for options in (None, {CLASSES: "com.acme.Merger"}, {CLASSES: f"{__name__}.Other"}):
            with pytest.raises(hoodoo.UnsupportedError, match=Totals.strategy_id):
                hoodoo.Table(tmp_path / "t", options=options).to_arrow()
        with pytest.raises(hoodoo.UnsupportedError, match=Totals.strategy_id):
            without.compact()
    assert _rows(table) == [_row("a", 2, 3)]
    with pytest.raises(hoodoo.InvalidOptionError, match="strategy"):
        hoodoo.write([_row("a", 3)], tmp_path / "t", options=_options(Other))


def test_what_cannot_be_imported_is_told(tmp_path: Path) -> None:
    (tmp_path / "broken_merger.py").write_text("import a_module_that_is_not_there\n")
    _write(_table(tmp_path, Totals), _row("a", 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        with pytest.raises(hoodoo.InvalidOptionError, match="a_module_that_is_not_there"):
            hoodoo.Table(tmp_path / "t", options={CLASSES: "broken_merger.Merger"})
    with pytest.raises(hoodoo.InvalidOptionError, match=r"expected a subclass of hoodoo\.RecordMerger"):
        hoodoo.Table(tmp_path / "t", options={CLASSES: "pathlib.Path"})


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_result_may_be_a_delete(tmp_path: Path, table_type: str) -> None:
    table = _table(tmp_path, Vanishing, table_type)
    _write(table, _row("a", 1), _row("b", 1))
    _write(table, _row("a", 2, note="gone"), _row("b", 2, note="stays"))
    assert [r["id"] for r in _rows(table)] == ["b"]
    _write(table, _row("a", 3, note="back"))
    assert [r["id"] for r in _rows(table)] == ["a", "b"]
    if table_type == "MERGE_ON_READ":
        table.compact()
        assert [r["id"] for r in _rows(table)] == ["a", "b"]
        _write(table, _row("b", 4, note="gone"))
        table.compact()
        assert [r["id"] for r in _rows(table)] == ["a"]
        assert table.verify().ok
        assert table.upsert(pa.Table.from_pylist([_row("b", 5)], schema=SCHEMA)).inserted == 1


def test_a_result_has_the_key_of_its_records(tmp_path: Path) -> None:
    table = _table(tmp_path, Wrong, "MERGE_ON_READ")
    _write(table, _row("a", 1), _row("b", 1))
    _write(table, _row("a", 2), _row("b", 2))
    key = "_hoodie_record_key"

    def another(_: Records, new: Records, __: MergeContext) -> pa.RecordBatch:
        data = new.data
        assert key in data.schema.names
        return data.set_column(data.schema.get_field_index(key), key, pa.array(["x"] * len(data)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Wrong, "answer", staticmethod(another))
        with pytest.raises(hoodoo.SchemaError, match="changed a record key"):
            table.compact()
        patch.setattr(Wrong, "answer", staticmethod(lambda old, _, __: old.data))
        assert [(r["id"], r["ts"]) for r in _rows(table)] == [("a", 1), ("b", 1)]


_WRONG = {
    "too few": (lambda _, new, __: new.data.slice(1), "1 records for 2 pairs"),
    "columns": (lambda _, new, __: new.data.drop_columns(["n"]), "columns"),
    "types": (
        lambda _, new, __: new.data.set_column(new.data.schema.get_field_index("n"), "n", new.data["n"].cast("int32")),
        "Int32",
    ),
    "nothing": (lambda *_: None, "NoneType"),
    "failure": (lambda *_: 1 / 0, "division by zero"),
    "nulls in deleted": (
        lambda _, new, __: Records(new.data, new.keys, pa.array([None, True], pa.bool_())),
        "does not say whether",
    ),
    "ordering": (
        lambda _, new, __: new.data.set_column(
            new.data.schema.get_field_index("ts"), "ts", pa.nulls(len(new.data), pa.int64())
        ),
        "ordering column 'ts'",
    ),
}


@pytest.mark.parametrize("case", _WRONG)
def test_a_wrong_result_is_refused_and_changes_nothing(tmp_path: Path, case: str) -> None:
    answer, message = _WRONG[case]
    table = _table(tmp_path, Wrong)
    _write(table, _row("a", 1), _row("b", 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Wrong, "answer", staticmethod(answer))
        with pytest.raises(hoodoo.SchemaError, match=message):
            _write(table, _row("a", 2), _row("b", 2))
    assert [(r["id"], r["ts"]) for r in _rows(table)] == [("a", 1), ("b", 1)]
    assert table.verify().ok


def test_record_by_record(tmp_path: Path) -> None:
    table = _table(tmp_path, ByRow, "MERGE_ON_READ")
    _write(table, _row("a", 1, note="a long note"), _row("b", 1, note="b"))
    _write(table, _row("a", 2, note="short"), _row("b", 2, note="longer"))
    assert [(r["ts"], r["note"]) for r in _rows(table)] == [(1, "a long note"), (2, "longer")]


def test_what_a_merger_may_know(tmp_path: Path) -> None:
    seen: list[tuple[Records, Records, MergeContext]] = []

    def answer(older: Records, newer: Records, context: MergeContext) -> pa.RecordBatch:
        seen.append((older, newer, context))
        return newer.data

    options = {"hoodie.record.merge.property.weight": "7"}
    table = _table(tmp_path, Wrong, **{name.replace(".", "__"): value for name, value in options.items()})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Wrong, "answer", staticmethod(answer))
        _write(table, _row("a", 1), _row("b", 1), _row("c", 1))
        _write(table, _row("a", 2), _row("c", 3))
    [(older, newer, context)] = seen
    assert older.keys.to_pylist() == newer.keys.to_pylist() == ["a", "c"]
    assert [c.to_pylist() for c in newer.ordering] == [[2, 3]]
    assert older.deleted.to_pylist() == [False, False]
    assert context.ordering == ("ts",)
    assert context.properties == {"weight": "7"}


@pytest.mark.parametrize("merger", [KeepNonNull(), Totals(), ByRow()], ids=lambda m: type(m).__name__)
def test_ready_made_mergers_are_associative(merger: RecordMerger) -> None:
    # The order in which late values are appended depends on who is met first.
    names = [name for name in SCHEMA.names if name != "tags"]
    check_merger(merger, pa.schema([SCHEMA.field(name) for name in names]), ordering=["ts"], examples=60)


def test_late_versions_are_not_for_every_rule() -> None:
    schema = pa.schema({"ts": pa.int64(), "n": pa.int64()})

    class Counted(PerColumn):
        strategy_id = str(uuid.uuid4())
        rules: ClassVar = {"n": "sum"}

    check_merger(Counted(), schema, ordering=["ts"], late=True, examples=60)
    with pytest.raises(AssertionError, match="not associative"):
        check_merger(KeepNonNull(), schema, ordering=["ts"], late=True)


def test_groups_of_columns_are_associative() -> None:
    class Orders(ColumnGroups):
        strategy_id = str(uuid.uuid4())
        groups: ClassVar = {"ordered": ["item"], "paid": ["payment", "how"]}

    names = {"item": pa.string(), "payment": pa.string(), "how": pa.list_(pa.int64())}
    schema = pa.schema({"ordered": pa.int64(), "paid": pa.int64(), **names})
    check_merger(Orders(), schema, examples=60)


def test_what_is_not_associative_is_found() -> None:
    class Mean(RecordMerger):
        strategy_id = str(uuid.uuid4())

        def merge(self, older: Records, newer: Records, context: MergeContext) -> pa.RecordBatch:  # noqa: ARG002
            mean = pc.divide(pc.add(older.data["x"], newer.data["x"]), 2.0)
            return pa.record_batch([mean], schema=newer.data.schema)

    with pytest.raises(AssertionError, match="not associative"):
        check_merger(Mean(), pa.schema([pa.field("x", pa.float64(), nullable=False)]))


def test_append_in_all_its_forms() -> None:
    rules = [
        (["a"], ["b"], ["a", "b"]),
        (None, ["b"], ["b"]),
        (["a"], None, ["a"]),
        (None, None, None),
        ([], ["b"], ["b"]),
    ]
    older = pa.table({"id": range(5), "tags": pa.array([r[0] for r in rules], pa.list_(pa.string()))})
    newer = pa.table({"id": range(5), "tags": pa.array([r[1] for r in rules], pa.list_(pa.string()))})
    merged = hoodoo.merge(older, newer, key="id", merger=Totals()).read_all()
    assert merged["tags"].to_pylist() == [r[2] for r in rules]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_columns_that_a_partial_upsert_lacks_are_not_added_up(tmp_path: Path, table_type: str) -> None:
    table = _table(tmp_path / "t", Totals, table_type)
    _write(table, _row("a", 1, 10, ["x"], "one"), _row("b", 1, 1, ["y"], "two"))
    for ts, given in (
        (2, {"note": ["new"]}),
        (3, {"n": [5]}),
        (4, {"tags": pa.array([["z"]])}),
        (5, {"note": ["last"]}),
    ):
        table.upsert(pa.table({"id": ["a"], "ts": pa.array([ts], pa.int64()), **given}), partial=True)
    expected = {"id": "a", "ts": 5, "n": 15, "tags": ["x", "z"], "note": "last"}
    assert _rows(table)[0] == expected
    if table_type == "MERGE_ON_READ":
        table.compact()
        assert _rows(table)[0] == expected


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_statements_do_not_add_up_what_they_leave_as_it_is(tmp_path: Path, table_type: str) -> None:
    table = _table(tmp_path / "t", Totals, table_type)
    _write(table, _row("a", 1, 10, ["x"], "one"))
    before = _rows(table)
    source = pa.table({"id": ["a", "b"], "note": ["q", "r"]})
    with pytest.raises(hoodoo.UnsupportedError, match="record merger Totals"):
        table.update({"note": "'n'"}, where="id = 'a'")
    with pytest.raises(hoodoo.UnsupportedError, match="record merger Totals"):
        table.merge(source, ["id"]).when_matched_update({"note": "source.note"}).execute()
    assert _rows(table) == before
    done = table.merge(source, ["id"]).when_not_matched_insert({"id": "source.id", "ts": "1", "n": "3"}).execute()
    assert done.inserted == 1
    assert table.delete(where="n = 10").deleted == 1
    assert [(row["id"], row["n"]) for row in _rows(table)] == [("b", 3)]
    keeping = _table(tmp_path / "k", Other)
    _write(keeping, _row("a", 1, 10, ["x"], "one"))
    keeping.update({"note": "'n'"})
    assert _rows(keeping)[0]["note"] == "n"
