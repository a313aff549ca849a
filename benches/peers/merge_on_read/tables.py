"""The tables before they are read or changed, written by hoodoo; and which files they have."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from benches.peers.merge_on_read.job import MERGER_CLASSES, table_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

MERGERS = {
    "KeepNonNull": ("hoodoo.mergers.KeepNonNull", "7b9f4c1e-2d63-4b8a-9a57-0f4f2a6de001"),
    "NonNullColumns": (
        "benches.peers.merge_on_read.mergers.NonNullColumns",
        "0e9d7c55-5b0b-4b4f-8f6c-3a1f1f6ce501",
    ),
}
"""Mergers in Python: class, and the id that tables know it by."""


def merger_options(name: str) -> dict[str, str]:
    """Gives the options of a table whose records a merger of `MERGERS` merges."""
    path, strategy = MERGERS[name]
    return {
        "hoodie.record.merge.mode": "CUSTOM",
        "hoodie.write.record.merge.strategy.id": strategy,
        MERGER_CLASSES: path,
    }


def make(place: Path, base: str, deltas: Sequence[str], log_format: str, more: Mapping[str, str], cores: int) -> Path:
    """Writes a table unless it is there.

    Args:
        place: Its folder.
        base: A file of rows, for `bulk_insert`.
        deltas: Files of changes, for a delta commit each.
        log_format: Of the log blocks.
        more: Options beside those of all tables.
        cores: Threads.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415

    import hoodoo  # noqa: PLC0415  # the workers of others do without

    if place.exists():
        return place
    options = {**table_options(log_format, cores), **more, "hoodoo.threads": str(cores)}
    unfinished = place.with_suffix(".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    hoodoo.write(pq.read_table(base), unfinished, operation="bulk_insert", options=options)
    for delta in deltas:
        hoodoo.write(pq.read_table(delta), unfinished, operation="upsert", options=options)
    slices = hoodoo.Table(unfinished, options=options).file_slices()
    files = [{"base": piece.base_file, "logs": list(piece.log_files)} for piece in slices]
    _list(place).write_text(json.dumps(files))
    if any(piece["base"] is None or bool(piece["logs"]) != bool(deltas) for piece in files):
        raise RuntimeError(f"{place} was to have base files{' and logs' if deltas else ' alone'}: {files}")
    unfinished.rename(place)
    return place


def files(place: Path) -> list[tuple[Path, list[Path]]]:
    """Lists the base files of a table, each with its log files, without a need for hoodoo."""
    listed = json.loads(_list(place).read_text())
    return [(place / piece["base"], [place / log for log in piece["logs"]]) for piece in listed]


def log_bytes(place: Path) -> int:
    """Gives the size of all log files."""
    return sum(log.stat().st_size for _, logs in files(place) for log in logs)


def _list(place: Path) -> Path:
    return place.with_suffix(".files.json")
