"""Filters of polars: what a scan can prune by.

polars hands a filter over as its own expression, whose only readable form is JSON. What is not known in it, whatever
the version of polars, is left to polars, which applies the whole filter to each batch.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hoodoo.pruning import NEGATED, SWAPPED, Pruning, all_of, any_of, compare, decimal_scalar, is_in, is_null

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

__all__ = ["pruning_of"]

_OPERATORS = {"Eq": "=", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_BOUNDS = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}
_INTEGERS = frozenset({"Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"})
_UNITS = {"Milliseconds": "ms", "Microseconds": "us", "Nanoseconds": "ns"}


def pruning_of(predicate: pl.Expr, schema: pa.Schema) -> Pruning | None:
    """Return what a scan can prune by.

    Args:
        predicate: The filter.
        schema: The columns of the table.

    Returns:
        A filter in the form of the core that matches every row that the predicate matches, or None for nothing.

    Examples:
        >>> import polars as pl
        >>> found = pruning_of((pl.col("a") > 1) & pl.col("s").str.starts_with("x"), pa.schema({"a": pa.int64()}))
        >>> found[0], found[1][0][:2]
        ('and', ('>', 'a'))
    """
    try:
        node = json.loads(predicate.meta.serialize(format="json"))
        return _prune(node, schema, negated=False)
    except Exception:  # noqa: BLE001 - polars may not serialize it, or have another form of it: then nothing is pruned
        return None


def _prune(node: Any, schema: pa.Schema, *, negated: bool) -> Pruning | None:
    """A filter that matches where the node is true; or, negated, where it is false."""
    if not isinstance(node, dict) or len(node) != 1:
        return None
    (kind, body), *_ = node.items()
    if kind == "BinaryExpr":
        return _prune_binary(body["left"], body["op"], body["right"], schema, negated=negated)
    if kind == "Function" and "Boolean" in body["function"]:
        return _prune_function(body["function"]["Boolean"], body["input"], schema, negated=negated)
    field = _field(node, schema)
    if field is not None and pa.types.is_boolean(field.type):
        return compare("=", field, pa.scalar(not negated))
    return None


def _prune_binary(left: Any, operator: str, right: Any, schema: pa.Schema, *, negated: bool) -> Pruning | None:
    if operator in ("And", "LogicalAnd", "Or", "LogicalOr"):
        parts = [_prune(side, schema, negated=negated) for side in (left, right)]
        return all_of(parts) if operator.endswith("And") != negated else any_of(parts)
    if operator not in _OPERATORS:
        return None
    sign, field, value = _OPERATORS[operator], _field(left, schema), _literal(right)
    if field is None:
        sign, field, value = SWAPPED[sign], _field(right, schema), _literal(left)
    if field is None or value is None:
        return None
    # NaN equals NaN and is the largest value, to polars and to the core.
    return compare(NEGATED[sign] if negated else sign, field, value)


def _prune_function(function: Any, inputs: list[Any], schema: pa.Schema, *, negated: bool) -> Pruning | None:
    if function == "Not":
        return _prune(inputs[0], schema, negated=not negated)
    field = _field(inputs[0], schema)
    if field is None:
        return None
    if function in ("IsNull", "IsNotNull"):
        return is_null(field, negated=(function == "IsNotNull") != negated)
    if not isinstance(function, dict) or negated:
        return None
    if "IsBetween" in function:
        return _prune_between(field, _BOUNDS[function["IsBetween"]["closed"]], inputs[1:])
    # Not of a list with null, which null may be found in (`nulls_equal`): that has no form in the core.
    return is_in(field, _list(inputs[1])) if "IsIn" in function else None


def _prune_between(field: pa.Field, signs: tuple[str, str], bounds: list[Any]) -> Pruning | None:
    values = [_literal(bound) for bound in bounds]
    return all_of(
        [None if value is None else compare(sign, field, value) for sign, value in zip(signs, values, strict=True)]
    )


def _field(node: Any, schema: pa.Schema) -> pa.Field | None:
    name = node.get("Column") if isinstance(node, dict) else None
    return schema.field(name) if name in schema.names else None


def _scalar(node: Any) -> tuple[str, Any] | None:
    """The type and the value of a literal."""
    literal = node.get("Literal") if isinstance(node, dict) else None
    value = literal.get("Scalar", literal.get("Dyn")) if isinstance(literal, dict) else None
    if not isinstance(value, dict) or len(value) != 1:
        return None
    found: tuple[str, Any] = next(iter(value.items()))
    return found


def _literal(node: Any) -> pa.Scalar | None:
    found = _scalar(node)
    if found is None:
        return None
    kind, value = found
    if kind in _INTEGERS:
        return pa.scalar(value, getattr(pa, kind.lower())())
    read = _LITERALS.get(kind)
    return None if read is None else read(value)


def _list(node: Any) -> list[pa.Scalar]:
    """The values of a list; none of another literal, whose filter `is_in` then leaves out."""
    found = _scalar(node)
    if found is None or found[0] != "List":
        return []
    with pa.ipc.open_stream(bytes(found[1])) as reader:
        values = reader.read_all().column(0).combine_chunks()
    return [values[number] for number in range(len(values))]


def _timestamp(value: list[Any]) -> pa.Scalar:
    number, unit, zone = value
    return pa.scalar(number, pa.timestamp(_UNITS[unit], zone["inner"] if isinstance(zone, dict) else zone))


_LITERALS: dict[str, Callable[[Any], pa.Scalar]] = {
    "Boolean": lambda value: pa.scalar(bool(value)),
    # A number whose type is not decided yet.
    "Int": lambda value: pa.scalar(value, pa.int64()),
    "Float": lambda value: pa.scalar(value, pa.float64()),
    "Float32": lambda value: pa.scalar(value, pa.float32()),
    "Float64": lambda value: pa.scalar(value, pa.float64()),
    "String": lambda value: pa.scalar(value, pa.string()),
    "Binary": lambda value: pa.scalar(bytes(value), pa.binary()),
    "Date": lambda value: pa.scalar(value, pa.int32()).cast(pa.date32()),
    "Datetime": _timestamp,
    "Decimal": lambda value: decimal_scalar(value[0], value[2]),
}
