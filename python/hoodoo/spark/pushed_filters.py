"""Filters that Spark pushes into the data source, as filters of hoodoo.

Spark applies every filter again, so a filter that is not understood is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hoodoo.spark.pruning import Conditions

__all__ = ["conditions_of"]

_COMPARISONS = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_NEGATED = {"EqualTo": "!=", "GreaterThan": "<=", "GreaterThanOrEqual": "<", "LessThan": ">=", "LessThanOrEqual": ">"}
_LAST_CHARACTER = 0x10FFFF


def conditions_of(filters: Iterable[Any]) -> Conditions:
    """Return the conditions that filters of Spark mean, without those that hoodoo does not know.

    Args:
        filters: Instances of `pyspark.sql.datasource.Filter`.

    Returns:
        Conditions that hold for every row that passes the filters.
    """
    return [condition for one in filters for condition in _conditions(one)]


def _conditions(spark_filter: Any) -> Conditions:
    """The conditions that one filter means; none if it is not understood."""
    negated = type(spark_filter).__name__ == "Not"
    if negated:
        spark_filter = spark_filter.child
    if len(spark_filter.attribute) != 1:
        return []
    name, column = type(spark_filter).__name__, spark_filter.attribute[0]
    value = getattr(spark_filter, "value", None)
    if name in {"IsNull", "IsNotNull"} or (name == "EqualNullSafe" and value is None):
        return [(column, "is not null" if (name == "IsNotNull") != negated else "is null")]
    if value is None:
        return []
    if name == "In":
        return _membership(column, value, negated=negated)
    if name == "StringStartsWith" and not negated:
        return _prefix(column, value)
    operator = (_NEGATED if negated else _COMPARISONS).get(name)
    return [] if operator is None else [(column, operator, value)]


def _membership(column: str, values: Iterable[Any], *, negated: bool) -> Conditions:
    given = list(values)
    known = [value for value in given if value is not None]
    if negated:
        return [(column, "not in", known)] if len(known) == len(given) and known else []
    return [(column, "in", known)] if known else []


def _prefix(column: str, prefix: str) -> Conditions:
    """The range of strings with a prefix."""
    if not prefix:
        return [(column, "is not null")]
    conditions: Conditions = [(column, ">=", prefix)]
    following = ord(prefix[-1]) + 1
    is_surrogate = 0xD800 <= following <= 0xDFFF  # noqa: PLR2004 - Unicode's range
    if following <= _LAST_CHARACTER and not is_surrogate:
        conditions.append((column, "<", prefix[:-1] + chr(following)))
    return conditions
