"""Clustering plans, pending clusterings, and the overlap of files."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hoodoo.display import Displayed, View, human_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table as Grid

    from hoodoo import _native

__all__ = ["ClusteringGroup", "ClusteringPlan", "FileRange", "Overlap", "OverlapDepth", "PendingClustering"]

_SCHEMA = pa.schema(
    [
        ("group", pa.int32()),
        ("partition", pa.string()),
        ("file_id", pa.string()),
        ("base_file", pa.string()),
        ("base_bytes", pa.int64()),
        ("log_files", pa.int32()),
        ("log_bytes", pa.int64()),
        ("output_file_groups", pa.int64()),
        ("depth_before", pa.int64()),
        ("depth_after", pa.int64()),
        ("ranges", pa.map_(pa.string(), pa.struct([("min", pa.string()), ("max", pa.string())]))),
    ]
)


@dataclass(frozen=True)
class OverlapDepth:
    """How many files of one partition a query for a single value of the first sort column opens.

    Attributes:
        max: Number of files at the worst value.
        mean: Mean number of files, over the min and max of all files.
    """

    max: int
    mean: float


@dataclass(frozen=True)
class FileRange:
    """The range of one column in a file slice.

    Attributes:
        partition: Partition path; empty for an unpartitioned table.
        file_id: The file group.
        base_file: Path of its base file relative to the table; None when it has only log files.
        size: Size of the base file in bytes; 0 when there is none.
        rows: Number of rows of the base file; None when there is none.
        range: Min and max as strings (None: null); None when the footer does not have them.
    """

    partition: str
    file_id: str
    base_file: str | None
    size: int
    rows: int | None
    range: tuple[str | None, str | None] | None


@dataclass(frozen=True)
class Overlap(Displayed):
    """How the ranges of the files of a table overlap in one column.

    Attributes:
        column: The column.
        depth: How many files of one partition a query for a single value opens: in the worst partition, and the mean.
        files: The file slices.
    """

    column: str
    depth: OverlapDepth
    files: tuple[FileRange, ...]

    @classmethod
    def from_native(cls, column: str, found: tuple[list[_native.FileRow], _native.DepthRow]) -> Overlap:
        """Make an overlap of what the core returns."""
        rows, depth = found
        files = (FileRange(row[0], row[1], row[3], row[4] or 0, count, min_max) for row, count, min_max in rows)
        return cls(column, OverlapDepth(*depth), tuple(files))

    def __repr__(self) -> str:
        """Return the column, the depth and the number of files."""
        return f"Overlap({self.column!r}, max={self.depth.max}, mean={self.depth.mean:.2f}, files={len(self.files)})"

    def _view(self) -> View:
        rows = [
            (one.partition or "·", one.file_id, human_size(one.size), one.rows, *(one.range or ("?", "?")))
            for one in self.files
        ]
        facts = [("files that one value opens", f"{self.depth.max:,} at most, {self.depth.mean:.1f} on average")]
        headings = ("partition", "file group", "size", "rows", "min", "max")
        return View(f"Overlap of {self.column}: {len(self.files):,} files", facts, headings, rows)


@dataclass(frozen=True)
class ClusteringGroup:
    """File slices of one partition that are rewritten together.

    Attributes:
        partition: Partition path; empty for an unpartitioned table.
        file_ids: The file groups, in the order of the plan.
        base_files: Paths of their base files relative to the table; None when a slice has only log files.
        base_bytes: Size of each base file in bytes; 0 when there is none.
        log_files: Number of log files of each slice.
        log_bytes: Total size of the log files of each slice in bytes.
        bytes: Size of the group in bytes, as the strategy counts it: the base files, and `hoodie.parquet.max.file.size`
            for each slice without a base file.
        output_file_groups: How many file groups the group is rewritten to.
        ranges: Min and max of each column as strings (None: null); empty when no footers were read.
        before: Overlap of its files; None without sort columns.
        after: Expected overlap of the output files; None without sort columns.
    """

    partition: str
    file_ids: tuple[str, ...]
    base_files: tuple[str | None, ...]
    base_bytes: tuple[int, ...]
    log_files: tuple[int, ...]
    log_bytes: tuple[int, ...]
    bytes: int
    output_file_groups: int
    ranges: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    before: OverlapDepth | None = None
    after: OverlapDepth | None = None


def _depth(row: _native.DepthRow | None) -> OverlapDepth | None:
    return None if row is None else OverlapDepth(*row)


@dataclass(frozen=True)
class ClusteringPlan(Displayed):
    """The plan of `Table.schedule_clustering(explain=True)`. `rich` prints it as a table.

    Attributes:
        groups: The groups, in the order of the plan.
        before: Overlap of the files in the partitions of the plan; None without sort columns.
        after: Expected overlap after the plan is executed; None without sort columns.
        record: The plan as JSON, with the field names of the file on the timeline; empty when there is no plan.
    """

    groups: tuple[ClusteringGroup, ...]
    before: OverlapDepth | None
    after: OverlapDepth | None
    record: str

    @classmethod
    def from_native(
        cls,
        row: tuple[list[_native.GroupRow], _native.DepthRow | None, _native.DepthRow | None, str] | None,
    ) -> ClusteringPlan:
        """Make a plan of what the core returns; it has no groups when there is nothing to cluster."""
        if row is None:
            return cls((), None, None, "")
        groups, before, after, record = row
        return cls(tuple(_group(*group) for group in groups), _depth(before), _depth(after), record)

    @property
    def files(self) -> int:
        """How many file slices are rewritten."""
        return sum(len(group.file_ids) for group in self.groups)

    @property
    def bytes(self) -> int:
        """How many bytes of base files and log files are read."""
        return sum(sum(group.base_bytes) + sum(group.log_bytes) for group in self.groups)

    @property
    def output_file_groups(self) -> int:
        """How many file groups are written."""
        return sum(group.output_file_groups for group in self.groups)

    @property
    def parameters(self) -> dict[str, str]:
        """The strategy parameters of the plan by Hudi's option keys: sort columns, sizes."""
        if not self.record:
            return {}
        strategy = json.loads(self.record)["clusteringPlan"]["strategy"]
        return dict(strategy["strategyParams"] or {})

    @property
    def sort_by(self) -> tuple[str, ...]:
        """Columns that rows are sorted by."""
        columns = self.parameters.get("hoodie.clustering.plan.strategy.sort.columns", "")
        return tuple(name.strip() for name in columns.split(",") if name.strip())

    def to_arrow(self) -> pa.Table:
        """Return the plan as an Arrow table, a row for each file slice.

        Returns:
            Of the slice the columns `partition`, `file_id`, `base_file`, `base_bytes`, `log_files` and `log_bytes`; of
            its group `group` (number in the plan, from 0), `output_file_groups`, `depth_before` and `depth_after` (max)
            and `ranges` (min and max as strings, by column).
        """
        rows: list[dict[str, Any]] = []
        for number, group in enumerate(self.groups):
            ranges = [(name, {"min": low, "max": high}) for name, (low, high) in group.ranges.items()]
            for at, file_id in enumerate(group.file_ids):
                rows.append(
                    {
                        "group": number,
                        "partition": group.partition,
                        "file_id": file_id,
                        "base_file": group.base_files[at],
                        "base_bytes": group.base_bytes[at],
                        "log_files": group.log_files[at],
                        "log_bytes": group.log_bytes[at],
                        "output_file_groups": group.output_file_groups,
                        "depth_before": group.before.max if group.before else None,
                        "depth_after": group.after.max if group.after else None,
                        "ranges": ranges,
                    }
                )
        return pa.Table.from_pylist(rows, schema=_SCHEMA)

    def __repr__(self) -> str:
        """Return the counts."""
        counts = f"groups={len(self.groups)}, files={self.files}, bytes={self.bytes}"
        return f"ClusteringPlan({counts}, output_file_groups={self.output_file_groups}, sort_by={self.sort_by!r})"

    def _view(self) -> View:
        if not self.groups:
            return View("ClusteringPlan: nothing to cluster")
        facts: list[tuple[str, object]] = [
            ("file groups", f"{self.files:,} → {self.output_file_groups:,}"),
            ("bytes", human_size(self.bytes)),
            ("sort by", self.sort_by),
            ("files that one value opens", _arrow(self.before, self.after)),
        ]
        rows = [
            (
                number,
                group.partition or "·",
                f"{len(group.file_ids):,} → {group.output_file_groups:,}",
                human_size(sum(group.base_bytes) + sum(group.log_bytes)),
                "; ".join(f"{name} {low} … {high}" for name, (low, high) in group.ranges.items()),
                _arrow(group.before, group.after),
            )
            for number, group in enumerate(self.groups)
        ]
        headings = ("group", "partition", "files", "bytes in", "ranges", "overlap")
        return View("ClusteringPlan", [fact for fact in facts if fact[1]], headings, rows)

    def __rich__(self) -> Grid | str:
        """Draw the plan."""
        from rich.markup import escape  # noqa: PLC0415  # only where something is printed
        from rich.table import Table as Grid  # noqa: PLC0415

        if not self.groups:
            return "nothing to cluster"
        grid = Grid(header_style="bold", show_footer=True)
        grid.add_column("group", justify="right")
        grid.add_column("partition", footer="all")
        grid.add_column("files", justify="right", footer=f"{self.files:,} → {self.output_file_groups:,}")
        grid.add_column("bytes in", justify="right", footer=human_size(self.bytes))
        with_ranges = any(group.before for group in self.groups)
        if with_ranges:
            grid.add_column("ranges")
            grid.add_column("overlap", justify="right", footer=_arrow(self.before, self.after))
        for number, group in enumerate(self.groups):
            cells = [
                str(number),
                escape(group.partition) or "·",
                f"{len(group.file_ids):,} → {group.output_file_groups:,}",
                human_size(sum(group.base_bytes) + sum(group.log_bytes)),
            ]
            if with_ranges:
                ranges = (f"{name} {low} … {high}" for name, (low, high) in group.ranges.items())
                cells += [escape("\n".join(ranges)), _arrow(group.before, group.after)]
            grid.add_row(*cells)
        return grid


