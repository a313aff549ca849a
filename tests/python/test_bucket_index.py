"""The bucket index: each key has one place, which is computed, and other writers of the table find it there too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Table
from hoodoo.distributed.write import prepare_write, write_rows
from tests.buckets import INDEX, bucket_of, check, groups
from tests.local_executor import LocalExecutor

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("ts", pa.int64()), ("v", pa.string())])
TYPES = ["COPY_ON_WRITE", "MERGE_ON_READ"]
WAYS = ["process", "tasks"]


def _options(table_type: str, **more: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "t",
        "hoodie.table.type": table_type,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.compact.inline": "false",
        **INDEX,
        **{name.replace("__", "."): value for name, value in more.items()},
    }


def _data(keys: Mapping[str, str], ts: int, v: str) -> pa.Table:
    """Rows of keys, which are given with their partitions."""
    rows = [{"id": key, "p": p, "ts": ts, "v": v} for key, p in keys.items()]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _write(way: str, uri: str, operation: str, data: pa.Table, options: Mapping[str, str]) -> hoodoo.Commit:
    if way == "process":
        return hoodoo.write(data, uri, operation=operation, options=options)
    halves = [data.slice(0, len(data) // 2), data.slice(len(data) // 2)]
    return write_rows(LocalExecutor(3), halves, uri, operation, dict(options))


def _rows(uri: str) -> dict[tuple[str, str], str | None]:
    rows = Table(uri).to_arrow(columns=["id", "p", "v"]).to_pylist()
    found = {(row["p"], row["id"]): row["v"] for row in rows}
    assert len(found) == len(rows), "a key is there twice"
    return found


def _bucket(row: Mapping[str, Any]) -> int:
    return bucket_of(row["_hoodie_record_key"])


KEYS = {f"key {n}": "p1" if n % 3 else "p2" for n in range(40)} | {"ü": "p1", "😀": "p1", "日本語": "p2", "a,b:c": "p1"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("table_type", TYPES)
def test_every_operation_goes_by_bucket(tmp_path: Path, table_type: str, way: str):
    uri, options = str(tmp_path / "t"), _options(table_type)
    expected = {(p, key): "first" for key, p in KEYS.items()}
    commit = _write(way, uri, "insert", _data(KEYS, 1, "first"), options)
    assert (commit.inserted, commit.updated) == (len(KEYS), 0)
    first = groups(uri)
    assert {p: set(known) for p, known in first.items()} == {"p1": {0, 1, 2, 3}, "p2": {0, 1, 2, 3}}
    assert all(s.base_file and not s.log_files for s in Table(uri).file_slices())

    some = {key: p for n, (key, p) in enumerate(KEYS.items()) if n % 4 == 0} | {f"new {n}": "p1" for n in range(8)}
    _write(way, uri, "upsert", _data(some, 2, "second"), options)
    expected |= {(p, key): "second" for key, p in some.items()}
    # An insert of a key that is there does not double it.
    _write(way, uri, "insert", _data({"key 1": "p1", "newest": "p2"}, 3, "third"), options)
    expected |= {("p1", "key 1"): "third", ("p2", "newest"): "third"}
    # Nor does a bulk insert.
    _write(way, uri, "bulk_insert", _data({"key 2": "p1", "bulk": "p2", "alone": "p3"}, 4, "bulk"), options)
    expected |= {("p1", "key 2"): "bulk", ("p2", "bulk"): "bulk", ("p3", "alone"): "bulk"}
    gone = {"key 3": "p2", "key 5": "p1", "not there": "p2", "nowhere": "p9"}
    _write(way, uri, "delete", _data(gone, 9, ""), options)
    expected = {key: v for key, v in expected.items() if key not in {("p2", "key 3"), ("p1", "key 5")}}
    assert _rows(uri) == expected
    check(uri, _bucket)
    now = groups(uri)
    assert {p: now[p] for p in first} == first, "each bucket keeps its file group"
    assert any(s.log_files for s in Table(uri).file_slices()) == (table_type == "MERGE_ON_READ")
    # Deletes that say nothing of partitions.
    Table(uri, options=options).delete(["key 4", "bulk"])
    expected = {key: v for key, v in expected.items() if key[1] not in {"key 4", "bulk"}}
    assert _rows(uri) == expected

    _write(way, uri, "insert_overwrite", _data({"key 1": "p1", "over": "p1"}, 1, "over"), options)
    expected = {key: v for key, v in expected.items() if key[0] != "p1"}
    expected |= {("p1", "key 1"): "over", ("p1", "over"): "over"}
    assert _rows(uri) == expected
    check(uri, _bucket)
    assert not set(groups(uri)["p1"].values()) & set(first["p1"].values())
    _write(way, uri, "insert_overwrite_table", _data({"last": "p2"}, 1, "last"), options)
    assert _rows(uri) == {("p2", "last"): "last"}
    Table(uri, options=options).delete_partitions(["p2"])
    assert _rows(uri) == {}
    _write(way, uri, "upsert", _data({"last": "p2"}, 1, "again"), options)
    assert _rows(uri) == {("p2", "last"): "again"}
    check(uri, _bucket)


@pytest.mark.parametrize("table_type", TYPES)
def test_services_and_rows_with_some_columns(tmp_path: Path, table_type: str):
    uri, options = str(tmp_path / "t"), _options(table_type, hoodie__clean__commits__retained="1")
    table = Table.create(uri, SCHEMA, options=options)
    table.upsert(_data(KEYS, 1, "first"))
    some = pa.table({"id": ["key 1", "ü", "new"], "p": ["p1"] * 3, "ts": [2] * 3})
    commit = table.upsert(some, partial=True)
    assert (commit.updated, commit.inserted) == ((3, 0) if table_type == "MERGE_ON_READ" else (2, 1))
    rows = _rows(uri)
    assert (rows["p1", "key 1"], rows["p1", "ü"], rows["p1", "new"]) == ("first", "first", None)
    before = groups(uri)
    if table_type == "MERGE_ON_READ":
        table.schedule_compaction()
        table.upsert(_data({"meanwhile": "p1", "key 2": "p1"}, 3, "meanwhile"))
        table.compact()
    table.archive()
    table.upsert(_data({"key 4": "p1", "behind": "p2"}, 4, "behind"))
    assert table.timeline.instants(action="clean"), "old file slices are cleaned"
    assert groups(uri) == before
    check(uri, _bucket)
    assert len(_rows(uri)) == len(KEYS) + 2 + (table_type == "MERGE_ON_READ")


@pytest.mark.parametrize("way", WAYS)
def test_composite_keys_and_hash_fields(tmp_path: Path, way: str):
    uri = str(tmp_path / "t")
    options = _options("COPY_ON_WRITE", hoodie__bucket__index__hash__field="b")
    options["hoodie.datasource.write.recordkey.field"] = "a,b"
    values = ["x", "x,y", "x:y", "ü", None, ""]
    rows = [{"a": a, "b": b, "p": "", "ts": 1} for a in values for b in ["1", "u:v,w", "é"]]
    schema = pa.schema([("a", pa.string()), ("b", pa.string()), ("p", pa.string()), ("ts", pa.int64())])
    for ts in (1, 2):
        data = pa.Table.from_pylist([{**row, "ts": ts} for row in rows], schema=schema)
        commit = _write(way, uri, "upsert", data, options)
        assert commit.inserted == (len(rows) if ts == 1 else 0)
    check(uri, lambda row: bucket_of(row["b"]), options)
    whole = options | {"hoodie.bucket.index.hash.field": "a,b"}
    with pytest.raises(hoodoo.InvalidOptionError, match="is stored in bucket"):
        _write(way, uri, "upsert", data, whole)


def test_partitions_with_other_numbers_of_buckets(tmp_path: Path):
    uri = str(tmp_path / "t")
    rules = "p1$,2;p2,16"
    options = _options("COPY_ON_WRITE", hoodie__bucket__index__partition__expressions=rules)
    keys = {f"key {n}": ["p1", "p2", "p3"][n % 3] for n in range(90)}
    hoodoo.write(_data(keys, 1, "first"), uri, operation="upsert", options=options)
    of = {"p1": 2, "p2": 16, "p3": 4}
    check(uri, lambda row: bucket_of(row["id"], buckets=of[row["p"]]), options)
    # A hashing config says the same, as Hudi keeps it.
    folder = tmp_path / "t/.hoodie/.bucket_index/partition_bucket_index_meta"
    folder.mkdir(parents=True)
    text = '{"expressions": "p1$,2;p2,16", "defaultBucketNumber": 4, "rule": "regex", "version": 1, "instant": "00"}'
    (folder / "00000000000000.hashing_config").write_text(text)
    bare = {key: value for key, value in options.items() if not key.startswith("hoodie.bucket.")}
    hoodoo.write(_data(keys, 2, "second"), uri, operation="upsert", options=bare)
    assert set(_rows(uri).values()) == {"second"}
    check(uri, lambda row: bucket_of(row["id"], buckets=of[row["p"]]), bare)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize(("made", "given"), [("4", "2"), ("4", "5"), ("2", "4"), ("4", None)])
def test_another_number_of_buckets_is_an_error(tmp_path: Path, table_type: str, way: str, made: str, given: str | None):
    uri, options = str(tmp_path / "t"), _options(table_type, hoodie__bucket__index__num__buckets=made)
    _write(way, uri, "upsert", _data(KEYS, 1, "first"), options)
    before, files = _rows(uri), sorted(path for path in (tmp_path / "t").rglob("*.parquet"))
    other = {key: value for key, value in options.items() if key != "hoodie.bucket.index.num.buckets"}
    if given is not None:
        other["hoodie.bucket.index.num.buckets"] = given
    for operation in ("upsert", "insert", "delete", "bulk_insert"):
        with pytest.raises(hoodoo.InvalidOptionError, match=r"hoodie\.bucket\.index\.num\.buckets"):
            _write(way, uri, operation, _data({"key 1": "p1", "new": "p1"}, 2, "x"), other)
    assert (_rows(uri), sorted((tmp_path / "t").rglob("*.parquet"))) == (before, files)
    # All rows written anew: then another number is as good.
    _write(way, uri, "insert_overwrite_table", _data(KEYS, 1, "first"), other)
    assert _rows(uri) == before
    _write(way, uri, "upsert", _data({"key 1": "p1"}, 2, "second"), other)
    assert _rows(uri) == before | {("p1", "key 1"): "second"}


def _rename_file_group(table: Path, first: str) -> None:
    """Gives the only file group an id with other first characters, in its file's name and in the commit."""
    (file,) = table.rglob("*_*.parquet")
    known = file.name[:8]
    file.rename(file.with_name(first + file.name[8:]))
    (commit,) = (table / ".hoodie/timeline").glob("*_*.commit")
    commit.write_bytes(commit.read_bytes().replace(known.encode(), first.encode()))


