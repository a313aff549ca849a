"""A key that changes its partition: each index does with it what Hudi does."""

from __future__ import annotations

from pathlib import Path

import pytest

import hoodoo
from tests.interop.hudi import Hudi
from tests.interop.layouts import SIMPLE, batch, row
from tests.rows import arrow_rows

_FIRST = [row(n, 10, "first", part="p1") for n in range(4)] + [row(9, 10, "first", part="p9")]
_MOVED = [
    row(0, 9, "older", part="p2"),
    row(1, 10, "tie", part="p2"),
    row(2, 11, "newer", part="p2"),
    row(8, 1, "new", part="p2"),
]


def _index(name: str, update_path: str | None) -> dict[str, str]:
    options = {"hoodie.index.type": name}
    if update_path is not None:
        options["hoodie.bloom.index.update.partition.path"] = update_path
        options["hoodie.simple.index.update.partition.path"] = update_path
    return options


@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", pytest.param("COMMIT_TIME_ORDERING", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("index", "update_path"),
    [
        ("BLOOM", None),
        ("SIMPLE", None),
        ("GLOBAL_BLOOM", None),
        pytest.param("GLOBAL_BLOOM", "true", marks=pytest.mark.slow),
        ("GLOBAL_BLOOM", "false"),
        pytest.param("GLOBAL_SIMPLE", None, marks=pytest.mark.slow),
        ("GLOBAL_SIMPLE", "false"),
    ],
)
def test_partition_change(hudi: Hudi, tmp_path: Path, index: str, update_path: str | None, mode: str) -> None:
    options = {**SIMPLE.options(mode=mode), **_index(index, update_path)}
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    for operation, rows in (("insert", _FIRST), ("upsert", _MOVED)):
        hoodoo.write(batch(rows), ours, operation=operation, options=options)
        hudi.write(batch(rows), theirs, operation, **options)
    expected = hudi.read(theirs)
    assert hudi.read(ours) == expected
    assert arrow_rows(hoodoo.Table(ours, options=options).to_arrow()) == expected
    # The delete knows only key and partition; a global index finds the row wherever it is.
    gone = [row(3, 0, "", part="p7")]
    hoodoo.write(batch(gone), ours, operation="delete", options=options)
    hudi.write(batch(gone), theirs, "delete", **options)
    assert hudi.read(ours) == hudi.read(theirs)


@pytest.mark.parametrize("index", ["BLOOM", "GLOBAL_BLOOM", "SIMPLE", "GLOBAL_SIMPLE"])
def test_one_key_in_two_partitions_of_a_batch(hudi: Hudi, tmp_path: Path, index: str) -> None:
    options = {**SIMPLE.options(), **_index(index, None)}
    rows = [row(1, 1, "a", part="p1"), row(1, 2, "b", part="p2"), row(1, 3, "c", part="p1")]
    hoodoo.write(batch(rows), str(tmp_path / "ours"), operation="upsert", options=options)
    hudi.write(batch(rows), tmp_path / "theirs", "upsert", **options)
    assert hudi.read(tmp_path / "ours") == hudi.read(tmp_path / "theirs")


@pytest.mark.parametrize("index", ["BLOOM", "SIMPLE"])
def test_our_index_finds_keys_in_hudis_files_and_the_other_way(hudi: Hudi, tmp_path: Path, index: str) -> None:
    """Bloom filters and key ranges in the footers of either side serve the other side's index."""
    options = {**SIMPLE.options(), **_index(index, None), "hoodie.parquet.small.file.limit": "0"}
    uri = str(tmp_path / "table")
    for start in range(0, 40, 10):
        rows = [row(n, 1, "first", part="p") for n in range(start, start + 10)]
        if start % 20:
            hudi.write(batch(rows), uri, "insert", **options)
        else:
            hoodoo.write(batch(rows), uri, operation="insert", options=options)
    changes = [row(n, 2, "ours", part="p") for n in range(0, 40, 3)]
    commit = hoodoo.write(batch(changes), uri, operation="upsert", options=options)
    assert (commit.updated, commit.inserted) == (len(changes), 0)
    again = [row(n, 3, "theirs", part="p") for n in range(1, 40, 3)]
    hudi.write(batch(again), uri, "upsert", **options)
    read = hudi.read(uri)
    assert len(read) == 40
    assert sum(r["val"] == "ours" for r in read) == len(changes)
    assert sum(r["val"] == "theirs" for r in read) == len(again)


def test_files_are_left_out_by_ranges_that_hudi_wrote(hudi: Hudi, tmp_path: Path) -> None:
    """By its metadata table: more files than are opened one by one, and keys of which some have no certain range."""
    path = tmp_path / "ranges"
    options = {
        **SIMPLE.options(),
        "hoodie.index.type": "GLOBAL_SIMPLE",
        "hoodie.metadata.enable": "true",
        "hoodie.simple.index.update.partition.path": "false",
        "hoodie.bulkinsert.shuffle.parallelism": "2",
    }
    keys = [n if n % 9 else f"{chr(0xE000)}{n}" for n in range(160)]
    keys[5], keys[80] = "long" * 1500, chr(0x1F600)
    rows = [{**row(n, 1, "first", part=f"p{n // 2:02}"), "id": f"k{key}"} for n, key in enumerate(keys)]
    hudi.write(batch(rows), path, "bulk_insert", mode="overwrite", **options)
    for ts, index in ((2, "GLOBAL_SIMPLE"), (3, "GLOBAL_BLOOM")):
        changed = [{**one, "ts": ts} for one in rows[ts::3]]
        hoodoo.Table(path, {"hoodie.index.type": index}).upsert(batch(changed))
        expected = hudi.read(path)
        assert len(expected) == len(rows)
        assert sum(one["ts"] == ts for one in expected) == len(changed)
        assert arrow_rows(hoodoo.Table(path).to_arrow()) == expected
        assert not hoodoo.Table(path).verify().problems
