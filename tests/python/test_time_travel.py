"""Looking back: what the cleaner took is refused, never given in part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hoodoo

if TYPE_CHECKING:
    from pathlib import Path

    from hoodoo import Commit, Table

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("value", pa.int64())])
COMMITS = 7
RETAINED = 2


def _rows(value: int) -> pa.Table:
    keys = [f"{n}" for n in range(20)]
    parts = [f"p{n % 2}" for n in range(20)]
    return pa.table({"id": keys, "part": parts, "value": [value] * 20}, schema=SCHEMA)


@pytest.fixture
def history(tmp_path: Path) -> tuple[Table, list[Commit]]:
    """A table all of whose rows are changed by every commit, and which keeps two commits."""
    table = hoodoo.Table.create(
        tmp_path / "t",
        SCHEMA,
        name="t",
        record_key="id",
        partition_by=["part"],
        options={"hoodie.clean.commits.retained": str(RETAINED)},
    )
    return table, [table.upsert(_rows(value)) for value in range(COMMITS)]


def test_every_instant_is_whole_or_refused(history: tuple[Table, list[Commit]]):
    table, commits = history
    clean = table.timeline.instants("clean", "completed")[-1]
    earliest = table.timeline.metadata(clean)["earliestCommitToRetain"]
    cleaned = [commit for commit in commits if commit.instant < earliest]
    assert RETAINED <= len(commits) - len(cleaned) < COMMITS
    for value, commit in enumerate(commits):
        if commit in cleaned:
            with pytest.raises(hoodoo.InvalidOptionError, match=f"cleaned.*{earliest}"):
                table.to_arrow(as_of=commit.instant)
        else:
            rows = table.to_arrow(as_of=commit.instant)
            assert (rows.num_rows, set(rows["value"].to_pylist())) == (20, {value})


def test_changes_up_to_a_cleaned_instant_are_refused(history: tuple[Table, list[Commit]]):
    table, commits = history
    with pytest.raises(hoodoo.InvalidOptionError, match="cleaned"):
        table.changes("0", until=commits[0].completed)
    assert table.changes("0", until=commits[-1].completed).read_all().num_rows == 20
    assert table.changes("0").read_all().num_rows == 20


def test_a_time_before_the_table_is_empty_until_something_is_cleaned(tmp_path: Path):
    table = hoodoo.Table.create(tmp_path / "t", SCHEMA, name="t", record_key="id", partition_by=["part"])
    for value in range(3):
        table.upsert(_rows(value))
    assert table.to_arrow(as_of="2001-01-01").num_rows == 0
