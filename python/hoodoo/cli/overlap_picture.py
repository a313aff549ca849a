"""Draws how the ranges of files overlap in a column: a bar for each file, as wide as its range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hoodoo import ClusteringPlan, Overlap

LABEL = 8
# Draws some of the files when there are more: two times this and four lines fit any terminal.
MOST_BARS = 8
HALVES = " ▐▌█"
EIGHTHS = " ▁▂▃▄▅▆▇█"

Extent = tuple[float, float] | None
"""Where a range lies, between 0 and 1; None when it is not known."""


@dataclass(frozen=True)
class Span:
    """The range of a file, or one of several equal parts of a range.

    Attributes:
        partition: Where the file is.
        ends: Min and max as strings; None when they are not known.
        part: Which part of the range, from 0.
        parts: How many parts the range has.
    """

    partition: str
    ends: tuple[str | None, str | None] | None
    part: int = 0
    parts: int = 1


def spans_of(overlap: Overlap) -> list[Span]:
    """Return the ranges of files.

    Args:
        overlap: The files.

    Returns:
        One span for each file.
    """
    return [Span(file.partition, file.range) for file in overlap.files]


def spans_expected(overlap: Overlap, plan: ClusteringPlan) -> list[Span]:
    """Return the expected ranges of files after a plan: the output files of a group share its range evenly.

    Args:
        overlap: The files before.
        plan: The plan.

    Returns:
        One span for each file after it.
    """
    taken = {(group.partition, file_id) for group in plan.groups for file_id in group.file_ids}
    spans = [Span(file.partition, file.range) for file in overlap.files if (file.partition, file.file_id) not in taken]
    # Along a curve, any file of a group may have any value of one column.
    linear = "hoodie.layout.optimize.strategy" not in plan.parameters
    for group in plan.groups:
        ends = group.ranges.get(overlap.column)
        parts = range(group.output_file_groups)
        spans += [Span(group.partition, ends, *((part, group.output_file_groups) if linear else ())) for part in parts]
    return spans


def picture(column: str, kind: pa.DataType, before: Sequence[Span], after: Sequence[Span], width: int = 80) -> str:
    """Return a drawing of the files before and after, each with the number of files at each value below.

    Of several partitions it shows the one with the most overlap before.

    Args:
        column: The column.
        kind: Its type.
        before: The files before.
        after: The files after.
        width: Columns of the terminal.

    Returns:
        The lines; empty when no range is known.

    Examples:
        >>> files = [Span("", ("0", "60")), Span("", ("30", "99"))]
        >>> print(picture("n", pa.int64(), files, [Span("", ("0", "99"), n, 2) for n in range(2)], 32))
        n from 0 to 99
        before  ██████████████▌
                       ▐████████████████
        depth 2 ▄▄▄▄▄▄▄████████▄▄▄▄▄▄▄▄▄
        after   ████████████
                            ████████████
        depth 1 ▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄
    """
    ends = {end for span in (*before, *after) if span.ends is not None for end in span.ends}
    if not ends:
        return ""
    known, scale = sorted(end for end in ends if end is not None), _scale(ends, kind)
    partitions = sorted({span.partition for span in before})
    chosen = max(partitions, key=lambda name: _worst(_extents(before, name, scale)), default="")
    sides = [_extents(before, chosen, scale), _extents(after, chosen, scale)]
    bars = max(width - LABEL, 8)
    depths = [_depths(side, bars) for side in sides]
    highest = max(map(max, depths))
    low, high = (min(known, key=scale), max(known, key=scale)) if known else ("null", "null")
    of = f", of {len(partitions):,} partitions the deepest: {chosen}" if len(partitions) > 1 else ""
    lines = [f"{column} from {'null' if None in ends else low} to {high}{of}"]
    for name, side, depth in zip(("before", "after"), sides, depths, strict=True):
        drawn = [_bar(one, bars) for one in _some(side)] or ["no file"]
        labels = [name, *[""] * (len(drawn) - 1)]
        lines += [f"{label:<{LABEL}}{bar}" for label, bar in zip(labels, drawn, strict=True)]
        if len(drawn) < len(side):
            lines.append(f"{'':<{LABEL}}… {len(side) - len(drawn):,} files more")
        label = f"depth {max(depth)}"
        label = label if len(label) < LABEL else "depth"
        lines.append(f"{label:<{LABEL}}{''.join(_eighths(one, highest) for one in depth)}")
    return "\n".join(line[:width].rstrip() for line in lines)


def _scale(ends: set[str | None], kind: pa.DataType) -> Callable[[str | None], float]:
    """Where values lie between 0 and 1: by their size where they have one, and else by their order."""
    known = sorted(end for end in ends if end is not None)
    values = _sizes(known, kind)
    if values is None:
        values = [float(number) for number in range(len(known))]
    elif not all(map(math.isfinite, values)):
        order = sorted(values)
        values = [float(order.index(value)) for value in values]
    low, width = min(values, default=0.0), max(values, default=0.0) - min(values, default=0.0)
    positions = {end: (value - low) / width if width else 0.0 for end, value in zip(known, values, strict=True)}
    # Null sorts before everything.
    return lambda end: 0.0 if end is None else positions[end]


def _sizes(known: list[str], kind: pa.DataType) -> list[float] | None:
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return [float(end) for end in known]
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        try:
            times = pa.array(known, pa.string()).cast(pa.timestamp("us", "UTC" if getattr(kind, "tz", None) else None))
        except pa.ArrowInvalid:
            return None
        return [float(time) for time in times.cast(pa.int64()).to_pylist()]
    return None


def _extents(spans: Sequence[Span], partition: str, scale: Callable[[str | None], float]) -> list[Extent]:
    """The spans of a partition, from left to right; those that are not known last."""
    found: list[Extent] = []
    for span in spans:
        if span.partition == partition:
            if span.ends is None:
                found.append(None)
                continue
            low, high = scale(span.ends[0]), scale(span.ends[1])
            step = (high - low) / span.parts
            found.append((low + span.part * step, low + (span.part + 1) * step))
    return sorted(found, key=lambda one: (one is None, one or (0.0, 0.0)))


def _at(extents: Sequence[Extent], point: float) -> int:
    # The last value of a file may be the first one of the next: that is no overlap worth drawing.
    return sum(one is None or one[0] <= point < one[1] or one[0] == point == one[1] for one in extents)


def _worst(extents: Sequence[Extent]) -> tuple[int, int]:
    return max((_at(extents, one[0]) for one in extents if one), default=len(extents)), len(extents)


def _depths(extents: Sequence[Extent], cells: int) -> list[int]:
    """How many files there are at the values of each cell: at its middle, or where a file begins in it."""
    depths = [_at(extents, (cell + 0.5) / cells) for cell in range(cells)]
    for one in extents:
        if one is not None:
            cell = min(int(one[0] * cells), cells - 1)
            depths[cell] = max(depths[cell], _at(extents, one[0]))
    return depths


def _some(extents: list[Extent]) -> list[Extent]:
    if len(extents) <= MOST_BARS:
        return extents
    # One line less, which tells of the rest.
    shown = MOST_BARS - 1
    return [extents[number * (len(extents) - 1) // (shown - 1)] for number in range(shown)]


def _bar(extent: Extent, cells: int) -> str:
    if extent is None:
        return "░" * cells
    begin = min(round(extent[0] * 2 * cells), 2 * cells - 1)
    end = max(round(extent[1] * 2 * cells), begin + 1)
    filled = [begin <= half < end for half in range(2 * cells)]
    return "".join(HALVES[2 * filled[half] + filled[half + 1]] for half in range(0, 2 * cells, 2))


def _eighths(depth: int, highest: int) -> str:
    return EIGHTHS[math.ceil(depth * (len(EIGHTHS) - 1) / max(highest, 1))]
