"""The commands that show rows: `scan`, `head` and `changes`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo import instant_time
from hoodoo.cli import files, output, render
from hoodoo.cli.arguments import (
    Columns,
    Json,
    Limit,
    Meta,
    Options,
    StorageOptions,
    Uri,
    Where,
    filters_of,
    open_table,
    selected,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["add_commands"]

AsOf = Annotated[str | None, typer.Option(metavar="TIME", help="The table as it was at this instant or date.")]
Query = Annotated[str | None, typer.Option(help="snapshot, or read_optimized for base files only.")]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write all rows to this file (.parquet, .csv, .jsonl, .arrow) and show none."),
]
Format = Annotated[str | None, typer.Option(help="The format of the file: parquet, csv, json or arrow.")]


def scan(
    uri: Uri,
    *,
    limit: Limit = 20,
    columns: Columns = None,
    where: Where = None,
    as_of: AsOf = None,
    query: Query = None,
    meta: Meta = False,
    out: Out = None,
    format_: Annotated[str | None, typer.Option("--format", help="The format of --out.")] = None,
    as_json: Json = False,
    option: Options = None,
    storage_option: StorageOptions = None,
) -> None:
    """Show the first rows of the table, or write its rows to a file."""
    table = open_table(uri, storage_option, option)
    # The table had other columns then.
    older = as_of is not None and columns is None and not meta
    rows = table.scan(selected(table, columns, meta=meta or older), filters_of(table, where), as_of, query)
    if older:
        rows = output.without_meta(rows)
    _show(rows, limit, out, format_, as_json=as_json)


def head(
    uri: Uri,
    *,
    limit: Limit = 10,
    columns: Columns = None,
    where: Where = None,
    as_json: Json = False,
    storage_option: StorageOptions = None,
) -> None:
    """Show the first 10 rows of the table."""
    table = open_table(uri, storage_option)
    rows = table.scan(selected(table, columns), filters_of(table, where))
    _show(rows, limit, None, None, as_json=as_json)


def changes(
    uri: Uri,
    *,
    since: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Commits that completed after: an instant, 2026-11-21T17:05, 2h ago; 0 for all."
        ),
    ] = "0",
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Commits that completed until then.")] = None,
    mode: Annotated[str | None, typer.Option(help="latest_state, or cdc: every change, deletes too.")] = None,
    limit: Limit = 20,
    columns: Columns = None,
    where: Where = None,
    meta: Meta = False,
    out: Out = None,
    format_: Annotated[str | None, typer.Option("--format", help="The format of --out.")] = None,
    as_json: Json = False,
    option: Options = None,
    storage_option: StorageOptions = None,
) -> None:
    """Show the rows that changed in a range of time, by the completion times of commits."""
    table = open_table(uri, storage_option, option)
    now = instant_time.now_in(instant_time.zone_of(table.options))
    begin = instant_time.bound(since, now, upper=False).ljust(17, "0") if since != "0" else since
    end = None if until is None else instant_time.bound(until, now, upper=True)
    wanted = selected(table, columns, meta=meta or mode == "cdc")
    rows = table.changes(begin, end, wanted, filters_of(table, where), mode)
    _show(rows, limit, out, format_, as_json=as_json)


def _show(rows: pa.RecordBatchReader, limit: int, out: Path | None, kind: str | None, *, as_json: bool) -> None:
    if out is not None:
        written = files.write_rows(out, kind, rows.schema, rows)
        if as_json:
            output.print_json({"file": str(out), "rows": written})
        else:
            render.show_written(out, f"{written:,} rows")
    elif as_json:
        output.print_rows(rows, limit)
    else:
        render.show_rows(rows, limit)


def add_commands(app: typer.Typer) -> None:
    """Add the commands to those of `hoodoo`.

    Args:
        app: The command line.
    """
    app.command()(scan)
    app.command()(head)
    app.command()(changes)
