"""Conditions that skip what cannot have rows for a filter which Spark applies itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from hoodoo.exceptions import SchemaError
from hoodoo.filters import late_filter

if TYPE_CHECKING:
    from hoodoo.filters import NativeFilter

__all__ = ["Condition", "Conditions", "Pruned", "Pruning"]

Condition: TypeAlias = tuple[str, str, Any]
Conditions: TypeAlias = list[Condition]

# Spark takes NaN for the largest value, so a row with NaN passes these.
_NAN_PASSES = (">", ">=", "!=", "not in")


@dataclass(frozen=True)
class Pruning:
    """Conditions that hold for every row that is wanted. Can be pickled.

    They may let other rows through, and drop none that Spark keeps: a condition whose column or value does not fit the
    columns of the scan is left out.

    Attributes:
        conditions: The conditions, in the form of `hoodoo.filters.Filters`.
    """

    conditions: Conditions

    def __call__(self, schema: pa.Schema) -> NativeFilter:
        """Return the conditions that are safe for the columns of a scan, in the form of the core."""
        convert = late_filter([one for one in self.conditions if _is_safe(one, schema)])
        return ("and", []) if convert is None else convert(schema)


@dataclass(frozen=True)
class Pruned:
    """Conditions that hoodoo applies, and others that only skip. Can be pickled.

    Attributes:
        applied: Conditions that every row of the result meets.
        skipping: What filters that Spark applies say.
    """

    applied: Conditions
    skipping: Pruning

    def __call__(self, schema: pa.Schema) -> NativeFilter:
        """Return both, in the form of the core."""
        convert = late_filter(self.applied)
        skipping = self.skipping(schema)
        return skipping if convert is None else ("and", [convert(schema), skipping])


def _is_safe(condition: Condition, schema: pa.Schema) -> bool:
    """Whether no row that Spark keeps is dropped."""
    column, operator, value = condition
    if schema.names.count(column) != 1:
        return False
    data_type = schema.field(column).type
    if pa.types.is_nested(data_type):
        return False
    if operator.startswith("is "):
        return True
    if pa.types.is_floating(data_type):
        values = value if isinstance(value, list) else [value]
        # 0.0 and -0.0 are one value for Spark, and two in an order of bits.
        if operator in _NAN_PASSES or any(
            not isinstance(one, int | float) or math.isnan(one) or one == 0 for one in values
        ):
            return False
    try:
        convert = late_filter([condition])
        if convert is not None:
            convert(schema)
    except SchemaError:
        return False
    return True
