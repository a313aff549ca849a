"""What a metadata table says, and what Hudi's procedures say of it, beside the files."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from hoodoo import Table
from tests.interop.metadata_tables import stored_files
from tests.interop.procedures import Procedures

# Columns without nulls: the procedure fails where a file has nothing else.
_COLUMNS = ["id", "ts"]
# The file and the column; min and max, spelled as Hudi does, and the number of nulls.
_Statistics = dict[tuple[str, str], tuple[str, str, int]]


def check_metadata_table(path: Path, procedures: Procedures) -> None:
    """It lists what is on disk, Hudi's own validation finds nothing, and statistics are those of the files."""
    table = Table(path)
    metadata = table.metadata_table
    assert metadata is not None
    listed = {row["file_name"]: row["size"] for row in metadata.to_arrow("files").to_pylist()}
    assert listed == {name.rsplit("/", 1)[-1]: size for name, size in stored_files(path).items()}, "files"
    assert procedures.call("validate_metadata_table_files") == []
    if "column_stats" in table.options["hoodie.table.metadata.partitions"]:
        _check_statistics(path, procedures)


def _check_statistics(path: Path, procedures: Procedures) -> None:
    """Compares those of each base file of the newest file slices, of which the procedure has them.

    Hudi's other procedure, `show_metadata_column_stats_overlap`, has nothing to say of partitioned tables.
    """
    rows = procedures.call("show_metadata_table_column_stats", f", targetColumns => '{','.join(_COLUMNS)}'")
    found = {
        (row["file_name"], row["column_name"]): (row["min_value"], row["max_value"], row["null_number"]) for row in rows
    }
    assert len(found) == len(rows)
    expected: _Statistics = {}
    for name in (one.base_file for one in Table(path).file_slices()):
        if name is not None:
            expected |= _statistics(path / name)
    # Of a file without rows, each range is right.
    for at in [at for at, (least, _, _) in expected.items() if least == "None"]:
        del expected[at], found[at]
    assert found == expected, "statistics"


def _statistics(file: Path) -> _Statistics:
    data = pq.read_table(file, columns=_COLUMNS)
    ranges = {name: pc.min_max(data[name]).as_py() for name in _COLUMNS}
    return {(file.name, name): (str(one["min"]), str(one["max"]), 0) for name, one in ranges.items()}
