"""Kinds of log blocks that Hudi does not write unasked: HFiles, and deletes as versions before 1.0 wrote them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from tests.interop.avro_reader import avro_rows
from tests.interop.hudi import Hudi
from tests.interop.java_objects import JavaObjects
from tests.interop.layouts import SIMPLE, Layout, batch, row
from tests.interop.log_files import with_content
from tests.interop.merge_on_read import NO_SMALL_FILES, mor_options
from tests.interop.test_mor_hudi_written import all_types
from tests.rows import Row, arrow_rows

_HFILE = {"hoodie.logfile.data.block.format": "hfile"}
_PLAIN = Layout("plain", partitions="")
_EVENT, _COMMIT = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"


def _options(layout: Layout = SIMPLE, version: int = 9, mode: str = _EVENT) -> dict[str, str]:
    return {**mor_options(layout, version, mode), **NO_SMALL_FILES}


def _logs(uri: str) -> set[Path]:
    return {p for p in Path(uri).rglob(".*.log.*") if p.suffix != ".crc"}


def _kinds(uri: str) -> set[int]:
    return {int.from_bytes(p.read_bytes()[18:22], "big") for p in _logs(uri)}


_HISTORIES = [
    pytest.param(_PLAIN, _EVENT, 9, 3),
    *(
        pytest.param(SIMPLE, m, v, 6, marks=pytest.mark.slow)
        for m, v in [(_EVENT, 9), (_COMMIT, 9), (_EVENT, 8), (_COMMIT, 6)]
    ),
]


@pytest.mark.parametrize(("layout", "mode", "version", "turns"), _HISTORIES)
def test_hfile_blocks(hudi: Hudi, tmp_path: Path, layout: Layout, mode: str, version: int, turns: int) -> None:
    """Random upserts and deletes, compared after every commit."""
    uri = str(tmp_path / "table")
    options = {**_options(layout, version, mode), **_HFILE}
    chance = random.Random(f"{mode} {version}")
    hudi.write(batch([row(n, 4, "first") for n in range(8)]), uri, "insert", **options)
    for turn in range(turns):
        rows = [row(n, chance.randint(0, 9), f"turn {turn}.{n}") for n in chance.sample(range(12), 5)]
        hudi.write(batch(rows), uri, "delete" if turn == 1 else "upsert", **options)
        table = hoodoo.Table(uri)
        assert arrow_rows(table.to_arrow(), meta=True) == avro_rows(hudi, uri), turn
        assert not [p for p in table.verify().problems if p.severity == "error"]
    assert {1, 4} <= _kinds(uri)


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["gz", "none"])
def test_large_hfile_blocks(hudi: Hudi, tmp_path: Path, codec: str) -> None:
    """Many data blocks within one log block."""
    uri = str(tmp_path / "table")
    options = {**_options(_PLAIN), **_HFILE, "hoodie.hfile.compression.algorithm": codec}

    def rows(ts: int) -> pa.Table:
        return batch([row(n, ts, f"{n * 7919 % 65_537:x}" * 20) for n in range(20_000)])

    hudi.write(rows(1), uri, "insert", **options)
    hudi.write(rows(2), uri, "upsert", **options)
    assert arrow_rows(hoodoo.Table(uri).to_arrow()) == arrow_rows(rows(2))


def test_types_in_hfile_blocks(hudi: Hudi, tmp_path: Path) -> None:
    """The same rows in blocks that Spark's reader can read."""
    rows: list[list[Row]] = []
    for extra in (_HFILE, {}):
        uri = str(tmp_path / f"table{len(rows)}")
        options = {**_options(_PLAIN), **extra}
        hudi.write(all_types(), uri, "insert", **options)
        later = pa.array(["later", "later"])
        hudi.write(all_types().set_column(2, "val", later), uri, "upsert", **options)
        rows.append(arrow_rows(hoodoo.Table(uri).to_arrow()))
    assert rows[0] == rows[1] == hudi.read(uri)
    assert {r["val"] for r in rows[0]} == {"later"}


