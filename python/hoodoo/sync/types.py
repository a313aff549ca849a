"""Types of columns in Hive's words and in Spark's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa

from hoodoo.exceptions import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["META_COLUMNS", "hive_type", "spark_schema"]

META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
"""The columns that Hudi adds to each table."""

_CHECKS: tuple[tuple[Callable[[pa.DataType], bool], str, str], ...] = (
    (pa.types.is_boolean, "boolean", "boolean"),
    (lambda kind: pa.types.is_integer(kind) and kind.bit_width < pa.int64().bit_width, "int", "integer"),
    (pa.types.is_integer, "bigint", "long"),
    (pa.types.is_float32, "float", "float"),
    (pa.types.is_float64, "double", "double"),
    (pa.types.is_date, "date", "date"),
    (pa.types.is_time32, "int", "integer"),
    (pa.types.is_time64, "bigint", "long"),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), "string", "string"),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind), "binary", "binary"),
    (pa.types.is_fixed_size_binary, "binary", "binary"),
)


def hive_type(kind: pa.DataType, *, timestamps: bool = False) -> str:
    """Return the type of a column in a Hive catalog.

    Args:
        kind: The type.
        timestamps: Write timestamps as `timestamp` instead of `bigint`.

    Returns:
        The type in lower case, as Hudi writes it.

    Raises:
        UnsupportedError: Hive has no such type.

    Examples:
        >>> hive_type(pa.struct([("a", pa.int32()), ("B", pa.list_(pa.decimal128(10, 2)))]))
        'struct<a:int,b:array<decimal(10,2)>>'
        >>> hive_type(pa.timestamp("us")), hive_type(pa.timestamp("us"), timestamps=True)
        ('bigint', 'timestamp')
    """

    def inner(one: pa.DataType) -> str:
        return hive_type(one, timestamps=timestamps)

    if pa.types.is_timestamp(kind):
        return "timestamp" if timestamps else "bigint"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        # Hive has no `-` in names of struct fields.
        fields = ",".join(f"{field.name.replace('-', '_').lower()}:{inner(field.type)}" for field in kind)
        return f"struct<{fields}>"
    if pa.types.is_map(kind):
        return f"map<{inner(kind.key_type)},{inner(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{inner(kind.value_type)}>"
    return _simple(kind)[0]


def spark_schema(fields: Sequence[pa.Field]) -> str:
    """Return Spark's JSON of a schema, letter for letter as Hudi writes it.

    Args:
        fields: The columns in the order in which Spark has them.

    Returns:
        The JSON.

    Raises:
        UnsupportedError: Spark has no such type.

    Examples:
        >>> spark_schema([pa.field("l", pa.list_(pa.int64()))])
        '{"type":"struct","fields":[{"name":"l","type":{"type":"array", "elementType":"long","containsNull":true},"nullable":true,"metadata":{}}]}'
    """  # noqa: E501 - one line of output
    named = ",".join(
        f'{{"name":{json.dumps(field.name, ensure_ascii=False)},"type":{_spark_type(field.type)},'
        f'"nullable":{_boolean(field.nullable)},"metadata":{{}}}}'
        for field in fields
    )
    return f'{{"type":"struct","fields":[{named}]}}'


def _spark_type(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return '"timestamp"' if kind.tz else '"timestamp_ntz"'
    if pa.types.is_decimal(kind):
        return f'"decimal({kind.precision},{kind.scale})"'
    if pa.types.is_struct(kind):
        return spark_schema(list(kind))
    # The space before the second key is Hudi's: the strings are compared.
    if pa.types.is_map(kind):
        return (
            f'{{"type":"map", "keyType":{_spark_type(kind.key_type)},"valueType":{_spark_type(kind.item_type)},'
            f'"valueContainsNull":{_boolean(kind.item_field.nullable)}}}'
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return (
            f'{{"type":"array", "elementType":{_spark_type(kind.value_type)},'
            f'"containsNull":{_boolean(kind.value_field.nullable)}}}'
        )
    return f'"{_simple(kind)[1]}"'


def _simple(kind: pa.DataType) -> tuple[str, str]:
    for matches, hive, spark in _CHECKS:
        if matches(kind):
            return hive, spark
    raise UnsupportedError(f"the type {kind} has no counterpart in a Hive catalog")


def _boolean(value: object) -> str:
    return "true" if value else "false"
