"""Change data capture: what change data logs hold, and what a query of changes gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from tests.change_logs import blocks, change_logs, records

MODES = ["DATA_BEFORE_AFTER", "DATA_BEFORE", "OP_KEY_ONLY"]
TYPES = ["COPY_ON_WRITE", "MERGE_ON_READ"]
SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64(), "v": pa.string(), "part": pa.string()})
Change = tuple[str, Any, Any]


def row(key: str, ts: int, value: str | None = "", part: str = "p0") -> dict[str, Any]:
    """Makes a row; its value is that of key and time unless one is given."""
    return {"id": key, "ts": ts, "v": f"{key}{ts}" if value == "" else value, "part": part}


def marked(given: dict[str, Any], *, deleted: bool = False) -> dict[str, Any]:
    """Says of a row whether it is deleted."""
    return {**given, "_hoodie_is_deleted": deleted}


def table_of(path: Path, table_type: str = "COPY_ON_WRITE", mode: str | None = None, **more: Any) -> hoodoo.Table:
    """Creates a table that captures changes, unless `more` says otherwise."""
    capture: dict[str, Any] = {"hoodie.table.cdc.enabled": True}
    capture |= {} if mode is None else {"hoodie.table.cdc.supplemental.logging.mode": mode}
    options = {**capture, "hoodie.parquet.small.file.limit": 104857600, **more.pop("options", {})}
    given = {"record_key": "id", "partition_by": "part", "ordering": "ts", "name": "t", **more}
    return hoodoo.Table.create(
        str(path / "t"), given.pop("schema", SCHEMA), table_type=table_type, options=options, **given
    )


def changes(
    table: hoodoo.Table, since: str = "0", until: str | None = None, columns: list[str] | None = None
) -> list[Change]:
    """The changes of a range, in an order that does not depend on file names."""
    found = table.changes(since, until, columns=columns, mode="cdc").read_all().to_pylist()
    return sorted(((c["op"], c["before"], c["after"]) for c in found), key=repr)


def of(commit: hoodoo.Commit, table: hoodoo.Table) -> list[Change]:
    """The changes of one commit."""
    before = str(int(commit.completed) - 1)
    found = table.changes(before, commit.completed, mode="cdc").read_all()
    assert set(found["ts_ms"].to_pylist()) <= {commit.instant}
    return changes(table, before, commit.completed)


@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("mode", MODES)
def test_each_operation(tmp_path: Path, table_type: str, mode: str):
    table = table_of(tmp_path, table_type, mode)
    assert table.options["hoodie.table.cdc.supplemental.logging.mode"] == mode
    a, b, c = row("a", 1), row("b", 1), row("c", 1, part="p1")
    first = table.upsert([a, b, c])
    assert of(first, table) == [("i", None, a), ("i", None, b), ("i", None, c)]
    second = table.upsert([row("a", 2), row("d", 2), row("b", 0)])
    assert of(second, table) == [("i", None, row("d", 2)), ("u", a, row("a", 2))]
    third = table.delete({"id": ["b", "nobody"], "part": ["p0", "p0"]})
    assert of(third, table) == [("d", b, None)]
    overwritten = table.insert_overwrite([row("c", 5, part="p1")])
    assert of(overwritten, table) == [("d", c, None), ("i", None, row("c", 5, part="p1"))]
    assert of(table.insert([row("e", 5)]), table) == [("i", None, row("e", 5))]
    assert of(table.bulk_insert([row("f", 5, part="p2")]), table) == [("i", None, row("f", 5, part="p2"))]
    if table_type == "MERGE_ON_READ":
        table.compact()
    clustered = table.cluster()
    assert clustered is not None
    assert of(clustered, table) == []
    dropped = table.delete_partitions(["p1"])
    assert of(dropped, table) == [("d", row("c", 5, part="p1"), None)]
    everything = changes(table)
    assert len(everything) == 11
    assert changes(table, until=first.completed) == of(first, table)
    assert not table.verify().problems


@pytest.mark.parametrize("mode", MODES)
def test_what_a_copy_on_write_table_logs(tmp_path: Path, mode: str):
    table = table_of(tmp_path, mode=mode)
    table.insert([row("a", 1), row("b", 1)])
    assert change_logs(table.uri) == [], "a new file needs none"
    commit = table.upsert([row("a", 2), row("c", 1)])
    (log,) = change_logs(table.uri)
    (stat,) = table.timeline.metadata(commit.instant)["partitionToWriteStats"]["p0"]
    assert stat["cdcStats"] == {f"p0/{log.name}": log.stat().st_size}
    assert log.name == f".{stat['fileId']}_{commit.instant}.log.1_{stat['path'].split('_')[1]}.cdc"
    (block,) = blocks(log)
    assert block.instant == commit.instant
    assert set(block.header) == {0, 2}
    expected = {
        "DATA_BEFORE_AFTER": [
            {"op": "i", "ts_ms": None, "before": None, "after": row("c", 1)},
            {"op": "u", "ts_ms": None, "before": row("a", 1), "after": row("a", 2)},
        ],
        "DATA_BEFORE": [
            {"op": "i", "record_key": "c", "before": None, "ts_ms": None},
            {"op": "u", "record_key": "a", "before": row("a", 1), "ts_ms": None},
        ],
        "OP_KEY_ONLY": [
            {"op": "i", "record_key": "c", "ts_ms": None},
            {"op": "u", "record_key": "a", "ts_ms": None},
        ],
    }[mode]
    assert records(log) == expected
    assert table.metadata_table is not None
    listed = table.metadata_table.to_arrow("files").to_pylist()
    assert {"partition": "p0", "file_name": log.name, "size": log.stat().st_size} in listed


@pytest.mark.parametrize("options", [{}, {"hoodoo.memory.budget": 1}], ids=["spliced", "streamed"])
def test_a_merge_on_read_table_logs_when_it_compacts(tmp_path: Path, options: dict[str, Any]):
    table = table_of(tmp_path, "MERGE_ON_READ", options=options)
    table.bulk_insert([row("a", 1), row("b", 1), row("c", 1)])
    table.upsert([row("a", 2)])
    third = table.delete({"id": ["b"], "part": ["p0"]})
    assert change_logs(table.uri) == []
    (stat,) = table.timeline.metadata(third.instant)["partitionToWriteStats"]["p0"]
    (slice_,) = table.file_slices()
    assert stat["baseFile"] == Path(str(slice_.base_file)).name
    assert stat["logFiles"] == [Path(log).name for log in slice_.log_files]
    assert len(stat["logFiles"]) == 2
    compacted = table.compact()
    (log,) = change_logs(table.uri)
    assert [(r["op"], r["before"], r["after"]) for r in records(log)] == [
        ("d", row("b", 1), None),
        ("u", row("a", 1), row("a", 2)),
    ]
    assert compacted is not None
    assert of(compacted, table) == []
    assert changes(table) == [
        ("d", row("b", 1), None),
        ("i", None, row("a", 1)),
        ("i", None, row("b", 1)),
        ("i", None, row("c", 1)),
        ("u", row("a", 1), row("a", 2)),
    ]


@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("capture", [True, False])
def test_changes_replayed_are_the_table(tmp_path: Path, table_type: str, capture: bool):
    """Whatever is done to a table, its changes one after the other give what a snapshot shows after each commit."""
    options = {"hoodie.table.cdc.enabled": capture, "hoodie.clean.automatic": False}
    table = table_of(tmp_path, table_type, options=options)
    steps = [
        table.insert([row(f"k{n}", 5, part=f"p{n % 2}") for n in range(12)]),
        table.upsert([row("k0", 7), row("k1", 3, part="p1"), row("k2", 5, None), row("new", 1)]),
        table.upsert({"id": ["k4"], "ts": [9], "part": ["p0"], "v": ["partly"]}, partial=True),
        table.delete({"id": ["k0", "k3"], "part": ["p0", "p1"]}),
        table.upsert([row("k0", 2), row("k3", 1, part="p1")]),
        table.upsert([marked(row("k6", 8), deleted=True), marked(row("k8", 1), deleted=True)]),
    ]
    if table_type == "MERGE_ON_READ":
        table.compact()
    steps += [
        table.upsert([marked(row("k6", 1)), marked(row("k10", 11))]),
        table.insert_overwrite([marked(row("only", 1, part="p1"))]),
        table.upsert([marked(row("only", 2, part="p1"))]),
    ]
    state: dict[str, Any] = {}
    since = "0"
    for step in steps:
        for op, before, after in changes(table, since, step.completed):
            old = state.pop((before or after)["id"], None)
            assert old == before, (step.operation, op)
            if after is not None:
                state[after["id"]] = after
        since = step.completed
        names = [field.name for field in table.schema]
        snapshot = table.to_arrow(as_of=step.instant).to_pylist()
        assert state == {r["id"]: {name: r.get(name) for name in names} for r in snapshot}


def test_composite_keys_nulls_and_types(tmp_path: Path):
    schema = pa.schema(
        [
            pa.field("a", pa.int64()),
            pa.field("b", pa.string()),
            pa.field("n", pa.decimal128(10, 2)),
            pa.field("at", pa.timestamp("us", tz="UTC")),
            pa.field("list", pa.list_(pa.int64())),
            pa.field("inner", pa.struct({"x": pa.int32(), "y": pa.string()})),
            pa.field("map", pa.map_(pa.string(), pa.int64())),
        ]
    )
    given = {"record_key": "a,b", "partition_by": None, "ordering": None, "schema": schema}
    for mode in MODES:
        table = table_of(tmp_path / mode, mode=mode, **given)
        old = {
            "a": 1,
            "b": "x",
            "n": None,
            "at": None,
            "list": [1, None],
            "inner": {"x": 1, "y": None},
            "map": [("k", 1)],
        }
        new = {**old, "n": 1, "list": None, "inner": None, "map": [("k", None)]}
        table.insert(pa.Table.from_pylist([old], schema=schema))
        commit = table.upsert(pa.Table.from_pylist([new, {**old, "b": "y"}], schema=schema))
        (change_of_y, change_of_x) = of(commit, table)
        assert change_of_x[0] == "u"
        assert change_of_y[0] == "i"
        expected = pa.Table.from_pylist([old, new, {**old, "b": "y"}], schema=schema).to_pylist()
        assert [change_of_x[1], change_of_x[2], change_of_y[2]] == expected
        read = table.changes("0", mode="cdc")
        assert read.schema.field("after").type == pa.struct([field.with_nullable(True) for field in table.schema])


def test_generated_keys_and_virtual_keys(tmp_path: Path):
    table = table_of(tmp_path / "auto", record_key=None, ordering=None, partition_by=None)
    inserted = table.insert([row("a", 1), row("a", 1)])
    assert of(inserted, table) == [("i", None, row("a", 1))] * 2
    for mode in MODES:
        virtual = {"hoodie.populate.meta.fields": False, "hoodie.index.type": "SIMPLE"}
        table = table_of(tmp_path / mode, mode=mode, options=virtual)
        table.insert([row("a", 1), row("b", 1), row("c", 1)])
        commit = table.upsert([row("a", 2)])
        assert of(commit, table) == [("u", row("a", 1), row("a", 2))]
        assert of(table.delete({"id": ["b"], "part": ["p0"]}), table) == [("d", row("b", 1), None)]


def test_columns_that_came_later(tmp_path: Path):
    for mode in MODES:
        table = table_of(tmp_path / mode, mode=mode)
        table.insert([row("a", 1), row("b", 1)])
        commit = table.upsert([row("a", 2)])
        table.upsert([{**row("b", 2), "extra": 1}])
        later = table.upsert([{**row("a", 3), "extra": 2}])
        assert of(commit, table) == [("u", {**row("a", 1), "extra": None}, {**row("a", 2), "extra": None})]
        assert of(later, table) == [("u", {**row("a", 2), "extra": None}, {**row("a", 3), "extra": 2})]
        found = changes(table, columns=["extra", "id"])
        assert ("u", {"extra": None, "id": "a"}, {"extra": 2, "id": "a"}) in found


def test_a_table_that_captures_nothing_tells_its_changes_by_its_files(tmp_path: Path):
    table = table_of(tmp_path, options={"hoodie.table.cdc.enabled": False})
    table.insert([row(f"k{n}", 1) for n in range(200)])
    commit = table.upsert([row("k7", 2), row("k8", 0), row("new", 1)])
    assert change_logs(table.uri) == []
    assert of(commit, table) == [("i", None, row("new", 1)), ("u", row("k7", 1), row("k7", 2))]
    emptied = table.delete({"id": [f"k{n}" for n in range(200)], "part": ["p0"] * 200})
    assert len(of(emptied, table)) == 200
    # Copies of a key, which an insert makes.
    table.insert([row("twice", 1), row("twice", 1)])
    assert of(table.upsert([row("twice", 4)]), table) == [("u", row("twice", 1), row("twice", 4))]


def test_changes_whose_files_were_cleaned_are_refused(tmp_path: Path):
    for table_type in TYPES:
        table = table_of(tmp_path / table_type, table_type, "OP_KEY_ONLY", options={"hoodie.clean.commits.retained": 1})
        first = table.insert([row("a", 1), row("b", 1)])
        for ts in range(2, 6):
            last = table.upsert([row("a", ts)])
            if table_type == "MERGE_ON_READ":
                table.compact()
        kept = {path.name.split("_")[1].split(".")[0] for path in change_logs(table.uri)}
        bases = {path.name.split("_")[2].split(".")[0] for path in (Path(table.uri) / "p0").glob("*.parquet")}
        assert kept <= bases, "change data logs go with the files that they are about"
        assert len(bases) < 5
        with pytest.raises(hoodoo.InvalidOptionError, match="cleaned"):
            table.changes("0", mode="cdc")
        with pytest.raises(hoodoo.InvalidOptionError, match=first.instant):
            table.changes("0", first.completed, mode="cdc")
        assert of(last, table) == [("u", row("a", 4), row("a", 5))]
        assert not table.verify().problems


def test_a_missing_or_damaged_log_is_an_error(tmp_path: Path):
    table = table_of(tmp_path)
    first = table.insert([row("a", 1)])
    table.upsert([row("a", 2)])
    (log,) = change_logs(table.uri)
    content = log.read_bytes()
    log.write_bytes(content[:-20] + bytes([content[-20] ^ 255]) + content[-19:])
    with pytest.raises(pa.ArrowException, match=r"checksum|not of the block|cut off"):
        table.changes(first.completed, mode="cdc").read_all()
    log.unlink()
    with pytest.raises(pa.ArrowException, match="a file of the table is missing"):
        table.changes(first.completed, mode="cdc").read_all()
    listing = hoodoo.Table(table.uri, options={"hoodie.metadata.enable": False})
    with pytest.raises(hoodoo.InvalidOptionError, match="cleaned"):
        listing.changes(first.completed, mode="cdc")


def test_what_is_asked_for_and_makes_no_sense(tmp_path: Path):
    table = table_of(tmp_path)
    table.insert([row("a", 1)])
    with pytest.raises(hoodoo.InvalidOptionError, match="newest"):
        table.changes("0", mode="newest")
    with pytest.raises(hoodoo.InvalidOptionError, match="filters"):
        table.changes("0", mode="cdc", filters=[("id", "=", "a")])
    with pytest.raises(hoodoo.SchemaError, match="nothing"):
        table.changes("0", mode="cdc", columns=["nothing"])
    with pytest.raises(hoodoo.InvalidOptionError, match="OP_KEY"):
        table_of(tmp_path / "x", mode="OP_KEY")
    drops = {"hoodie.datasource.write.drop.partition.columns": True}
    with pytest.raises(hoodoo.UnsupportedError, match=r"drop\.partition"):
        table_of(tmp_path / "y", options=drops)
    for options in ({"hoodie.table.cdc.enabled": False}, {"hoodie.table.cdc.supplemental.logging.mode": "OP_KEY_ONLY"}):
        with pytest.raises(hoodoo.InvalidOptionError, match="cdc"):
            hoodoo.Table(table.uri, options=options).upsert([row("a", 2)])


def test_the_format_as_an_option(tmp_path: Path):
    table = table_of(tmp_path)
    first = table.insert([row("a", 1)])
    table.upsert([row("a", 2)])
    options = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.query.incremental.format": "cdc",
        "hoodie.datasource.read.begin.instanttime": first.completed,
    }
    asked = hoodoo.Table(table.uri, options=options)
    assert asked.to_arrow().column_names == ["op", "ts_ms", "before", "after"]
    assert asked.scan().read_all().num_rows == asked.changes(first.completed).read_all().num_rows == 1
    assert asked.changes(first.completed, mode="latest_state", columns=["id"]).read_all().to_pylist() == [{"id": "a"}]
    assert asked.to_arrow(query="snapshot").num_rows == 1


def test_a_failed_write_leaves_no_log(tmp_path: Path):
    """What a write that died left is rolled back by the next one, change data logs too."""
    table = table_of(tmp_path)
    table.insert([row("a", 1)])
    commit = table.upsert([row("a", 2)])
    (log,) = change_logs(table.uri)
    timeline = Path(table.uri) / ".hoodie/timeline"
    (completed,) = timeline.glob(f"{commit.instant}_*.commit")
    completed.unlink()
    hoodoo.Table(table.uri).upsert([row("b", 1)])
    assert log not in change_logs(table.uri)
