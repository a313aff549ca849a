"""The bucket index: hoodoo and Hudi write to one table in turns, each finds the file groups of the other, and no key is
there twice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import hoodoo
from tests.buckets import INDEX, bucket_of, check, groups
from tests.interop.hudi import Hudi
from tests.interop.layouts import LAYOUTS, SIMPLE, Layout, batch, row
from tests.interop.merge_on_read import compact_by_hudi, same_rows
from tests.pairs import every_value, others_later
from tests.rows import Row

TYPES = ["COPY_ON_WRITE", "MERGE_ON_READ"]
_LAYOUTS = {layout.name: layout for layout in LAYOUTS}
_STRANGE = [
    "ü",
    "É",
    "日本語",
    "😀 smile",
    "a,b",
    "a:b",
    "x:y,z",
    "http://h/a?b=1,2",
    "a b",
    "%",
    "id:1,site:2",
    "\x7f",
]


def _options(
    table_type: str, layout: Layout = SIMPLE, mode: str = "EVENT_TIME_ORDERING", **more: str
) -> dict[str, str]:
    return {
        **layout.options(mode=mode),
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.compact.inline": "false",
        # Else Hudi's inserts double keys in copy-on-write tables.
        "hoodie.merge.allow.duplicate.on.inserts": "false",
        **INDEX,
        **{name.replace("__", "."): value for name, value in more.items()},
    }


def _identifier(hudi: Hudi) -> Any:
    return hudi.spark._jvm.org.apache.hudi.index.bucket.BucketIdentifier


def _of_hudi(hudi: Hudi, options: Mapping[str, str], buckets: int = 4) -> Any:
    """The bucket of a row of either engine, as Hudi's own class computes it."""
    keys = options["hoodie.datasource.write.recordkey.field"]
    fields = options.get("hoodie.bucket.index.hash.field", keys)
    return lambda row: _identifier(hudi).getBucketId(row["_hoodie_record_key"], fields, buckets)


def _rows(numbers: range, ts: int, text: str) -> list[Row]:
    rows = [row(n, ts, text) for n in numbers]
    names = dict(zip(range(2, 60, 3), _STRANGE, strict=False))
    return [{**one, "id": names.get(n, one["id"])} for n, one in zip(numbers, rows, strict=True)]


_STEPS = [
    ("insert", _rows(range(36), 10, "first")),
    ("upsert", _rows(range(20, 50), 11, "second")),
    ("upsert", _rows(range(10, 24), 9, "too late") + _rows(range(60, 64), 9, "new")),
    ("delete", _rows(range(0, 50, 7), 12, "")),
    ("insert", _rows(range(30, 56, 2), 13, "insert")),
    ("upsert", _rows(range(0, 50, 7), 14, "back again")),
    ("upsert", _rows(range(25), 15, "last")),
]


@pytest.mark.parametrize(
    ("layout", "table_type", "first"),
    [
        *every_value(["simple", "complex_two_keys"], TYPES, ["hudi", "hoodoo"]),
        pytest.param("complex_one_key", "COPY_ON_WRITE", "hudi", marks=pytest.mark.slow),
        pytest.param("complex_one_key", "MERGE_ON_READ", "hoodoo", marks=pytest.mark.slow),
    ],
)
def test_turns(hudi: Hudi, tmp_path: Path, layout: str, table_type: str, first: str) -> None:
    options = _options(table_type, _LAYOUTS[layout])
    turns, theirs = str(tmp_path / "turns"), str(tmp_path / "theirs")
    known: dict[str, dict[int, str]] = {}
    for number, (operation, rows) in enumerate(_STEPS):
        if (number % 2 == 0) == (first == "hudi"):
            hudi.write(batch(rows), turns, operation, **options)
        else:
            hoodoo.write(batch(rows), turns, operation=operation, options=options)
        hudi.write(batch(rows), theirs, operation, **options)
        same_rows(hudi, turns, (number, operation))
        assert hudi.read(turns) == hudi.read(theirs), (number, operation)
        now = groups(turns)
        assert all(known[p].items() <= now[p].items() for p in known), "a bucket has another file group than before"
        known = now
        check(turns, _of_hudi(hudi, options), options)
        logs, of_hudi = (
            {s.file_id[:8] for s in hoodoo.Table(uri).file_slices() if s.log_files} for uri in (turns, theirs)
        )
        assert logs == of_hudi, "log files, as Hudi has them"
    if table_type == "MERGE_ON_READ":
        compact_by_hudi(hudi, turns)
        same_rows(hudi, turns)
        hoodoo.write(batch(_rows(range(8), 16, "behind")), turns, operation="upsert", options=options)
        table = hoodoo.Table(turns)
        table.schedule_compaction()
        table.compact()
        hudi.write(batch(_rows(range(4, 12), 17, "behind")), turns, "upsert", **options)
        same_rows(hudi, turns)
        assert groups(turns) == known


