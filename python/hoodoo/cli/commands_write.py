"""The commands that write rows: `create` and `load`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hoodoo import InvalidOptionError, Table, TableNotFoundError
from hoodoo.arguments import location
from hoodoo.cli import files, output, render
from hoodoo.cli.arguments import Json, Options, StorageOptions, Uri, names, open_table, pairs
from hoodoo.cli.column_types import schema_of
from hoodoo.cli.facts import table_facts

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["add_commands"]

Name = Annotated[str | None, typer.Option(help="Name of the new table. Default: the last part of URI.")]
Key = Annotated[str | None, typer.Option(help="Columns that identify a row: a,b.")]
PartitionBy = Annotated[str | None, typer.Option(help="Partition columns: a,b.")]
Ordering = Annotated[str | None, typer.Option(help="Columns that say which of two rows with one key is newer: a,b.")]
Kind = Annotated[str | None, typer.Option("--type", help="COPY_ON_WRITE or MERGE_ON_READ.")]
Format = Annotated[str | None, typer.Option("--format", help="parquet, csv, json (JSON lines) or arrow.")]
Operation = Annotated[
    str,
    typer.Option(help="upsert, insert, bulk_insert, insert_overwrite, insert_overwrite_table or delete."),
]

_OPERATIONS = ("upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table", "delete")


def create(
    uri: Uri,
    column: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME:TYPE]...", help="Columns, such as id:string ts:bigint.")
    ] = None,
    *,
    like: Annotated[Path | None, typer.Option(metavar="FILE", help="Take the columns of this file.")] = None,
    name: Name = None,
    record_key: Key = None,
    partition_by: PartitionBy = None,
    ordering: Ordering = None,
    kind: Kind = None,
    format_: Format = None,
    as_json: Json = False,
    option: Options = None,
    storage_option: StorageOptions = None,
) -> None:
    """Create an empty table."""
    if bool(column) == (like is not None):
        raise typer.BadParameter("give the columns as NAME:TYPE, or a file that has them by --like")
    schema = schema_of(column or []) if like is None else files.open_rows(like, format_, None).schema
    described = {"record_key": record_key, "partition_by": partition_by, "ordering": ordering, "table_type": kind}
    table = _create(uri, schema, name, described, (option, storage_option))
    facts = table_facts(table)
    if as_json:
        output.print_json(facts)
    else:
        render.show_info(facts)


def _create(
    uri: str,
    schema: pa.Schema,
    name: str | None,
    described: dict[str, str | None],
    settings: tuple[list[str] | None, list[str] | None],
) -> Table:
    columns: dict[str, Any] = {
        key: value.upper() if key == "table_type" else names(value) for key, value in described.items() if value
    }
    given, storage_options = map(pairs, settings)
    uri = location(uri)
    if name is None and "hoodie.table.name" not in given:
        name = uri.rstrip("/").rsplit("/", 1)[-1]
    return Table.create(
        uri, schema, name=name, options=given, storage_options=storage_options, progress=True, **columns
    )


def load(
    uri: Uri,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The rows: .parquet, .csv, .jsonl, .arrow.")],
    *,
    operation: Operation = "upsert",
    partial: Annotated[bool, typer.Option("--partial", help="Upsert only the columns that FILE has.")] = False,
    new: Annotated[bool, typer.Option("--create", help="Create the table when there is none.")] = False,
    name: Name = None,
    record_key: Key = None,
    partition_by: PartitionBy = None,
    ordering: Ordering = None,
    kind: Kind = None,
    format_: Format = None,
    as_json: Json = False,
    option: Options = None,
    storage_option: StorageOptions = None,
) -> None:
    """Write the rows of a file to a table."""
    if operation not in _OPERATIONS:
        raise InvalidOptionError(f"invalid operation {operation!r}: expected {', '.join(_OPERATIONS)}")
    if partial and operation != "upsert":
        raise typer.BadParameter("--partial belongs to an upsert")
    described = {"record_key": record_key, "partition_by": partition_by, "ordering": ordering, "table_type": kind}
    if not new and (name or any(described.values())):
        raise typer.BadParameter("--name, --record-key, --partition-by, --ordering and --type belong to --create")
    try:
        table = open_table(uri, storage_option, option)
    except TableNotFoundError as error:
        if not new:
            raise TableNotFoundError(f"{error}; or create it with --create --record-key …") from error
        schema = files.open_rows(file, format_, None).schema
        table = _create(uri, schema, name, described, (option, storage_option))
    rows = files.open_rows(file, format_, table.schema)
    commit = table.upsert(rows, partial=True) if partial else getattr(table, operation)(rows)
    if as_json:
        output.print_json(commit)
    else:
        render.show_commit(commit)


def add_commands(app: typer.Typer) -> None:
    """Add the commands to those of `hoodoo`.

    Args:
        app: The command line.
    """
    app.command()(create)
    app.command()(load)
