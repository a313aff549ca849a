"""`hoodoo report`: the state of a table as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hoodoo.cli import output, render
from hoodoo.cli.arguments import Columns, Json, Options, StorageOptions, Uri, file_name, names, open_table

__all__ = ["add_commands"]


def report(
    uri: Uri,
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="The page. Default: NAME-report.html; none with --json.")
    ] = None,
    columns: Columns = None,
    as_json: Json = False,
    option: Options = None,
    storage_option: StorageOptions = None,
) -> None:
    """Write a page with sizes, small files, overlap, the timeline, and what each table service would do next."""
    if out is not None and out.suffix.lower() not in {".html", ".htm"}:
        raise typer.BadParameter(f"{out} does not end in .html")
    table = open_table(uri, storage_option, option)
    with render.working("reading file slices and footers"):
        found = table.report(names(columns))
        if out is None and not as_json:
            out = Path(file_name(found.name, "report.html"))
        if out is not None:
            found.write_html(out, table.timeline)
    if as_json:
        output.print_json({**output.plain(found), "log_ratio": output.plain(found.log_ratio)})
        return
    render.console.print(found)
    if out is not None:
        render.show_written(out)


def add_commands(app: typer.Typer) -> None:
    """Add the command to those of `hoodoo`.

    Args:
        app: The command line.
    """
    app.command()(report)
