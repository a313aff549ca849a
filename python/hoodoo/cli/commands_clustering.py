"""The commands below `hoodoo cluster`."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from hoodoo import Commit, FileSlice, Overlap, Table
from hoodoo.cli import output, render, render_clustering
from hoodoo.cli.arguments import Json, Options, StorageOptions, Uri, open_table
from hoodoo.instant_time import now_in, zone_of

cluster_app = typer.Typer(help="Rewrite files of a table into fewer, larger or sorted files.", no_args_is_help=True)

SortBy = Annotated[str | None, typer.Option(help="Sort rows by these columns: a,b.")]
Strategy = Annotated[
    str | None,
    typer.Option(help="How files are grouped: SIZE, OVERLAP, KEY_RANGE, COMMIT_TIME, RANDOM, SINGLE_FILE, …"),
]


def _columns(sort_by: str | None) -> list[str] | None:
    return None if sort_by is None else [name.strip() for name in sort_by.split(",")]


@cluster_app.command("plan")
def plan(
    uri: Uri,
    *,
    explain: Annotated[bool, typer.Option("--explain", help="Only show what would be planned.")] = False,
    sort_by: SortBy = None,
    strategy: Strategy = None,
    as_json: Json = False,
    option: Options = None,
    storage_option: StorageOptions = None,
) -> None:
    """Plan a clustering, for Hudi or hoodoo to execute."""
    table = open_table(uri, storage_option, option)
    columns = _columns(sort_by)
    if explain:
        with render.working("planning"):
            planned = table.schedule_clustering(sort_by=columns, strategy=strategy, explain=True)
            overlap = table.overlap(planned.sort_by[0]) if planned.sort_by else None
        if as_json:
            record = json.loads(planned.record) if planned.record else None
            output.print_json({**output.plain(planned), "record": record})
            return
        render_clustering.show_plan(planned, overlap, table.schema)
        return
    with render.working("planning"):
        instant = table.schedule_clustering(sort_by=columns, strategy=strategy)
    if as_json:
        output.print_json({"instant": instant})
    else:
        render_clustering.show_planned(uri, instant)


@cluster_app.command("run")
def run(
    uri: Uri,
    instant: Annotated[str | None, typer.Argument(metavar="INSTANT", help="The plan with this requested time.")] = None,
    *,
    sort_by: SortBy = None,
    strategy: Strategy = None,
    as_json: Json = False,
    option: Options = None,
    storage_option: StorageOptions = None,
) -> None:
    """Execute all pending plans; make a new plan when there is none, or with --sort-by or --strategy."""
    new_plan = sort_by is not None or strategy is not None
    if instant is not None and new_plan:
        raise typer.BadParameter("a plan has its own sort columns and strategy: give INSTANT alone")
    table = open_table(uri, storage_option, option)
    pending = {} if new_plan else {plan.instant: plan.sort_by for plan in table.pending_clusterings()}
    plans = list(pending) if instant is None else [instant]
    sorted_by = [name for plan in plans for name in pending.get(plan, ())]
    columns = _columns(sort_by)
    if not plans:
        with render.working("planning"):
            planned = table.schedule_clustering(sort_by=columns, strategy=strategy, explain=True)
        sorted_by = list(planned.sort_by)
    before, overlap = table.file_slices(), None if as_json else _overlap(table, sorted_by)
    began = time.monotonic()
    found = [table.cluster(instant=plan) for plan in plans]
    if not plans:
        found.append(table.cluster(sort_by=columns, strategy=strategy))
    commits = [commit for commit in found if commit is not None]
    if as_json:
        output.print_json(commits)
        return
    done = _clustered(table, commits, before, time.monotonic() - began)
    after = _overlap(table, sorted_by) if done.commits else None
    render_clustering.show_clustered(done, overlap, after, table.schema)


def _overlap(table: Table, sorted_by: list[str]) -> Overlap | None:
    return table.overlap(sorted_by[0]) if sorted_by else None


def _clustered(
    table: Table, commits: list[Commit], before: list[FileSlice], seconds: float
) -> render_clustering.Clustered:
    replaced = {(part, file_id) for commit in commits for part, ids in commit.replaced.items() for file_id in ids}
    files = {file for commit in commits for file in commit.files}
    removed = [one for one in before if (one.partition, one.file_id) in replaced]
    written = [one for one in table.file_slices() if one.base_file in files]
    return render_clustering.Clustered(commits, removed, written, seconds)


@cluster_app.command("status")
def status(uri: Uri, as_json: Json = False, storage_option: StorageOptions = None) -> None:
    """Show the clusterings that are planned and not completed."""
    table = open_table(uri, storage_option)
    if as_json:
        output.print_json(table.pending_clusterings())
        return
    render_clustering.show_pending(table.pending_clusterings(), now_in(zone_of(table.options)))


@cluster_app.command("rollback")
def rollback(
    uri: Uri,
    instant: Annotated[str, typer.Argument(metavar="INSTANT", help="Requested time of the plan.")],
    as_json: Json = False,
    option: Options = None,
    storage_option: StorageOptions = None,
) -> None:
    """Remove a pending clustering from the timeline, with all files that an attempt wrote. No rows are lost."""
    table = open_table(uri, storage_option, option)
    table.rollback_clustering(instant)
    if as_json:
        output.print_json({"rolled_back": instant})
    else:
        render_clustering.show_rolled_back(instant)
