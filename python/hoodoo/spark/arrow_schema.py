"""Arrow schemas as Spark has them."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["arrow_of", "spark_of", "spark_types"]

# Spark 4.3 wants to be told the zone of timestamps; before that it is always UTC.
_ASKS_FOR_ZONE = "timezone" in inspect.signature(to_arrow_schema).parameters


def arrow_of(schema: StructType) -> pa.Schema:
    """The Arrow schema in which Spark hands rows of these columns to Python."""
    if _ASKS_FOR_ZONE:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)


def spark_types(schema: pa.Schema) -> pa.Schema:
    """The nearest Arrow schema whose types Spark has: timestamps in microseconds, plain binary."""
    return pa.schema([field.with_type(_spark_type(field.type)) for field in schema])


def spark_of(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow schema of `spark_types`."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _spark_type(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(data_type):
        return pa.timestamp("us", tz=data_type.tz)
    if pa.types.is_fixed_size_binary(data_type):
        return pa.binary()
    if pa.types.is_list(data_type):
        field = data_type.value_field
        return pa.list_(field.with_type(_spark_type(field.type)))
    if pa.types.is_map(data_type):
        return pa.map_(
            _spark_type(data_type.key_type), data_type.item_field.with_type(_spark_type(data_type.item_type))
        )
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(_spark_type(field.type)) for field in data_type])
    return data_type