@pytest.mark.parametrize("named", [None, "12345678", "00000007"], ids=["any id", "eight digits", "too high a bucket"])
@pytest.mark.parametrize("way", WAYS)
def test_file_groups_of_others(tmp_path: Path, way: str, named: str | None):
    uri, options = str(tmp_path / "t"), _options("COPY_ON_WRITE")
    plain = {key: value for key, value in options.items() if "bucket" not in key.lower() and "index" not in key}
    _write(way, uri, "upsert", _data({"a": "p1"}, 1, "first"), plain | {"hoodie.metadata.enable": "false"})
    # A random id may begin with eight digits, which are then read as a bucket.
    if named is not None:
        _rename_file_group(tmp_path / "t", named)
    with pytest.raises(hoodoo.InvalidOptionError, match=r"not of a bucket index|has a file group of bucket"):
        _write(way, uri, "upsert", _data({"a": "p1"}, 2, "x"), options)
    assert [p.message for p in Table(uri, options=options).verify().problems if "bucket" in p.message]
    problems = Table(uri).verify().problems
    assert [p for p in problems if "bucket" in p.message or named is None] == []
    # Another partition is none of its business.
    _write(way, uri, "upsert", _data({"a": "p2"}, 1, "first"), options)

    # A second file group of a bucket, as a second bulk insert of Hudi makes it.
    (known,) = (tmp_path / "t/p2").glob("0000*.parquet")
    other = "2" if known.name[9] == "1" else "1"
    known.with_name(known.name[:9] + other + known.name[10:]).write_bytes(known.read_bytes())
    bare = options | {"hoodie.metadata.enable": "false"}
    with pytest.raises(hoodoo.CorruptFileError, match="two file groups of bucket 0"):
        _write(way, uri, "upsert", _data({"a": "p2"}, 2, "x"), bare)
    for given in (options, {}):
        assert [p for p in Table(uri, options=given).verify().problems if "another file group too" in p.message]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("table_type", TYPES)
