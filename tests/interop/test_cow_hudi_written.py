"""A zoo of tables that Hudi wrote: hoodoo reads from each what Hudi reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from tests.interop.hudi import Hudi
from tests.interop.layouts import LAYOUTS, SIMPLE, Layout, batch, row
from tests.rows import Row, arrow_rows

_ARCHIVING = {
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
    "hoodie.timeline.compaction.batch.size": "3",
}


def _updates(hudi: Hudi, uri: str, commits: int, **options: str) -> None:
    for commit in range(commits):
        rows = [row(n, commit, f"commit {commit}") for n in range(commit % 3, 9)]
        hudi.write(batch(rows), uri, "upsert", **options)


def _clustered(hudi: Hudi, uri: str) -> None:
    for start in (0, 10):
        rows = [row(n, 1, "x") for n in range(start, start + 10)]
        hudi.write(batch(rows), uri, "insert", **SIMPLE.options(), **{"hoodie.parquet.small.file.limit": "0"})
    hudi.call("run_clustering", uri, order="ts", options="hoodie.metadata.enable=false")


def _evolved(hudi: Hudi, uri: str) -> None:
    """A column added, one widened, and old files that know neither."""
    _updates(hudi, uri, 1, **SIMPLE.options())
    wider = batch([row(1, 5, "wide")])
    site = pa.array([2**40], pa.int64())
    wider = wider.set_column(wider.schema.get_field_index("site"), "site", site)
    wider = wider.append_column("extra", pa.array([["a", "b"]]))
    hudi.write(wider, uri, "upsert", **SIMPLE.options())


def _overwritten(hudi: Hudi, uri: str) -> None:
    _updates(hudi, uri, 2, **SIMPLE.options())
    hudi.write(batch([row(1, 0, "over")]), uri, "insert_overwrite", **SIMPLE.options())
    gone = {"hoodie.datasource.write.partitions.to.delete": "p 2"}
    hudi.write(batch([row(2, 0, "")]), uri, "delete_partition", **SIMPLE.options(), **gone)
    hudi.write(batch([row(4, 9, "after")]), uri, "upsert", **SIMPLE.options())


def _emptied(hudi: Hudi, uri: str) -> None:
    rows = [row(n, 1, "x") for n in range(3)]
    hudi.write(batch(rows), uri, "insert", **SIMPLE.options())
    hudi.write(batch(rows), uri, "delete", **SIMPLE.options())


def _without_meta_fields(hudi: Hudi, uri: str) -> None:
    hudi.write(
        batch([row(n, 1, "x") for n in range(6)]),
        uri,
        "bulk_insert",
        **SIMPLE.options(),
        **{"hoodie.populate.meta.fields": "false"},
    )


def _with_metadata_table(hudi: Hudi, uri: str) -> None:
    _updates(hudi, uri, 2, **{**SIMPLE.options(), "hoodie.metadata.enable": "true"})


def _slashes(hudi: Hudi, uri: str) -> None:
    rows = [{**row(n, 1, "x"), "part": f"2024-01-0{1 + n % 3}"} for n in range(6)]
    extra = {"hoodie.datasource.write.slash.separated.date.partitioning": "true"}
    hudi.write(batch(rows), uri, "insert", **SIMPLE.options(), **extra)


def _in_layout(layout: Layout) -> Callable[[Hudi, str], None]:
    return lambda hudi, uri: _updates(hudi, uri, 2, **layout.options())


ZOO: dict[str, Callable[[Hudi, str], None]] = {
    **{f"layout_{x.name}": _in_layout(x) for x in LAYOUTS},
    "version_8": lambda h, u: _updates(h, u, 3, **SIMPLE.options(8)),
    "version_6": lambda h, u: _updates(h, u, 3, **SIMPLE.options(6)),
    "archived": lambda h, u: _updates(h, u, 14, **SIMPLE.options(), **_ARCHIVING),
    "archived_version_6": lambda h, u: _updates(h, u, 12, **SIMPLE.options(6), **_ARCHIVING),
    "clustered": _clustered,
    "evolved": _evolved,
    "overwritten": _overwritten,
    "emptied": _emptied,
    "never_filled": lambda h, u: h.write(batch([]), u, "insert", **SIMPLE.options()),
    "without_meta_fields": _without_meta_fields,
    "with_metadata_table": _with_metadata_table,
    "slash_separated_dates": _slashes,
    "auto_keys": lambda h, u: _updates(h, u, 1, **Layout("auto", keys=()).options()),
}


@pytest.mark.parametrize("name", sorted(ZOO))
def test_snapshot(hudi: Hudi, tmp_path: Path, name: str) -> None:
    uri = str(tmp_path / "table")
    ZOO[name](hudi, uri)
    table = hoodoo.Table(uri)
    expected = hudi.read(uri)
    if name == "slash_separated_dates":
        # Hudi takes the column from the path, 2024/01/01; we read what was written.
        expected = [{**r, "part": r["part"].replace("/", "-")} for r in expected]
    assert arrow_rows(table.to_arrow()) == expected
    some = table.to_arrow(columns=["id", "val"]).to_pylist()
    assert sorted(some, key=lambda r: (r["id"], r["val"])) == [
        {"id": r["id"], "val": r["val"]} for r in sorted(expected, key=lambda r: (r["id"], r["val"]))
    ]
    assert not table.verify().problems


@pytest.mark.parametrize(
    "version", [9, pytest.param(8, marks=pytest.mark.slow), pytest.param(6, marks=pytest.mark.slow)]
)
def test_time_travel_and_changes(hudi: Hudi, tmp_path: Path, version: int) -> None:
    """Over updates, a delete and an overwrite, at every instant and for every pair of instants."""
    uri = str(tmp_path / "table")
    options = SIMPLE.options(version)
    for operation, rows in (
        ("insert", [row(n, 1, "first") for n in range(6)]),
        ("upsert", [row(0, 2, "second"), row(7, 2, "second")]),
        ("delete", [row(1, 0, "")]),
        ("insert_overwrite", [row(0, 3, "third"), row(9, 3, "third")]),
        ("upsert", [row(9, 4, "fourth"), row(2, 4, "fourth")]),
    ):
        hudi.write(batch(rows), uri, operation, **options)
    table = hoodoo.Table(uri)
    commits = [i for i in table.timeline.instants(state="completed") if i.action in ("commit", "replacecommit")]
    assert len(commits) == 5
    points = [i.requested for i in commits] + [str(i.completed) for i in commits if version > 6]
    for point in ["19990101000000000", *points]:
        assert arrow_rows(table.to_arrow(as_of=point)) == hudi.read_as_of(uri, point), point
    # Version 6 has no completion times in its names: a range is one of requested times there.
    stamps = ["000", *((i.requested if version == 6 else str(i.completed)) for i in commits)]
    for first, since in enumerate(stamps):
        assert arrow_rows(table.changes(since)) == hudi.read_changes(uri, since), since
        for until in stamps[first + 1 :]:
            assert arrow_rows(table.changes(since, until)) == hudi.read_changes(uri, since, until), (since, until)


@pytest.mark.parametrize("version", [9, pytest.param(8, marks=pytest.mark.slow), 6])
def test_base_files_of_a_merge_on_read_table(hudi: Hudi, tmp_path: Path, version: int) -> None:
    uri = str(tmp_path / "table")
    options = {
        **SIMPLE.options(version),
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.parquet.small.file.limit": "0",
    }
    _updates(hudi, uri, 3, **options)
    table = hoodoo.Table(uri)
    assert arrow_rows(table.to_arrow(query="read_optimized")) == hudi.read_optimized(uri)


@pytest.mark.parametrize(
    ("filters", "keep"),
    [
        ([("part", "=", "p 1")], lambda r: r["part"] == "p 1"),
        ([("ts", ">=", 1), ("part", "in", ["p 0", "p 2"])], lambda r: r["ts"] >= 1 and r["part"] in ("p 0", "p 2")),
        ([("id", "=", "key-003")], lambda r: r["id"] == "key-003"),
        ([("amount", "<", 3.5)], lambda r: r["amount"] < 3.5),
        ([("part", "!=", "p 1"), ("val", ">", "commit 0")], lambda r: r["part"] != "p 1" and r["val"] > "commit 0"),
        ([("part", "=", "nowhere")], lambda _: False),
    ],
)
def test_filters(
    hudi: Hudi, tmp_path: Path, filters: list[tuple[str, str, object]], keep: Callable[[Row], bool]
) -> None:
    uri = str(tmp_path / "table")
    _updates(hudi, uri, 2, **SIMPLE.options())
    expected = [r for r in hudi.read(uri) if keep(r)]
    assert arrow_rows(hoodoo.Table(uri).to_arrow(filters=filters)) == expected


def test_metadata_table_is_dropped_only_when_told(hudi: Hudi, tmp_path: Path) -> None:
    """Our writes keep it, unless `hoodie.metadata.enable=false`: then it goes, as in Hudi."""
    uri = str(tmp_path / "table")
    _with_metadata_table(hudi, uri)
    plain = {k: v for k, v in SIMPLE.options().items() if k != "hoodie.metadata.enable"}
    hoodoo.Table(uri, options=plain).upsert(batch([row(0, 8, "kept")]))
    assert (tmp_path / "table/.hoodie/metadata").exists()
    assert arrow_rows(hoodoo.Table(uri).to_arrow()) == hudi.read(uri, hoodie__metadata__enable="true")
    hoodoo.Table(uri, options=SIMPLE.options()).upsert(batch([row(0, 9, "ours")]))
    assert not (tmp_path / "table/.hoodie/metadata").exists()
    read = hudi.read(uri, hoodie__metadata__enable="true")
    assert [r["val"] for r in read if r["id"] == "key-000"] == ["ours"]
    hudi.write(batch([row(1, 9, "theirs")]), uri, "upsert", **{**plain, "hoodie.metadata.enable": "true"})
    assert arrow_rows(hoodoo.Table(uri).to_arrow()) == hudi.read(uri, hoodie__metadata__enable="true")
