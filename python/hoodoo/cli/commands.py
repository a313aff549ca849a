"""The commands: each opens a table, calls the library and passes the result to `render`."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated

import typer

from hoodoo import HudiError, HudiWarning
from hoodoo.cli import render
from hoodoo.cli.arguments import Options, StorageOptions, Uri, open_table
from hoodoo.cli.commands_clustering import cluster_app
from hoodoo.cli.commands_metadata import metadata_app
from hoodoo.cli.commands_recovery import add_commands
from hoodoo.cli.commands_timeline import timeline_app
from hoodoo.cli.commands_upgrade import add_upgrade

app = typer.Typer(
    name="hoodoo",
    help="Read, check and maintain Apache Hudi tables, whoever wrote them.",
    no_args_is_help=True,
    add_completion=False,
)
app.add_typer(timeline_app, name="timeline")
app.add_typer(cluster_app, name="cluster")
app.add_typer(metadata_app, name="metadata")
add_commands(app)
add_upgrade(app)


@app.command()
def info(uri: Uri, storage_option: StorageOptions = None) -> None:
    """Show the table: its key, merge mode, size and schema."""
    table = open_table(uri, storage_option)
    slices = table.file_slices()
    render.show_info(
        uri=uri,
        version=table.version,
        options=table.options,
        schema=table.schema,
        partitions=len({one.partition for one in slices}),
        file_groups=len(slices),
        size=sum(one.size for one in slices),
        instants=table.timeline.instants(),
    )


@app.command()
def scan(
    uri: Uri,
    limit: Annotated[int, typer.Option(min=1, help="How many rows to show.")] = 20,
    columns: Annotated[str | None, typer.Option(help="Only these columns: a,b,c.")] = None,
    as_of: Annotated[str | None, typer.Option(help="The table as it was at this instant.")] = None,
    storage_option: StorageOptions = None,
) -> None:
    """Show the first rows of the table."""
    table = open_table(uri, storage_option)
    wanted = [name.strip() for name in columns.split(",")] if columns else None
    render.show_rows(table.scan(columns=wanted, as_of=as_of), limit)


@app.command()
def verify(uri: Uri, storage_option: StorageOptions = None) -> None:
    """Check every known invariant. Exit status 1 when one does not hold."""
    report = open_table(uri, storage_option).verify()
    render.show_report(report)
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def compact(  # noqa: PLR0917 - the options of a command
    uri: Uri,
    instant: Annotated[str | None, typer.Option(help="Execute only the plan with this requested time.")] = None,
    schedule: Annotated[bool, typer.Option("--schedule", help="Only plan; execute nothing.")] = False,
    logs: Annotated[bool, typer.Option("--logs", help="Merge log files into log files only.")] = False,
    option: Options = None,
    storage_option: StorageOptions = None,
) -> None:
    """Merge the log files of a merge-on-read table into new base files."""
    if schedule and instant is not None:
        raise typer.BadParameter("--schedule makes a plan and --instant executes one: give one of them")
    if logs and (schedule or instant is not None):
        raise typer.BadParameter("--logs plans and executes: it takes neither --schedule nor --instant")
    table = open_table(uri, storage_option, option)
    if schedule:
        render.show_planned_compaction(uri, table.schedule_compaction())
        return
    before = table.file_slices()
    with render.working("compacting"):
        done = table.log_compact() if logs else table.compact(instant)
    render.show_compaction(done, before, table.file_slices())


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    render.show_warning(str(message))


def main() -> int:
    """Run the command line. An error of the library becomes one message and exit status 1.

    Returns:
        The exit status.
    """
    warnings.simplefilter("always", HudiWarning)
    warnings.showwarning = _show_warning
    try:
        app()
    except HudiError as error:
        render.show_failure(str(error))
        return 1
    except BrokenPipeError:
        # The reader of our output closed it, such as `head`.
        sys.stderr.close()
        return 0
    return 0