def test_another_index_breaks_no_bucket(tmp_path: Path, table_type: str, way: str):
    uri, options = str(tmp_path / "t"), _options(table_type)
    plain = {key: value for key, value in options.items() if "bucket" not in key.lower() and "index" not in key}
    _write(way, uri, "upsert", _data(KEYS, 1, "first"), options)
    before = groups(uri)
    for index in ("SIMPLE", "BLOOM", "GLOBAL_SIMPLE"):
        other = plain | {"hoodie.index.type": index}
        # A key that is there has its place.
        _write(way, uri, "upsert", _data({"key 1": "p1"}, 2, index), other)
        assert _rows(uri)["p1", "key 1"] == index
        with pytest.raises(hoodoo.InvalidOptionError, match=r"hoodie\.index\.type=BUCKET"):
            _write(way, uri, "upsert", _data({"new": "p1"}, 2, "x"), other)
    with pytest.raises(hoodoo.InvalidOptionError, match=r"hoodie\.index\.type=BUCKET"):
        _write(way, uri, "insert", _data({"new": "p1"}, 2, "x"), plain)
    _write(way, uri, "delete", _data({"key 2": "p1"}, 3, ""), plain)
    assert groups(uri) == before
    assert ("p1", "key 2") not in _rows(uri)
    check(uri, _bucket)
    _write(way, uri, "insert_overwrite_table", _data(KEYS, 2, "x"), plain)
    _write(way, uri, "upsert", _data({"new": "p9"}, 2, "x"), plain)
    assert len(_rows(uri)) == len(KEYS) + 1


