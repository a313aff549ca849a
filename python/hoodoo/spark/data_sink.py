"""The writer of the data source `hoodoo`: tasks write their rows to new files, and one commit publishes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from hoodoo.distributed.executor import strings
from hoodoo.distributed.write_process import WriteProcess, begin_in_process
from hoodoo.exceptions import UnsupportedError
from hoodoo.spark.executor import arrow_of, run_task

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from hoodoo.spark.source_options import SourceOptions

__all__ = ["TableWriter", "refuse_stream"]

_OPERATION = "hoodie.datasource.write.operation"
_REPLACING = ("insert_overwrite", "insert_overwrite_table")


@dataclass
class _Reports(WriterCommitMessage):
    """What a task reports.

    Attributes:
        values: Its reports for the commit.
    """

    values: list[str]


class TableWriter(DataSourceArrowWriter):
    """Writes the rows of each task to new files. See `hoodoo.distributed.write_process`."""

    def __init__(self, write: WriteProcess) -> None:
        """Take a write that has begun."""
        self._write = write

    @classmethod
    def begin(cls, options: SourceOptions, schema: StructType, *, overwrite: bool) -> TableWriter:
        """Begin a write.

        Args:
            options: The options of the user.
            schema: The columns of the rows.
            overwrite: Whether the mode is `overwrite`.

        Raises:
            UnsupportedError: The operation does not go with the mode, or needs a shuffle; or an option is for reads.
            HudiError: The write cannot begin.
        """
        options.check_write()
        operation = _operation(options.hudi.get(_OPERATION), overwrite=overwrite)
        return cls(begin_in_process(arrow_of(schema), options.uri, operation, options.hudi, options.storage))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task."""
        task = self._write.task
        function = task.append_to_replaced if self._write.operation in _REPLACING else task.append
        return _Reports(strings(run_task(function, iterator)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what the tasks wrote."""
        self._write.commit([value for one in messages if isinstance(one, _Reports) for value in one.values])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - Spark passes them
        """Remove what the tasks wrote."""
        self._write.abort()


def _operation(given: str | None, *, overwrite: bool) -> str | None:
    """The operation of a mode; None for the default of Hudi's options."""
    operation = None if given is None else given.lower()
    if not overwrite:
        return operation
    if operation is not None and operation not in _REPLACING:
        raise UnsupportedError(
            f"mode overwrite with {_OPERATION}={given} deletes the table and makes it again, which is not supported: "
            f"set the option to insert_overwrite_table or insert_overwrite"
        )
    return operation or "insert_overwrite_table"


def refuse_stream() -> NoReturn:
    """Refuse to be the sink of a stream.

    Raises:
        UnsupportedError: Always.
    """
    raise UnsupportedError(
        "the data source hoodoo is not a sink of streams, because Spark does not tell such a sink which micro-batch "
        "its tasks write: use stream.writeStream.foreachBatch(hoodoo.spark.foreach_batch(uri, options=…))"
    )