def test_a_column_by_the_name_of_key(hudi: Hudi, tmp_path: Path) -> None:
    """Hudi leaves it empty in HFile blocks and fills it with the record key, whatever it was."""
    uri = str(tmp_path / "table")
    options = {**_options(_PLAIN), **_HFILE}
    for operation in ("insert", "upsert"):
        rows = pa.table({"id": ["b", "a", "é"], "ts": pa.array([1, 1, 1]), "key": ["x", None, ""]})
        hudi.write(rows, uri, operation, **options)
    read = avro_rows(hudi, uri)
    assert [r["key"] for r in read] == [r["id"] for r in read]
    assert arrow_rows(hoodoo.Table(uri).to_arrow(), meta=True) == read
    assert sorted(hoodoo.Table(uri).to_arrow(columns=["key"])["key"].to_pylist()) == ["a", "b", "é"]


_ORDERINGS: dict[str, tuple[pa.DataType, list[Any], Callable[[JavaObjects], Callable[[Any], Any]]]] = {
    "long": (pa.int64(), [3, 5, 7], lambda java: java.long),
    "int": (pa.int32(), [3, 5, 7], lambda java: java.integer),
    "double": (pa.float64(), [-1.5, 0.0, 2.25], lambda java: java.double),
    "string": (pa.string(), ["a", "b", "ü"], lambda java: java.text),
}


@pytest.mark.parametrize(
    "name", ["long", *(pytest.param(n, marks=pytest.mark.slow) for n in ("int", "double", "string"))]
)
@pytest.mark.parametrize("version", [1, 2])
def test_deletes_of_java_objects(hudi: Hudi, tmp_path: Path, version: int, name: str) -> None:
    """A delete that Hudi wrote, its content replaced by what older versions wrote."""
    kind, values, maker = _ORDERINGS[name]
    uri = str(tmp_path / "table")
    options = {**_options(_PLAIN), "hoodie.table.ordering.fields": "o"}

    def rows(ordering: Any, text: str) -> pa.Table:
        count = 2 * len(values)
        columns = {
            "id": [f"k{n}" for n in range(count)],
            "o": pa.array([ordering] * count, kind),
            "val": [text] * count,
        }
        return pa.table(columns)

    hudi.write(rows(values[1], "base"), uri, "insert", **options)
    before = _logs(uri)
    hudi.write(rows(values[1], ""), uri, "delete", **options)
    (log,) = _logs(uri) - before
    java = JavaObjects(hudi)
    make, partition = maker(java), java.text("")
    keys = [java.text(f"k{n}") for n in range(len(values))]
    if version == 1:
        objects = java.keys([java.key(key, partition) for key in keys])
    else:
        given = [make(value) for value in values]
        nothing = java.delete(java.text(f"k{len(values)}"), partition, java.null())
        objects = java.deletes([*(java.delete(k, partition, v) for k, v in zip(keys, given, strict=True)), nothing])
    log.write_bytes(with_content(log.read_bytes(), java.content(version, objects)))
    log.with_name(f".{log.name}.crc").unlink(missing_ok=True)
    # The file has another size than its commit says.
    other_size = {"hoodoo.log.skip.corrupt.blocks": "true"}
    read = hudi.read(uri, meta=True)
    assert arrow_rows(hoodoo.Table(uri, other_size).to_arrow(), meta=True) == read
    left = {r["id"] for r in read}
    assert "k0" in left if version == 2 else "k0" not in left
    assert {"k1", "k2"}.isdisjoint(left)
    assert "k5" in left
    hudi.write(rows(values[1], "after").slice(1, 1), uri, "upsert", **options)
    read = hudi.read(uri, meta=True)
    assert arrow_rows(hoodoo.Table(uri, other_size).to_arrow(), meta=True) == read
    assert "k1" in {r["id"] for r in read}
