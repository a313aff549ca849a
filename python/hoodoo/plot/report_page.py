"""The report of a table as one page that loads nothing from elsewhere."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from hoodoo.display import human_size
from hoodoo.plot.page import fragment, shell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoodoo.plot.intervals import Chart
    from hoodoo.table_report import NextService, PartitionSize, TableReport

__all__ = ["report_page"]

# Partitions that are listed, the largest first.
_MOST_PARTITIONS = 50


def report_page(report: TableReport, chart: Chart | None = None) -> str:
    """Return a report as a page.

    Args:
        report: The report.
        chart: The timeline, to be drawn below.

    Returns:
        HTML, with every string of the table escaped.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> t = hoodoo.Table.create("memory://docs-report-page/t", {"id": pa.int64()}, name="a<b", record_key="id")
        >>> "<h1>a&lt;b</h1>" in report_page(t.report())
        True
    """
    parts = [
        f"<h1>{_text(report.name or 'table')}</h1>",
        f'<p class="where">{_text(_where(report))}</p>',
        _tiles(report),
        _section("What each table service would do next", _services(report.services)),
        _section("Base files by size", _sizes(report)),
        _section("Overlap of files by column", _overlaps(report)),
        _section(f"Partitions ({len(report.partitions):,})", _partitions(report.partitions)),
        _section("Metadata table", _metadata(report)),
        _section("Pending actions", _pending(report)) if report.pending else "",
        _section("Timeline", fragment(chart)) if chart is not None else "",
    ]
    title = f"Report of {report.name}" if report.name else "Report"
    return shell(title, f"<main>{''.join(parts)}</main>", ["base.css", "report.css", "chart.css"])


def _text(value: object) -> str:
    return html.escape(str(value))


def _section(title: str, body: str) -> str:
    return f"<h2>{_text(title)}</h2>\n{body}\n"


def _where(report: TableReport) -> str:
    parts = [report.uri, report.table_type, f"table version {report.version}"]
    if report.record_key:
        parts.append(f"key {', '.join(report.record_key)}")
    if report.partition_by:
        parts.append(f"partitioned by {', '.join(report.partition_by)}")
    if report.ordering:
        parts.append(f"ordering {', '.join(report.ordering)}")
    return " · ".join([*parts, f"as of {report.created}"])


def _tiles(report: TableReport) -> str:
    limit = _round(report.small_file_limit)
    tiles = [
        (human_size(report.base_bytes), f"in {report.base_files:,} base files"),
        (f"{report.small_files:,}", f"small files, below {limit}"),
        (f"{report.file_slices:,}", "file slices that a query reads"),
        (human_size(report.log_bytes), f"in {report.log_files:,} log files"),
        (
            "no base files" if report.log_ratio == float("inf") else f"{report.log_ratio:.1%}",
            "log ratio: log bytes of base bytes",
        ),
        (f"{report.completed:,}", f"completed actions on the active timeline, {len(report.pending):,} pending"),
        (f"{report.savepoints:,}", "savepoints"),
    ]
    cells = "".join(f'<div class="tile"><b>{_text(value)}</b><span>{_text(name)}</span></div>' for value, name in tiles)
    return f'<div class="tiles">{cells}</div>'


def _table(headings: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; headings are (class, text), cells are HTML."""
    head = "".join(f'<th class="{kind}">{_text(name)}</th>' for kind, name in headings)
    kinds = [kind for kind, _ in headings]
    lines = ("".join(f'<td class="{kind}">{cell}</td>' for kind, cell in zip(kinds, row, strict=True)) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _services(services: Sequence[NextService]) -> str:
    rows = []
    for one in services:
        note = f'<div class="faint">{_text(one.note)}</div>' if one.note else ""
        due = '<span class="due">due</span>' if one.due else '<span class="faint">not due</span>'
        rows.append([_text(one.service), due, _text(one.summary) + note, f"<code>{_text(one.command)}</code>"])
    return _table([("", "service"), ("", ""), ("wide", "next"), ("wide", "command")], rows)


def _meter(share: float, second: float = 0.0) -> str:
    widths = "".join(
        f'<i class="{kind}" style="width:{part:.2%}"></i>' for kind, part in (("base", share), ("log", second)) if part
    )
    return f'<div class="meter">{widths}</div>'


def _round(size: int) -> str:
    return human_size(size).replace(".0 ", " ")


def _sizes(report: TableReport) -> str:
    most = max((one.files for one in report.sizes), default=0) or 1
    rows = []
    for one in report.sizes:
        name = f"{_round(one.since)} and more" if one.until is None else f"{_round(one.since)} to {_round(one.until)}"
        rows.append([_text(name), f"{one.files:,}", human_size(one.bytes), _meter(one.files / most)])
    return _table([("line", "size"), ("number", "files"), ("number", "bytes"), ("bar", "")], rows)


def _overlaps(report: TableReport) -> str:
    if not report.overlaps:
        return '<p class="faint">No column was measured.</p>'
    rows = []
    for one in report.overlaps:
        if one.problem:
            problem = f'<div class="problem">{_text(one.problem)}</div>'
            rows.append([_text(one.column) + problem, "", "", f"{one.files:,}", "", ""])
            continue
        share = one.max / one.files if one.files else 0.0
        numbers = [f"{one.max:,}", f"{one.mean:.1f}", f"{one.files:,}", f"{one.unknown:,}"]
        rows.append([_text(one.column), *numbers, _meter(share)])
    headings = [("name", "column"), ("number", "most files for one value"), ("number", "mean")]
    return _table([*headings, ("number", "files"), ("number", "without range"), ("bar", "")], rows)


def _partitions(partitions: Sequence[PartitionSize]) -> str:
    if not partitions:
        return '<p class="faint">The table has no files.</p>'
    largest = sorted(partitions, key=lambda one: -(one.base_bytes + one.log_bytes))
    most = max(largest[0].base_bytes + largest[0].log_bytes, 1)
    rows = [
        [
            _text(one.partition or "·"),
            f"{one.file_slices:,}",
            f"{one.small_files:,}",
            human_size(one.base_bytes),
            f"{one.log_files:,}",
            human_size(one.log_bytes),
            _meter(one.base_bytes / most, one.log_bytes / most),
        ]
        for one in largest[:_MOST_PARTITIONS]
    ]
    headings = [("name", "partition"), ("number", "file slices"), ("number", "small files"), ("number", "base bytes")]
    grid = _table([*headings, ("number", "log files"), ("number", "log bytes"), ("bar", "")], rows)
    left_out = len(largest) - len(rows)
    more = f"the largest {len(rows):,}; {left_out:,} more" if left_out else "largest first"
    key = '<i class="base"></i>base files<i class="log"></i>log files'
    return f'{grid}<p class="hint key">{more}{key}</p>'


def _metadata(report: TableReport) -> str:
    if not report.metadata_partitions:
        return '<p class="faint">The table has no metadata table: readers list folders.</p>'
    rows = [
        [
            _text(one.name),
            f"{one.shards:,}",
            human_size(one.base_size),
            f"{one.logs:,}",
            human_size(one.log_size),
            _text(one.latest_instant or ""),
        ]
        for one in report.metadata_partitions
    ]
    headings = [("name", "partition"), ("number", "shards"), ("number", "base bytes"), ("number", "log files")]
    return _table([*headings, ("number", "log bytes"), ("", "latest instant")], rows)


def _pending(report: TableReport) -> str:
    rows = [[_text(one.requested), _text(one.action), _text(one.state.lower())] for one in report.pending]
    return _table([("", "requested"), ("", "action"), ("", "state")], rows)
