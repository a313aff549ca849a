"""The commands below `hoodoo timeline`."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from hoodoo import Instant, StorageError, Table, Timeline
from hoodoo.cli import render, render_timeline
from hoodoo.cli.arguments import Json, Options, StorageOptions, Uri, file_name, open_table
from hoodoo.cli.output import print_json
from hoodoo.commit_stats import CommitStats
from hoodoo.instant_time import bound, now_in, took, zone_of

timeline_app = typer.Typer(help="The actions on a table, completed and pending.", no_args_is_help=True)

Limit = Annotated[int, typer.Option(min=1, help="How many of the newest actions to show.")]
Action = Annotated[str | None, typer.Option(help="Only this action: commit, clean, …")]
State = Annotated[str | None, typer.Option(help="Only this state: requested, inflight or completed.")]
Since = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Requested since: an instant, 2026-11-21T17:05, or 2h, 7d ago."),
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Requested until then; forms as for --since.")]


def _now(table: Table) -> datetime:
    return now_in(zone_of(table.options))


def _range(now: datetime, since: str | None, until: str | None) -> tuple[str | None, str | None]:
    return (
        None if since is None else bound(since, now, upper=False),
        None if until is None else bound(until, now, upper=True),
    )


def _facts(instant: Instant, *, archived: bool) -> dict[str, Any]:
    lasted = took(instant)
    millis = None if lasted is None else round(lasted.total_seconds() * 1000)
    return {**asdict(instant), "took_ms": millis, "archived": archived}


@timeline_app.command("show")
def show(
    uri: Uri,
    *,
    limit: Limit = 30,
    action: Action = None,
    state: State = None,
    since: Since = None,
    until: Until = None,
    history: Annotated[bool, typer.Option("--history", help="Also actions that were archived.")] = False,
    as_json: Json = False,
    storage_option: StorageOptions = None,
) -> None:
    """Show the newest actions with their state, duration and commit stats, newest last."""
    table = open_table(uri, storage_option)
    timeline, now = table.timeline, _now(table)
    begin, end = _range(now, since, until)
    active = timeline.instants(action, state, begin, end)
    # One more than is shown says whether there are older actions.
    found = timeline.latest(limit + 1, action, state, begin, end) if history else active
    shown = found[-limit:]
    stats = timeline.commit_stats(shown)
    kept = {(one.requested, one.action) for one in active}
    archived = {one for one in shown if (one.requested, one.action) not in kept}
    if as_json:
        print_json(
            [{**_facts(one, archived=one in archived), **asdict(stats.get(one, CommitStats()))} for one in shown]
        )
        return
    older = None if history and len(found) > limit else len(found) - len(shown)
    render_timeline.show_timeline(shown, stats, now=now, archived=archived, older=older)


@timeline_app.command("inspect")
def inspect(
    uri: Uri,
    instant: Annotated[str, typer.Argument(help="The time it was requested at, as `timeline show` prints it.")],
    as_json: Json = False,
    storage_option: StorageOptions = None,
) -> None:
    """Show the plan and the metadata of one action in all its states, with Hudi's field names."""
    table = open_table(uri, storage_option)
    timeline = table.timeline
    active = timeline.instants(since=instant, until=instant)
    found = timeline.instants(since=instant, until=instant, history=True)
    if not found:
        render.show_failure(f"there is no instant {instant} on the active timeline or in the history of {uri}")
        raise typer.Exit(1)
    found_facts = [
        {
            **_facts(one, archived=one not in active),
            "states": _states(timeline, one) if one in active else {"COMPLETED": timeline.metadata(one)},
            "plan": timeline.plan(one),
        }
        for one in found
    ]
    if as_json:
        print_json(found_facts)
        return
    for one, facts in zip(found, found_facts, strict=True):
        render_timeline.show_action(
            one, now=_now(table), archived=facts["archived"], states=facts["states"], plan=facts["plan"]
        )