def _arrow(before: OverlapDepth | None, after: OverlapDepth | None) -> str:
    if before is None or after is None:
        return ""
    return f"{before.max:,} → {after.max:,} (mean {before.mean:.1f} → {after.mean:.1f})"


def _group(  # noqa: PLR0917 - a row of the core
    slices: list[_native.SliceRow],
    counted: int,
    output_file_groups: int,
    ranges: list[_native.RangeRow],
    before: _native.DepthRow | None,
    after: _native.DepthRow | None,
) -> ClusteringGroup:
    return ClusteringGroup(
        partition=slices[0][0] if slices else "",
        file_ids=tuple(row[1] for row in slices),
        base_files=tuple(row[3] for row in slices),
        base_bytes=tuple(row[4] or 0 for row in slices),
        log_files=tuple(len(row[5]) for row in slices),
        log_bytes=tuple(sum(row[6]) for row in slices),
        bytes=counted,
        output_file_groups=output_file_groups,
        ranges={name: (low, high) for name, low, high in ranges},
        before=_depth(before),
        after=_depth(after),
    )


@dataclass(frozen=True)
class PendingClustering:
    """A clustering that is planned and not completed.

    Attributes:
        instant: Requested time, 17 digits.
        inflight: Whether a process started to execute it.
        groups: How many groups the plan has.
        slices: How many file slices the groups have.
        bytes: Total size in bytes of their files that still exist.
        output_file_groups: How many file groups the plan writes.
        sort_by: The sort columns.
    """

    instant: str
    inflight: bool
    groups: int
    slices: int
    bytes: int
    output_file_groups: int
    sort_by: tuple[str, ...]
