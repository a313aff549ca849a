"""The commands: each opens a table, asks the library one question and hands the answer to `render`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo import HudiError, Table
from hoodoo.cli import render

if TYPE_CHECKING:
    from hoodoo import Instant

app = typer.Typer(
    name="hoodoo",
    help="Reads and checks Apache Hudi tables, whoever wrote them.",
    no_args_is_help=True,
    add_completion=False,
)
timeline_app = typer.Typer(help="What happened to a table, and what is under way.", no_args_is_help=True)
app.add_typer(timeline_app, name="timeline")

Uri = Annotated[str, typer.Argument(metavar="URI", help="Where the table is: a folder, s3://…, gs://…, az://…")]
StorageOptions = Annotated[
    list[str] | None,
    typer.Option("--storage-option", "-o", metavar="KEY=VALUE", help="For the object store; may be given many times."),
]


def pairs(assignments: list[str] | None) -> dict[str, str]:
    """Turns `KEY=VALUE` arguments into a dictionary.

    Args:
        assignments: What the user gave, or None.

    Returns:
        The keys with their values.

    Raises:
        typer.BadParameter: If one of them has no `=`.

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


def open_table(uri: str, storage_options: list[str] | None) -> Table:
    """Opens the table that a command was given.

    Args:
        uri: Where it is.
        storage_options: `KEY=VALUE` arguments for the object store.

    Returns:
        The table.
    """
    return Table(uri, storage_options=pairs(storage_options))


@app.command()
def info(uri: Uri, storage_option: StorageOptions = None) -> None:
    """What the table is: its keys, its merging, its size and its schema."""
    table = open_table(uri, storage_option)
    slices = table.file_slices()
    render.show_info(
        uri=uri,
        version=table.version,
        options=table.options,
        schema=table.schema,
        partitions=len({part.partition for part in slices}),
        file_groups=len(slices),
        size=sum(part.size for part in slices),
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
    """The first rows of the table."""
    table = open_table(uri, storage_option)
    wanted = [name.strip() for name in columns.split(",")] if columns else None
    render.show_rows(table.scan(columns=wanted, as_of=as_of), limit)


@app.command()
def verify(uri: Uri, storage_option: StorageOptions = None) -> None:
    """Checks every invariant that we know. Exit status 1 if one does not hold."""
    report = open_table(uri, storage_option).verify()
    render.show_report(report)
    if not report.ok:
        raise typer.Exit(1)


@timeline_app.command("show")
def timeline_show(
    uri: Uri,
    limit: Annotated[int, typer.Option(min=1, help="How many of the latest actions to show.")] = 30,
    action: Annotated[str | None, typer.Option(help="Only this action: commit, clean, …")] = None,
    storage_option: StorageOptions = None,
) -> None:
    """The latest actions on the table with their state, duration and figures, newest last."""
    timeline = open_table(uri, storage_option).timeline
    instants = timeline.instants(action=action)
    shown = instants[-limit:]
    figures = {
        instant: render.summarize(instant.action, timeline.metadata(instant))
        for instant in shown
        if instant.state == "COMPLETED"
    }
    render.show_timeline(shown, figures, hidden=len(instants) - len(shown))


@timeline_app.command("inspect")
def timeline_inspect(
    uri: Uri,
    instant: Annotated[str, typer.Argument(help="The time it was requested at, as `timeline show` prints it.")],
    storage_option: StorageOptions = None,
) -> None:
    """The whole plan or metadata of one action, with Hudi's own field names."""
    timeline = open_table(uri, storage_option).timeline
    found: list[Instant] = [one for one in timeline.instants() if one.requested == instant]
    if not found:
        render.show_failure(f"the active timeline of {uri} has no instant {instant}")
        raise typer.Exit(1)
    for one in found:
        render.show_metadata(one, timeline.metadata(one))


def main() -> int:
    """Runs the command line; errors of the library become one readable message and exit status 1.

    Returns:
        The exit status.
    """
    try:
        app()
    except HudiError as error:
        render.show_failure(str(error))
        return 1
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        sys.stderr.close()
        return 0
    return 0
