"""Drawing how files lie over each other in a column: a bar for each file, as wide as its range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hoodoo import ClusteringPlan, Overlap

LABEL = 8
# Of more files, some are drawn: twice this and four lines of text are a picture that fits any terminal.
MOST_BARS = 8
HALVES = " ▐▌█"
EIGHTHS = " ▁▂▃▄▅▆▇█"

Place = tuple[float, float] | None


@dataclass(frozen=True)
class Span:
    """The range of a file, or one of equal parts of a range.

    Attributes:
        partition: Where the file is.
        ends: Least and greatest value as text; None where they are not known.
        part: Which part of the range, from 0.
        parts: How many parts the range has.
    """

    partition: str
    ends: tuple[str | None, str | None] | None
    part: int = 0
    parts: int = 1


def spans_of(overlap: Overlap) -> list[Span]:
    """Gives the ranges of files as they are.

    Args:
        overlap: The files.

    Returns:
        One for each.
    """
    return [Span(file.partition, file.range) for file in overlap.files]


def spans_expected(overlap: Overlap, plan: ClusteringPlan) -> list[Span]:
    """Gives the ranges of files as they will be, as far as can be told: those of a group share its range evenly.

    Args:
        overlap: The files now.
        plan: What is done to them.

    Returns:
        One for each file that there will be.
    """
    taken = {(group.partition, file_id) for group in plan.groups for file_id in group.file_ids}
    spans = [Span(file.partition, file.range) for file in overlap.files if (file.partition, file.file_id) not in taken]
    # Along a curve, any file of a group may have any value of one column.
    linear = "hoodie.layout.optimize.strategy" not in plan.parameters
    for group in plan.groups:
        ends = group.ranges.get(overlap.column)
        parts = range(group.outputs)
        spans += [Span(group.partition, ends, *((part, group.outputs) if linear else ())) for part in parts]
    return spans


def picture(column: str, kind: pa.DataType, before: Sequence[Span], after: Sequence[Span], width: int = 80) -> str:
    """Draws files before and after, and below each how many there are at a value: the most, and at each.

    Of several partitions the one is drawn that is deepest before.

    Args:
        column: The column.
        kind: Its type.
        before: The files before.
        after: The files after.
        width: Columns of the terminal.

    Returns:
        Lines of text; empty when no range is known.

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
    known, place = sorted(end for end in ends if end is not None), _scale(ends, kind)
    partitions = sorted({span.partition for span in before})
    chosen = max(partitions, key=lambda name: _worst(_placed(before, name, place)), default="")
    sides = [_placed(before, chosen, place), _placed(after, chosen, place)]
    bars = max(width - LABEL, 8)
    depths = [_depths(side, bars) for side in sides]
    highest = max(map(max, depths))
    least, greatest = (min(known, key=place), max(known, key=place)) if known else ("null", "null")
    of = f", of {len(partitions):,} partitions the deepest: {chosen}" if len(partitions) > 1 else ""
    lines = [f"{column} from {'null' if None in ends else least} to {greatest}{of}"]
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
    least, width = min(values, default=0.0), max(values, default=0.0) - min(values, default=0.0)
    places = {end: (value - least) / width if width else 0.0 for end, value in zip(known, values, strict=True)}
    # Null sorts before everything.
    return lambda end: 0.0 if end is None else places[end]


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


def _placed(spans: Sequence[Span], partition: str, place: Callable[[str | None], float]) -> list[Place]:
    """The spans of a partition, from left to right; those that are not known last."""
    found: list[Place] = []
    for span in spans:
        if span.partition == partition:
            if span.ends is None:
                found.append(None)
                continue
            least, greatest = place(span.ends[0]), place(span.ends[1])
            step = (greatest - least) / span.parts
            found.append((least + span.part * step, least + (span.part + 1) * step))
    return sorted(found, key=lambda one: (one is None, one or (0.0, 0.0)))


def _at(places: Sequence[Place], point: float) -> int:
    # The last value of a file may be the first one of the next: that is no overlap worth drawing.
    return sum(one is None or one[0] <= point < one[1] or one[0] == point == one[1] for one in places)


def _worst(places: Sequence[Place]) -> tuple[int, int]:
    return max((_at(places, one[0]) for one in places if one), default=len(places)), len(places)


def _depths(places: Sequence[Place], cells: int) -> list[int]:
    """How many files there are at the values of each cell: at its middle, or where a file begins in it."""
    depths = [_at(places, (cell + 0.5) / cells) for cell in range(cells)]
    for one in places:
        if one is not None:
            cell = min(int(one[0] * cells), cells - 1)
            depths[cell] = max(depths[cell], _at(places, one[0]))
    return depths


def _some(places: list[Place]) -> list[Place]:
    if len(places) <= MOST_BARS:
        return places
    # One line less, which tells of the rest.
    shown = MOST_BARS - 1
    return [places[number * (len(places) - 1) // (shown - 1)] for number in range(shown)]


def _bar(place: Place, cells: int) -> str:
    if place is None:
        return "░" * cells
    begin = min(round(place[0] * 2 * cells), 2 * cells - 1)
    end = max(round(place[1] * 2 * cells), begin + 1)
    filled = [begin <= half < end for half in range(2 * cells)]
    return "".join(HALVES[2 * filled[half] + filled[half + 1]] for half in range(0, 2 * cells, 2))


def _eighths(depth: int, highest: int) -> str:
    return EIGHTHS[math.ceil(depth * (len(EIGHTHS) - 1) / max(highest, 1))]
