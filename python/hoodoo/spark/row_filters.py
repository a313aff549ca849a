"""Filters of a read in Spark's own forms: SQL text and Columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql import Column

from hoodoo.exceptions import InvalidOptionError
from hoodoo.spark.filter_text import conditions_of_text
from hoodoo.spark.pruning import Pruning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

__all__ = ["META_COLUMNS", "RowFilters", "columns_to_read", "pruning_of"]

RowFilters: TypeAlias = Any
"""`hoodoo.filters.Filters`, a filter in SQL, or a Column of Spark."""

META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
"""Hudi's columns, which come before those of the table."""


def pruning_of(filters: RowFilters | None, spark: SparkSession) -> Pruning | None:
    """Return what a filter that Spark applies says about the files to read; None for a filter that hoodoo applies.

    A Column tells its SQL in a classic session of Spark 3.5 alone. Elsewhere, it prunes nothing.
    """
    if isinstance(filters, str):
        if not filters.strip():
            raise InvalidOptionError("filters is an empty string: pass a condition in SQL, or None for all rows")
        return Pruning([] if '"' in filters and _quotes_names(spark) else conditions_of_text(filters))
    # The Columns of Connect are a class of their own before Spark 4.
    if isinstance(filters, Column) or type(filters).__name__ == "Column":
        return Pruning(conditions_of_text(_sql(filters)))
    return None


def columns_to_read(columns: Sequence[str], filters: RowFilters, known: Sequence[str]) -> list[str]:
    """Return columns, and after them those that a filter may name."""
    text = str(filters).lower()

    def may_be_named(name: str) -> bool:
        return re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", text) is not None

    return [*columns, *(name for name in known if name not in columns and may_be_named(name))]


def _quotes_names(spark: SparkSession) -> bool:
    """Whether what is in double quotes may be the name of a column rather than a string."""
    settings = ("spark.sql.ansi.enabled", "spark.sql.ansi.doubleQuotedIdentifiers")
    try:
        return all(spark.conf.get(name) == "true" for name in settings)
    except Exception:  # noqa: BLE001 - a session that does not tell it may do either
        return True


def _sql(column: Any) -> str:
    """The SQL of a Column; empty where Spark does not tell it, or, as Spark 4, does not escape strings in it."""
    try:
        return str(column._jc.expr().sql())  # noqa: SLF001 - Spark has no other way
    except Exception:  # noqa: BLE001 - each line of Spark has an error of its own for what it lacks
        return ""
