"""What a clustering would do, and which clusterings are planned."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table as Grid

    from hoodoo import _native

__all__ = ["ClusteringGroup", "ClusteringPlan", "FileRange", "Overlap", "OverlapDepth", "PendingClustering"]

_KIBI = 1024
_SCHEMA = pa.schema(
    [
        ("group", pa.int32()),
        ("partition", pa.string()),
        ("file_id", pa.string()),
        ("base_file", pa.string()),
        ("base_bytes", pa.int64()),
        ("log_files", pa.int32()),
        ("log_bytes", pa.int64()),
        ("outputs", pa.int64()),
        ("depth_before", pa.int64()),
        ("depth_after", pa.int64()),
        ("ranges", pa.map_(pa.string(), pa.struct([("min", pa.string()), ("max", pa.string())]))),
    ]
)


@dataclass(frozen=True)
class OverlapDepth:
    """How many files of one partition a query for a single value of the first sort column has to open.

    Attributes:
        greatest: Files at the worst value.
        mean: Mean number of files, over the least and greatest values of all files.
    """

    greatest: int
    mean: float


@dataclass(frozen=True)
class FileRange:
    """What a file slice holds of a column.

    Attributes:
        partition: Partition path; empty for an unpartitioned table.
        file_id: The file group.
        base_file: Path of its base file relative to the table; None where it has only log files.
        size: Size of the base file in bytes; 0 where there is none.
        rows: Rows of the base file; None where there is none.
        range: Least and greatest value as text (None: null); None where the footer does not tell them.
    """

    partition: str
    file_id: str
    base_file: str | None
    size: int
    rows: int | None
    range: tuple[str | None, str | None] | None


@dataclass(frozen=True)
class Overlap:
    """How the files of a table lie over each other in one column.

    Attributes:
        column: The column.
        depth: Files of one partition that a query for a single value opens: the worst partition, and the mean.
        files: The file slices.
    """

    column: str
    depth: OverlapDepth
    files: tuple[FileRange, ...]

    @classmethod
    def from_native(cls, column: str, found: tuple[list[_native.FileRow], _native.DepthRow]) -> Overlap:
        """Makes it of what the core gives."""
        rows, depth = found
        files = (FileRange(row[0], row[1], row[3], row[4] or 0, count, ends) for row, count, ends in rows)
        return cls(column, OverlapDepth(*depth), tuple(files))


@dataclass(frozen=True)
class ClusteringGroup:
    """File slices of one partition that are rewritten together.

    Attributes:
        partition: Partition path; empty for an unpartitioned table.
        file_ids: The file groups, in the order of the plan.
        base_files: Paths of their base files relative to the table; None where a slice has only log files.
        base_bytes: Size of each base file in bytes; 0 where there is none.
        log_files: Number of log files of each slice.
        log_bytes: Size of the log files of each slice, in bytes.
        bytes: What the group counts as, in bytes: its base files, and `hoodie.parquet.max.file.size` for each slice
            without one.
        outputs: File groups that it becomes.
        ranges: Least and greatest value of each column as text (None: null); empty where footers were not read.
        before: Overlap of its files; None without sort columns.
        after: Overlap of what it becomes, as expected.
    """

    partition: str
    file_ids: tuple[str, ...]
    base_files: tuple[str | None, ...]
    base_bytes: tuple[int, ...]
    log_files: tuple[int, ...]
    log_bytes: tuple[int, ...]
    bytes: int
    outputs: int
    ranges: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    before: OverlapDepth | None = None
    after: OverlapDepth | None = None


def _depth(row: _native.DepthRow | None) -> OverlapDepth | None:
    return None if row is None else OverlapDepth(*row)


def _human(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < _KIBI:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= _KIBI
    return f"{size:.1f} TiB"


@dataclass(frozen=True)
class ClusteringPlan:
    """What `Table.schedule_clustering` would plan. `rich` prints it as a table.

    Attributes:
        groups: The groups, in the order of the plan.
        before: Overlap of the files of the partitions it looks at; None without sort columns.
        after: The same, as expected when the plan is carried out.
        record: The plan as it would stand on the timeline, as JSON.
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
        """Makes a plan of what the core gives; one without groups when there is nothing to do."""
        if row is None:
            return cls((), None, None, "")
        groups, before, after, record = row
        return cls(tuple(_group(*group) for group in groups), _depth(before), _depth(after), record)

    @property
    def files(self) -> int:
        """File slices that are rewritten."""
        return sum(len(group.file_ids) for group in self.groups)

    @property
    def bytes(self) -> int:
        """Bytes that are read: of base files and of log files."""
        return sum(sum(group.base_bytes) + sum(group.log_bytes) for group in self.groups)

    @property
    def outputs(self) -> int:
        """File groups that are written."""
        return sum(group.outputs for group in self.groups)

    @property
    def parameters(self) -> dict[str, str]:
        """What the plan says of how rows are sorted and files are cut, by Hudi's option keys."""
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
        """Gives a row for each file slice.

        Returns:
            Columns `group` (number in the plan, from 0), `partition`, `file_id`, `base_file`, `base_bytes`,
            `log_files`, `log_bytes` (bytes), `outputs`, `depth_before` and `depth_after` (greatest overlap) and
            `ranges` (text by column) of the group.
        """
        rows: list[dict[str, Any]] = []
        for number, group in enumerate(self.groups):
            ranges = [(name, {"min": ends[0], "max": ends[1]}) for name, ends in group.ranges.items()]
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
                        "outputs": group.outputs,
                        "depth_before": group.before.greatest if group.before else None,
                        "depth_after": group.after.greatest if group.after else None,
                        "ranges": ranges,
                    }
                )
        return pa.Table.from_pylist(rows, schema=_SCHEMA)

    def __rich__(self) -> Grid | str:
        """Draws the plan."""
        from rich.markup import escape  # noqa: PLC0415  # only where something is printed
        from rich.table import Table as Grid  # noqa: PLC0415

        if not self.groups:
            return "nothing to cluster"
        grid = Grid(header_style="bold", show_footer=True)
        grid.add_column("group", justify="right")
        grid.add_column("partition", footer="all")
        grid.add_column("files", justify="right", footer=f"{self.files:,} → {self.outputs:,}")
        grid.add_column("bytes in", justify="right", footer=_human(self.bytes))
        with_ranges = any(group.before for group in self.groups)
        if with_ranges:
            grid.add_column("ranges")
            grid.add_column("overlap", justify="right", footer=_arrow(self.before, self.after))
        for number, group in enumerate(self.groups):
            cells = [
                str(number),
                escape(group.partition) or "·",
                f"{len(group.file_ids):,} → {group.outputs:,}",
                _human(sum(group.base_bytes) + sum(group.log_bytes)),
            ]
            if with_ranges:
                ends = (f"{name} {least} … {greatest}" for name, (least, greatest) in group.ranges.items())
                cells += [escape("\n".join(ends)), _arrow(group.before, group.after)]
            grid.add_row(*cells)
        return grid


def _arrow(before: OverlapDepth | None, after: OverlapDepth | None) -> str:
    if before is None or after is None:
        return ""
    return f"{before.greatest:,} → {after.greatest:,} (mean {before.mean:.1f} → {after.mean:.1f})"


def _group(  # noqa: PLR0917 - as the core gives it
    slices: list[_native.SliceRow],
    counted: int,
    outputs: int,
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
        outputs=outputs,
        ranges={name: (least, greatest) for name, least, greatest in ranges},
        before=_depth(before),
        after=_depth(after),
    )


@dataclass(frozen=True)
class PendingClustering:
    """A clustering that is planned and not completed.

    Attributes:
        instant: Requested time, 17 digits.
        inflight: Whether somebody began to carry it out.
        groups: Groups of its plan.
        slices: File slices in them.
        bytes: Size in bytes of their files, as far as these are still there.
        outputs: File groups that it is to write.
        sort_by: Columns that it sorts by.
    """

    instant: str
    inflight: bool
    groups: int
    slices: int
    bytes: int
    outputs: int
    sort_by: tuple[str, ...]
