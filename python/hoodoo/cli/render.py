"""How answers look on a terminal: everything here takes plain values and prints them with rich."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.json import JSON
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table as Grid
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from hoodoo import Instant, Report

# Written to a file or a pipe there is no edge to break at.
PIPE_WIDTH = 200
console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
errors = Console(stderr=True)

STATE_STYLES = {"COMPLETED": "green", "INFLIGHT": "yellow", "REQUESTED": "cyan"}
SEVERITY_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}
# An instant's name: yyyyMMddHHmmssSSS. Old writers left out the milliseconds.
INSTANT_WITH_MILLIS = 17
# All columns of a timeline need this many characters; a narrower terminal gets the most telling ones.
WIDE = 118
# Wider cells are cut, so that a row stays a row.
WIDEST_CELL = 40


@dataclass(frozen=True)
class Figures:
    """What one action did, as its metadata tells.

    Attributes:
        operation: Hudi's name of the operation, in lower case.
        files: Data files written, or removed by a clean or rollback.
        inserted: Rows that were new.
        updated: Rows that replaced older ones.
        deleted: Rows that were removed.
        size: Bytes written.
    """

    operation: str = ""
    files: int | None = None
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    size: int | None = None


def summarize(action: str, metadata: Mapping[str, Any]) -> Figures:
    """Adds up the metadata of a completed action.

    Args:
        action: The action's name on the timeline.
        metadata: Its metadata with Hudi's field names.

    Returns:
        The figures that this kind of action has.

    Examples:
        >>> stats = {"city=sf": [{"path": "city=sf/a.parquet", "numInserts": 2, "numUpdateWrites": 3, "numDeletes": 1}]}
        >>> figures = summarize("commit", {"operationType": "UPSERT", "partitionToWriteStats": stats})
        >>> (figures.operation, figures.files, figures.inserted, figures.updated, figures.deleted)
        ('upsert', 1, 2, 3, 1)
    """
    if action in {"clean", "rollback"}:
        return Figures(operation=action, files=metadata.get("totalFilesDeleted"))
    written = metadata.get("partitionToWriteStats")
    if written is None:
        return Figures(operation=action)
    stats = [stat for group in written.values() for stat in group]

    def total(name: str) -> int:
        return sum(stat.get(name) or 0 for stat in stats)

    return Figures(
        operation=str(metadata.get("operationType") or "unknown").lower(),
        files=sum(1 for stat in stats if stat.get("path")),
        inserted=total("numInserts"),
        updated=total("numUpdateWrites"),
        deleted=total("numDeletes"),
        size=total("totalWriteBytes"),
    )


def parse_instant(name: str) -> datetime | None:
    """Reads the time out of an instant's name.

    Args:
        name: `yyyyMMddHHmmss` with or without `SSS`.

    Returns:
        The time in the table's own zone, or None if the name is no time (as that of a bootstrap instant).

    Examples:
        >>> parse_instant("20260102030405678").isoformat()
        '2026-01-02T03:04:05.678000'
    """
    try:
        if len(name) == INSTANT_WITH_MILLIS:
            return datetime.strptime(name, "%Y%m%d%H%M%S%f")  # noqa: DTZ007  # the table's own zone
        return datetime.strptime(name, "%Y%m%d%H%M%S")  # noqa: DTZ007
    except ValueError:
        return None


def duration(instant: Instant) -> str:
    """Says how long an action took from its request to its completion.

    Args:
        instant: The action.

    Returns:
        Text such as `0.42 s`; empty while the action is pending.
    """
    begin = parse_instant(instant.requested)
    end = parse_instant(instant.completed) if instant.completed else None
    if begin is None or end is None:
        return ""
    return f"{(end - begin).total_seconds():,.2f} s"


def human_size(size: float) -> str:
    """Writes a number of bytes as a person would.

    Args:
        size: Bytes.

    Returns:
        Text with a binary unit.

    Examples:
        >>> human_size(512), human_size(1536), human_size(3 * 1024**3)
        ('512 B', '1.5 KiB', '3.0 GiB')
    """
    kibi = 1024
    if size < kibi:
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        size /= kibi
        if size < kibi:
            return f"{size:.1f} {unit}"
    return f"{size / kibi:.1f} TiB"


def count(number: int | None) -> str:
    """Writes a count with thousands apart; nothing where there is none.

    Args:
        number: The count, or None.

    Returns:
        The text.
    """
    return "" if number is None else f"{number:,}"


def timeline_grid(instants: Sequence[Instant], figures: Mapping[Instant, Figures]) -> Grid:
    """Draws a timeline.

    Args:
        instants: The actions, oldest first.
        figures: What the completed ones did.

    Returns:
        A rich table.
    """
    left = ["requested", "action", "state", "operation"]
    right = ["took", "files", "inserted", "updated", "deleted", "written"]
    narrow = {"operation", "deleted", "written"} if console.width < WIDE else set()
    grid = Grid(title="Timeline", title_justify="left", header_style="bold", pad_edge=False)
    for name in left + right:
        if name not in narrow:
            grid.add_column(name, justify="right" if name in right else "left", no_wrap=True)
    for instant in instants:
        did = figures.get(instant, Figures())
        cells: dict[str, str | Text] = {
            "requested": instant.requested,
            "action": instant.action,
            "state": Text(instant.state.lower(), style=STATE_STYLES.get(instant.state, "")),
            "operation": did.operation,
            "took": duration(instant),
            "files": count(did.files),
            "inserted": count(did.inserted),
            "updated": count(did.updated),
            "deleted": count(did.deleted),
            "written": "" if did.size is None else human_size(did.size),
        }
        grid.add_row(*(value for name, value in cells.items() if name not in narrow))
    return grid


def show_timeline(instants: Sequence[Instant], figures: Mapping[Instant, Figures], hidden: int = 0) -> None:
    """Prints a timeline.

    Args:
        instants: The actions, oldest first.
        figures: What the completed ones did.
        hidden: How many older ones were left out.
    """
    console.print(timeline_grid(instants, figures))
    if hidden:
        console.print(f"{hidden:,} older actions not shown; ask for more with --limit", style="dim")


def show_metadata(instant: Instant, metadata: Mapping[str, Any]) -> None:
    """Prints the plan or metadata of one action.

    Args:
        instant: The action.
        metadata: Its content.
    """
    title = f"{instant.requested}  {instant.action}  {instant.state.lower()}  {duration(instant)}".rstrip()
    console.print(
        Panel(JSON.from_data(dict(metadata), default=str), title=escape(title), title_align="left", expand=False)
    )


def show_info(
    *,
    uri: str,
    version: int,
    options: Mapping[str, str],
    schema: pa.Schema,
    partitions: int,
    file_groups: int,
    size: int,
    instants: Sequence[Instant],
) -> None:
    """Prints what a table is.

    Args:
        uri: Where it is.
        version: Its table version.
        options: Its table config.
        schema: Its columns.
        partitions: How many partitions hold data.
        file_groups: How many file groups it has now.
        size: Their bytes.
        instants: Its active timeline.
    """
    facts = Grid(show_header=False, box=None)
    facts.add_column(style="bold")
    facts.add_column()
    ordering = options.get("hoodie.table.ordering.fields") or options.get("hoodie.table.precombine.field")
    facts.add_row("type", f"{options.get('hoodie.table.type', '')}, table version {version}")
    facts.add_row("record key", escape(options.get("hoodie.table.recordkey.fields") or "generated by the writer"))
    facts.add_row("partitioned by", escape(options.get("hoodie.table.partition.fields") or "nothing"))
    facts.add_row("ordering", escape(ordering or "the later commit wins"))
    facts.add_row("merge mode", escape(options.get("hoodie.record.merge.mode") or "not set"))
    facts.add_row("data", f"{file_groups:,} file groups in {partitions:,} partitions, {human_size(size)}")
    completed = [instant for instant in instants if instant.state == "COMPLETED"]
    pending = len(instants) - len(completed)
    latest = f", the last a {completed[-1].action} at {completed[-1].requested}" if completed else ""
    facts.add_row("timeline", f"{len(completed):,} completed actions{latest}; {pending:,} pending")
    title = escape(f"{options.get('hoodie.table.name', 'table')} at {uri}")
    console.print(Panel(facts, title=title, title_align="left", expand=False))

    grid = Grid(header_style="bold")
    for heading in ("column", "type", "nullable"):
        grid.add_column(heading)
    for field in schema:
        grid.add_row(escape(field.name), escape(str(field.type)), "yes" if field.nullable else "no")
    console.print(grid)


def cell(value: object) -> str:
    """Writes one value of a row, cut to a width that keeps tables readable.

    Args:
        value: Any Python value of an Arrow column.

    Returns:
        Text without markup.
    """
    if value is None:
        return "[dim]null[/dim]"
    text = str(value)
    if len(text) > WIDEST_CELL:
        text = text[: WIDEST_CELL - 1] + "…"
    return escape(text)


def show_rows(reader: pa.RecordBatchReader, limit: int) -> None:
    """Prints the first rows of a stream and reads no further.

    Args:
        reader: The rows.
        limit: How many of them.
    """
    grid = Grid(header_style="bold")
    for name in reader.schema.names:
        grid.add_column(escape(name))
    shown = 0
    with reader:
        for batch in reader:
            part = batch.slice(0, limit - shown)
            for row in zip(*(column.to_pylist() for column in part.columns), strict=True):
                grid.add_row(*(cell(value) for value in row))
            shown += part.num_rows
            if shown >= limit:
                break
    console.print(grid)
    console.print(f"{shown:,} rows shown", style="dim")


def show_report(report: Report) -> None:
    """Prints what a verification found.

    Args:
        report: Its result.
    """
    checked = ", ".join(f"{number:,} {what}" for what, number in report.checked.items())
    console.print(f"checked: {checked}", style="dim")
    if not report.problems:
        console.print("no problem found", style="bold green")
        return
    grid = Grid(header_style="bold")
    for heading in ("severity", "where", "problem", "what to do"):
        grid.add_column(heading)
    for problem in report.problems:
        grid.add_row(
            Text(problem.severity, style=SEVERITY_STYLES.get(problem.severity.lower(), "")),
            escape(problem.subject),
            escape(problem.message),
            escape(problem.remedy or ""),
        )
    console.print(grid)


def show_failure(message: str) -> None:
    """Prints why a command did not work, on standard error.

    Args:
        message: The reason, with its remedy.
    """
    errors.print(Text.assemble(("error: ", "bold red"), message))
