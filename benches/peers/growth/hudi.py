"""The same steps by real Hudi in a local Spark, at sizes that it can do in a bench."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benches.peers.growth.axes import ALONE, UPDATED_FILES, rows_of, wide

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from benches.peers.growth.axes import Step

SIZES = {"partitions": (10, 100, 1_000), "columns": (10, 100, 1_000)}
"""Sizes of the axes that Hudi is asked."""


def steps(session: Any, axis: str, place: Path, n: int) -> Iterator[Step]:
    """The steps of an axis that Hudi is asked."""
    parts = {"partitions": "part", "columns": ""}[axis]

    def write(rows: pa.Table, operation: str, mode: str = "append") -> None:
        options = {
            **ALONE,
            "hoodie.table.name": "growth",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.partitionpath.field": parts,
            "hoodie.datasource.write.operation": operation,
        }
        source = place.with_name(f"{place.name}-rows.parquet")
        rows.to_pandas().to_parquet(source, index=False)
        session.read.parquet(str(source)).write.format("hudi").options(**options).mode(mode).save(str(place))

    def scan() -> None:
        session.read.format("hudi").options(**ALONE).load(str(place)).write.format("noop").mode("overwrite").save()

    if axis == "partitions":
        some = min(n, UPDATED_FILES)
        yield "bulk_insert", lambda: write(rows_of(range(n), 1, n), "bulk_insert", "overwrite")
        yield "upsert 950", lambda: write(rows_of(range(some), 2, n), "upsert")
    else:
        yield "insert", lambda: write(wide(n, 1), "insert", "overwrite")
        yield "upsert", lambda: write(wide(n, 2), "upsert")
    yield "scan", scan
