"""Types of Spark SQL: `bigint`, `decimal(10,2)`, `array<struct<a: int, b: string>>`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from hoodoo.exceptions import InvalidOptionError, UnsupportedError

if TYPE_CHECKING:
    from hoodoo.statements.sql_tokens import Tokens

__all__ = ["SPARK_TYPES", "read_type"]

SPARK_TYPES = {
    "boolean": pa.bool_(), "int": pa.int32(), "integer": pa.int32(), "bigint": pa.int64(), "long": pa.int64(),
    "float": pa.float32(), "real": pa.float32(), "double": pa.float64(), "string": pa.string(), "binary": pa.binary(),
    "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "timestamp_ltz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
"""Types without parameters that a column of a Hudi table can have, by the names of Spark SQL."""
_DECIMALS = {"decimal", "dec", "numeric"}
_MOST_DIGITS = 38
_DEEPEST = 50


def read_type(tokens: Tokens, depth: int = 0) -> pa.DataType:
    """Read a type.

    Args:
        tokens: The statement, where the type is next.
        depth: Of how many other types it is a part.

    Returns:
        The type, as pyarrow has it.

    Raises:
        InvalidOptionError: It is no type.
        UnsupportedError: Hudi's tables have no such type; the error names it.

    Examples:
        >>> from hoodoo.statements.sql_tokens import Tokens
        >>> read_type(Tokens("map<string, array<struct<a: int, b: decimal(10,2)>>>", "A type"))
        MapType(map<string, list<element: struct<a: int32, b: decimal128(10, 2)>>>)
    """
    if depth > _DEEPEST:
        raise UnsupportedError(f"a type in a statement of {len(tokens.text)} characters is nested too deeply")
    name = tokens.name()
    kind = name.lower()
    if kind in SPARK_TYPES and not tokens.follows("("):
        return SPARK_TYPES[kind]
    if kind in _DECIMALS:
        return _decimal(tokens)
    if kind == "array":
        tokens.expect("<")
        element = read_type(tokens, depth + 1)
        tokens.expect(">")
        return pa.list_(pa.field("element", element))
    if kind == "map":
        tokens.expect("<")
        key = read_type(tokens, depth + 1)
        tokens.expect(",")
        value = read_type(tokens, depth + 1)
        tokens.expect(">")
        return pa.map_(key, value)
    if kind == "struct":
        return _struct(tokens, depth)
    raise UnsupportedError(
        f"the type `{name}` in {tokens.text!r} is not supported: expected one of {', '.join(SPARK_TYPES)}, "
        "decimal(p,s), array<…>, map<…>, struct<…>"
    )


def _decimal(tokens: Tokens) -> pa.DataType:
    precision, scale = 10, 0
    if tokens.take("("):
        precision = tokens.number()
        if tokens.take(","):
            scale = tokens.number()
        tokens.expect(")")
    if not 1 <= precision <= _MOST_DIGITS or scale > precision:
        raise InvalidOptionError(f"decimal({precision},{scale}) in {tokens.text!r}: a decimal has 1 to 38 digits")
    return pa.decimal128(precision, scale)


def _struct(tokens: Tokens, depth: int) -> pa.DataType:
    tokens.expect("<")
    fields: list[pa.Field] = []
    while True:
        name = tokens.name()
        tokens.take(":")
        data_type = read_type(tokens, depth + 1)
        if tokens.take("NOT", "NULL"):
            raise UnsupportedError(f"NOT NULL in {tokens.text!r} is not supported: what is added is null in older rows")
        if tokens.take("COMMENT"):
            raise UnsupportedError(f"COMMENT within a struct is not supported: {tokens.text!r}")
        if name in {field.name for field in fields}:
            raise InvalidOptionError(f"the field {name!r} is there twice in {tokens.text!r}")
        fields.append(pa.field(name, data_type))
        if not tokens.take(","):
            tokens.expect(">")
            return pa.struct(fields)
