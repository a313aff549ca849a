"""What the interop tests of merge-on-read tables have in common: options, and the comparison of both readings."""

from __future__ import annotations

import hoodoo
from tests.interop.hudi import Hudi
from tests.interop.layouts import SIMPLE, Layout
from tests.rows import Row, arrow_rows

NO_SMALL_FILES = {"hoodie.parquet.small.file.limit": "0"}


def mor_options(layout: Layout = SIMPLE, version: int = 9, mode: str = "EVENT_TIME_ORDERING") -> dict[str, str]:
    """Gives the options of a merge-on-read table that nobody compacts unasked."""
    return {
        **layout.options(version, mode),
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.compact.inline": "false",
    }


def same_rows(hudi: Hudi, uri: str, what: object = None, *, meta: bool = True) -> list[Row]:
    """Reads with both, and verifies the table; gives Hudi's rows.

    Args:
        hudi: The session.
        uri: The table.
        what: What was done last, for the message.
        meta: Whether Hudi's own columns are compared too.
    """
    expected = hudi.read(uri, meta=meta)
    table = hoodoo.Table(uri)
    assert arrow_rows(table.to_arrow(), meta=meta) == expected, what
    # Columns that are not asked for are still what merging goes by.
    some = sorted(table.to_arrow(columns=["val"])["val"].to_pylist(), key=str)
    assert some == sorted((r["val"] for r in expected), key=str), what
    errors = [p.message for p in table.verify().problems if p.severity == "error"]
    assert not [message for message in errors if not (_has_copies(expected) and "in more than one row" in message)], (
        what
    )
    return expected


def _has_copies(rows: list[Row]) -> bool:
    """Tells whether Hudi, too, shows a key in more than one row."""
    keys = [(r.get("_hoodie_partition_path"), r.get("_hoodie_record_key")) for r in rows]
    return len(set(keys)) < len(keys)


def compact_by_hudi(hudi: Hudi, uri: str, step: str = "scheduleandexecute") -> None:
    """Lets Hudi plan a compaction (`schedule`), carry one out (`run`), or both."""
    given = "hoodie.metadata.enable=false,hoodie.compact.inline.max.delta.commits=1"
    hudi.call("run_compaction", uri, op=step, options=given)
