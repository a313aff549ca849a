"""The tables before the change. Each is written once, and copied for each run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .case import Case

_FILES = "hudi-files.json"


def folder(case: Case, name: str) -> Path:
    """Gives the folder of a table."""
    return Path(case.tables) / name


def prepared(case: Case, name: str, make: Callable[[Path], None]) -> None:
    """Makes a table unless it is there.

    Args:
        case: The comparison.
        name: Name of its folder.
        make: Writes the table into a folder.
    """
    place = folder(case, name)
    if not place.exists():
        unfinished = place.with_suffix(".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        make(unfinished)
        unfinished.rename(place)


def prepare_hudi(case: Case) -> None:
    """Makes the Hudi table that hoodoo and Hudi change, and whose files DuckDB, polars and the floor rewrite."""
    prepared(case, "hudi", lambda place: _write_hudi(case, place))


def prepare_delta(case: Case) -> None:
    """Makes the Delta table."""
    prepared(case, "delta", lambda place: _write_delta(case, place))


def hudi_files(case: Case) -> dict[str, list[str]]:
    """Lists the base files of the Hudi table by partition, without a need for hoodoo."""
    files: dict[str, list[str]] = json.loads(folder(case, _FILES).read_text())
    return files


def _write_hudi(case: Case, place: Path) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415

    import hoodoo  # noqa: PLC0415  # it may be what cannot be imported

    for part in case.data.base:
        hoodoo.write(pq.read_table(part), place, operation="bulk_insert", options=case.options)
    files: dict[str, list[str]] = {}
    for piece in hoodoo.Table(place, options=case.options).file_slices():
        if piece.base_file:
            files.setdefault(piece.partition, []).append(piece.base_file)
    folder(case, _FILES).write_text(json.dumps(files))


def _write_delta(case: Case, place: Path) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415
    from deltalake import WriterProperties, write_deltalake  # noqa: PLC0415

    for part in case.data.base:
        write_deltalake(
            str(place),
            pq.read_table(part),
            mode="append",
            partition_by=[case.data.partition],
            writer_properties=WriterProperties(compression="ZSTD", compression_level=1),
        )
