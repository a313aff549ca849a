"""The commands below `hoodoo cluster`."""

from __future__ import annotations

from typing import Annotated

import typer

from hoodoo.cli import render, render_clustering
from hoodoo.cli.arguments import Options, StorageOptions, Uri, open_table
from hoodoo.instant_time import now_in, zone_of

cluster_app = typer.Typer(help="Rewriting files of a table into fewer, larger or sorted ones.", no_args_is_help=True)


@cluster_app.command("plan")
def plan(  # noqa: PLR0917 - the options of a command
    uri: Uri,
    explain: Annotated[bool, typer.Option("--explain", help="Only show what would be planned.")] = False,
    sort_by: Annotated[str | None, typer.Option(help="Sort rows by these columns: a,b.")] = None,
    strategy: Annotated[
        str | None,
        typer.Option(help="How files are grouped: SIZE, OVERLAP, KEY_RANGE, COMMIT_TIME, RANDOM, SINGLE_FILE, …"),
    ] = None,
    option: Options = None,
    storage_option: StorageOptions = None,
) -> None:
    """Plans a clustering, for Hudi or hoodoo to carry out."""
    table = open_table(uri, storage_option, option)
    columns = None if sort_by is None else [name.strip() for name in sort_by.split(",")]
    if explain:
        with render.working("planning"):
            planned = table.schedule_clustering(sort_by=columns, strategy=strategy, explain=True)
        render_clustering.show_plan(planned)
        return
    with render.working("planning"):
        instant = table.schedule_clustering(sort_by=columns, strategy=strategy)
    render_clustering.show_planned(uri, instant)


@cluster_app.command("status")
def status(uri: Uri, storage_option: StorageOptions = None) -> None:
    """The clusterings that are planned and not completed."""
    table = open_table(uri, storage_option)
    render_clustering.show_pending(table.pending_clusterings(), now_in(zone_of(table.options)))
