"""Looking back: what the cleaner took is refused, never given in part."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.distributed.read import read_table
from tests.local_executor import LocalExecutor

if TYPE_CHECKING:
    from hoodoo import Commit, Table
    from hoodoo.filters import Filters

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


def test_every_instant_is_whole_or_refused(history: tuple[Table, list[Commit]], tmp_path: Path):
    table, commits = history
    clean = table.timeline.instants("clean", "completed")[-1]
    earliest = table.timeline.metadata(clean)["earliestCommitToRetain"]
    cleaned = [commit for commit in commits if commit.instant < earliest]
    assert RETAINED <= len(commits) - len(cleaned) < COMMITS
    there = {file.name for file in (tmp_path / "t").rglob("*.parquet")}
    for value, commit in enumerate(commits):
        # Each commit writes every file anew.
        if any(Path(file).name not in there for file in commit.files):
            assert commit in cleaned
            with pytest.raises(hoodoo.InvalidOptionError, match=f"cleaned.*{earliest}"):
                table.to_arrow(as_of=commit.instant)
        else:
            rows = table.to_arrow(as_of=commit.instant)
            assert (rows.num_rows, set(rows["value"].to_pylist())) == (20, {value})
    assert not all(Path(file).name in there for file in commits[0].files)


def test_changes_up_to_a_cleaned_instant_are_refused(history: tuple[Table, list[Commit]]):
    table, commits = history
    with pytest.raises(hoodoo.InvalidOptionError, match="cleaned"):
        table.changes("0", until=commits[0].completed)
    assert table.changes("0", until=commits[-1].completed).read_all().num_rows == 20
    assert table.changes("0").read_all().num_rows == 20


def test_a_time_before_the_table_is_empty(history: tuple[Table, list[Commit]]):
    assert history[0].to_arrow(as_of="2001-01-01").num_rows == 0


def _archiving(path: Path, table_type: str = "COPY_ON_WRITE", **options: str) -> Table:
    given = {
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.clean.automatic": "false",
        # Archiving would wait for its compaction.
        "hoodie.metadata.enable": "false",
    }
    return hoodoo.Table.create(
        path,
        SCHEMA,
        name="t",
        record_key="id",
        partition_by=["part"],
        table_type=table_type,
        options={**given, **{key.replace("__", "."): value for key, value in options.items()}},
    )


def _one(number: int, value: int) -> pa.Table:
    return pa.table({"id": [str(number)], "part": [f"p{number % 2}"], "value": [value]}, schema=SCHEMA)


def _values(table: pa.Table) -> dict[str, int]:
    assert len(set(table["id"].to_pylist())) == table.num_rows
    return dict(zip(table["id"].to_pylist(), table["value"].to_pylist(), strict=True))


def _is_archived(table: Table, commit: Commit) -> bool:
    return commit.instant not in {i.requested for i in table.timeline.instants()}


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_archived_instants_of_a_table_that_was_never_cleaned(tmp_path: Path, table_type: str):
    """New file groups, updates, deletes and compactions: each state is as it was, however long ago."""
    table = _archiving(tmp_path / "t", table_type, hoodie__compact__inline__max__delta__commits="3")
    seen: list[tuple[Commit, dict[str, int]]] = []
    for n in range(14):
        write = table.bulk_insert if n % 3 == 0 else table.delete if n % 5 == 4 else table.upsert
        number = n if n % 3 == 0 else max(0, n - 3)
        commit = write(_one(number, n))
        seen.append((commit, _values(table.to_arrow())))
    assert _is_archived(table, seen[0][0])
    assert _is_archived(table, seen[8][0])
    for commit, rows in seen:
        assert _values(table.to_arrow(as_of=commit.instant)) == rows
    assert _values(table.changes("0", until=seen[0][0].completed).read_all()) == {"0": 0}
    assert table.to_arrow(as_of="2001-01-01").num_rows == 0


def test_the_history_is_read_for_archived_instants_only(tmp_path: Path):
    table = _archiving(tmp_path / "t")
    commits = [table.bulk_insert(_one(n, n)) for n in range(8)]
    for file in (tmp_path / "t/.hoodie/timeline/history").glob("*.parquet"):
        file.unlink()
    assert table.to_arrow(as_of=commits[-2].instant).num_rows == 7
    with pytest.raises(hoodoo.HudiError):
        table.to_arrow(as_of=commits[1].instant)


def test_an_archived_state_has_the_columns_of_then(tmp_path: Path):
    table = _archiving(tmp_path / "t")
    first = table.bulk_insert(_one(0, 0))
    wider = _one(1, 1).append_column("note", pa.array(["new"]))
    second = table.bulk_insert(wider)
    for n in range(2, 9):
        table.bulk_insert(_one(n, n).append_column("note", pa.array(["x"])).append_column("more", pa.array([n])))
    assert _is_archived(table, second)
    assert table.to_arrow(as_of=first.instant).column_names[5:] == ["id", "part", "value"]
    then = table.to_arrow(as_of=second.instant)
    assert (then.column_names[5:], then.num_rows) == (["id", "part", "value", "note"], 2)


def test_a_state_is_readable_while_its_files_are_there(tmp_path: Path):
    """Cleans that took nothing of a state do not hide it, archived or not, also where a replacecommit was archived."""
    table = _archiving(tmp_path / "t", hoodie__archive__automatic="false")
    table.bulk_insert(_one(0, 0))
    overwritten = table.bulk_insert(_one(2, 0))
    table.insert_overwrite(_one(4, 1))
    updated = [table.upsert(_one(4, n)) for n in range(2)]
    seen = [(table.bulk_insert(_one(n, n)), _values(table.to_arrow())) for n in range(5, 12)]
    cleaning = {"hoodie.clean.commits.retained": "1", "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    cleaning["hoodie.metadata.enable"] = "false"
    table = hoodoo.Table(table.uri, options=cleaning)
    table.bulk_insert(_one(12, 12))
    assert [i.action for i in table.timeline.instants()] == ["commit", "commit", "clean"]
    assert [_is_archived(table, commit) for commit, _ in seen[-2:]] == [True, False]
    for commit, rows in seen:
        assert _values(table.to_arrow(as_of=commit.instant)) == rows
        assert table.changes("0", until=commit.completed).read_all().num_rows == len(rows)
    for commit, missing in [(overwritten, 2), (updated[0], 1)]:
        with pytest.raises(hoodoo.InvalidOptionError, match=f"{missing} of its files were cleaned or deleted"):
            table.to_arrow(as_of=commit.instant)


def test_an_archived_state_without_one_of_its_files_is_refused(tmp_path: Path):
    table = _archiving(tmp_path / "t", "MERGE_ON_READ", hoodie__compact__inline="false")
    first = table.insert(_one(0, 0))
    second = table.upsert(_one(0, 1))
    for n in range(1, 9):
        table.bulk_insert(_one(n, n))
    assert _is_archived(table, second)
    assert _values(table.to_arrow(as_of=second.instant)) == {"0": 1}
    [log] = second.files
    (tmp_path / "t" / log).unlink()
    with pytest.raises(hoodoo.InvalidOptionError, match="1 of its files") as refused:
        table.to_arrow(as_of=second.instant)
    assert log in str(refused.value)
    assert _values(table.to_arrow(as_of=first.instant)) == {"0": 0}
    with pytest.raises(hoodoo.InvalidOptionError, match="1 of its files"):
        table.changes("0", until=second.completed)
    # Other file groups are as they were.
    assert table.changes(first.completed).read_all().num_rows == 8


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_filters_have_the_types_of_the_instant(tmp_path: Path, table_type: str):
    schema = {"id": pa.string(), "n": pa.int64()}
    table = hoodoo.Table.create(tmp_path / "t", schema, name="t", record_key="id", table_type=table_type)
    first = table.insert({"id": ["a", "b"], "n": [9, 10]})
    table.upsert(pa.table({"id": ["b", "c"], "n": ["11", "x"], "more": ["m", "m"]}))
    assert table.schema.field("n").type == pa.string()

    def read_in_tasks(filters: Filters, as_of: str | None = None) -> list[dict[str, object]]:
        splits = read_table(LocalExecutor(), str(tmp_path / "t"), columns=["id"], filters=filters, as_of=as_of)
        return sorted(pa.concat_tables(splits).to_pylist(), key=str)

    def read(filters: Filters, as_of: str | None = None) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = table.to_arrow(columns=["id"], filters=filters, as_of=as_of).to_pylist()
        return sorted(rows, key=str)

    for reader in (read, read_in_tasks):
        # As strings, 9 is greater than 10.
        assert reader([("n", "<", 10)], first.instant) == [{"id": "a"}]
        assert reader([("n", ">", "10")]) == [{"id": "a"}, {"id": "b"}, {"id": "c"}]
        with pytest.raises(hoodoo.SchemaError, match="the filter compares"):
            reader([("n", "<", 10)])
        for wrong in [("n", "=", "x"), ("more", "=", "m")]:
            with pytest.raises(hoodoo.SchemaError, match="the filter"):
                reader([wrong], first.instant)
    with pytest.raises(hoodoo.SchemaError, match="the filter"):
        table.changes("0", filters=[("n", "<", 10)])
    changes = table.changes(first.completed, filters=[("n", "=", "x")], columns=["id"])
    assert changes.read_all().to_pylist() == [{"id": "c"}]


def test_what_a_wrong_filter_raises(history: tuple[Table, list[Commit]]):
    table = history[0]
    reads = (table.to_arrow, table.scan, partial(table.changes, "0"), partial(read_table, LocalExecutor(), table.uri))
    for read in reads:
        with pytest.raises(hoodoo.SchemaError, match="does not exist"):
            read(filters=[("none", "=", 1)])
        with pytest.raises(hoodoo.InvalidOptionError, match="invalid operator"):
            read(filters=[("value", "~", 1)])
        with pytest.raises(hoodoo.SchemaError, match="compares column 'value'") as error:
            read(filters=[("value", "in", [1, "x"])])
        assert "is no number" in str(error.value.__cause__)
        with pytest.raises(hoodoo.InvalidOptionError, match="takes a list of values"):
            read(filters=[("value", "in", 1)])


EPOCH = """
import time
import hoodoo
table = hoodoo.Table.create(%r, {"id": "string"}, name="t", record_key="id")
table.insert({"id": ["before"]})
time.sleep(0.01)
asked = int(time.time() * 1000)
time.sleep(0.01)
table.insert({"id": ["after"]})
print(table.to_arrow(columns=["id"], as_of=str(asked))["id"].to_pylist(), table.count())
"""


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo", "UTC"])
def test_milliseconds_since_1970_are_a_time_of_the_zone(tmp_path: Path, zone: str) -> None:
    """Instants are in the time zone of their writer, unless the table says UTC."""
    environment = {**os.environ, "TZ": zone}
    command = [sys.executable, "-c", EPOCH.replace('"string"', "__import__('pyarrow').string()") % str(tmp_path / "t")]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "['before'] 2"
