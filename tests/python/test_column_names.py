"""Names of columns: letters of all scripts, as Java's Avro takes them, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo

_INNER = pa.struct([("é", pa.int64()), ("ключ", pa.string())])
SCHEMA = pa.schema(
    [("id", pa.string()), ("größe", pa.int64()), ("日本", _INNER), ("ряд", pa.list_(_INNER)), ("b٣", pa.string())]
)
OPTIONS = {"hoodie.compact.inline": "false", "hoodie.metadata.index.column.stats.enable": "true"}


def _rows(key: str, size: int) -> pa.Table:
    inner = {"é": size, "ключ": f"k{size}"}
    row = {"id": key, "größe": size, "日本": inner, "ряд": [inner, None], "b٣": "x"}
    return pa.Table.from_pylist([row], schema=SCHEMA)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_letters_of_all_scripts(tmp_path: Path, table_type: str):
    table = hoodoo.Table.create(
        tmp_path / "t",
        SCHEMA,
        name="t",
        record_key="id",
        ordering="größe",
        partition_by=["b٣"],
        table_type=table_type,
        options=OPTIONS,
    )
    table.upsert(pa.concat_tables([_rows("a", 1), _rows("b", 1), _rows("c", 1)]))
    table.upsert(_rows("a", 3))
    table.upsert(_rows("a", 2))
    table.delete({"id": ["c"], "b٣": ["x"]})
    expected = pa.concat_tables([_rows("a", 3), _rows("b", 1)])
    names = SCHEMA.names
    assert table.to_arrow(columns=names).sort_by("id").to_pylist() == expected.to_pylist()
    filtered = table.to_arrow(columns=["id"], filters=[("größe", ">", 2)])
    assert filtered.column("id").to_pylist() == ["a"]
    if table_type == "MERGE_ON_READ":
        assert table.compact() is not None
    table.cluster("größe")
    assert table.to_arrow(columns=names).sort_by("id").to_pylist() == expected.to_pylist()
    assert table.verify().ok


@pytest.mark.parametrize("name", ["a b", "a-b", "1a", "٣a", "हिन्दी", "\U0001d4b3", "Ⅷ"])
def test_what_avro_does_not_take_is_refused(tmp_path: Path, name: str):
    schema = pa.schema([("id", pa.string()), (name, pa.int64())])
    with pytest.raises(hoodoo.SchemaError, match=f"column {name} has a name that Avro does not take"):
        hoodoo.Table.create(tmp_path / "t", schema, name="t", record_key="id").upsert({"id": ["a"], name: [1]})
