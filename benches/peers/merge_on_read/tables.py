"""The tables before they are read or changed, written by hoodoo; and which files they have."""

from __future__ import annotations

import json
import shutil
from importlib import import_module
from typing import TYPE_CHECKING

from benches.peers.merge_on_read.job import MERGER_CLASSES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hoodoo import RecordMerger, Table

MERGERS = {
    "KeepNonNull": "hoodoo.mergers",
    "NonNullColumns": "benches.peers.merge_on_read.mergers",
}
"""Mergers in Python, by their class: the module."""


def merger(name: str) -> RecordMerger:
    """Makes one of `MERGERS`."""
    made: RecordMerger = getattr(import_module(MERGERS[name]), name)()
    return made


def merger_options(name: str) -> dict[str, str]:
    """Gives the options of a table whose records a merger of `MERGERS` merges."""
    return {
        "hoodie.record.merge.mode": "CUSTOM",
        "hoodie.write.record.merge.strategy.id": merger(name).strategy_id,
        MERGER_CLASSES: f"{MERGERS[name]}.{name}",
    }


def make(
    place: Path,
    bases: Sequence[str],
    deltas: Sequence[str],
    options: Mapping[str, str],
    then: Callable[[Table], object] | None = None,
) -> Path:
    """Writes a table unless it is there.

    Args:
        place: Its folder.
        bases: Files of rows, for a `bulk_insert` each.
        deltas: Files of changes, for a delta commit each.
        options: Hudi's options, and hoodoo's.
        then: What is done to the table in the end.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415

    import hoodoo  # noqa: PLC0415  # the workers of others do without

    if place.exists():
        return place
    unfinished = place.with_suffix(".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    for base in bases:
        hoodoo.write(pq.read_table(base), unfinished, operation="bulk_insert", options=options)
    for delta in deltas:
        hoodoo.write(pq.read_table(delta), unfinished, operation="upsert", options=options)
    if then is not None:
        then(hoodoo.Table(unfinished, options=options))
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


def listed(place: Path) -> bool:
    """Tells whether `files` knows the files of a table."""
    return _list(place).exists()


def _list(place: Path) -> Path:
    return place.with_suffix(".files.json")
