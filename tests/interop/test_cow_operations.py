"""Each operation, by hoodoo and by Hudi: the same rows and the same figures in the commit metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from tests.interop.hudi import Hudi
from tests.interop.layouts import LAYOUTS, SIMPLE, Layout, batch, row
from tests.rows import Row, arrow_rows

_FIRST = [row(n, 10, "first") for n in range(9)]
_HISTORIES: dict[str, list[tuple[str, list[Row]]]] = {
    "insert": [("insert", [row(20, 1, "more"), row(21, 1, "more")])],
    "insert_duplicates": [("insert", [row(1, 1, "twice"), row(1, 2, "twice")])],
    "bulk_insert": [("bulk_insert", [row(1, 99, "again"), row(22, 1, "more")])],
    "upsert": [("upsert", [row(0, 11, "newer"), row(1, 9, "older"), row(2, 10, "tie"), row(30, 1, "new")])],
    "upsert_batch": [("upsert", [row(0, 12, "b1"), row(0, 11, "b2"), row(1, 11, "c1"), row(1, 11, "c2")])],
    "delete": [("delete", [row(0, 0, ""), row(3, 99, ""), row(77, 1, "unknown")])],
    "delete_a_whole_group": [("delete", [row(n, 0, "") for n in (0, 3, 6)]), ("upsert", [row(0, 1, "back")])],
    "delete_nothing": [("delete", [row(77, 1, "unknown")])],
    "insert_overwrite": [("insert_overwrite", [row(0, 1, "over"), row(33, 1, "over")])],
    "insert_overwrite_table": [("insert_overwrite_table", [row(1, 1, "all that is left")])],
    "overwrite_then_upsert": [("insert_overwrite", [row(0, 1, "over")]), ("upsert", [row(0, 2, "up"), row(3, 2, "n")])],
    "partitions_of_rows": [("delete_partition", [row(61, 0, ""), row(64, 0, "")]), ("insert", _FIRST[:2])],
    "empty_upsert": [("upsert", [])],
    "empty_insert_overwrite": [("insert_overwrite", [])],
    "empty_insert_overwrite_table": [("insert_overwrite_table", [])],
}
_FIGURES = ("numWrites", "numInserts", "numUpdateWrites", "numDeletes")


def _figures(table: hoodoo.Table) -> list[tuple[Any, ...]]:
    """Sums the figures of each commit; ignores ids, sizes and times."""
    found: list[tuple[Any, ...]] = []
    for instant in table.timeline.instants(state="completed"):
        commit = table.timeline.metadata(instant.requested)
        stats = [s for per in commit["partitionToWriteStats"].values() for s in per]
        sums = tuple(sum(s[name] or 0 for s in stats) for name in _FIGURES)
        new = sum(s["prevCommit"] == "null" for s in stats)
        replaced = {p: len(ids) for p, ids in (commit.get("partitionToReplaceFileIds") or {}).items()}
        found.append((instant.action, commit["operationType"], len(stats), new, sums, replaced))
    return found


def _schema_of(table: hoodoo.Table) -> str:
    last = table.timeline.instants(state="completed")[-1]
    return str(table.timeline.metadata(last.requested)["extraMetadata"]["schema"])


# Version 8 differs from 9 in hoodie.properties only: two operations are enough, and four where time is no matter.
_OPERATIONS = [
    *(pytest.param(name, 9, id=f"{name}-9") for name in sorted(_HISTORIES)),
    *(pytest.param(name, 8, id=f"{name}-8") for name in ("upsert", "insert_overwrite")),
    *(pytest.param(name, 8, id=f"{name}-8", marks=pytest.mark.slow) for name in ("insert", "delete")),
]


@pytest.mark.parametrize(("name", "version"), _OPERATIONS)
def test_operation_equals_hudis(hudi: Hudi, tmp_path: Path, name: str, version: int) -> None:
    options = SIMPLE.options(version)
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    for operation, rows in [("insert", _FIRST), *_HISTORIES[name]]:
        hoodoo.write(batch(rows), ours, operation=operation, options=options)
        hudi.write(batch(rows), theirs, operation, **options)
    rows = hudi.read(theirs)
    assert hudi.read(ours) == rows
    mine, other = hoodoo.Table(ours, options=options), hoodoo.Table(theirs, options=options)
    assert arrow_rows(mine.to_arrow()) == rows
    assert arrow_rows(other.to_arrow()) == rows
    assert _figures(mine) == _figures(other)
    assert _schema_of(mine) == _schema_of(other)


@pytest.mark.parametrize(
    ("layout", "version"),
    [
        pytest.param(layout, version, id=f"{layout.name}-{version}", marks=pytest.mark.slow if later else ())
        for layout in LAYOUTS
        for version in (9, 8)
        # How keys are encoded is what the versions differ in.
        for later in [version == 8 and layout.name not in ("simple", "complex_one_key")]
    ],
)
def test_table_settings_equal_hudis(hudi: Hudi, tmp_path: Path, layout: Layout, version: int) -> None:
    """The `hoodie.properties` of a table we create are those of Hudi, and so are keys and partition paths."""
    options = layout.options(version)
    hoodoo.write(batch(_FIRST), str(tmp_path / "ours"), operation="insert", options=options)
    hudi.write(batch(_FIRST), tmp_path / "theirs", "insert", **options)
    settings: dict[str, dict[str, str]] = {}
    for side in ("ours", "theirs"):
        lines = (tmp_path / side / ".hoodie/hoodie.properties").read_text().splitlines()
        settings[side] = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    # The zone is our choice: LOCAL on one machine means UTC on another.
    for found in settings.values():
        found.pop("hoodie.table.timeline.timezone", None)
    assert settings["ours"] == settings["theirs"]
    names = ("_hoodie_record_key", "_hoodie_partition_path", "id")
    keys = [
        sorted(tuple(r[n] for n in names) for r in hudi.read(tmp_path / side, meta=True)) for side in ("ours", "theirs")
    ]
    assert keys[0] == keys[1]


def test_deleted_partitions(hudi: Hudi, tmp_path: Path) -> None:
    options = LAYOUTS[1].options()
    uri = str(tmp_path / "table")
    hoodoo.write(batch(_FIRST), uri, operation="insert", options=options)
    hoodoo.Table(uri, options=options).delete_partitions(["part=p 1"])
    kept = [r for r in _FIRST if r["part"] != "p 1"]
    assert [r["id"] for r in hudi.read(uri)] == [r["id"] for r in kept]
    hudi.write(batch([row(1, 1, "back")]), uri, "upsert", **options)
    ours = arrow_rows(hoodoo.Table(uri, options=options).to_arrow())
    assert sorted(r["id"] for r in ours) == sorted(["key-001", *(r["id"] for r in kept)])
    assert ours == hudi.read(uri)


def test_meta_columns_equal_hudis(hudi: Hudi, tmp_path: Path) -> None:
    """Commit times, sequence numbers and file names of kept, changed and new rows follow Hudi's rule."""
    options = LAYOUTS[6].options()
    shapes = {}
    for side in ("ours", "theirs"):
        uri = str(tmp_path / side)
        for operation, rows in (
            ("insert", [row(n, 10, "first") for n in range(4)]),
            ("upsert", [row(3, 11, "newer"), row(1, 11, "newer"), row(2, 9, "older"), row(9, 1, "new")]),
        ):
            if side == "ours":
                hoodoo.write(batch(rows), uri, operation=operation, options=options)
            else:
                hudi.write(batch(rows), uri, operation, **options)
        instants = [i.requested for i in hoodoo.Table(uri, options=options).timeline.instants()]
        shape = []
        for r in hudi.read(uri, meta=True):
            assert r["_hoodie_commit_seqno"].startswith(r["_hoodie_commit_time"] + "_")
            assert r["_hoodie_file_name"].endswith(f"_{instants[1]}.parquet")
            position = r["_hoodie_commit_seqno"].rsplit("_", 1)[1]
            shape.append((r["id"], instants.index(r["_hoodie_commit_time"]), position))
        shapes[side] = sorted(shape)
    assert [s[:2] for s in shapes["ours"]] == [s[:2] for s in shapes["theirs"]]
    assert len({(s[1], s[2]) for s in shapes["ours"]}) == 5, "sequence numbers must differ within a commit"


