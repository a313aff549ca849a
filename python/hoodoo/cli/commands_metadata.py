"""The commands below `hoodoo metadata`."""

from __future__ import annotations

from typing import Annotated

import typer

from hoodoo import IndexCommit
from hoodoo.cli import output, render, render_metadata
from hoodoo.cli.arguments import Json, StorageOptions, Uri, open_table, pairs

metadata_app = typer.Typer(help="The metadata table: Hudi's index of files, statistics and keys.", no_args_is_help=True)


@metadata_app.command("show")
def show(
    uri: Uri,
    partition: Annotated[str | None, typer.Option(help="Show the rows of this partition, such as files.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many rows to show.")] = 20,
    as_json: Json = False,
    storage_option: StorageOptions = None,
) -> None:
    """Show the partitions of the metadata table, or the rows of one of them."""
    metadata = open_table(uri, storage_option).metadata_table
    if metadata is None:
        _show_none(uri, as_json=as_json)
        return
    if partition is None:
        found = list(metadata.partitions.values())
        if as_json:
            output.print_json(found)
        else:
            render_metadata.show_partitions(found)
        return
    rows = metadata.to_arrow(partition)
    if as_json:
        output.print_rows(rows.to_reader(), limit)
        return
    render.show_rows(rows.to_reader(), limit)
    render_metadata.show_row_count(partition, rows.num_rows)


def _show_none(uri: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json(None)
    else:
        render_metadata.show_no_metadata_table(uri)


@metadata_app.command("verify")
def verify(uri: Uri, as_json: Json = False, storage_option: StorageOptions = None) -> None:
    """Compare the metadata table with the table. Exit status 1 when readers would see wrong rows."""
    metadata = open_table(uri, storage_option).metadata_table
    if metadata is None:
        _show_none(uri, as_json=as_json)
        return
    with render.working("comparing"):
        report = metadata.verify()
    if as_json:
        output.print_json({"ok": report.ok, **output.plain(report)})
    else:
        render.show_report(report)
    if not report.ok:
        raise typer.Exit(1)


@metadata_app.command("rebuild")
def rebuild(uri: Uri, as_json: Json = False, storage_option: StorageOptions = None) -> None:
    """Make the metadata table anew from the files of the table. Writers go on meanwhile."""
    _show_built(open_table(uri, storage_option).rebuild_metadata_table(), as_json=as_json)


def _show_built(done: IndexCommit, *, as_json: bool) -> None:
    if as_json:
        output.print_json(done)
    else:
        render_metadata.show_built(done.partitions)


@metadata_app.command("index")
def index(
    uri: Uri,
    name: Annotated[
        str,
        typer.Argument(
            help="column_stats, partition_stats, bloom_filters, record_index, secondary_index, expression_index, files."
        ),
    ],
    *,
    columns: Annotated[
        str | None,
        typer.Option(help="Columns with statistics, separated by commas; the column of any other index."),
    ] = None,
    expression: Annotated[str | None, typer.Option(help="The function of an expression index, such as lower.")] = None,
    index_name: Annotated[str | None, typer.Option("--name", help="The name of an expression index.")] = None,
    with_: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="KEY=VALUE", help="What the function takes, such as format=yyyy-MM-dd."),
    ] = None,
    as_json: Json = False,
    storage_option: StorageOptions = None,
) -> None:
    """Build an index in the metadata table, or build it anew. Writers go on meanwhile."""
    table = open_table(uri, storage_option)
    done = table.index(name, columns, expression=expression, name=index_name, **pairs(with_))
    _show_built(done, as_json=as_json)


@metadata_app.command("drop")
def drop(
    uri: Uri,
    name: Annotated[str | None, typer.Argument(help="Drop only this index, such as column_stats.")] = None,
    as_json: Json = False,
    storage_option: StorageOptions = None,
) -> None:
    """Drop the metadata table, or one index of it. The next writer of Hudi builds what it wants again."""
    table = open_table(uri, storage_option)
    if name is not None:
        dropped = list(table.drop_index(name))
    else:
        dropped = ["the metadata table"] if table.drop_metadata_table() else []
    if as_json:
        output.print_json({"dropped": dropped})
    else:
        render_metadata.show_dropped(dropped)
