"""hoodoo changes columns, real Hudi reads them by the ids of their fields and goes on; and the other way round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.statements.alter import parse_alter
from tests.fixtures.schema_history.record import SETTINGS
from tests.interop.hudi import Hudi
from tests.rows import Row, arrow_rows

BY_IDS: dict[str, Any] = {"hoodie.schema.on.read.enable": "true"}
ELEMENT = pa.struct({"u": pa.int32(), "z": pa.int32()})
SCHEMA = pa.schema(
    {
        "id": pa.int32(),
        "a": pa.int32(),
        "b": pa.float32(),
        "c": pa.string(),
        "d": pa.int32(),
        "e": pa.decimal128(10, 2),
        "st": pa.struct({"x": pa.int32(), "y": pa.string()}),
        "arr": pa.list_(ELEMENT),
        "ts": pa.int64(),
        "p": pa.string(),
    }
)


@pytest.fixture
def altering(hudi: Hudi) -> Iterator[Hudi]:
    """Hudi with schema on read."""
    before = {key: hudi.spark.conf.get(key, None) for key in SETTINGS}
    for key, value in SETTINGS.items():
        hudi.spark.conf.set(key, value)
    yield hudi
    for key, value in before.items():
        hudi.spark.conf.unset(key) if value is None else hudi.spark.conf.set(key, value)


def _row(number: int) -> Row:
    return {
        "id": number,
        "a": number * 10,
        "b": number + 0.5,
        "c": f"c{number}",
        "d": number + 50,
        "e": number,
        "st": {"x": number, "y": f"y{number}"},
        "arr": [{"u": number, "z": number + 100}],
        "ts": 1,
        "p": "p",
    }


def _table(path: Path, kind: str) -> hoodoo.Table:
    table = hoodoo.Table.create(
        str(path), SCHEMA, name=path.name, record_key="id", ordering=["ts"], partition_by=["p"], table_type=kind
    )
    table.insert(pa.Table.from_pylist([_row(number) for number in range(1, 5)], SCHEMA))
    table.upsert(pa.Table.from_pylist([{**_row(2), "ts": 2, "d": 99, "c": "changed"}], SCHEMA))
    return table


def _alter(table: hoodoo.Table) -> None:
    with table.update_schema() as update:
        update.rename_column("c", "cc").drop_column("d").add_column("d", pa.int32(), doc="another d", after="id")
        update.change_column("a", pa.int64()).change_column("b", pa.float64()).change_column("e", pa.decimal128(12, 2))
        update.move_column("b", after="id").add_column("n", pa.string(), first=True)
        update.rename_column("st.x", "xx").drop_column("arr.element.z").add_column("arr.element.z", pa.int32())


def _read(hudi: Hudi, path: Path) -> list[Row]:
    return hudi.read(path, **BY_IDS)


@pytest.mark.slow
def test_hudi_reads_what_hoodoo_altered(altering: Hudi, tmp_path: Path):
    table = _table(tmp_path / "altered", "MERGE_ON_READ")
    _alter(table)
    rows = arrow_rows(table.to_arrow())
    assert [(row["cc"], row["d"], row["a"], row["n"]) for row in sorted(rows, key=lambda row: row["id"])] == [
        ("c1", None, 10, None),
        ("changed", None, 20, None),
        ("c3", None, 30, None),
        ("c4", None, 40, None),
    ]
    assert _read(altering, tmp_path / "altered") == rows
    assert table.verify().ok


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_both_go_on(altering: Hudi, tmp_path: Path, kind: str):
    path = tmp_path / f"both_{kind[0].lower()}"
    table = _table(path, kind)
    _alter(table)
    name = path.name
    altering.sql(f"create table {name} using hudi location '{path}'")

    def same() -> list[Row]:
        ours = arrow_rows(hoodoo.Table(str(path)).to_arrow())
        assert ours == _read(altering, path)
        report = table.verify()
        assert report.ok, report
        return ours

    same()
    altering.sql(f"update {name} set ts = 3, d = 7, cc = 'of hudi' where id = 3")
    rows = same()
    assert [row["cc"] for row in rows if row["id"] == 3] == ["of hudi"]
    altering.sql(f"alter table {name} rename column cc to c")
    altering.sql(f"alter table {name} drop column a")
    same()
    table = hoodoo.Table(str(path))
    (fourth,) = table.to_arrow(columns=table.schema.names, filters=[("id", "=", 4)]).to_pylist()
    table.upsert(pa.Table.from_pylist([{**fourth, "ts": 9, "c": "of hoodoo"}], table.schema))
    same()
    with table.update_schema() as update:
        update.rename_column("n", "n2").change_column("d", pa.int64())
    same()
    altering.sql(f"update {name} set ts = 12, n2 = 'again' where id = 1")
    same()
    if kind == "MERGE_ON_READ":
        table.compact()
    else:
        table.cluster()
    same()
    altering.sql(f"update {name} set ts = 13, n2 = 'more' where id = 2")
    assert len(same()) == 4
    altering.sql(f"drop table {name}")


def test_plain_changes_need_no_schema_on_read(hudi: Hudi, tmp_path: Path):
    table = _table(tmp_path / "plain", "COPY_ON_WRITE")
    with table.update_schema() as update:
        update.add_column("n", pa.string()).change_column("a", pa.int64()).change_column("b", pa.float64())
    assert list((tmp_path / "plain" / ".hoodie" / ".schema").iterdir()) == []
    assert hudi.read(tmp_path / "plain") == arrow_rows(table.to_arrow())


@pytest.mark.slow
def test_alter_table_means_what_it_means_to_hudi(altering: Hudi, tmp_path: Path):
    ours, theirs = _table(tmp_path / "ours", "COPY_ON_WRITE"), _table(tmp_path / "theirs", "COPY_ON_WRITE")
    altering.sql(f"create table theirs using hudi location '{theirs.uri}'")
    for change in (
        "ADD COLUMNS (n string COMMENT 'new' AFTER ID, f array<struct<q: bigint>>)",
        "ADD COLUMNS (st.w decimal(12,3) AFTER x)",
        "RENAME COLUMN c TO cc",
        "RENAME COLUMN st.y TO yy",
        "DROP COLUMN d",
        "DROP COLUMNS (arr.element.z)",
        "ALTER COLUMN a TYPE bigint",
        "ALTER COLUMN st.x TYPE double",
        "ALTER COLUMN b COMMENT 'a float'",
        "ALTER COLUMN b AFTER id",
        "ALTER COLUMN st.yy FIRST",
        "CHANGE COLUMN e e decimal(20,5)",
    ):
        altering.sql(f"alter table theirs {change}")
        statement = parse_alter(f"alter table ours {change}")
        statement.execute(ours)
        assert hoodoo.Table(ours.uri).schema == hoodoo.Table(theirs.uri).schema, change
    altering.sql("drop table theirs")
    rows = _read(altering, tmp_path / "ours")
    assert rows == _read(altering, tmp_path / "theirs") == arrow_rows(hoodoo.Table(ours.uri).to_arrow())