def test_what_is_not_supported_is_named(tmp_path: Path):
    uri, options = str(tmp_path / "t"), _options("COPY_ON_WRITE")
    data = _data({"a": "p"}, 1, "x")
    consistent = options | {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
    with pytest.raises(hoodoo.UnsupportedError, match="CONSISTENT_HASHING"):
        hoodoo.write(data, uri, options=consistent)
    wrong = {
        "hoodie.bucket.index.num.buckets": "0",
        "hoodie.bucket.index.hash.field": "v",
        "hoodie.bucket.index.partition.expressions": "p,x",
        "hoodie.index.bucket.engine": "OTHER",
    }
    for key, value in wrong.items():
        with pytest.raises(hoodoo.InvalidOptionError, match=key.replace(".", r"\.")):
            hoodoo.write(data, uri, options=options | {key: value})
    with pytest.raises(hoodoo.UnsupportedError, match="clustering"):
        hoodoo.write(data, uri, options=options | {"hoodie.clustering.inline": "true"})
    without_key = {key: value for key, value in options.items() if "recordkey" not in key}
    with pytest.raises(hoodoo.UnsupportedError, match="record keys"):
        hoodoo.write(data, str(tmp_path / "keyless"), operation="insert", options=without_key)
    # Two buckets: a single file group whose id begins with eight digits may be anybody's.
    hoodoo.write(_data({"a": "p", _other("a", False): "p"}, 1, "x"), uri, options=options)
    for given in (options, {}):
        with pytest.raises(hoodoo.UnsupportedError, match="clustering"):
            Table(uri, options=given).cluster()


def _other(key: str, wanted: bool) -> str:
    """A key of the same bucket, or of another one."""
    names = (f"other {n}" for n in range(1000))
    return next(name for name in names if (bucket_of(name) == bucket_of(key)) is wanted)


@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("exists", [False, True], ids=["new bucket", "known bucket"])
@pytest.mark.parametrize("same", [False, True], ids=["other bucket", "same bucket"])
def test_writers_of_one_bucket_conflict(tmp_path: Path, table_type: str, exists: bool, same: bool):
    uri, options = str(tmp_path / "t"), _options(table_type)
    # Both are writers of this thread.
    options["hoodoo.write.lease"] = "false"
    key, other = "key", _other("key", same)
    Table.create(uri, SCHEMA, options=options)
    if exists:
        hoodoo.write(_data(KEYS, 1, "first"), uri, operation="upsert", options=options)
    begun = prepare_write(SCHEMA, uri, "upsert", options, {}).begin(SCHEMA, 2)
    hoodoo.write(_data({other: "p1"}, 1, "other"), uri, operation="upsert", options=options)
    reports = begun.execute(LocalExecutor(2), [_data({key: "p1"}, 1, "mine")], "upsert", options)
    if same:
        with pytest.raises(hoodoo.ConflictError, match=r"group of a bucket|changed a file group"):
            begun.commit(reports)
    else:
        begun.commit(reports)
    assert ("p1", "key") in _rows(uri) or same
    assert ("p1", other) in _rows(uri)
    _write("process", uri, "upsert", _data({key: "p1", other: "p1"}, 2, "again"), options)
    assert {_rows(uri)["p1", name] for name in (key, other)} == {"again"}
    check(uri, _bucket)


@pytest.mark.parametrize("table_type", TYPES)
def test_the_record_index_learns_keys_that_log_files_bring(tmp_path: Path, table_type: str):
    uri = str(tmp_path / "t")
    index = {"hoodie.metadata.global.record.level.index.enable": "true"}
    options = _options(table_type) | index
    unique = dict.fromkeys(KEYS, "p1")
    for ts, keys in ((1, unique), (2, {"new": "p1", "key 1": "p1"}), (3, {"newer": "p1", "new": "p1"})):
        hoodoo.write(_data(keys, ts, f"at {ts}"), uri, operation="upsert", options=options)
    hoodoo.write(_data({"key 2": "p1", "new": "p1"}, 4, ""), uri, operation="delete", options=options)
    hoodoo.write(_data({"new": "p1"}, 5, "back"), uri, operation="upsert", options=options)
    check(uri, _bucket, options)
    found = Table(uri, options=index).to_arrow(filters=[("id", "in", ["new", "newer", "key 1", "key 2"])])
    assert sorted(found["v"].to_pylist()) == ["at 2", "at 3", "back"]
