"""Spark as an executor of `hoodoo.distributed`: rows cross to Rust by `mapInArrow`, and shuffles are Spark's."""

from __future__ import annotations

import functools
import inspect
import re
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from hoodoo import exceptions
from hoodoo.distributed import Attempt, BatchFunction
from hoodoo.exceptions import HudiError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkExecutor", "arrow_of", "run_task", "spark_schema"]

# From Spark 4.3 on, the zone of timestamps is an argument; before, it is always UTC.
_HAS_ZONE = "timezone" in inspect.signature(to_arrow_schema).parameters
# Units of so many characters together are a literal of the plan: longer plans would be hard to read.
_INLINE_CHARACTERS = 32 << 10
# Units are JSON, where control characters are escaped.
_SEPARATOR = "\0"
_ERROR_IN_TRACEBACK = re.compile(r"^\s*hoodoo\.exceptions\.(\w+): (.*)$", re.MULTILINE)


class SparkExecutor:
    """Runs tasks on a Spark session, classic or Connect. See `hoodoo.distributed.Executor`."""

    def __init__(self, session: SparkSession) -> None:
        """Take a session."""
        self._session = session

    @property
    def shuffle_partitions(self) -> int:
        """The setting `spark.sql.shuffle.partitions`."""
        return int(self._session.conf.get("spark.sql.shuffle.partitions", "200") or 200)

    @property
    def batch_rows(self) -> int:
        """The setting `spark.sql.execution.arrow.maxRecordsPerBatch`."""
        return max(0, int(self._session.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch", "10000") or 10_000))

    def schema(self, data: DataFrame) -> pa.Schema:
        """Return the Arrow schema in which Spark passes rows to Python."""
        return arrow_of(data.schema)

    def supported_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema with timestamps in microseconds, and binary without a fixed size."""
        return _supported(schema)

    def from_units(self, units: Sequence[str]) -> DataFrame:
        """Return a DataFrame with a partition for each unit."""
        if sum(map(len, units)) > _INLINE_CHARACTERS or any(_SEPARATOR in unit for unit in units):
            frame = self._session.createDataFrame(list(enumerate(units)), "number int, value string")
            # By range: a round-robin repartition puts several rows into one partition and none into others.
            return frame.repartitionByRange(max(1, len(units)), "number")
        # Each task gets all as a literal and takes its own. That saves a shuffle and the job that samples for it.
        number = F.col("id").cast("int")
        value = F.element_at(F.split(F.lit(_SEPARATOR.join(units)), _SEPARATOR), number + 1)
        return self._session.range(0, len(units), 1, max(1, len(units))).select(
            number.alias("number"), value.alias("value")
        )

    def map_batches(self, data: DataFrame, function: BatchFunction, schema: pa.Schema) -> DataFrame:
        """Run a function in a task for each partition, when an action of Spark needs the rows."""
        # Columns that the function does not change keep their type of Spark, which Arrow may not have.
        before = dict(zip(data.schema.names, zip(arrow_of(data.schema), data.schema.fields, strict=True), strict=True))
        fields = []
        for field in schema:
            arrow_field, spark_field = before.get(field.name, (None, None))
            same = arrow_field is not None and arrow_field.equals(field)
            fields.append(spark_field if same else _spark_field(field))
        return data.mapInArrow(functools.partial(run_task, function), StructType(fields))

    def shuffle(self, data: DataFrame, by: Sequence[str], sort_by: Sequence[str]) -> DataFrame:
        """Repartition by columns, and sort within partitions."""
        together = data.repartition(*by)
        return together.sortWithinPartitions(*sort_by) if sort_by else together

    def collect(self, data: DataFrame) -> list[str]:
        """Return the column `value`. The error of a task comes as the error that hoodoo raised there."""
        try:
            return [row.value for row in data.collect()]
        except Exception as error:
            cause = _cause_in_task(error)
            if cause is None:
                raise
            raise cause from error


def run_task(function: BatchFunction, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Run a function in a task of Spark.

    Args:
        function: The function.
        batches: The rows of the partition.

    Returns:
        The batches of the function.
    """
    context = TaskContext.get()
    if context is None:
        return function(batches, Attempt(0, "0-0-0"))
    number = context.partitionId()
    return function(batches, Attempt(number, f"{number}-{context.stageId()}-{context.taskAttemptId()}"))


def _cause_in_task(error: BaseException) -> HudiError | None:
    """The error of hoodoo that made a task fail. Of a task's error, Spark keeps only the traceback as a string."""
    for name, message in _ERROR_IN_TRACEBACK.findall(str(error)):
        kind = getattr(exceptions, name, None)
        if isinstance(kind, type) and issubclass(kind, HudiError):
            cause = kind(message)
            # The traceback does not say more of it: what a task ran into was changed since the plan was made.
            cause.retryable = cause.outdated_plan = isinstance(cause, exceptions.ConflictError)
            return cause
    return None


def arrow_of(schema: StructType) -> pa.Schema:
    """Return the Arrow schema in which Spark passes rows of these columns to Python."""
    if _HAS_ZONE:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the columns of Spark for an Arrow schema."""
    return StructType([_spark_field(field) for field in schema])


def _supported(schema: pa.Schema) -> pa.Schema:
    """Return the closest schema that Spark supports: timestamps in microseconds, binary without a fixed size."""
    return pa.schema([field.with_type(_spark_type(field.type)) for field in schema])


def _spark_field(field: pa.Field) -> StructField:
    return from_arrow_schema(_supported(pa.schema([field])), prefer_timestamp_ntz=True).fields[0]


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
