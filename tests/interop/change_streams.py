"""Changes since an instant, as both sides give them, in a form in which they can be compared."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

from hoodoo import InvalidOptionError, Table
from tests.interop.hudi import Hudi
from tests.rows import Row, arrow_rows

_EPOCH = dt.datetime.fromtimestamp(0, dt.timezone.utc)
# The ordering value of rows that come too late.
LATE = 0
# Why Hudi has no answer: a file was cleaned, a commit archived, or an insert of its own left no log of changes.
_REASONS = ("FileNotFoundException", "Fail to get the commit metadata for CDC", "There should be a cdc log file")
# The operation, and the row before and after it.
Change = tuple[str, Row | None, Row | None]


def changes_of_hudi(hudi: Hudi, uri: str, since: str = "000", **options: str) -> list[Change]:
    """The changes that Hudi's query gives of commits requested after `since`.

    A delete has the text `null` in some modes, where others have no row.
    """
    query = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.query.incremental.format": "cdc",
        "hoodie.datasource.read.begin.instanttime": since,
    }
    found = hudi.spark.read.format("hudi").options(**query, **options).load(uri).collect()
    return in_order((row["op"], _image(row["before"]), _image(row["after"])) for row in found)


def changes_of_hoodoo(uri: str, since: str = "0") -> list[Change]:
    """The changes that hoodoo's query gives of commits completed after `since`."""
    found = Table(uri).changes(since, mode="cdc").read_all().to_pylist()
    return in_order((change["op"], change["before"], change["after"]) for change in found)


def in_order(changes: Iterable[tuple[str, Any, Any]]) -> list[Change]:
    """Changes sorted, their rows without what the sides give in different ways.

    These are columns that are null, which Hudi leaves out of some rows, Hudi's own columns in rows that it infers, and
    decimals, of which Hudi's JSON has no digits.
    """
    return sorted(((op, _comparable(before), _comparable(after)) for op, before, after in changes), key=repr)


def compare_newest_rows(hudi: Hudi, path: Path, since: str, *, is_merge_on_read: bool) -> None:
    """Hudi's incremental query gives the rows that hoodoo's gives.

    In merge-on-read tables it gives those too that came too late, for it does not read what is before the range. Behind
    an index or a restore, which are never archived, it leaves out archived commits.
    """
    timeline = Table(path).timeline
    first, archived = timeline.instants()[0].requested, timeline.read_history("time").read_all()["instantTime"]
    if any(one > first for one in archived.to_pylist()):
        return
    ours, theirs = arrow_rows(Table(path).changes(since)), hudi.read_changes(path, since)
    late = [row for row in theirs if row not in ours]
    assert not late or (is_merge_on_read and all(row["ts"] == LATE for row in late)), f"Hudi's rows since {since}"
    assert [row for row in theirs if row not in late] == ours, f"rows since {since}"


def compare_changes(hudi: Hudi, path: Path, requested: str, completed: str) -> bool:
    """Hudi's query of changes gives those that hoodoo's gives; False where either refuses, for files were cleaned.

    Where hoodoo refuses, Hudi may answer: it leaves out the deletes of replaced file groups that were cleaned.
    """
    from py4j.protocol import Py4JJavaError

    try:
        ours = changes_of_hoodoo(str(path), completed)
    except InvalidOptionError as refused:
        if "cleaned" not in str(refused):
            raise
        return False
    try:
        theirs = changes_of_hudi(hudi, str(path), requested)
    except Py4JJavaError as error:
        if not any(reason in str(error) for reason in _REASONS):
            raise
        return False
    assert ours == theirs, f"changes since {requested}"
    return True


def _image(text: str | None) -> Row | None:
    return None if text in (None, "null") else json.loads(text)


def _comparable(row: Row | None) -> Row | None:
    if row is None:
        return None
    plain = {name: _plain(row[name]) for name in sorted(row) if not name.startswith("_hoodie_")}
    return {name: value for name, value in plain.items() if value is not None}


def _plain(value: Any) -> Any:
    """A value as Avro stores it; None of a decimal, which Hudi spells as an object or as a list of bytes."""
    if isinstance(value, dt.datetime):
        return (value - _EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - _EPOCH.date()).days
    return None if isinstance(value, Decimal | dict | list) else value
