"""The tables before the change. Each is written once, and copied for each run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from .case import Case


def prepared(case: Case, name: str, make: Callable[[Path], None]) -> Path:
    """Gives the folder of a table; makes it when it is not there.

    Args:
        case: The comparison.
        name: Name of the folder.
        make: Writes the table into a folder.
    """
    place = Path(case.tables) / name
    if not place.exists():
        unfinished = place.with_suffix(".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        make(unfinished)
        unfinished.rename(place)
    return place


def hudi_table(case: Case) -> Path:
    """Gives the Hudi table that hoodoo and Hudi change, and whose files DuckDB, polars and the floor rewrite."""
    return prepared(case, "hudi", lambda place: _write_hudi(case, place))


def delta_table(case: Case) -> Path:
    """Gives the Delta table."""
    return prepared(case, "delta", lambda place: _write_delta(case, place))


def _write_hudi(case: Case, place: Path) -> None:
    import hoodoo  # noqa: PLC0415  # it may be what cannot be imported

    for part in case.data.base:
        hoodoo.write(pq.read_table(part), place, operation="bulk_insert", options=case.options)


def _write_delta(case: Case, place: Path) -> None:
    from deltalake import WriterProperties, write_deltalake  # noqa: PLC0415

    for part in case.data.base:
        write_deltalake(
            str(place),
            pq.read_table(part),
            mode="append",
            partition_by=[case.data.partition],
            writer_properties=WriterProperties(compression="ZSTD", compression_level=1),
        )


def latest_files(table: Path) -> dict[str, list[Path]]:
    """Lists the base files of a Hudi table's newest snapshot, by partition."""
    import hoodoo  # noqa: PLC0415

    files: dict[str, list[Path]] = {}
    for piece in hoodoo.Table(table, options={"hoodie.metadata.enable": "false"}).file_slices():
        if piece.base_file:
            files.setdefault(piece.partition, []).append(table / piece.base_file)
    return files
