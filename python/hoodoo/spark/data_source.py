"""The data source `hoodoo` of PySpark 4: `spark.read.format("hoodoo").load(uri)`."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from hoodoo.exceptions import SchemaError, UnsupportedError
from hoodoo.spark.executor import arrow_of, spark_schema
from hoodoo.spark.pruning import Pruning
from hoodoo.spark.pushed_filters import conditions_of
from hoodoo.spark.source_options import AFTER_EVERYTHING, SourceOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceWriter, Filter
    from pyspark.sql.types import StructType

    from hoodoo.distributed.read import PlannedRead, ReadTask

__all__ = ["HoodooDataSource", "TableReader", "partitions_of", "read_partition"]


class HoodooDataSource(DataSource):
    """Hudi tables as a data source of Spark 4. See `hoodoo.spark.register`."""

    def __init__(self, options: dict[str, str]) -> None:
        """Take the options of Spark."""
        super().__init__(options)
        self._options = SourceOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        """Return `hoodoo`."""
        return "hoodoo"

    def schema(self) -> StructType:
        """Return the columns of the table, or those of the option `columns`."""
        options = self._options
        if options.is_incremental and not options.starts:
            # A stream starts where its offsets say: only the columns are asked for here.
            planned = options.plan(options.columns, since=AFTER_EVERYTHING)
        else:
            planned = options.plan(options.columns)
        return spark_schema(planned.task.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        if self._options.push_filters and not hasattr(DataSourceReader, "pushFilters"):
            raise UnsupportedError(
                "Spark pushes filters from 4.1 on: leave push_filters out, and pass the option filters"
            )
        return (_FilteredReader if self._options.push_filters else TableReader)(self._options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a stream."""
        from hoodoo.spark.stream_source import TableStreamReader  # noqa: PLC0415 - it needs this module

        return TableStreamReader(self._options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch."""
        from hoodoo.spark.data_sink import TableWriter  # noqa: PLC0415 - reads do not need it

        return TableWriter.begin(self._options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: ARG002, N802 - Spark's names
        """Refuse: see `hoodoo.spark.foreach_batch`.

        Raises:
            UnsupportedError: Always.
        """
        from hoodoo.spark.data_sink import refuse_stream  # noqa: PLC0415 - reads do not need it

        refuse_stream()


@dataclass
class Slices(InputPartition):
    """What one task reads.

    Attributes:
        task: What the task runs.
        units: What it reads.
    """

    task: ReadTask
    units: list[str]


class TableReader(DataSourceReader):
    """Reads the snapshot that is the newest when the partitions are planned, or what the options ask for."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        """Take the options and the columns that Spark wants."""
        self._options = options
        self._schema = schema
        self._pushed: Pruning | None = None

    def partitions(self) -> list[InputPartition]:
        """Plan the read, and return groups of file slices of about the same size."""
        planned = self._options.plan(self._options.columns_of(self._schema.names), self._pushed)
        return partitions_of(planned, self._schema, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Stream the rows of a partition."""
        return read_partition(partition)


class _FilteredReader(TableReader):
    """A reader that Spark pushes filters into, from Spark 4.1 on.

    Only by an option: Spark 4.3 keeps the filters of a query for the next query of the same DataFrame.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Skip what has no rows for the filters. Spark applies all of them again."""
        self._pushed = None if self._options.has_change_data else Pruning(conditions_of(filters))
        return filters


def partitions_of(planned: PlannedRead, schema: StructType, options: SourceOptions) -> list[InputPartition]:
    """Return a planned read as partitions of Spark.

    Raises:
        SchemaError: A column has another type in the schema that the user passed than in the table.
    """
    _check_types(planned, schema, options)
    task = replace(planned.task, schema=arrow_of(schema))
    # Twice the cores of this machine: what Spark has on other machines is not known here.
    groups = planned.balanced(options.split_bytes, 2 * (os.cpu_count() or 1))
    return [Slices(task, units) for units in groups]


def _check_types(planned: PlannedRead, schema: StructType, options: SourceOptions) -> None:
    """Refuse a schema that changes types. What may be null is not compared."""
    if schema.names != planned.task.schema.names:
        raise SchemaError(
            f"the schema that was passed has the columns {', '.join(schema.names)}, and a query of change data of "
            f"{options.uri} has {', '.join(planned.task.schema.names)}: pass no schema, and select columns afterwards"
        )
    for field, stored in zip(schema.fields, spark_schema(planned.task.schema).fields, strict=True):
        if field.dataType.simpleString() != stored.dataType.simpleString():
            raise SchemaError(
                f"the schema that was passed has the type {field.dataType.simpleString()} for the column "
                f"{field.name!r}, and the table {options.uri} has {stored.dataType.simpleString()}: "
                "a schema selects columns; cast them with DataFrame.select"
            )


def read_partition(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Stream the rows of a partition. Spark passes one without slices when there are none."""
    if isinstance(partition, Slices):
        yield from partition.task.read(partition.units)