def _states(timeline: Timeline, instant: Instant) -> dict[str, dict[str, Any]]:
    """The content of the file of each state that an action was in."""
    contents: dict[str, dict[str, Any]] = {}
    for state in ("REQUESTED", "INFLIGHT", "COMPLETED"):
        if state == instant.state:
            contents[state] = timeline.metadata(instant)
            break
        try:
            contents[state] = timeline.metadata(replace(instant, state=state, completed=None))
        except StorageError:
            # Some actions have no file of this state.
            continue
    return contents


@timeline_app.command("history")
def history_command(
    uri: Uri,
    rows: Annotated[bool, typer.Option(help="Count the actions of each file, which reads their times.")] = True,
    as_json: Json = False,
    storage_option: StorageOptions = None,
) -> None:
    """Show the files of the history, by level."""
    table = open_table(uri, storage_option)
    timeline = table.timeline
    kept = timeline.history_files()
    actions = [_count(timeline, one.since, one.until) if rows else None for one in kept.files]
    # Files may overlap, and the archive of version 6 has none: the total is not their sum.
    total = _count(timeline, None, None) if rows else None
    if as_json:
        files = [{**asdict(file), "actions": n} for file, n in zip(kept.files, actions, strict=True)]
        totals = {"files": len(files), "size": sum(file.size for file in kept.files), "actions": total}
        print_json({"version": kept.version, "files": files, "totals": totals})
        return
    render_timeline.show_history(kept, actions, total, now=_now(table), table_version=table.version)


def _count(timeline: Timeline, since: str | None, until: str | None) -> int:
    return sum(batch.num_rows for batch in timeline.read_history("time", since, until))


@timeline_app.command("archive")
def archive(
    uri: Uri,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be archived.")] = False,
    option: Options = None,
    as_json: Json = False,
    storage_option: StorageOptions = None,
) -> None:
    """Move old completed actions to the history, and show what blocks the archival of others."""
    table = open_table(uri, storage_option, option)
    report = table.archive(dry_run=dry_run)
    if as_json:
        print_json(asdict(report))
        return
    render_timeline.show_archiving(report, now=_now(table))


@timeline_app.command("compact")
def compact(uri: Uri, option: Options = None, as_json: Json = False, storage_option: StorageOptions = None) -> None:
    """Merge files of the history level by level, and remove old versions."""
    done = open_table(uri, storage_option, option).timeline.compact_history()
    if as_json:
        print_json(asdict(done))
        return
    render_timeline.show_compaction(done)


@timeline_app.command("plot")
def plot(
    uri: Uri,
    *,
    out: Annotated[Path | None, typer.Option(metavar="FILE.html", help="A page to zoom and to inspect.")] = None,
    png: Annotated[Path | None, typer.Option(metavar="FILE.png", help="A picture; needs hoodoo\\[plot].")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many of the newest actions to draw.")] = 5_000,
    since: Since = None,
    until: Until = None,
    history: Annotated[bool, typer.Option(help="Also actions that were archived.")] = True,
    as_json: Json = False,
    storage_option: StorageOptions = None,
) -> None:
    """Draw actions as intervals from requested to completion time: as a page, a picture, or both.

    Without --out and --png, write a page to NAME-timeline.html.
    """
    for file, ending in ((out, ".html"), (png, ".png")):
        if file is not None and file.suffix.lower() != ending:
            raise typer.BadParameter(f"{file} does not end in {ending}")
    table = open_table(uri, storage_option)
    begin, end = _range(_now(table), since, until)
    if out is None and png is None:
        out = Path(file_name(table.options.get("hoodie.table.name", ""), "timeline.html"))
    wanted = [file for file in (out, png) if file is not None]
    written = [table.timeline.plot(file, begin, end, history=history, limit=limit) for file in wanted]
    if as_json:
        print_json({"files": [str(file) for file in written]})
        return
    for file in written:
        render.show_written(file)