@pytest.mark.parametrize(
    ("operation", "deleted"),
    [
        ("upsert", True),
        ("upsert", False),
        ("upsert", None),
        ("insert", True),
        ("bulk_insert", True),
        ("insert_overwrite", True),
    ],
)
def test_rows_marked_as_deleted(hudi: Hudi, tmp_path: Path, operation: str, deleted: bool | None) -> None:
    """`_hoodie_is_deleted` deletes in an upsert, by ordering value; only true counts.

    An insert drops marked rows; a bulk_insert stores them, and they can be seen.
    """

    def marked(rows: list[Row], flag: bool | None) -> pa.Table:
        return batch(rows).append_column("_hoodie_is_deleted", pa.array([flag] * len(rows), pa.bool_()))

    options = SIMPLE.options()
    read = {}
    for side in ("ours", "theirs"):
        uri = str(tmp_path / side)
        for verb, table in (
            ("insert", marked(_FIRST, None)),
            (operation, marked([row(0, 11, "n"), row(1, 9, "o"), row(2, 10, "t"), row(40, 1, "u")], deleted)),
        ):
            if side == "ours":
                hoodoo.write(table, uri, operation=verb, options=options)
            else:
                hudi.write(table, uri, verb, **options)
        read[side] = hudi.read(uri)
        assert arrow_rows(hoodoo.Table(uri, options=options).to_arrow()) == read[side]
    assert read["ours"] == read["theirs"]
