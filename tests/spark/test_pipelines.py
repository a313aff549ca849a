"""Pipelines around a write: UDFs before it, groups, and micro-batches of a stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hoodoo
import hoodoo.spark
from tests.interop.layouts import SIMPLE, batch, row
from tests.rows import arrow_rows, plain_rows
from tests.spark import sessions

Frame = Callable[..., Any]
OPTIONS = SIMPLE.options()


def _rows(numbers: range, ts: int, text: str) -> pa.Table:
    return batch([row(n, ts, text) for n in numbers])


def test_map_in_arrow_before_a_write(frame: Frame, tmp_path: Path):
    def louder() -> Any:
        def louder(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for rows in batches:
                at = rows.schema.get_field_index("val")
                yield rows.set_column(at, rows.schema.field(at), pc.utf8_upper(rows.column(at)))

        return louder

    uri = str(tmp_path / "table")
    for ts in (10, 11):
        rows = frame(_rows(range(100), ts, f"text {ts}"), _rows(range(80, 150), ts, f"text {ts}"))
        hoodoo.spark.write(rows.mapInArrow(louder(), rows.schema), uri, options=OPTIONS)
    assert arrow_rows(hoodoo.Table(uri).to_arrow()) == arrow_rows(_rows(range(150), 11, "TEXT 11"))


def test_groups_of_pandas_before_a_write(frame: Frame, spark: Any, tmp_path: Path):
    """Reads a table, changes it group by group, and writes it back."""

    def best() -> Any:
        def best(rows: pd.DataFrame) -> pd.DataFrame:
            changed = rows.assign(amount=rows["amount"].max(), ts=rows["ts"] + 1)
            return changed[rows["id"].str.endswith("5")]

        return best

    uri = str(tmp_path / "table")
    hoodoo.spark.write(frame(_rows(range(60), 10, "x")), uri, options=OPTIONS)
    columns = ["id", "site", "ts", "part", "day", "val", "amount"]
    stored = hoodoo.spark.read(spark, uri, columns=columns)
    changed = stored.groupBy("part").applyInPandas(best(), stored.schema)
    commit = hoodoo.spark.write(changed, uri, options=OPTIONS)
    assert (commit.inserted, commit.updated) == (0, 6)
    rows = _rows(range(60), 10, "x").to_pylist()
    most = {part: max(r["amount"] for r in rows if r["part"] == part) for part in ("p 0", "p 1", "p 2")}
    expected = [{**r, "ts": 11, "amount": most[r["part"]]} if r["id"].endswith("5") else r for r in rows]
    assert arrow_rows(hoodoo.Table(uri).to_arrow()) == plain_rows(expected)


@pytest.mark.skipif(
    sessions.KIND == "connect", reason="a batch function runs in the server, without the driver's table"
)
def test_micro_batches_of_a_stream(spark: Any, tmp_path: Path):
    """`foreachBatch` upserts each batch; the query stops and starts again, and goes on where it was."""
    source, uri = tmp_path / "source", str(tmp_path / "table")
    source.mkdir()
    commits: list[hoodoo.Commit] = []

    def upsert(rows: Any, _: int) -> None:
        commits.append(hoodoo.spark.write(rows, uri, options=OPTIONS))

    def run() -> None:
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").parquet(str(source))
        checkpoint = {"checkpointLocation": str(tmp_path / "checkpoint")}
        query = stream.writeStream.foreachBatch(upsert).options(**checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(240)

    for ts in (1, 2, 3):
        pq.write_table(_rows(range(ts * 20, ts * 20 + 50), ts, f"v{ts}"), source / f"{ts}.parquet")
        time.sleep(0.02)
    schema = spark.read.parquet(str(source)).schema
    run()
    assert len(commits) == 3
    pq.write_table(_rows(range(70), 4, "v4"), source / "4.parquet")
    run()
    assert len(commits) == 4
    expected = {r["id"]: r for ts in (1, 2, 3) for r in _rows(range(ts * 20, ts * 20 + 50), ts, f"v{ts}").to_pylist()}
    expected |= {r["id"]: r for r in _rows(range(70), 4, "v4").to_pylist()}
    table = hoodoo.Table(uri)
    assert arrow_rows(table.to_arrow()) == plain_rows(expected.values())
    assert not table.verify().problems
