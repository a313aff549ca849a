"""The commands that take commits back, and `hoodoo clean`."""

from __future__ import annotations

from typing import Annotated

import typer

from hoodoo.cli import output, render_recovery
from hoodoo.cli.arguments import Json, Options, StorageOptions, Uri, open_table

__all__ = ["add_commands"]

savepoint_app = typer.Typer(help="Commits whose files no clean deletes.", no_args_is_help=True)

_Commit = Annotated[str, typer.Argument(metavar="INSTANT", help="Requested time of the commit.")]


def clean(
    uri: Uri,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted; delete nothing.")] = False,
    as_json: Json = False,
    option: Options = None,
    storage_option: StorageOptions = None,
) -> None:
    """Delete the files that the cleaning policy does not keep."""
    report = open_table(uri, storage_option, option).clean(dry_run=dry_run)
    if as_json:
        output.print_json(report)
    else:
        render_recovery.show_clean(report)


def rollback(uri: Uri, instant: _Commit, as_json: Json = False, storage_option: StorageOptions = None) -> None:
    """Take the newest write back, or one that did not complete."""
    done = open_table(uri, storage_option).rollback(instant)
    if as_json:
        output.print_json(done)
    else:
        render_recovery.show_rollback(done)


def restore(uri: Uri, instant: _Commit, as_json: Json = False, storage_option: StorageOptions = None) -> None:
    """Make the table what it was at a savepoint; finish a restore that was interrupted."""
    done = open_table(uri, storage_option).restore(instant)
    if as_json:
        output.print_json(done)
    else:
        render_recovery.show_restore(done)


@savepoint_app.command("create")
def create(
    uri: Uri,
    instant: Annotated[str | None, typer.Argument(help="Requested time of the commit; by default the newest.")] = None,
    *,
    user: Annotated[str, typer.Option(help="Who makes it.")] = "",
    comment: Annotated[str, typer.Option(help="Why.")] = "",
    as_json: Json = False,
    storage_option: StorageOptions = None,
) -> None:
    """Make a savepoint of a commit."""
    made = open_table(uri, storage_option).savepoint(instant, user=user, comment=comment)
    if as_json:
        output.print_json(made)
    else:
        render_recovery.show_savepoints([made])


@savepoint_app.command("list")
def list_savepoints(uri: Uri, as_json: Json = False, storage_option: StorageOptions = None) -> None:
    """List the savepoints."""
    found = open_table(uri, storage_option).savepoints()
    if as_json:
        output.print_json(found)
    else:
        render_recovery.show_savepoints(found)


@savepoint_app.command("delete")
def delete(uri: Uri, instant: _Commit, as_json: Json = False, storage_option: StorageOptions = None) -> None:
    """Delete the savepoint of a commit: the next clean may delete its files."""
    open_table(uri, storage_option).delete_savepoint(instant)
    if as_json:
        output.print_json({"deleted": instant})
    else:
        render_recovery.show_deleted_savepoint(instant)


def add_commands(app: typer.Typer) -> None:
    """Add the commands to those of `hoodoo`.

    Args:
        app: The command line.
    """
    app.command()(clean)
    app.command()(rollback)
    app.command()(restore)
    app.add_typer(savepoint_app, name="savepoint")
