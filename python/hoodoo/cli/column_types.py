"""Columns that people type: `id:string`, `ts:timestamp`, `fare:decimal(10,2)`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from hoodoo import InvalidOptionError
from hoodoo.statements.sql_types import SPARK_TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["schema_of"]

_DECIMAL = re.compile(r"decimal(?:128)?\((\d+),(\d+)\)")


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of columns that are typed as `NAME:TYPE`.

    Args:
        columns: The columns. A type is one of Spark SQL (`string`, `int`, `bigint`, `double`, `date`, `timestamp`,
            `decimal(10,2)`, …) or of Arrow (`int64`, `float64`, `date32`, …).

    Returns:
        The schema.

    Raises:
        InvalidOptionError: A column has another form, or the type is not known.

    Examples:
        >>> schema_of(["id:string", "n:bigint", "fare:decimal(10,2)"]).types
        [DataType(string), DataType(int64), Decimal128Type(decimal128(10, 2))]
    """
    fields = []
    for text in columns:
        name, colon, kind = (part.strip() for part in text.partition(":"))
        if not (name and colon and kind):
            raise InvalidOptionError(f"invalid column {text!r}: expected NAME:TYPE, such as id:string")
        fields.append(pa.field(name, _type(kind.lower().replace(" ", ""), text)))
    return pa.schema(fields)


def _type(kind: str, text: str) -> pa.DataType:
    if kind in SPARK_TYPES:
        return SPARK_TYPES[kind]
    try:
        if decimal := _DECIMAL.fullmatch(kind):
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        return pa.type_for_alias(kind)
    except ValueError as error:
        raise InvalidOptionError(
            f"unknown type in the column {text!r}: expected {', '.join(SPARK_TYPES)}, decimal(p,s) or a type of Arrow"
        ) from error
