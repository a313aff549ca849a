"""Real Hudi at work in the middle of a write of ours: nothing that either of them acknowledged is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import ConflictError
from hoodoo.distributed.write import prepare_write
from tests.interop.hudi import Hudi
from tests.local_executor import LocalExecutor

_SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("n", pa.int64())])
_OPTIONS = {"hoodie.table.timeline.timezone": "UTC", "hoodie.compact.inline.max.delta.commits": "1"}
_HUDI = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.parquet.small.file.limit": "0",
}
Write = Callable[[str, Callable[[], object]], None]


def _rows(*rows: tuple[str, str, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(_SCHEMA.names, row, strict=True)) for row in rows], schema=_SCHEMA)


def _make(folder: Path, kind: str) -> str:
    uri = str(folder / "t")
    table = hoodoo.Table.create(
        uri, _SCHEMA, name="t", record_key="id", partition_by="part", table_type=kind, options=_OPTIONS
    )
    table.insert(_rows(("a", "p", 0), ("b", "p", 0), ("c", "q", 0)))
    table.upsert(_rows(("a", "p", 1)))
    return uri


def _values(rows: list[dict[str, Any]]) -> dict[str, int]:
    found = {row["id"]: row["n"] for row in rows}
    assert len(found) == len(rows), rows
    return found


def _streamed(uri: str, middle: Callable[[], object]) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield _rows(("b", "p", 2)).to_batches()[0]
        middle()
        yield _rows(("d", "p", 2)).to_batches()[0]

    hoodoo.Table(uri, _OPTIONS).upsert(pa.RecordBatchReader.from_batches(_SCHEMA, batches()))


def _in_tasks(uri: str, middle: Callable[[], object]) -> None:
    begun = prepare_write(_SCHEMA, uri, "upsert", _OPTIONS, {}).begin(_SCHEMA, 1)
    data = [_rows(("b", "p", 2), ("d", "p", 2))]
    reports = begun.execute(LocalExecutor(), data, "upsert", _OPTIONS)
    middle()
    begun.commit(reports)


def _cases(*, later: tuple[tuple[str, Write], ...]) -> list[Any]:
    """Each kind of table with each way to write; some of them only where time is no matter."""
    return [
        pytest.param(kind, write, marks=pytest.mark.slow if (kind, write) in later else ())
        for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")
        for write in (_streamed, _in_tasks)
    ]


@pytest.mark.parametrize(("kind", "write"), _cases(later=(("COPY_ON_WRITE", _streamed),)))
def test_a_clustering_of_hudi(hudi: Hudi, tmp_path: Path, kind: str, write: Write):
    uri = _make(tmp_path, kind)
    before = {"a": 1, "b": 0, "c": 0}
    try:
        write(uri, lambda: hudi.call("run_clustering", uri, options="hoodie.metadata.enable=false"))
        wanted = {**before, "b": 2, "d": 2}
    except ConflictError:
        wanted = before
    assert hoodoo.Table(uri).timeline.instants("replacecommit", "completed")
    # What was streamed in is planned anew; tasks have to be run again.
    assert write is not _streamed or wanted != before
    assert _values(hudi.read(uri)) == _values(hoodoo.Table(uri).to_arrow().to_pylist()) == wanted
    hoodoo.Table(uri, _OPTIONS).upsert(_rows(("b", "p", 9)))
    hudi.write(_rows(("c", "q", 9)), uri, **_HUDI)
    assert _values(hudi.read(uri)) == _values(hoodoo.Table(uri).to_arrow().to_pylist()) == {**wanted, "b": 9, "c": 9}
    assert not hoodoo.Table(uri).verify().problems


@pytest.mark.parametrize(("kind", "write"), _cases(later=(("COPY_ON_WRITE", _in_tasks), ("MERGE_ON_READ", _streamed))))
@pytest.mark.parametrize("theirs", [("b", "p", 7), ("d", "p", 7)], ids=["same key", "same new key"])
def test_an_upsert_of_hudi(
    hudi: Hudi,
    tmp_path: Path,
    kind: str,
    write: Write,
    theirs: tuple[str, str, int],
):
    uri = _make(tmp_path, kind)
    before = {"a": 1, "b": 0, "c": 0, theirs[0]: theirs[2]}
    try:
        write(uri, lambda: hudi.write(_rows(theirs), uri, **_HUDI))
        wanted = {**before, "b": 2, "d": 2}
    except ConflictError:
        wanted = before
    assert write is not _streamed or wanted != before
    assert _values(hudi.read(uri)) == _values(hoodoo.Table(uri).to_arrow().to_pylist()) == wanted
    hoodoo.Table(uri, _OPTIONS).upsert(_rows(("b", "p", 9)))
    assert _values(hudi.read(uri)) == {**wanted, "b": 9}
    assert not hoodoo.Table(uri).verify().problems
