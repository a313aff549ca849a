"""Expressions have the values that Spark gives them, in its ANSI mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from hoodoo.exceptions import SchemaError
from hoodoo.statements.coercion import as_array, plain
from hoodoo.statements.evaluate import Scope, evaluate
from hoodoo.statements.sql import parse_sql
from tests.expression_cases import CONDITIONS, ROWS, VALUES

Frame = Callable[..., Any]


def _ours(expression: str) -> list[Any]:
    scope = Scope.of_batch(ROWS.combine_chunks().to_batches()[0])
    return _comparable(as_array(evaluate(parse_sql(expression), scope), scope.rows))


def _comparable(values: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us")).cast(pa.int64())
    return [repr(float(v)) if isinstance(v, float) else v for v in values.to_pylist()]


@pytest.fixture
def spark_values(spark: Any, frame: Frame, settings: Any) -> Callable[[str], list[Any]]:
    settings("spark.sql.ansi.enabled", "true")
    rows = ROWS.append_column("n", pa.array(range(ROWS.num_rows)))
    frame(rows).createOrReplaceTempView("expression_rows")

    def values(expressions: list[str]) -> list[list[Any]]:
        columns = ", ".join(f"{e} as c{n}" for n, e in enumerate(expressions))
        found = spark.sql(f"select n, {columns} from expression_rows").collect()
        return [[row[f"c{n}"] for row in sorted(found, key=lambda r: r.n)] for n in range(len(expressions))]

    return values  # type: ignore[return-value]


def _same(ours: list[Any], theirs: list[Any]) -> bool:
    def value(v: Any) -> Any:
        if isinstance(v, float):
            return repr(v)
        if hasattr(v, "timestamp"):
            return round(v.replace(tzinfo=v.tzinfo).timestamp() * 1_000_000) if v.tzinfo else v
        return v

    return ours == [value(v) for v in theirs]


def test_values_are_those_of_spark(spark_values: Any):
    times = {"cast(d as timestamp)"}
    expressions = [e for e in CONDITIONS + VALUES if e not in times]
    # Spark computes what several expressions have in common for all rows: those that may fail get a query of their own.
    alone = [e for e in expressions if "/ b" in e]
    together = [e for e in expressions if e not in alone]
    expected = dict(zip(together, spark_values(together), strict=True)) | {e: spark_values([e])[0] for e in alone}
    different = {e: (_ours(e), values) for e, values in expected.items() if not _same(_ours(e), values)}
    assert not different


@pytest.mark.parametrize(
    "expression", ["a / 0", "a + 9223372036854775807", "cast(s as int)", "a div b", "cast(1e20 as int)"]
)
def test_what_fails_in_spark_fails(spark_values: Any, expression: str):
    with pytest.raises(Exception, match=r"ANSI|OVERFLOW|overflow|ZERO|CAST"):
        spark_values([expression])
    with pytest.raises(SchemaError):
        _ours(expression)


def test_types_of_a_column_as_it_is_stored():
    assert plain(pa.array(["a", "b"]).dictionary_encode()).to_pylist() == ["a", "b"]
