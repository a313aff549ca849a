"""The command that changes the columns of a table: `alter`."""

from __future__ import annotations

from typing import Annotated

import typer

from hoodoo import InvalidOptionError
from hoodoo.cli import output, render
from hoodoo.cli.arguments import Json, Options, StorageOptions, Uri, open_table, pairs
from hoodoo.cli.column_types import schema_of

__all__ = ["add_commands"]

_Many = list[str] | None


def alter(
    uri: Uri,
    *,
    rename: Annotated[_Many, typer.Option(metavar="NAME=NEW", help="Give a column another name.")] = None,
    drop: Annotated[_Many, typer.Option(metavar="NAME", help="Remove a column.")] = None,
    change: Annotated[_Many, typer.Option("--type", metavar="NAME:TYPE", help="Widen the type of a column.")] = None,
    add: Annotated[_Many, typer.Option(metavar="NAME:TYPE", help="Add a column.")] = None,
    as_json: Json = False,
    option: Options = None,
    storage_option: StorageOptions = None,
) -> None:
    """Rename, drop, widen and add columns, in this order, in one commit."""
    if not (rename or drop or change or add):
        raise InvalidOptionError("nothing to change: give --rename, --drop, --type or --add")
    table = open_table(uri, storage_option, option)
    with table.update_schema() as update:
        for name, new_name in pairs(rename).items():
            update.rename_column(name, new_name)
        for name in drop or []:
            update.drop_column(name)
        for field in schema_of(change) if change else []:
            update.change_column(field.name, field.type)
        for field in schema_of(add) if add else []:
            update.add_column(field.name, field.type)
    if as_json:
        output.print_json(update.commit)
    elif update.commit is not None:
        render.show_commit(update.commit)


def add_commands(app: typer.Typer) -> None:
    """Add the command to those of `hoodoo`.

    Args:
        app: The command line.
    """
    app.command()(alter)
