"""UPDATE, DELETE and MERGE INTO, by hoodoo and by Hudi's SQL: the same rows, and what each wrote the other reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.spark import sql
from tests.interop.hudi import QUICK, Hudi
from tests.rows import arrow_rows

COLUMNS = ["id", "ts", "v", "city"]
SOURCE = """(select 1 as id, 6L as ts, 11.0D as v, 'a' as city union all select 1, 8L, 12.0D, 'a' union all
             select 2, 4L, 20.0D, 'a' union all select 8, 1L, 8.0D, 'c' union all select 9, 1L, null, 'c')"""
STATEMENTS = [
    "UPDATE {t} SET v = v * 10, ts = ts + 1 WHERE id = 1 OR (city = 'b' AND v > 3.5)",
    "UPDATE {t} SET v = v + 1 WHERE id <> 2",  # equal ordering values
    "UPDATE {t} SET v = 7, ts = 4 WHERE id < 3",  # smaller ordering values
    "UPDATE {t} SET v = null WHERE id = 3",
    "UPDATE {t} SET v = 1 WHERE not (v > 20)",  # a null is not true
    "UPDATE {t} SET v = case when id = 1 then coalesce(null, 5) else id / 2 end, ts = ts + 1 WHERE length(city) = 1",
    "MERGE INTO {t} t USING " + SOURCE + """ s ON t.id = s.id
       WHEN MATCHED AND s.v > 11 THEN UPDATE SET v = s.v, ts = s.ts
       WHEN NOT MATCHED AND s.v is not null THEN INSERT (id, ts, v, city) VALUES (s.id, s.ts, s.v * 2, s.city)""",
    "DELETE FROM {t} WHERE city = 'a' AND v > 11",
    "MERGE INTO {t} t USING " + SOURCE + """ s ON t.id = s.id
       WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""",
    """MERGE INTO {t} t USING (select 1 as id, 8L as ts, 0.0D as v, 'a' as city) s ON t.id = s.id
       WHEN MATCHED THEN DELETE""",
    "MERGE INTO {t} t USING " + SOURCE + " s ON t.id = s.id WHEN NOT MATCHED AND s.id > 1 THEN INSERT *",
    "DELETE FROM {t} WHERE v is null",
]  # fmt: skip


@pytest.fixture(scope="module")
def quick(hudi: Hudi) -> Iterator[Hudi]:
    for key, value in QUICK.items():
        hudi.spark.conf.set(key, value)
    yield hudi
    for key in QUICK:
        hudi.spark.conf.unset(key)


def _create(hudi: Hudi, name: str, kind: str, path: Path) -> None:
    hudi.spark.sql(
        f"create table {name} (id int, ts bigint, v double, city string) using hudi partitioned by (city) "
        f"location '{path}' tblproperties (primaryKey='id', type='{kind}', orderingFields='ts')"
    )
    hudi.spark.sql(f"insert into {name} values (1, 5, 1.0, 'a'), (2, 5, 2.0, 'a'), (3, 5, 3.0, 'b'), (4, 5, 4.0, 'b')")


def _rows(table: pa.Table) -> list[Any]:
    return arrow_rows(table.select(COLUMNS))


@pytest.mark.parametrize(
    ("kind", "step"),
    [("mor", 4), pytest.param("cow", 1, marks=pytest.mark.slow), pytest.param("mor", 1, marks=pytest.mark.slow)],
)
def test_statements_do_what_they_do_in_hudi(quick: Hudi, kind: str, step: int, tmp_path: Path):
    """All statements one after the other on two tables, one of Hudi alone and one of hoodoo, which Hudi made."""
    theirs, ours = f"theirs_{kind}_{step}", f"ours_{kind}_{step}"
    for name in (theirs, ours):
        _create(quick, name, kind, tmp_path / name)
    uri = str(tmp_path / ours)
    for statement in STATEMENTS[::step]:
        quick.spark.sql(statement.format(t=theirs))
        sql(quick.spark, statement.format(t="x"), tables={"x": uri})
        expected = _rows(hoodoo.Table(tmp_path / theirs).to_arrow(columns=COLUMNS))
        assert _rows(hoodoo.Table(uri).to_arrow(columns=COLUMNS)) == expected, statement
    assert [{k: row[k] for k in COLUMNS} for row in quick.read(uri)] == [
        {k: row[k] for k in COLUMNS} for row in quick.read(tmp_path / theirs)
    ]
    # Hudi goes on with what hoodoo wrote.
    for name in (theirs, ours):
        quick.spark.sql(f"refresh table {name}")
        quick.spark.sql(f"update {name} set v = v + 1 where id > 2")
    assert _rows(hoodoo.Table(uri).to_arrow(columns=COLUMNS)) == _rows(
        hoodoo.Table(tmp_path / theirs).to_arrow(columns=COLUMNS)
    )
    assert hoodoo.Table(uri).verify().ok
    for name in (theirs, ours):
        quick.spark.sql(f"drop table {name}")


@pytest.mark.parametrize("kind", [pytest.param("cow", marks=pytest.mark.slow), "mor"])
def test_a_merge_with_deletes_and_updates_is_read_by_hudi(quick: Hudi, kind: str, tmp_path: Path):
    """One commit of both, marked by Hudi's own column for deletes; Hudi goes on writing."""
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[kind],
    }
    schema = pa.schema({"id": pa.int32(), "ts": pa.int64(), "v": pa.float64(), "city": pa.string()})
    first = [{"id": n, "ts": 5, "v": float(n), "city": "a"} for n in (1, 2, 3, 4)]
    quick.write(first, tmp_path, schema=schema, mode="overwrite", **options)
    t = hoodoo.Table(tmp_path)
    source = pa.table({"id": [1, 2, 7], "ts": [6, 6, 6], "v": [10.0, 20.0, 70.0], "city": ["a"] * 3}, schema=schema)
    merge = t.merge(source, on=["id"]).when_matched_delete("source.id = 1").when_matched_update_all()
    commit = merge.when_not_matched_insert_all().when_not_matched_by_source_delete("id = 4").execute()
    assert (commit.inserted, commit.updated, commit.deleted) == (1, 1, 2)
    assert sorted((r["id"], r["v"]) for r in quick.read(tmp_path)) == [(2, 20.0), (3, 3.0), (7, 70.0)]
    with_mark = schema.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    changes = [{"id": n, "ts": 9, "v": -1.0, "city": "a", "_hoodie_is_deleted": n == 2} for n in (2, 3)]
    quick.write(changes, tmp_path, schema=with_mark, **options)
    assert sorted((r["id"], r["v"]) for r in t.to_arrow().to_pylist()) == [(3, -1.0), (7, 70.0)]
    assert t.verify().ok
