"""`hoodoo sync`: registering a table in catalogs."""

from __future__ import annotations

from typing import Annotated

import typer

from hoodoo.cli import output, render, render_catalogs
from hoodoo.cli.arguments import Json, Options, StorageOptions, Uri, open_table, pairs

__all__ = ["add_commands"]

_HIVE = "hoodie.datasource.hive_sync."
_TOOL = "hoodie.meta.sync.client.tool.class"
_GLUE_TOOL = "org.apache.hudi.aws.sync.AwsGlueCatalogSyncTool"


def sync(  # noqa: PLR0917 - the options of a command
    uri: Uri,
    metastore: Annotated[
        str | None, typer.Option(metavar="URI", help="The Hive Metastore, such as thrift://localhost:9083.")
    ] = None,
    glue: Annotated[bool, typer.Option("--glue", help="AWS Glue, with the credentials that boto3 finds.")] = False,
    database: Annotated[str | None, typer.Option(help="The database in the catalog.")] = None,
    table: Annotated[str | None, typer.Option(help="The name in the catalog; by default that of the table.")] = None,
    as_json: Json = False,
    option: Options = None,
    storage_option: StorageOptions = None,
) -> None:
    """Register the table in a Hive Metastore or in AWS Glue, or bring what is there up to date."""
    if metastore is not None and glue:
        raise typer.BadParameter("--metastore and --glue name two catalogs: give one of them")
    given: dict[str, str | None] = {f"{_HIVE}database": database, f"{_HIVE}table": table}
    if metastore is not None:
        given |= {f"{_HIVE}mode": "hms", f"{_HIVE}metastore.uris": metastore}
    if glue:
        given[_TOOL] = _GLUE_TOOL
    opened = open_table(uri, storage_option)
    with render.working("syncing"):
        report = opened.sync({**pairs(option), **{key: value for key, value in given.items() if value is not None}})
    if as_json:
        output.print_json(report)
        return
    render_catalogs.show_sync(report)


def add_commands(app: typer.Typer) -> None:
    """Add the command to those of `hoodoo`.

    Args:
        app: The command line.
    """
    app.command()(sync)