@pytest.mark.parametrize("fields", others_later(["id", "site", "site,id"], "site"))
def test_hash_fields(hudi: Hudi, tmp_path: Path, fields: str) -> None:
    layout = Layout("two keys", keys=("id", "site"))
    options = _options("COPY_ON_WRITE", layout, hoodie__bucket__index__hash__field=fields)
    uri = str(tmp_path / "table")
    # Hudi never ends with a key whose last field has a colon and is not hashed.
    rows = [{**one, "id": one["id"].replace(":", ";")} for one in _rows(range(40), 1, "first")]
    hoodoo.write(batch(rows), uri, operation="upsert", options=options)
    hudi.write(batch([{**one, "ts": 2, "val": "theirs"} for one in rows[::2]]), uri, "upsert", **options)
    ours = batch([{**one, "ts": 3, "val": "ours"} for one in rows[::3]])
    hoodoo.write(ours, uri, operation="upsert", options=options)
    assert len(same_rows(hudi, uri)) == len(rows)
    check(uri, _of_hudi(hudi, options), options)


@pytest.mark.parametrize("table_type", others_later(TYPES, "MERGE_ON_READ"))
def test_partition_expressions(hudi: Hudi, tmp_path: Path, table_type: str) -> None:
    rules = "part=(p1|p2)$,8;p 1,2"
    options = _options(table_type, hoodie__bucket__index__partition__expressions=rules)
    options["hoodie.datasource.write.hive_style_partitioning"] = "true"
    uri = str(tmp_path / "table")
    rows = [row(n, 1, "first", part=["p1", "p 1", "other"][n % 3]) for n in range(60)]
    hudi.write(batch(rows), uri, "insert", **options)
    for ts, ours in ((2, True), (3, False), (4, True)):
        changed = [{**one, "ts": ts, "val": f"at {ts}"} for one in rows[ts::3]] + [row(60 + ts, ts, "new", part="p1")]
        if ours:
            hoodoo.write(batch(changed), uri, operation="upsert", options=options)
        else:
            hudi.write(batch(changed), uri, "upsert", **options)
        assert len(same_rows(hudi, uri)) == 60 + ts - 1
    of = {"part=p1": 8, "part=p 1": 2, "part=other": 4}
    check(uri, lambda one: bucket_of(one["id"], buckets=of[one["_hoodie_partition_path"]]), options)


@pytest.mark.parametrize("table_type", others_later(TYPES, "COPY_ON_WRITE"))
def test_bulk_inserts(hudi: Hudi, tmp_path: Path, table_type: str) -> None:
    options = _options(table_type)
    uri = str(tmp_path / "table")
    hudi.write(batch([row(n, 1, "first", part="p") for n in range(30)]), uri, "bulk_insert", **options)
    # Its ids have no ordinal at the end.
    assert all(len(file_id) == 36 for known in groups(uri).values() for file_id in known.values())
    rows = [row(n, 2, "ours", part="p") for n in range(20, 40)]
    hoodoo.write(batch(rows), uri, operation="bulk_insert", options=options)
    assert len(same_rows(hudi, uri)) == 40
    hudi.write(batch([row(n, 3, "theirs", part="p") for n in range(35, 45)]), uri, "upsert", **options)
    assert len(same_rows(hudi, uri)) == 45
    check(uri, _of_hudi(hudi, options))
    # Hudi's own second one doubles the file groups, and then fails itself.
    hudi.write(batch([row(n, 4, "twice", part="p") for n in range(45, 60)]), uri, "bulk_insert", **options)
    more = batch([row(n, 5, "more", part="p") for n in range(50)])
    with pytest.raises(hoodoo.CorruptFileError, match="two file groups of bucket"):
        hoodoo.write(more, uri, operation="upsert", options=options)
    with pytest.raises(Exception, match="same bucket"):
        hudi.write(more, uri, "upsert", **options)
    table = hoodoo.Table(uri, options=options)
    assert [p for p in table.verify().problems if "another file group too" in p.message]
    # What the error says to do.
    table.insert_overwrite(table.to_arrow().select(batch([]).schema.names))
    hudi.write(more, uri, "upsert", **options)
    assert len(same_rows(hudi, uri)) == 60
    check(uri, _of_hudi(hudi, options))


