"""Output of timelines on a terminal."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Group
from rich.json import JSON
from rich.markup import escape
from rich.measure import Measurement
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table as Grid
from rich.text import Text

from hoodoo.cli.render import console, count
from hoodoo.commit_stats import CommitStats
from hoodoo.display import human_size
from hoodoo.instant_time import parse_instant, took
from hoodoo.plot.palette import colour, order

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hoodoo import ArchiveReport, History, HistoryCompaction, Instant

STATE_STYLES = {"COMPLETED": "green", "INFLIGHT": "yellow", "REQUESTED": "cyan"}
MARKS = {"COMPLETED": "✓", "INFLIGHT": "◐", "REQUESTED": "○"}
PLAIN_MARKS = {"COMPLETED": "+", "INFLIGHT": "~", "REQUESTED": "."}
# Columns that a narrow terminal leaves out, the first ones first.
DROPPED = ("written", "deleted", "operation", "inserted", "updated", "files", "age", "took")
# How many archived actions are listed; the others are only counted.
LISTED = 20


def lasting(time: timedelta) -> str:
    """Return a duration in its two largest units.

    Args:
        time: The duration.

    Returns:
        The string.

    Examples:
        >>> [lasting(timedelta(seconds=s)) for s in (0.42, 75, 7_500, 200_000)]
        ['0.42 s', '1 min 15 s', '2 h 05 min', '2 d 7 h']
    """
    seconds = time.total_seconds()
    if round(seconds, 2) < 60:  # noqa: PLR2004
        return f"{seconds:.2f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:  # noqa: PLR2004
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:  # noqa: PLR2004
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(hours, 24)
    return f"{days:,} d {hours} h"


def age(name: str, now: datetime) -> str:
    """Return how long ago an instant was, in one unit.

    Args:
        name: The instant.
        now: The current time in the zone of the table.

    Returns:
        The string; empty for an instant that is not a time.

    Examples:
        >>> [age(t, datetime(2026, 1, 2)) for t in ("20260101235950000", "20260101200000000", "20260102000100000")]
        ['10 s ago', '4 h ago', 'in 1 min']
    """
    then = parse_instant(name)
    if then is None:
        return ""
    seconds = (now - then).total_seconds()
    amount = abs(seconds)
    text = f"{amount:.0f} s"
    for size, unit in ((60, "min"), (3600, "h"), (86_400, "d"), (86_400 * 365.25, "y")):
        if amount >= size:
            text = f"{int(amount // size)} {unit}"
    return f"in {text}" if seconds < 0 else f"{text} ago"


def state_text(state: str) -> Text:
    """Return a state with its mark.

    Args:
        state: Such as `COMPLETED`.

    Returns:
        Coloured text.
    """
    marks = MARKS if console.encoding.lower().startswith("utf") else PLAIN_MARKS
    return Text(f"{marks.get(state, '?')} {state.lower()}", style=STATE_STYLES.get(state, ""))


def action_text(action: str) -> Text:
    """Return an action in its colour.

    Args:
        action: Its name.

    Returns:
        Coloured text.
    """
    return Text(action, style=colour(action))


def timeline_grid(
    instants: Sequence[Instant], stats: Mapping[Instant, CommitStats], now: datetime, archived: Collection[Instant] = ()
) -> Grid:
    """Return a timeline as a grid.

    Args:
        instants: The actions, oldest first.
        stats: Commit stats of the completed actions.
        now: The current time in the zone of the table.
        archived: The actions that are in the history.

    Returns:
        A rich table.
    """
    rows = [_cells(instant, stats.get(instant, CommitStats()), now, dim=instant in archived) for instant in instants]
    for dropped in range(len(DROPPED) + 1):
        grid = _grid_without(DROPPED[:dropped], rows)
        if Measurement.get(console, console.options.update(max_width=1 << 16), grid).maximum <= console.width:
            break
    return grid


def _grid_without(dropped: Collection[str], rows: Sequence[Mapping[str, str | Text]]) -> Grid:
    left = {"requested", "action", "state", "operation"}
    names = ["requested", "age", "action", "state", "took", "operation", "files"]
    names += ["inserted", "updated", "deleted", "written"]
    shown = [name for name in names if name not in dropped]
    grid = Grid(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for name in shown:
        grid.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    for row in rows:
        grid.add_row(*(row[name] for name in shown))
    return grid


def _cells(instant: Instant, stats: CommitStats, now: datetime, *, dim: bool) -> dict[str, str | Text]:
    return {
        "requested": Text(instant.requested, style="dim" if dim else ""),
        "age": Text(age(instant.requested, now), style="dim"),
        "action": action_text(instant.action),
        "state": state_text(instant.state),
        "took": _took(instant, now),
        "operation": Text("" if stats.operation == instant.action else stats.operation),
        "files": count(stats.files),
        "inserted": count(stats.inserted),
        "updated": count(stats.updated),
        "deleted": count(stats.deleted),
        "written": "" if stats.size is None else human_size(stats.size),
    }


def _took(instant: Instant, now: datetime) -> Text:
    lasted, begin = took(instant), parse_instant(instant.requested)
    if lasted is not None:
        return Text(lasting(lasted))
    if instant.state == "COMPLETED" or begin is None:
        return Text("")
    return Text(f"{lasting(max(now - begin, timedelta()))}…", style="yellow")


def show_timeline(
    instants: Sequence[Instant],
    stats: Mapping[Instant, CommitStats],
    *,
    now: datetime,
    archived: Collection[Instant] = (),
    older: int | None = 0,
) -> None:
    """Print a timeline.

    Args:
        instants: The actions, oldest first.
        stats: Commit stats of the completed actions.
        now: The current time in the zone of the table.
        archived: The actions that are in the history.
        older: How many older actions are not shown; None when they were not counted.
    """
    if not instants:
        console.print("no actions", style="dim")
        return
    console.print(timeline_grid(instants, stats, now, archived))
    pending = [one for one in instants if one.state != "COMPLETED"]
    parts = [f"{len(instants):,} actions"]
    if pending:
        parts.append(f"{len(pending):,} pending")
    if archived:
        parts.append(f"{len(archived):,} archived (dim)")
    if older is None or older:
        number = "" if older is None else f"{older:,} "
        parts.append(f"{number}older actions not shown; ask for more with --limit")
    console.print(", ".join(parts), style="dim", highlight=False)


def show_action(
    instant: Instant, *, now: datetime, archived: bool, states: Mapping[str, Mapping[str, Any]], plan: Mapping[str, Any]
) -> None:
    """Print everything about one action.

    Args:
        instant: The action.
        now: The current time in the zone of the table.
        archived: Whether it is in the history.
        states: The content of the file of each state.
        plan: The plan.
    """
    facts = Grid(show_header=False, box=None, pad_edge=False)
    facts.add_column(style="bold")
    facts.add_column()
    facts.add_row("requested", _moment(instant.requested, now))
    if instant.completed:
        facts.add_row("completed", _moment(instant.completed, now))
    facts.add_row("took" if instant.completed else "pending for", _took(instant, now))
    facts.add_row("states", Text(" → ").join(state_text(state) for state in states))
    facts.add_row("kept in", "the history" if archived else "the active timeline")
    parts: list[Any] = [facts]
    if plan:
        parts += [Rule("plan", align="left", style="dim"), JSON.from_data(dict(plan), default=str)]
    for state, content in states.items():
        # The plan is the file of the requested state.
        if content and content != plan and not (plan and state == "REQUESTED"):
            title = "metadata" if state == "COMPLETED" else f"file of the state {state.lower()}"
            parts += [Rule(title, align="left", style="dim"), JSON.from_data(dict(content), default=str)]
    heading = Text.assemble(instant.requested, "  ", action_text(instant.action))
    console.print(Panel(Group(*parts), title=heading, title_align="left", expand=False))


def _moment(name: str, now: datetime) -> str:
    time = parse_instant(name)
    if time is None:
        return name
    return f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03d}  ({age(name, now)})"


def show_history(
    history: History, actions: Sequence[int | None], total: int | None, *, now: datetime, table_version: int
) -> None:
    """Print the files of a history.

    Args:
        history: The version and its files.
        actions: How many actions each file has; None when they were not counted.
        total: How many actions all files have; None when they were not counted.
        now: The current time in the zone of the table.
        table_version: The table version.
    """
    known = "" if total is None else f", {total:,} actions"
    if not history.files:
        if total:
            console.print(f"a table of version {table_version} keeps its archive in logs{known}")
        else:
            console.print("nothing was archived yet", style="dim")
        return
    grid = Grid(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for heading in ("level", "file", "actions", "size", "from", "to", "age"):
        right = heading in {"level", "actions", "size", "age"}
        grid.add_column(heading, justify="right" if right else "left", no_wrap=heading != "file", overflow="fold")
    rows = sorted(zip(history.files, actions, strict=True), key=lambda row: (-row[0].level, row[0].since))
    for number, (file, n) in enumerate(rows):
        grid.add_row(
            str(file.level),
            escape(file.name),
            count(n),
            human_size(file.size),
            escape(file.since),
            escape(file.until),
            Text(age(file.until, now), style="dim"),
            end_section=number + 1 < len(rows) and rows[number + 1][0].level != file.level,
        )
    console.print(grid)
    levels = Counter(file.level for file in history.files)
    shape = ", ".join(f"{levels[level]:,} of level {level}" for level in sorted(levels, reverse=True))
    size = human_size(sum(file.size for file in history.files))
    console.print(
        f"version {history.version:,}: {len(history.files):,} files ({shape}), {size}{known}",
        style="dim",
        highlight=False,
    )


def show_archiving(report: ArchiveReport, *, now: datetime) -> None:
    """Print the result of an archival, and what blocks the archival of other actions.

    Args:
        report: The result.
        now: The current time in the zone of the table.
    """
    verb = "would move" if report.dry_run else "moved"
    gone = report.instants
    if gone:
        kinds = Counter(one.action for one in gone)
        named = [Text.assemble(f"{kinds[name]:,} ", action_text(name)) for name in sorted(kinds, key=order)]
        opening = (f"{len(gone):,} actions {verb} to the history: ", "bold")
        console.print(Text.assemble(opening, Text(", ").join(named)))
        console.print(timeline_grid(gone[:LISTED], {}, now))
        if len(gone) > LISTED:
            console.print(f"and {len(gone) - LISTED:,} more, up to {gone[-1].requested}", style="dim")
    else:
        console.print(f"nothing {verb} to the history", style="bold")
    begins = f"archival starts above {report.keep_max:,} and keeps {report.keep_min:,}"
    console.print(f"{report.writes:,} completed writes were on the active timeline; {begins}", highlight=False)
    if report.files or report.files_compacted:
        merged = f", {report.files_compacted:,} merged into larger ones" if report.files_compacted else ""
        console.print(f"{report.files:,} files of the history written{merged}")
    if not report.blockers:
        return
    console.print()
    console.print("Archive blockers", style="bold yellow")
    grid = Grid(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, leading=1)
    for heading in ("from", "age", "writes", "why, and what to do"):
        right = heading in {"age", "writes"}
        grid.add_column(heading, no_wrap=right, overflow="fold", justify="right" if right else "left")
    for blocker in report.blockers:
        why = Text.assemble(blocker.reason, "\n", ("→ " + blocker.remedy, "cyan"))
        since = escape(blocker.since) or "all actions"
        grid.add_row(since, Text(age(blocker.since, now), style="dim"), count(blocker.writes), why)
    console.print(grid)


def show_compaction(done: HistoryCompaction) -> None:
    """Print what a compaction of the history stats.

    Args:
        done: The result.
    """
    if done.files:
        console.print(f"{done.files:,} files of {done.levels:,} levels merged", style="bold")
    else:
        console.print("nothing to merge", style="bold")
    console.print(f"{done.removed:,} old versions and files removed", style="dim")
