"""UPDATE, DELETE and MERGE on tables of every kind, beside a naive model; count, partitions, history."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodoo
from hoodoo.statements import merge as merge_module
from hoodoo.statements import shuffle
from hoodoo.statements.sql_statements import parse_statement
from tests.pairs import every_pair

SCHEMA = pa.schema(
    {"id": pa.int64(), "ts": pa.int64(), "city": pa.string(), "fare": pa.float64(), "tags": pa.list_(pa.string())}
)
Row = dict[str, Any]
INDEXES = {
    "bloom": {},
    "simple": {"hoodie.index.type": "SIMPLE"},
    "global": {"hoodie.index.type": "GLOBAL_BLOOM"},
    "bucket": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"},
    "record": {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.global.record.level.index.enable": "true"},
}


def _row(n: int, ts: int = 5, **changes: Any) -> Row:
    return {"id": n, "ts": ts, "city": "abc"[n % 3], "fare": float(n), "tags": [str(n)] if n % 2 else None} | changes


def _table(name: str, kind: str = "COPY_ON_WRITE", index: str = "bloom", **options: Any) -> hoodoo.Table:
    ordering = options.pop("ordering", ["ts"])
    return hoodoo.Table.create(
        f"memory://statements/{name}",
        SCHEMA,
        name="t",
        record_key="id",
        partition_by="city",
        ordering=ordering,
        table_type=kind,
        options=INDEXES[index] | options,
    )


def _rows(t: hoodoo.Table) -> list[Row]:
    return sorted(t.to_arrow(columns=SCHEMA.names).to_pylist(), key=lambda r: (r["id"], r["city"]))


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(abs(hash(request.node.nodeid)))


@pytest.mark.parametrize(
    ("kind", "index", "logged"), every_pair(("COPY_ON_WRITE", "MERGE_ON_READ"), list(INDEXES), (False, True))
)
def test_statements_on_every_kind_of_table(kind: str, index: str, logged: bool, name: str):
    t = _table(name, kind, index)
    t.upsert(pa.Table.from_pylist([_row(n) for n in range(20)], SCHEMA))
    if logged:
        t.upsert(pa.Table.from_pylist([_row(n, 6, fare=100.0) for n in range(0, 20, 3)], SCHEMA))
    model = {r["id"]: r for r in _rows(t)}

    commit = t.update({"fare": "fare * 2", "tags": None}, where="id % 5 = 0 and fare > 0")
    changed = {n for n, r in model.items() if n % 5 == 0 and r["fare"] > 0}
    model |= {n: model[n] | {"fare": model[n]["fare"] * 2, "tags": None} for n in changed}
    assert (commit.operation, commit.updated, _rows(t)) == ("UPSERT", len(changed), [model[n] for n in sorted(model)])

    commit = t.delete(where=[("city", "=", "b"), ("id", ">", 10)])
    gone = {n for n, r in model.items() if r["city"] == "b" and n > 10}
    model = {n: r for n, r in model.items() if n not in gone}
    assert (commit.operation, commit.deleted, _rows(t)) == ("DELETE", len(gone), [model[n] for n in sorted(model)])

    source = pa.Table.from_pylist([_row(n, 9, fare=1.0) for n in (0, 1, 2, 50, 51)], SCHEMA)
    commit = (
        t.merge(source, on="t.id = s.id and t.city = s.city", target_alias="t", source_alias="s")
        .when_matched_delete("s.id = 2")
        .when_matched_update({"fare": "t.fare + s.fare", "ts": "s.ts"}, "s.id < 2")
        .when_not_matched_insert_all("id = 50")
        .when_not_matched_by_source_update({"fare": "fare + 0.5"}, "city = 'c'")
        .execute()
    )
    model |= {n: model[n] | {"fare": model[n]["fare"] + 1, "ts": 9} for n in (0, 1)}
    model |= {n: r | {"fare": r["fare"] + 0.5} for n, r in model.items() if r["city"] == "c" and n != 2}
    model = {n: r for n, r in model.items() if n != 2} | {50: _row(50, 9, fare=1.0)}
    # Rows for the log file of a bucket are not looked up, so that nobody knows which of them are new.
    inserted = 0 if (kind, index) == ("MERGE_ON_READ", "bucket") else 1
    assert (commit.inserted, commit.deleted, _rows(t)) == (inserted, 1, [model[n] for n in sorted(model)])
    assert t.count() == len(model)
    assert t.count("fare > 3") == sum(r["fare"] > 3 for r in model.values())
    assert t.verify().ok


def test_an_update_that_makes_ordering_values_smaller_loses(name: str):
    t = _table(name)
    t.upsert(pa.Table.from_pylist([_row(1), _row(2)], SCHEMA))
    t.update({"fare": 9, "ts": 4}, where="id = 1")
    t.update({"fare": 9}, where="id = 2")
    assert [r["fare"] for r in _rows(t)] == [1.0, 9.0]


def test_without_ordering_columns_an_update_wins(name: str):
    t = _table(name, ordering=None)
    t.upsert(pa.Table.from_pylist([_row(1)], SCHEMA))
    t.update({"fare": 9, "ts": 4})
    assert [(r["fare"], r["ts"]) for r in _rows(t)] == [(9.0, 4)]


def _merge_of(t: hoodoo.Table, rows: list[Row]) -> hoodoo.Commit:
    merge = t.merge(pa.Table.from_pylist(rows, SCHEMA), on=["id"]).when_matched_update({"fare": "source.fare"})
    return merge.when_not_matched_insert_all().execute()


def test_of_several_source_rows_the_one_with_the_largest_ordering_value_counts(name: str):
    t = _table(name)
    t.upsert(pa.Table.from_pylist([_row(1), _row(2)], SCHEMA))
    _merge_of(t, [_row(1, 7, fare=7.0), _row(1, 8, fare=8.0), _row(1, 6, fare=6.0), _row(1, 6, fare=6.5)])
    assert [r["fare"] for r in _rows(t)] == [8.0, 2.0]
    with pytest.raises(hoodoo.InvalidOptionError, match="equal ordering values"):
        _merge_of(t, [_row(1, 7, fare=7.0), _row(1, 7, fare=8.0), _row(1, 6)])
    assert [r["fare"] for r in _rows(t)] == [8.0, 2.0]


def test_without_ordering_several_source_rows_are_an_error(name: str):
    t = _table(name, ordering=None)
    t.upsert(pa.Table.from_pylist([_row(1), _row(2)], SCHEMA))
    with pytest.raises(hoodoo.InvalidOptionError, match="several rows of the source match one row"):
        _merge_of(t, [_row(1, 7), _row(1, 8)])
    with pytest.raises(hoodoo.InvalidOptionError, match=r"same key \(id=30"):
        _merge_of(t, [_row(30, 7), _row(30, 8)])
    assert [r["fare"] for r in _rows(t)] == [1.0, 2.0]
    # Which of them deletes a row makes no difference.
    merge = t.merge(pa.Table.from_pylist([_row(1, 7), _row(1, 8)], SCHEMA), on=["id"])
    assert merge.when_matched_delete().execute().deleted == 1


def test_conditions_may_choose_one_of_several_source_rows(name: str):
    t = _table(name, ordering=None)
    t.upsert(pa.Table.from_pylist([_row(1)], SCHEMA))
    source = pa.table({"id": [1, 1], "kind": ["skip", "use"]})
    merge = t.merge(source, on=["id"]).when_matched_update({"fare": "50"}, condition="source.kind = 'use'")
    assert merge.execute().updated == 1


def test_a_merge_compares_values_as_sql_does(name: str):
    """Null matches nothing, not even null; zeros are equal, whatever their sign; types meet."""
    schema = {"id": pa.int64(), "x": pa.float64(), "n": pa.int64()}
    t = hoodoo.Table.create(f"memory://statements/{name}", schema, name="t", record_key="id")
    t.insert({"id": [1, 2, 3, 4], "x": [None, -0.0, float("nan"), 2.5], "n": [0, 0, 0, 0]})
    source = pa.table({"x": pa.array([None, 0.0, float("nan"), 2.5], pa.float32()), "by": [1, 2, 3, 4]})
    t.merge(source, on="target.x = source.x").when_matched_update({"n": "by"}).execute()
    assert t.to_arrow(columns=["n"])["n"].to_pylist() == [0, 2, 3, 4]


def test_the_first_clause_that_applies_counts(name: str):
    t = _table(name)
    t.upsert(pa.Table.from_pylist([_row(n) for n in range(6)], SCHEMA))
    merge = t.merge({"id": list(range(6))}, on=["id"])
    for bound, fare in ((2, 100), (4, 200)):
        merge.when_matched_update({"fare": fare}, condition=f"target.id < {bound}")
    merge.when_matched_update({"fare": 300}).execute()
    assert [r["fare"] for r in _rows(t)] == [100, 100, 200, 200, 300, 300]


def test_deletes_of_a_merge_add_one_column_once(name: str):
    t = _table(name)
    t.upsert(pa.Table.from_pylist([_row(n) for n in range(6)], SCHEMA))
    for n, added in ((1, ["_hoodie_is_deleted"]), (2, [])):
        source = pa.Table.from_pylist([_row(n, 9), _row(n + 10, 9), _row(0, 8 + n, fare=70.0)], SCHEMA)
        merge = t.merge(source, on=["id"]).when_matched_delete("source.id > 0")
        commit = merge.when_matched_update_all().when_not_matched_insert_all().execute()
        assert ([c.column for c in commit.schema_changes], commit.deleted, commit.inserted) == (added, 1, 1)
    assert [r["id"] for r in _rows(t)] == [0, 3, 4, 5, 11, 12]
    assert _rows(t)[0]["fare"] == 70.0


def test_only_deletes_change_no_columns(name: str):
    t = _table(name)
    t.upsert(pa.Table.from_pylist([_row(n) for n in range(6)], SCHEMA))
    merge = t.merge({"id": [1, 2, 90]}, on=["id"]).when_matched_delete("source.id = 1")
    commit = merge.when_not_matched_by_source_delete("id = 5").execute()
    assert (commit.operation, commit.deleted, commit.schema_changes) == ("DELETE", 2, ())
    assert [r["id"] for r in _rows(t)] == [0, 2, 3, 4]


def test_keys_and_partitions_do_not_change(name: str):
    t = _table(name)
    t.upsert(pa.Table.from_pylist([_row(1)], SCHEMA))
    with pytest.raises(hoodoo.InvalidOptionError, match="record key column 'id'"):
        t.update({"id": "id + 1"})
    with pytest.raises(hoodoo.InvalidOptionError, match="partition column 'city'"):
        t.update({"CITY": "'x'"})
    moved = pa.Table.from_pylist([_row(1, 9, city="elsewhere")], SCHEMA)
    with pytest.raises(hoodoo.InvalidOptionError, match="partition column 'city'"):
        t.merge(moved, on=["id"]).when_matched_update_all().execute()
    assert _rows(t) == [_row(1)]


def test_a_column_that_comes_twice_is_refused(name: str):
    t = _table(name)
    t.upsert(pa.Table.from_pylist([_row(1)], SCHEMA))
    twice = {"fare": "1.0", "FARE": "2.0"}
    with pytest.raises(hoodoo.InvalidOptionError, match="'fare' comes twice in set"):
        t.update(twice)
    merge = t.merge(pa.Table.from_pylist([_row(1)], SCHEMA), on=["id", "city"])
    with pytest.raises(hoodoo.InvalidOptionError, match="'fare' comes twice"):
        merge.when_matched_update(set=twice).execute()
    merge = t.merge(pa.Table.from_pylist([_row(7)], SCHEMA), on=["id", "city"])
    with pytest.raises(hoodoo.InvalidOptionError, match="'id' comes twice"):
        merge.when_not_matched_insert({"id": "source.id", "ID": "source.id + 1", "city": "source.city"}).execute()
    with pytest.raises(hoodoo.InvalidOptionError, match="names the column 'id' twice"):
        parse_statement("MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, id) VALUES (1, 2)")
    assert _rows(t) == [_row(1)]


def test_rows_of_equal_keys_in_two_partitions_are_two_rows(name: str):
    t = _table(name)
    t.upsert(pa.Table.from_pylist([_row(1, city="a"), _row(1, city="b")], SCHEMA))
    assert t.update({"fare": "7"}, where="city = 'b'").updated == 1
    assert t.delete(where="city = 'a'").deleted == 1
    assert _rows(t) == [_row(1, city="b", fare=7.0)]


@pytest.mark.parametrize("budget", [0, 1 << 30], ids=["files", "memory"])
def test_many_rows_go_through_files_as_through_memory(budget: int, name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shuffle, "_IN_MEMORY", budget)
    monkeypatch.setattr(merge_module, "_CHUNK_ROWS", 100)
    monkeypatch.setattr(shuffle.SpilledRows.__init__, "__defaults__", (budget, None))
    t = _table(name, ordering=None)
    t.bulk_insert(pa.Table.from_pylist([_row(n) for n in range(2_000)], SCHEMA))
    source = pa.Table.from_pylist([_row(n, 9, fare=-1.0) for n in range(1_000, 3_000)], SCHEMA)
    merge = t.merge(pa.RecordBatchReader.from_batches(SCHEMA, source.to_batches(max_chunksize=300)), on=["id"])
    commit = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert (commit.updated, commit.inserted) == (1_000, 1_000)
    assert t.update({"fare": "fare + 1"}, where=pc.field("fare") < 0).updated == 2_000
    assert sum(r["fare"] == 0.0 for r in _rows(t)) == 2_001
    assert t.count() == 3_000


def test_a_merge_beside_a_naive_one(name: str):
    """Random rows, sources and conditions."""
    seed = random.Random(5)
    t = _table(name, "MERGE_ON_READ", ordering=None)
    t.upsert(pa.Table.from_pylist([_row(n) for n in range(30)], SCHEMA))
    model = {r["id"]: r for r in _rows(t)}
    for step in range(12):
        chosen = seed.sample(range(40), 8)
        source = [_row(n, step, fare=seed.choice([None, float(seed.randint(0, 9))])) for n in chosen]
        limit = seed.randint(0, 40)
        merge = t.merge(pa.Table.from_pylist(source, SCHEMA), on=["id"])
        merge.when_matched_update({"fare": "source.fare", "ts": "source.ts"}, f"source.fare > 3 or target.id < {limit}")
        merge.when_not_matched_insert_all(f"source.id > {limit}").execute()
        for row in source:
            fare, known = row["fare"], model.get(row["id"])
            if known is not None and ((fare is not None and fare > 3) or row["id"] < limit):
                model[row["id"]] = known | {"fare": fare, "ts": step}
            elif known is None and row["id"] > limit:
                model[row["id"]] = row
        assert _rows(t) == [model[n] for n in sorted(model)]


def test_a_table_without_key_columns_is_refused_by_name(name: str):
    t = hoodoo.Table.create(f"memory://statements/{name}", SCHEMA, name="t")
    t.insert(pa.Table.from_pylist([_row(1)], SCHEMA))
    statements: list[Callable[[], object]] = [
        lambda: t.update({"fare": "1"}),
        lambda: t.delete(where="true"),
        lambda: t.merge({"id": [1]}, on=["id"]).when_matched_delete().execute(),
    ]
    for run in statements:
        with pytest.raises(hoodoo.UnsupportedError, match="key columns"):
            run()


def test_counts_of_metadata_are_those_of_a_scan(name: str):
    options: dict[str, Any] = {"hoodie.parquet.small.file.limit": 0}
    t = _table(name, ordering=None, **options)
    for begin in (0, 10, 20):
        t.insert(pa.Table.from_pylist([_row(n) for n in range(begin, begin + 10)], SCHEMA))
    t.upsert(pa.Table.from_pylist([_row(3, fare=0.0)], SCHEMA))
    t.delete(where="id = 4")
    assert t.count() == t.to_arrow(columns=[]).num_rows == 29
    found = {p.path: p for p in t.partitions()}
    assert {path: p.rows for path, p in found.items()} == {c: sum(r["city"] == c for r in _rows(t)) for c in "abc"}
    assert sum(p.base_files for p in found.values()) == len(t.file_slices())
    assert sum(p.size for p in found.values()) == sum(s.size for s in t.file_slices())


def test_partitions_with_log_files_do_not_know_their_rows(name: str):
    t = _table(name, "MERGE_ON_READ")
    t.upsert(pa.Table.from_pylist([_row(n) for n in range(6)], SCHEMA))
    t.upsert(pa.Table.from_pylist([_row(3, 6)], SCHEMA))
    assert {p.path: (p.log_files, p.rows) for p in t.partitions()} == {"a": (1, None), "b": (0, 2), "c": (0, 2)}
    assert t.count() == 6


def test_history_goes_on_in_the_archived_timeline(name: str):
    options: dict[str, Any] = {
        "hoodie.keep.min.commits": 3,
        "hoodie.keep.max.commits": 4,
        "hoodie.clean.commits.retained": 1,
    }
    t = _table(name, **options)
    for n in range(12):
        t.upsert(pa.Table.from_pylist([_row(n)], SCHEMA))
    assert len(t.timeline.instants(action="commit")) < 12
    history = t.history()
    assert [c.instant for c in history] == sorted((c.instant for c in history), reverse=True)
    assert (len(history), {c.inserted for c in history}, len(t.history(limit=2))) == (12, {1}, 2)
    assert history[:2] == t.history(limit=2)
    assert history.to_arrow().num_rows == 12


def test_a_nested_column_gets_a_value():
    table = _table("nested-value")
    table.insert(pa.Table.from_pylist([_row(1), _row(2)], schema=SCHEMA))
    assert table.update({"tags": ["x", "y"]}, where="id = 1").updated == 1
    assert table.update({"tags": pa.scalar([], pa.list_(pa.string()))}, where="id = 2").updated == 1
    found = table.to_arrow(columns=["id", "tags"]).sort_by("id")
    assert found["tags"].to_pylist() == [["x", "y"], []]
