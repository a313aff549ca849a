"""Arguments that several commands have, and the table that they name."""

from __future__ import annotations

from typing import Annotated

import typer

from hoodoo import Table

Uri = Annotated[str, typer.Argument(metavar="URI", help="Location of the table: a folder, s3://…, gs://…, az://…")]
StorageOptions = Annotated[
    list[str] | None,
    typer.Option("--storage-option", "-o", metavar="KEY=VALUE", help="A setting of the object store; may be repeated."),
]
Options = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="One of Hudi's options, such as hoodie.keep.min.commits=50."),
]


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
    return Table(uri, pairs(options), storage_options=pairs(storage_options))
