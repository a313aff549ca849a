"""Procedures of Hudi's SQL as DataFrames."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from pyspark.sql.pandas.types import from_arrow_schema

from hoodoo import procedures
from hoodoo.exceptions import InvalidOptionError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hoodoo.procedures.arguments import TableLike

__all__ = ["call"]


def call(spark: SparkSession, procedure: str, table: TableLike, **arguments: Any) -> DataFrame:
    """Run a procedure of `hoodoo.procedures` on the driver, and return its rows as a DataFrame.

    Args:
        spark: The session, classic or Connect.
        procedure: The name of the procedure, such as `show_commits`.
        table: The table, or its location.
        arguments: The other arguments, by the names that Hudi has for them.

    Returns:
        The rows, in the columns of Hudi's procedure.

    Raises:
        UnsupportedError: There is no such procedure.
        InvalidOptionError: An argument is unknown, missing or invalid.
        HudiError: As the procedure.

    Example:
        ```python
        hoodoo.spark.call(spark, "show_commits", "s3://lake/trips", limit=5).show()
        ```
    """
    if procedure not in procedures.__all__:
        raise UnsupportedError(
            f"the procedure {procedure!r} is not supported: expected one of {', '.join(sorted(procedures.__all__))}"
        )
    function = getattr(procedures, procedure)
    try:
        inspect.signature(function).bind(table, **arguments)
    except TypeError as error:
        known = ", ".join(inspect.signature(function).parameters)
        raise InvalidOptionError(f"invalid arguments of {procedure}: {error}. Arguments: {known}") from error
    rows = function(table, **arguments)
    return spark.createDataFrame([tuple(row.values()) for row in rows.to_pylist()], from_arrow_schema(rows.schema))
