"""One Spark for all tests of this folder, and DataFrames of Arrow tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark import sessions

pytest.register_assert_rewrite("tests.spark.same_table")

Frame = Callable[..., Any]


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Gives the session that `HOODOO_TEST_SPARK` names."""
    pytest.importorskip("pyspark")
    with sessions.session() as session:
        yield session


@pytest.fixture
def frame(spark: Any, tmp_path: Path) -> Frame:
    """Makes a DataFrame of Arrow tables: each of them is a partition, in this order."""
    made = 0

    def one(table: pa.Table) -> Any:
        nonlocal made
        made += 1
        path = tmp_path / "frames" / f"{made}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table, path)
        return spark.read.parquet(str(path))

    def make(*tables: pa.Table) -> Any:
        union = one(tables[0])
        for table in tables[1:]:
            union = union.union(one(table))
        return union

    return make


@pytest.fixture
def settings(spark: Any) -> Iterator[Callable[[str, str], None]]:
    """Changes settings of the session for one test."""
    before: dict[str, str | None] = {}

    def change(key: str, value: str) -> None:
        before.setdefault(key, spark.conf.get(key, None))
        spark.conf.set(key, value)

    yield change
    for key, value in before.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)
