"""UPDATE, DELETE FROM, MERGE INTO and ALTER TABLE on Hudi tables, from a Spark session."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException

from hoodoo.exceptions import InvalidOptionError, UnsupportedError
from hoodoo.spark.executor import arrow_of
from hoodoo.statements.alter import AlterStatement
from hoodoo.statements.expressions import Column, nodes
from hoodoo.statements.sql_statements import DeleteStatement, MergeStatement, UpdateStatement, parse_statement
from hoodoo.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from hoodoo.commit import Commit
    from hoodoo.options import Options

__all__ = ["sql"]

_SCHEMAS = ("hoodoo", "hudi")
_UTC = frozenset({"UTC", "GMT", "Z", "UT", "ETC/UTC", "ETC/GMT", "ZULU", "+00:00", "GMT+0", "UTC+0", "GMT+00:00"})


def sql(
    spark: SparkSession,
    statement: str,
    *,
    tables: Mapping[str, str] | None = None,
    options: Options | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Commit:
    """Run one UPDATE, DELETE FROM, MERGE INTO or ALTER TABLE on a Hudi table, as one commit.

    The statement runs on the driver, as `hoodoo.Table.update`, `delete` and `merge` do: Spark's part is the source of a
    merge, a table, a view or a query of the session, whose rows come to the driver as Arrow batches. For rows by the
    hundred million, use `hoodoo.spark.write`. An ALTER TABLE changes columns, as `hoodoo.Table.update_schema` does.

    Args:
        spark: The session, classic or Connect.
        statement: The statement. It names the table as hoodoo.`URI`, or by a name of `tables`. The page on statements
            lists the functions that are supported; others raise an `UnsupportedError`.
        tables: Locations of Hudi tables by the name that the statement has for them. The source of a merge can be one
            of them too.
        options: Hudi's options.
        storage_options: Settings of the storage; see `hoodoo.Table`.

    Returns:
        The commit.

    Raises:
        InvalidOptionError: The text is no statement, or names a table without a location.
        UnsupportedError: The statement, or something in it, is not supported. So is a timestamp column in it when
            spark.sql.session.timeZone is not UTC.
        SchemaError: A column does not exist, or types do not go together.
        MissingDependencyError: sqlglot is not installed (`pip install 'hoodoo[sql]'`).
        ConflictError: Other writers changed the same rows each time.

    Example:
        ```python
        changes.createOrReplaceTempView("changes")
        hoodoo.spark.sql(spark, \"\"\"
            MERGE INTO trips t USING changes c ON t.uuid = c.uuid
            WHEN MATCHED AND c.cancelled THEN DELETE
            WHEN MATCHED THEN UPDATE SET fare = c.fare, ts = c.ts
            WHEN NOT MATCHED THEN INSERT (uuid, ts, city, fare) VALUES (c.uuid, c.ts, c.city, c.fare)
        \"\"\", tables={"trips": "s3://lake/trips"})
        hoodoo.spark.sql(spark, "DELETE FROM hoodoo.`s3://lake/trips` WHERE fare < 0")
        hoodoo.spark.sql(spark, "ALTER TABLE hoodoo.`s3://lake/trips` RENAME COLUMN fare TO price")
        ```
    """
    parsed = parse_statement(statement)
    known = _checked(tables)
    uri = _location(parsed.table, known)
    if uri is None:
        names = ", ".join(known) or "none"
        raise InvalidOptionError(
            f"no location is known for the table {parsed.table!r}: write hoodoo.`URI`, or pass "
            f"tables={{{parsed.table!r}: URI}}. Names in tables: {names}"
        )
    table = Table(uri, options, storage_options)
    if isinstance(parsed, AlterStatement):
        return parsed.execute(table)
    zone = _other_zone(spark)
    if zone is not None:
        _check_zone(zone, table, statement)
    if isinstance(parsed, UpdateStatement):
        return table.update(parsed.assignments, parsed.where)
    if isinstance(parsed, DeleteStatement):
        return table.delete(where=True if parsed.where is None else parsed.where)
    return _merge(spark, table, parsed, known, storage_options, zone=zone)


def _other_zone(spark: SparkSession) -> str | None:
    """The zone of the session; None where it is UTC, in which hoodoo takes dates and timestamps without a zone."""
    zone = str(spark.conf.get("spark.sql.session.timeZone") or "UTC")
    return None if zone.upper() in _UTC else zone


def _check_zone(zone: str, table: Table, statement: str) -> None:
    """Refuses columns whose literals and dates Spark takes in the zone of the session, and hoodoo in UTC."""
    for field in table.schema:
        if _is_instant(field) and re.search(rf"(?<!\w){re.escape(field.name)}(?!\w)", statement, re.IGNORECASE):
            raise _of_zone(f"the statement names the timestamp column {field.name!r}", zone)


def _check_source_zone(zone: str, target: pa.Schema, source: pa.Schema, parsed: MergeStatement) -> None:
    """Refuses timestamps of the source that become something else, or are compared, on the way into the table."""
    instants = {field.name.lower() for field in source if _is_instant(field)}
    types = {field.name.lower(): _is_instant(field) for field in target}
    conditions = [parsed.on, *(clause.condition for clause in parsed.clauses if clause.condition is not None)]
    for clause in parsed.clauses:
        for name, value in (clause.values or {}).items():
            if not isinstance(value, Column):
                conditions.append(value)
            elif value.name.lower() in instants and not types.get(name.lower(), False):
                raise _of_zone(f"the timestamp {value.name!r} of the source becomes a value of {name!r}", zone)
        if clause.values is None and not clause.method.endswith("_delete"):
            for name, is_instant in types.items():
                has = any(field.name.lower() == name for field in source)
                if has and is_instant != (name in instants):
                    raise _of_zone(f"the column {name!r} is a timestamp on one side of the merge only", zone)
    for condition in conditions:
        for node in nodes(condition):
            if isinstance(node, Column) and node.side != "target" and node.name.lower() in instants:
                raise _of_zone(f"the statement computes with the timestamp {node.name!r} of the source", zone)


def _is_instant(field: pa.Field) -> bool:
    return pa.types.is_timestamp(field.type) and field.type.tz is not None


def _of_zone(what: str, zone: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what} in a session whose time zone is {zone}, and hoodoo takes dates and timestamps without a zone as UTC. "
        "Set spark.sql.session.timeZone to UTC"
    )


def _checked(tables: Any) -> dict[str, str]:
    found = dict(tables or {})
    for name, uri in found.items():
        if not isinstance(name, str) or not name or not str(uri):
            raise InvalidOptionError(f"invalid table {name!r}: {uri!r}: expected locations by name")
    return {name.lower(): str(uri) for name, uri in found.items()}


def _location(name: str, tables: Mapping[str, str]) -> str | None:
    schema, _, path = name.partition(".")
    if path and schema.lower() in _SCHEMAS:
        return path
    return tables.get(name.lower())


def _merge(
    spark: SparkSession,
    table: Table,
    parsed: MergeStatement,
    tables: Mapping[str, str],
    storage_options: Mapping[str, str] | None,
    *,
    zone: str | None,
) -> Commit:
    uri = None if parsed.is_query else _location(parsed.source, tables)
    if uri is not None:
        source_table = Table(uri, storage_options=storage_options)
        source = source_table.scan(columns=source_table.schema.names)
    else:
        source = _batches(_frame(spark, parsed))
    if zone is not None:
        _check_source_zone(zone, table.schema, source.schema, parsed)
    builder = table.merge(source, parsed.on)
    for clause in parsed.clauses:
        add = getattr(builder, clause.method)
        builder = add(clause.condition) if clause.values is None else add(clause.values, clause.condition)
    return builder.execute()


def _frame(spark: SparkSession, parsed: MergeStatement) -> DataFrame:
    try:
        frame = spark.sql(parsed.source) if parsed.is_query else spark.table(parsed.source)
        # Spark Connect looks for the table only now.
        frame.schema  # noqa: B018
    except PySparkException as error:
        reason = str(error).split("\n", maxsplit=1)[0]
        raise InvalidOptionError(f"Spark cannot read the source {parsed.source!r} of the merge: {reason}") from error
    return frame


def _batches(frame: DataFrame) -> pa.RecordBatchReader:
    """Stream the rows of a DataFrame to the driver as Arrow batches, a partition at a time."""
    schema = arrow_of(frame.schema)
    packed = frame.mapInArrow(_packed, "rows binary")

    def batches() -> Iterator[pa.RecordBatch]:
        for row in packed.toLocalIterator():
            for batch in pa.ipc.open_stream(bytes(row.rows)):
                yield batch if batch.schema.equals(schema) else _typed(batch, schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _typed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack each batch into one value, which Spark moves as it is."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=["rows"])
