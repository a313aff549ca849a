"""Arguments that several commands have, and the table that they name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo import Table
from hoodoo.cli.conditions import conditions

if TYPE_CHECKING:
    from hoodoo.filters import Filters

Uri = Annotated[str, typer.Argument(metavar="URI", help="Location of the table: a folder, s3://…, gs://…, az://…")]
StorageOptions = Annotated[
    list[str] | None,
    typer.Option("--storage-option", "-o", metavar="KEY=VALUE", help="A setting of the object store; may be repeated."),
]
Options = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="One of Hudi's options, such as hoodie.keep.min.commits=50."),
]
Json = Annotated[bool, typer.Option("--json", help="For programs: JSON on standard output.")]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        "-w",
        metavar="CONDITION",
        help="Only rows with city=sf, 'fare>=10', 'city in (sf, la)', 'note is null'; may be repeated: all must hold.",
    ),
]
Columns = Annotated[str | None, typer.Option(help="Only these columns: a,b,c.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="How many rows to show.")]
Meta = Annotated[bool, typer.Option("--meta", help="Show Hudi's _hoodie_* columns too.")]


def pairs(assignments: list[str] | None) -> dict[str, str]:
    """Return `KEY=VALUE` arguments as a dictionary.

    Args:
        assignments: The arguments, or None.

    Returns:
        The values by key.

    Raises:
        typer.BadParameter: An argument has no `=`.

    Examples:
        >>> pairs(["region=eu-west-1", "endpoint=http://localhost:5000/?a=b"])
        {'region': 'eu-west-1', 'endpoint': 'http://localhost:5000/?a=b'}
    """
    result = {}
    for assignment in assignments or []:
        key, equals, value = assignment.partition("=")
        if not (key and equals):
            raise typer.BadParameter(f"{assignment!r} is not of the form KEY=VALUE")
        result[key] = value
    return result


def open_table(uri: str, storage_options: list[str] | None, options: list[str] | None = None) -> Table:
    """Open the table of a command.

    Args:
        uri: Location of the table.
        storage_options: `KEY=VALUE` arguments for the object store.
        options: `KEY=VALUE` arguments with Hudi's options.

    Returns:
        The table.
    """
    return Table(uri, pairs(options), storage_options=pairs(storage_options), progress=True)


def names(given: str | None) -> list[str] | None:
    """Return the names of `a,b,c`; None for None."""
    return None if given is None else [name.strip() for name in given.split(",") if name.strip()]


def file_name(table: str, ending: str) -> str:
    """Return the name of a file about a table.

    Args:
        table: The name of the table.
        ending: What comes behind it.

    Returns:
        A name without characters that are special in paths.

    Examples:
        >>> file_name("a/b", "report.html")
        'a_b-report.html'
    """
    name = re.sub(r"[^\w-]+", "_", table)
    return f"{name or 'table'}-{ending}"


def selected(table: Table, columns: str | None, *, meta: bool = False) -> list[str] | None:
    """Return the columns that a command reads: those that are named, else those of the table.

    Args:
        table: The table.
        columns: The argument.
        meta: Whether Hudi's columns are read too, when none are named.

    Returns:
        The names; None for all, Hudi's too.
    """
    if columns is not None:
        return names(columns)
    return None if meta else list(table.schema.names)


def filters_of(table: Table, where: list[str] | None) -> Filters | None:
    """Return the filters of `--where`."""
    return conditions(where, table.schema) if where else None
