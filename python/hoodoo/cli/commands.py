"""The commands: each opens a table, calls the library and passes the result to `render`."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import pyarrow as pa
import typer

from hoodoo import HudiError, HudiWarning, __version__
from hoodoo.cli import commands_alter, commands_catalogs, commands_report, commands_rows, commands_write, output, render
from hoodoo.cli.arguments import Json, Options, StorageOptions, Uri, open_table
from hoodoo.cli.commands_clustering import cluster_app
from hoodoo.cli.commands_metadata import metadata_app
from hoodoo.cli.commands_recovery import add_commands
from hoodoo.cli.commands_timeline import timeline_app
from hoodoo.cli.commands_upgrade import add_upgrade
from hoodoo.cli.facts import table_facts

app = typer.Typer(
    name="hoodoo",
    help="Read, check and maintain Apache Hudi tables, whoever wrote them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(timeline_app, name="timeline")
app.add_typer(cluster_app, name="cluster")
app.add_typer(metadata_app, name="metadata")
for commands in (commands_rows, commands_write, commands_alter, commands_report):
    commands.add_commands(app)
add_commands(app)
commands_catalogs.add_commands(app)
add_upgrade(app)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"hoodoo {__version__}")
        raise typer.Exit


@app.callback()
def hoodoo(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Read, check and maintain Apache Hudi tables, whoever wrote them."""


@app.command()
def info(uri: Uri, as_json: Json = False, storage_option: StorageOptions = None) -> None:
    """Show the table: its key, merge mode, size and schema."""
    facts = table_facts(open_table(uri, storage_option))
    if as_json:
        output.print_json(facts)
    else:
        render.show_info(facts)


@app.command()
def verify(
    uri: Uri,
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Repair what can be repaired without losing a row.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --repair: show what would be repaired.")] = False,
    as_json: Json = False,
    option: Options = None,
    storage_option: StorageOptions = None,
) -> None:
    """Check every known invariant. Exit status 1 when one does not hold."""
    table = open_table(uri, storage_option, option)
    if dry_run and not repair:
        raise typer.BadParameter("--dry-run goes with --repair: a check changes nothing")
    if repair:
        done = table.repair(dry_run=dry_run)
        report = done.left
        if as_json:
            output.print_json({"ok": report.ok, **output.plain(done)})
        else:
            render.show_repairs(done)
            render.show_report(report)
        if not report.ok:
            raise typer.Exit(1)
        return
    report = table.verify()
    if as_json:
        output.print_json({"ok": report.ok, **output.plain(report)})
    else:
        render.show_report(report)
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def compact(
    uri: Uri,
    *,
    instant: Annotated[str | None, typer.Option(help="Execute only the plan with this requested time.")] = None,
    schedule: Annotated[bool, typer.Option("--schedule", help="Only plan; execute nothing.")] = False,
    logs: Annotated[bool, typer.Option("--logs", help="Merge log files into log files only.")] = False,
    as_json: Json = False,
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
        planned = table.schedule_compaction()
        if as_json:
            output.print_json({"instant": planned})
        else:
            render.show_planned_compaction(uri, planned)
        return
    before = [] if as_json else table.file_slices()
    done = table.log_compact() if logs else table.compact(instant)
    if as_json:
        output.print_json(done)
    else:
        render.show_compaction(done, before, table.file_slices())


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    render.show_warning(str(message))


def main() -> int:  # noqa: PLR0911 - one for each end
    """Run the command line. An error becomes one line on standard error, which says what to do.

    Returns:
        The exit status: 0; 1 after an error, or when a check failed; 2 when the command cannot be understood; 130
        after Ctrl-C.
    """
    warnings.simplefilter("always", HudiWarning)
    warnings.showwarning = _show_warning
    try:
        return app(prog_name="hoodoo", standalone_mode=False) or 0
    except HudiError as error:
        render.show_failure(str(error))
        return 1
    except (BrokenPipeError, SystemExit) as error:
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        # The reader of our output closed it, such as `head`; typer ends the process then.
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return 130
    except typer.Abort:
        return 1
    except (pa.ArrowException, OSError) as error:
        # Of a stream that is read here, or of a file that is written here.
        render.show_failure(f"{error}. Run hoodoo verify URI for what is wrong with a table")
        return 1
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        return _show_usage(error)


def _show_usage(error: Any) -> int:
    """Show why a command line cannot be understood: an exception of click, or of typer's copy of it."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "hoodoo"
        render.show_failure(f"{error.format_message().rstrip('.')}; see {path} --help")
    return int(error.exit_code)
