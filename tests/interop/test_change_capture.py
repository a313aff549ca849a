"""Change data capture by both sides: the same change data logs, and the same answers to a query of changes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from tests.change_logs import blocks, change_logs, records
from tests.interop.change_streams import Change, changes_of_hoodoo, changes_of_hudi, in_order
from tests.interop.hudi import Hudi
from tests.pairs import every_value, others_later
from tests.rows import Row

SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64(), "v": pa.string(), "part": pa.string()})
MODES = ["DATA_BEFORE_AFTER", "DATA_BEFORE", "OP_KEY_ONLY"]
TYPES = ["COPY_ON_WRITE", "MERGE_ON_READ"]


def _options(table_type: str, mode: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "cdc",
        "hoodie.table.type": table_type,
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": mode,
        "hoodie.metadata.enable": "true",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
    }


def _row(key: str, ts: int, part: str = "p0", value: str | None = "") -> Row:
    return {"id": key, "ts": ts, "v": f"{key}{ts}" if value == "" else value, "part": part}


# The history of the reference: what is done, and the changes that it is.
_STEPS: list[tuple[str, list[Row]]] = [
    ("upsert", [_row("a", 1), _row("b", 1), _row("c", 1, "p1")]),
    ("upsert", [_row("a", 2), _row("d", 2), _row("b", 0)]),
    ("delete", [_row("b", 3)]),
    ("insert_overwrite", [_row("c", 5, "p1")]),
    ("insert", [_row("e", 5)]),
    ("bulk_insert", [_row("f", 5, "p2")]),
    ("cluster", []),
    ("delete_partition", [_row("c", 5, "p1")]),
]
_EXPECTED: list[Change] = [
    ("i", None, _row("a", 1)),
    ("i", None, _row("b", 1)),
    ("i", None, _row("c", 1, "p1")),
    ("i", None, _row("d", 2)),
    ("u", _row("a", 1), _row("a", 2)),
    ("d", _row("b", 1), None),
    ("d", _row("c", 1, "p1"), None),
    ("i", None, _row("c", 5, "p1")),
    ("i", None, _row("e", 5)),
    ("i", None, _row("f", 5, "p2")),
    ("d", _row("c", 5, "p1"), None),
]


def _step(hudi: Hudi | None, uri: str, options: dict[str, str], operation: str, rows: list[Row]) -> None:
    """Does one step: by Hudi, or by hoodoo where there is none."""
    if operation == "cluster":
        if hudi is None:
            assert hoodoo.Table(uri, options=options).cluster() is not None
        else:
            hudi.call("run_clustering", uri, op="scheduleAndExecute")
        return
    data = pa.Table.from_pylist(rows, schema=SCHEMA)
    if hudi is None:
        hoodoo.write(data, uri, operation=operation, options=options)
    else:
        hudi.write(data, uri, operation, **options)


def _logged(uri: str) -> list[tuple[str, list[Row]]]:
    """The schema and the records of each change data log."""
    logs = [(log.name.split("_")[1], log) for log in change_logs(uri)]
    in_order = [log for _, log in sorted(logs)]
    return [(blocks(log)[0].schema, records(log)) for log in in_order]


@pytest.mark.parametrize(("mode", "table_type"), every_value(MODES, TYPES))
def test_the_same_history_by_both(hudi: Hudi, tmp_path: Path, table_type: str, mode: str) -> None:
    options = _options(table_type, mode)
    theirs, ours = str(tmp_path / "theirs"), str(tmp_path / "ours")
    for operation, rows in _STEPS:
        # Hudi's query fails behind an insert into a file with rows, for it logs none of that.
        given = {**options, "hoodie.parquet.small.file.limit": "0"} if operation == "insert" else options
        _step(hudi, theirs, given, operation, rows)
        _step(None, ours, given, operation, rows)
    logged = _logged(ours)
    assert logged == _logged(theirs)
    assert len(logged) >= (2 if table_type == "COPY_ON_WRITE" else 0)
    expected = in_order(_EXPECTED)
    assert changes_of_hudi(hudi, theirs) == expected
    assert changes_of_hudi(hudi, ours) == expected
    assert changes_of_hoodoo(theirs) == expected
    assert changes_of_hoodoo(ours) == expected
    for key in ("hoodie.table.cdc.enabled", "hoodie.table.cdc.supplemental.logging.mode"):
        assert hoodoo.Table(ours).options[key] == hoodoo.Table(theirs).options[key]
    assert not hoodoo.Table(ours).verify().problems
    assert not hoodoo.Table(theirs).verify().problems


def _are_all_the_same(hudi: Hudi, *uris: str) -> None:
    """Both sides give the same changes of all tables."""
    expected = changes_of_hoodoo(uris[0])
    for uri in uris:
        assert changes_of_hudi(hudi, uri) == expected
        assert changes_of_hoodoo(uri) == expected


@pytest.mark.parametrize("mode", others_later(MODES, "DATA_BEFORE"))
def test_merge_on_read_compactions_by_both(hudi: Hudi, tmp_path: Path, mode: str) -> None:
    options = _options("MERGE_ON_READ", mode)
    theirs, ours = str(tmp_path / "theirs"), str(tmp_path / "ours")
    steps = [
        ("bulk_insert", [_row("a", 1), _row("b", 1), _row("g", 1)]),
        ("upsert", [_row("a", 2)]),
        ("delete", [_row("b", 2)]),
        ("upsert", [_row("a", 3, value=None), _row("g", 0)]),
    ]
    for operation, rows in steps:
        _step(hudi, theirs, options, operation, rows)
        _step(None, ours, options, operation, rows)
    _are_all_the_same(hudi, theirs, ours)
    at_once = "hoodie.compact.inline.max.delta.commits=1"
    hudi.call("run_compaction", theirs, op="scheduleAndExecute", options=at_once)
    assert hoodoo.Table(ours, options=options).compact() is not None
    assert _logged(ours) == _logged(theirs)
    assert len(_logged(ours)) == 1
    # No change is there twice.
    _are_all_the_same(hudi, theirs, ours)
    for uri in (theirs, ours):
        _step(hudi, uri, options, "upsert", [_row("a", 4)])
    _are_all_the_same(hudi, theirs, ours)


@pytest.mark.parametrize("table_type", TYPES)
def test_what_leaves_few_rows(hudi: Hudi, tmp_path: Path, table_type: str) -> None:
    """Lost updates alone, the same row again, all rows of a file deleted, new rows in a small file."""
    options = _options(table_type, "DATA_BEFORE_AFTER")
    rows = [_row("a", 1), _row("b", 1)]
    cases: dict[str, list[tuple[str, list[Row]]]] = {
        "lost": [("upsert", rows), ("upsert", [_row("a", 0)])],
        "same": [("upsert", rows), ("upsert", [_row("a", 1)])],
        "emptied": [("upsert", rows), ("delete", rows)],
        "small": [("insert", rows), ("insert", [_row("c", 1)])],
    }
    for name, steps in cases.items():
        uri = str(tmp_path / name)
        for operation, given in steps:
            _step(None, uri, options, operation, given)
        assert changes_of_hudi(hudi, uri) == changes_of_hoodoo(uri), name


@pytest.mark.parametrize(("mode", "table_type"), every_value(["DATA_BEFORE_AFTER", "OP_KEY_ONLY"], TYPES))
def test_engines_take_turns(hudi: Hudi, tmp_path: Path, table_type: str, mode: str) -> None:
    options = _options(table_type, mode)
    uri = str(tmp_path / "t")
    _step(hudi, uri, options, "insert", [_row(f"k{n}", 1, f"p{n % 2}") for n in range(6)])
    for turn in range(2, 8):
        by = hudi if turn % 2 else None
        _step(by, uri, options, "upsert", [_row(f"k{n}", turn, f"p{n % 2}") for n in (turn % 5, turn % 3)])
        _step(by, uri, options, "delete", [_row(f"k{turn - 2}", turn, f"p{turn % 2}")])
        assert changes_of_hudi(hudi, uri) == changes_of_hoodoo(uri), turn
    assert not hoodoo.Table(uri).verify().problems


@pytest.mark.parametrize(
    ("table_type", "service"),
    [("COPY_ON_WRITE", "clustering"), ("MERGE_ON_READ", "clustering"), ("MERGE_ON_READ", "compaction")],
)
def test_hudis_plans_name_the_logs_of_changes(hudi: Hudi, tmp_path: Path, table_type: str, service: str) -> None:
    """They are no files of the slices that a plan rewrites."""
    path = tmp_path / "t"
    quiet = {"hoodie.clean.automatic": "false", "hoodie.compact.inline": "false"}
    options = _options(table_type, "DATA_BEFORE") | quiet
    hudi.write([_row(key, 1) for key in "abc"], path, "insert", schema=SCHEMA, **options)
    hudi.write([_row("a", 2)], path, "upsert", schema=SCHEMA, **options)
    if table_type == "MERGE_ON_READ":
        hoodoo.Table(path, quiet).compact()
    hudi.write([_row("b", 3)], path, "upsert", schema=SCHEMA, **options)
    before = hudi.read(path)
    given = "hoodie.compact.inline.max.delta.commits=1"
    hudi.call(f"run_{service}", path, op="schedule", options=given)
    table = hoodoo.Table(path, quiet)
    (pending,) = [one for one in table.timeline.instants() if one.completed is None]
    assert ".cdc" in json.dumps(table.timeline.plan(pending.requested), default=str)
    done = table.cluster() if service == "clustering" else table.compact()
    assert isinstance(done, hoodoo.Commit)
    assert done.instant == pending.requested
    assert hudi.read(path) == before
    assert table.verify().problems == ()
    hudi.write([_row("c", 4)], path, "upsert", schema=SCHEMA, **options)
    assert [row["v"] for row in hudi.read(path)] == ["a2", "b3", "c4"]
