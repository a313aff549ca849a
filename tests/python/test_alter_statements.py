"""ALTER TABLE as text: what it means, and what it refuses. tests/interop has the same statements beside Hudi's."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.statements.alter import AlterStatement, ColumnChange, parse_alter
from hoodoo.statements.sql_statements import parse_statement

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "Price": pa.int32(),
        "s": pa.struct({"x": pa.int32(), "Y": pa.string()}),
        "l": pa.list_(pa.struct({"u": pa.int32()})),
        "m": pa.map_(pa.string(), pa.struct({"k": pa.int32()})),
    }
)


@pytest.fixture
def table(tmp_path: Path) -> hoodoo.Table:
    options = {"hoodie.metadata.index.column.stats.enable": "false"}
    made = hoodoo.Table.create(str(tmp_path / "t"), SCHEMA, name="t", record_key="id", options=options)
    row = {"id": 1, "Price": 5, "s": {"x": 1, "Y": "y"}, "l": [{"u": 1}], "m": [("k", {"k": 1})]}
    made.insert(pa.Table.from_pylist([row], SCHEMA))
    return made


def _altered(table: hoodoo.Table, *statements: str) -> hoodoo.Table:
    for statement in statements:
        parsed = parse_statement(statement)
        assert isinstance(parsed, AlterStatement)
        assert parsed.execute(table).operation == "ALTER_SCHEMA"
    return hoodoo.Table(table.uri)


def test_names_of_tables_and_columns():
    parsed = parse_alter("alter table hoodoo.`s3://lake/a``b` rename column `first`.x to `select`;")
    assert parsed == AlterStatement(
        "hoodoo.s3://lake/a`b", [ColumnChange("rename_column", ("first", "x"), new_name="select")]
    )


@pytest.mark.parametrize(
    ("written", "data_type"),
    [
        ("boolean", pa.bool_()),
        ("INT", pa.int32()),
        ("integer", pa.int32()),
        ("long", pa.int64()),
        ("real", pa.float32()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("dec", pa.decimal128(10, 0)),
        ("numeric(5)", pa.decimal128(5, 0)),
        ("decimal(38, 38)", pa.decimal128(38, 38)),
        ("array<array<int>>", pa.list_(pa.list_(pa.int32()))),
        ("map<string, array<struct<a: int, `b`:date>>>",
         pa.map_(pa.string(), pa.list_(pa.struct({"a": pa.int32(), "b": pa.date32()})))),
        ("struct<a int, type string>", pa.struct({"a": pa.int32(), "type": pa.string()})),
    ],
)  # fmt: skip
def test_types(written: str, data_type: pa.DataType):
    (change,) = parse_alter(f"ALTER TABLE t ADD COLUMN c {written} COMMENT 'it is' AFTER b").changes
    assert change == ColumnChange("add_column", ("c",), data_type=data_type, doc="it is", after="b")


def test_columns_are_added_where_they_belong(table: hoodoo.Table):
    found = _altered(
        table,
        "ALTER TABLE t ADD COLUMNS (a int COMMENT 'an a', b string AFTER ID, c decimal(5,1) FIRST)",
        "ALTER TABLE t ADD COLUMN S.z array<int> AFTER X",
        "ALTER TABLE t ADD COLUMNS (l.element.w int FIRST, m.value.n string)",
    )
    assert found.schema.names == ["c", "id", "b", "Price", "s", "l", "m", "a"]
    assert [f.name for f in found.schema.field("s").type] == ["x", "z", "Y"]
    assert [f.name for f in found.schema.field("l").type.value_type] == ["w", "u"]
    assert [f.name for f in found.schema.field("m").type.item_type] == ["k", "n"]
    row = {"c": None, "id": 1, "b": None, "Price": 5, "s": {"x": 1, "z": None, "Y": "y"}, "l": [{"w": None, "u": 1}]}
    assert found.to_arrow(columns=found.schema.names).to_pylist() == [
        {**row, "m": [("k", {"k": 1, "n": None})], "a": None}
    ]


def test_columns_are_renamed_dropped_changed_and_moved(table: hoodoo.Table):
    found = _altered(
        table,
        "ALTER TABLE t RENAME COLUMN price TO cents",
        "ALTER TABLE t RENAME COLUMN s.y TO why",
        "ALTER TABLE t ALTER COLUMN cents TYPE bigint",
        "ALTER TABLE t ALTER s.x TYPE double",
        "ALTER TABLE t CHANGE COLUMN cents CENTS decimal(20,0) COMMENT 'without tax' FIRST",
        "ALTER TABLE t ALTER COLUMN s.why FIRST",
        "ALTER TABLE t ALTER COLUMN m AFTER s",
        "ALTER TABLE t DROP COLUMNS (l)",
    )
    assert found.schema.names == ["cents", "id", "s", "m"]
    assert found.schema.field("s").type == pa.struct({"why": pa.string(), "x": pa.float64()})
    assert found.schema.field("cents").type == pa.decimal128(20, 0)
    assert found.to_arrow(columns=["cents", "s"]).to_pylist() == [{"cents": 5, "s": {"why": "y", "x": 1.0}}]


def test_null_is_allowed_and_a_comment_is_kept(tmp_path: Path):
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("n", pa.int32(), nullable=False)])
    made = hoodoo.Table.create(str(tmp_path / "required"), schema, name="t", record_key="id")
    made.insert(pa.Table.from_pylist([{"id": 1, "n": 2}], schema))
    found = _altered(made, "ALTER TABLE t ALTER COLUMN N DROP NOT NULL", "ALTER TABLE t ALTER n COMMENT 'a number'")
    assert found.schema.field("n").nullable
    found.insert({"id": [2], "n": pa.array([None], pa.int32())})
    newest = found.timeline.metadata(found.timeline.instants()[-1])["extraMetadata"]
    assert '"doc":"a number"' in newest["latest_schema"]
    assert [row["id"] for row in found.to_arrow().to_pylist() if row["n"] is None] == [2]


def test_several_are_dropped_at_once(table: hoodoo.Table):
    assert _altered(table, "ALTER TABLE t DROP COLUMN s.x, l, M").schema.names == ["id", "Price", "s"]


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')", "SET TBLPROPERTIES"),
        ("ALTER TABLE t RENAME TO other", "RENAME TO"),
        ("ALTER TABLE t ADD PARTITION (p = 1)", "ADD PARTITION"),
        ("ALTER TABLE t REPLACE COLUMNS (a int)", "REPLACE COLUMNS"),
        ("ALTER VIEW v AS SELECT 1", "ALTER VIEW"),
        ("ALTER TABLE t ADD COLUMN a int NOT NULL", "NOT NULL"),
        ("ALTER TABLE t ADD COLUMN a struct<b: int NOT NULL>", "NOT NULL"),
        ("ALTER TABLE t ADD COLUMN a int DEFAULT 5", "DEFAULT"),
        ("ALTER TABLE t ALTER COLUMN a SET NOT NULL", "not supported"),
        ("ALTER TABLE t ALTER COLUMN a SET DEFAULT 5", "not supported"),
        ("ALTER TABLE t ALTER COLUMN a TYPE bigint, b TYPE bigint", "not supported"),
        ("ALTER TABLE t CHANGE COLUMN a b bigint", "RENAME COLUMN a TO b"),
        ("ALTER TABLE t DROP COLUMN IF EXISTS a", "IF"),
        ("ALTER TABLE t ADD COLUMN IF NOT EXISTS a int", "IF"),
        ("ALTER TABLE t ADD COLUMN a tinyint", "tinyint"),
        ("ALTER TABLE t ADD COLUMN a interval day", "interval"),
        ("ALTER TABLE t ADD COLUMN a varchar(5)", "varchar"),
        ("ALTER TABLE t ADD COLUMN `a.b` int", "dot"),
        ("ALTER TABLE t ADD COLUMN a " + "array<" * 60 + "int" + ">" * 60, "nested too deeply"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(statement: str, named: str):
    with pytest.raises(hoodoo.UnsupportedError, match=named):
        parse_statement(statement)


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("ALTER TABLE", "a name is expected at its end"),
        ("ALTER TABLE t", "a change of columns is expected at its end"),
        ("ALTER TABLE t ADD COLUMNS", "a name is expected"),
        ("ALTER TABLE t ADD COLUMNS (a int", "is expected at its end"),
        ("ALTER TABLE t ADD COLUMNS (a int) b", "the end is expected at `b`"),
        ("ALTER TABLE t ADD COLUMNS (a decimal(40))", "38 digits"),
        ("ALTER TABLE t ADD COLUMNS (a decimal(x))", "a whole number"),
        ("ALTER TABLE t ADD COLUMNS (a struct<b: int, b: int>)", "twice"),
        ("ALTER TABLE t ADD COLUMNS (a map<string>)", ", is expected at `>`"),
        ("ALTER TABLE t ADD COLUMNS (a int COMMENT x)", "a string in quotes"),
        ("ALTER TABLE t RENAME COLUMN a b", "TO is expected at `b`"),
        ("ALTER TABLE t RENAME COLUMN a TO 'b'", "a name is expected"),
        ("ALTER TABLE t ALTER COLUMN a", "is expected at its end"),
        ("ALTER TABLE t ALTER COLUMN a TYPE bigint b", "a change of the column is expected at `b`"),
        ("ALTER TABLE t RENAME COLUMN a TO 'b", "has no end"),
        ("ALTER TABLE t DROP COLUMN a; DROP TABLE t", "the end is expected at `;`"),
    ],
)
def test_mistakes(statement: str, named: str):
    with pytest.raises(hoodoo.InvalidOptionError, match=named):
        parse_statement(statement)


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("ALTER TABLE t RENAME COLUMN nothing TO b", "nothing"),
        ("ALTER TABLE t ADD COLUMN PRICE int", "Price"),
        ("ALTER TABLE t ADD COLUMN a int AFTER nothing", "nothing"),
        ("ALTER TABLE t ALTER COLUMN s.x TYPE boolean", "cannot become"),
        ("ALTER TABLE t ALTER COLUMN price TYPE int", "nothing is changed"),
    ],
)
def test_changes_that_the_table_does_not_take(table: hoodoo.Table, statement: str, named: str):
    parsed = parse_alter(statement)
    with pytest.raises(hoodoo.SchemaError, match=named):
        parsed.execute(table)
    assert hoodoo.Table(table.uri).schema == table.schema
    assert len(table.timeline.instants()) == 1
