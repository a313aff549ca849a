"""What an expression index says of files and partitions, and what it has to hold."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from hoodoo import Table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LISTED = {"hoodie.metadata.enable": "false"}
# The smallest and the largest offset that a session's time zone may have, and some between.
OFFSETS = [dt.timedelta(hours=hours) for hours in (-12, -5, 0, 9, 14)]

Range = tuple[Any, Any]


def ranges_of(path: Path | str, partition: str) -> tuple[dict[str, Range], dict[str, Range]]:
    """Ranges by the names of files, and by partitions; of a file without values a pair of `None`."""
    metadata = Table(path).metadata_table
    assert metadata is not None
    files: dict[str, Range] = {}
    partitions: dict[str, Range] = {}
    for row in metadata.to_arrow(partition).to_pylist():
        low, high = (row[bound] if row[f"{bound}_long"] is None else row[f"{bound}_long"] for bound in ("min", "max"))
        (partitions if row["is_tight_bound"] else files)[row["file_name"]] = (low, high)
    return files, partitions


def check_index(path: Path | str, partition: str, column: str, values_of: Callable[[Any], set[Any]]) -> int:
    """Each value that the function may have for a row is in the range of a file of its slice, and of its partition.

    Returns:
        How many slices can be left out for some value of another one, so that the index is of use.
    """
    files, partitions = ranges_of(path, partition)
    table = Table(path, LISTED)
    names = {}
    for slice_ in table.file_slices():
        names[slice_.file_id] = [one.rsplit("/", 1)[-1] for one in [slice_.base_file, *slice_.log_files] if one]
    found: dict[str, set[Any]] = defaultdict(set)
    rows = table.to_arrow(columns=["_hoodie_partition_path", "_hoodie_file_name", column]).to_pylist()
    for row in rows:
        if row[column] is None:
            continue
        file_id = row["_hoodie_file_name"].split("_")[0]
        values = values_of(row[column])
        found[file_id] |= values
        of_partition = partitions[row["_hoodie_partition_path"] or "."]
        for value in values:
            assert _holds(of_partition, value), f"{value!r} of {row} is not in {of_partition} of its partition"
            of_slice = [files.get(name) for name in names[file_id]]
            assert any(one is None or _holds(one, value) for one in of_slice), (
                f"{value!r} of {row} is not in {of_slice}"
            )
    everything = set().union(*found.values()) if found else set()
    useful = 0
    for file_id in found:
        of_slice = [files.get(name) for name in names[file_id]]
        useful += any(all(one is not None and not _holds(one, value) for one in of_slice) for value in everything)
    return useful


def _holds(bounds: Range, value: Any) -> bool:
    # Strings compare by their bytes.
    low, value, high = (one.encode() if isinstance(one, str) else one for one in (bounds[0], value, bounds[1]))
    return low is not None and low <= value <= high