@pytest.mark.parametrize("table_type", others_later(TYPES, "MERGE_ON_READ"))
def test_overwrites_and_deleted_partitions(hudi: Hudi, tmp_path: Path, table_type: str) -> None:
    options = _options(table_type)
    uri = str(tmp_path / "table")
    hoodoo.write(batch(_rows(range(30), 1, "first")), uri, operation="bulk_insert", options=options)
    hudi.write(batch(_rows(range(0, 30, 3), 2, "theirs")), uri, "insert_overwrite", **options)
    same_rows(hudi, uri)
    hoodoo.write(batch(_rows(range(1, 30, 3), 2, "ours")), uri, operation="insert_overwrite", options=options)
    same_rows(hudi, uri)
    hudi.write(batch(_rows(range(30), 3, "again")), uri, "upsert", **options)
    assert len(same_rows(hudi, uri)) == 30
    hoodoo.Table(uri, options=options).delete_partitions(["p 1"])
    hudi.write(batch(_rows(range(1, 9, 3), 4, "after")), uri, "upsert", **options)
    assert len(same_rows(hudi, uri)) == 23
    hudi.write(batch(_rows(range(2), 5, "")), uri, "delete", **options)
    hoodoo.write(batch(_rows(range(9), 6, "last")), uri, operation="upsert", options=options)
    same_rows(hudi, uri)
    check(uri, _of_hudi(hudi, options))


def test_log_files_alone(hudi: Hudi, tmp_path: Path) -> None:
    """Non-blocking writers of Hudi put the first records of a bucket into log files too, in groups with fixed ids."""
    theirs = {
        **_options("MERGE_ON_READ"),
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    }
    options, uri = _options("MERGE_ON_READ"), str(tmp_path / "table")
    hudi.write(batch([row(n, 1, "first", part="p") for n in range(20)]), uri, "upsert", **theirs)
    before = groups(uri)
    assert all(file_id.endswith("-0000-0000-0000-000000000000-0") for file_id in before["p"].values())
    rows = [row(n, 2, "ours", part="p") for n in range(10, 30)]
    hoodoo.write(batch(rows), uri, operation="upsert", options=options)
    assert len(same_rows(hudi, uri)) == 30
    hoodoo.write(batch([row(n, 3, "", part="p") for n in range(5)]), uri, operation="delete", options=options)
    hudi.write(batch([row(n, 4, "theirs", part="p") for n in range(3, 12)]), uri, "upsert", **theirs)
    assert len(same_rows(hudi, uri)) == 27
    assert groups(uri) == before
    other = options | {"hoodie.bucket.index.num.buckets": "8"}
    with pytest.raises(hoodoo.InvalidOptionError, match="is stored in bucket"):
        hoodoo.write(batch(rows), uri, operation="upsert", options=other)


def test_a_partition_that_a_simple_index_broke(hudi: Hudi, tmp_path: Path) -> None:
    options, uri = _options("COPY_ON_WRITE"), str(tmp_path / "table")
    hudi.write(batch([row(n, 1, "first", part="p") for n in range(10)]), uri, "upsert", **options)
    # Small files are full, so that its new keys get a file group of their own.
    simple = options | {"hoodie.index.type": "SIMPLE", "hoodie.parquet.small.file.limit": "0"}
    hudi.write(batch([row(n, 2, "broken", part="p") for n in range(10, 20)]), uri, "upsert", **simple)
    # The first eight letters of a random file id are digits now and then.
    with pytest.raises(hoodoo.InvalidOptionError, match=r"not of a bucket index|a file group of bucket"):
        hoodoo.write(batch([row(1, 3, "x", part="p")]), uri, operation="upsert", options=options)
    assert [p for p in hoodoo.Table(uri, options=options).verify().problems if "bucket" in p.message]
