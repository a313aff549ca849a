"""Syncs with a real metastore: behind commits, by hand, from the command line; and tables by their names in it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pymetastore.hive_metastore import ttypes
from pymetastore.hive_metastore.ThriftHiveMetastore import Client
from thrift.Thrift import TApplicationException
from typer.testing import CliRunner

import hoodoo
from hoodoo.cli.commands import app
from hoodoo.distributed.write import write_rows
from hoodoo.sync import metastore as metastores
from tests.local_executor import LocalExecutor
from tests.metastore import Metastore

SCHEMA = {"id": pa.int64(), "p": pa.string(), "n": pa.int32()}
SYNC = "hoodie.datasource.hive_sync."
ENABLED = {f"{SYNC}enable": "true"}
KEYS = {
    "hoodie.table.name": "t",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "p",
    "hoodie.table.ordering.fields": "n",
}
NOWHERE = "thrift://127.0.0.1:1"


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).split("[")[0].lower()


@pytest.fixture
def options(metastore: Metastore, database: str) -> dict[str, str]:
    return metastore.options(database)


def _create(folder: Path, options: dict[str, Any] | None = None, **more: Any) -> hoodoo.Table:
    """Makes a table without a metadata table, which only costs time here."""
    given = {"hoodie.metadata.enable": "false", **(options or {})}
    return hoodoo.Table.create(folder / "t", SCHEMA, name="t", record_key="id", partition_by="p", options=given, **more)


def _rows(*partitions: str) -> dict[str, list[Any]]:
    numbers = list(range(len(partitions)))
    return {"id": numbers, "p": list(partitions), "n": numbers}


def _synced(metastore: Metastore, database: str, name: str = "t") -> str:
    found: str = metastore.client.get_table(database, name).parameters["last_commit_time_sync"]
    return found


def _values(metastore: Metastore, database: str, name: str = "t") -> list[str]:
    return sorted(partition.values[0] for partition in metastore.client.get_partitions(database, name, -1))


def test_every_write_of_a_table_is_synced(metastore: Metastore, database: str, options: dict[str, str], tmp_path: Path):
    table = _create(tmp_path, {**options, **ENABLED})
    for commit in [
        table.insert(_rows("a", "b")),
        table.upsert(_rows("c")),
        table.bulk_insert(_rows("d")),
        table.delete([0]),
        table.insert_overwrite(_rows("a")),
        table.delete_partitions("d"),
    ]:
        assert commit.warnings == ()
    assert _synced(metastore, database) == commit.instant
    assert _values(metastore, database) == ["a", "b", "c"]
    assert not table.sync().changed


def test_writes_by_options_alone_are_synced(
    metastore: Metastore, database: str, options: dict[str, str], tmp_path: Path
):
    given = {**options, **ENABLED, **KEYS}
    first = hoodoo.write(_rows("a"), tmp_path / "t", options=given)
    assert (first.warnings, _synced(metastore, database)) == ((), first.instant)
    rows = pa.table(_rows("a", "b"), schema=pa.schema(SCHEMA))
    second = write_rows(LocalExecutor(), [rows], str(tmp_path / "t"), options=given)
    assert (second.warnings, _synced(metastore, database)) == ((), second.instant)
    gone = {**given, "hoodie.datasource.write.partitions.to.delete": "b"}
    third = hoodoo.write(_rows("b"), tmp_path / "t", "delete_partition", options=gone)
    assert (_synced(metastore, database), _values(metastore, database)) == (third.instant, ["a"])
    fourth = write_rows(LocalExecutor(), [rows], str(tmp_path / "t"), "delete_partition", options=given)
    assert (_synced(metastore, database), _values(metastore, database)) == (fourth.instant, [])


@pytest.mark.parametrize("ignored", [False, True])
def test_a_sync_that_fails_is_a_warning_of_a_commit_that_stands(
    metastore: Metastore, database: str, options: dict[str, str], tmp_path: Path, ignored: bool
):
    down = {**options, **ENABLED, f"{SYNC}metastore.uris": NOWHERE, f"{SYNC}ignore_exceptions": str(ignored)}
    table = _create(tmp_path, down)
    with _told(expected=not ignored):
        commit = table.insert(_rows("a"))
    (warning,) = commit.warnings
    assert warning.startswith("the commit succeeded, but the catalog sync after it failed: the Hive Metastore")
    assert NOWHERE in warning
    assert "Table.sync" in warning
    assert table.to_arrow().num_rows == 1
    if ignored:
        report = table.sync()
        assert (report.tables, len(report.failures)) == ((), 1)
    else:
        with pytest.raises(hoodoo.CatalogError, match="cannot be reached"):
            table.sync()
    # Later it is there again.
    report = table.sync({f"{SYNC}metastore.uris": f"{NOWHERE},{metastore.uri}"})
    assert report.tables[0].synced == _synced(metastore, database) == commit.instant


@contextmanager
def _told(*, expected: bool) -> Iterator[None]:
    """Expects one `HudiWarning`, or none."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield
    found = [one for one in told if issubclass(one.category, hoodoo.HudiWarning)]
    assert [one.filename for one in found] == [__file__] * int(expected)


def test_all_partitions_are_compared_when_the_catalog_is_ahead_or_behind(
    metastore: Metastore, database: str, options: dict[str, str], tmp_path: Path
):
    table = _create(tmp_path)
    table.insert(_rows("a"))
    saved = table.savepoint()
    table.insert(_rows("b"))
    assert table.sync(options).tables[0].partitions_added == ("a", "b")
    table.restore(saved.instant)
    undone = table.sync(options).tables[0]
    assert (undone.complete, undone.partitions_dropped) == (True, ("b",))
    # Others dropped a partition and moved another one: only a comparison of all finds it.
    table.insert(_rows("c", "d"))
    table.sync(options)
    metastore.client.drop_partition(database, "t", ["c"], False)
    assert not table.sync(options).changed
    whole = table.sync({**options, "hoodie.meta.sync.incremental": False}).tables[0]
    assert (whole.complete, whole.partitions_added) == (True, ("c",))


def test_a_commit_that_began_earlier_and_completed_later_is_not_missed(
    metastore: Metastore, database: str, options: dict[str, str], tmp_path: Path
):
    table = _create(tmp_path)
    table.insert(_rows("a"))
    late, newest = table.insert(_rows("late")), table.insert(_rows("b"))
    table.sync(options)
    # As the catalog was while the late one was still running.
    metastore.client.drop_partition(database, "t", ["late"], False)
    entry = metastore.client.get_table(database, "t")
    entry.parameters["last_commit_time_sync"] = newest.instant
    entry.parameters["last_commit_completion_time_sync"] = str(int(late.completed) - 1)
    metastore.client.alter_table(database, "t", entry)
    done = table.sync(options).tables[0]
    assert (done.complete, done.partitions_added) == (False, ("late",))


def test_partitions_with_other_signs_are_added_found_and_dropped(
    metastore: Metastore, database: str, options: dict[str, str], tmp_path: Path
):
    names = ["a b", "é", "x;y", 'q"', "[z]", "50%", "{c}", "#1", "it's"]
    table = _create(tmp_path)
    table.insert(_rows("plain", *names))
    table.sync({**options, f"{SYNC}batch_num": 2})
    assert _values(metastore, database) == sorted(["plain", *names])
    table.upsert(_rows(*names))
    assert not table.sync(options).changed
    table.delete_partitions(names)
    assert sorted(table.sync({**options, f"{SYNC}batch_num": 2}).tables[0].partitions_dropped) == sorted(names)
    assert _values(metastore, database) == ["plain"]


def test_a_table_that_moved_is_created_again_and_another_one_is_left_alone(
    metastore: Metastore, database: str, options: dict[str, str], tmp_path: Path
):
    old, new = _create(tmp_path / "old"), _create(tmp_path / "new")
    old.insert(_rows("a"))
    new.insert(_rows("b"))
    old.sync(options)
    moved = new.sync(options).tables[0]
    assert (moved.recreated, moved.partitions_added) == (True, ("b",))
    assert metastore.client.get_table(database, "t").sd.location.endswith("/new/t")
    assert _values(metastore, database) == ["b"]
    assert old.to_arrow().num_rows == 1
    descriptor = ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema("id", "int", "")],
        location=str(tmp_path / "csv"),
        inputFormat="org.apache.hadoop.mapred.TextInputFormat",
        outputFormat="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
        serdeInfo=ttypes.SerDeInfo(None, "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", {}),
        parameters={},
    )
    other = ttypes.Table(
        "csv", database, "me", sd=descriptor, partitionKeys=[], parameters={}, tableType="MANAGED_TABLE"
    )
    metastore.client.create_table(other)
    with pytest.raises(hoodoo.InvalidOptionError, match=r"csv in the catalog is another table.*hive_sync\.table"):
        new.sync({**options, f"{SYNC}table": "csv"})
    with pytest.raises(hoodoo.UnsupportedError, match="is not a Hudi table"):
        hoodoo.Table.from_catalog(f"{database}.csv", metastore.uri)


def test_a_table_that_cannot_be_changed_is_created_again_if_asked_to(
    metastore: Metastore, database: str, options: dict[str, str], tmp_path: Path
):
    table = _create(tmp_path)
    table.insert(_rows("a"))
    table.sync({**options, f"{SYNC}partition_fields": "n"} | {f"{SYNC}table": "t"})
    with pytest.raises(hoodoo.InvalidOptionError, match="recreate_table_on_error"):
        table.sync(options)
    done = table.sync({**options, f"{SYNC}recreate_table_on_error": True}).tables[0]
    assert (done.recreated, done.complete, done.partitions_added) == (True, True, ("a",))
    assert [key.name for key in metastore.client.get_table(database, "t").partitionKeys] == ["p"]


def test_the_time_of_a_sync_is_written_only_if_asked_to(
    metastore: Metastore, database: str, options: dict[str, str], tmp_path: Path
):
    table = _create(tmp_path)
    first = table.insert(_rows("a"))
    condition = {**options, "hoodie.datasource.meta_sync.condition.sync": True}
    table.sync(condition)
    second = table.upsert(_rows("a"))
    assert table.sync(condition).tables[0].synced == _synced(metastore, database) == first.instant
    assert table.sync(options).tables[0].synced == _synced(metastore, database) == second.instant


def test_databases_are_created_unless_forbidden(options: dict[str, str], database: str, tmp_path: Path):
    table = _create(tmp_path)
    with pytest.raises(hoodoo.CatalogError, match=f"no database {database}: create it, or set"):
        table.sync({**options, f"{SYNC}auto_create_database": False})
    # A table without commits has no time, and is there.
    done = table.sync(options).tables[0]
    assert (done.created, done.synced) == (True, None)


def test_tables_by_their_names(metastore: Metastore, database: str, options: dict[str, str], tmp_path: Path):
    table = _create(tmp_path, table_type="MERGE_ON_READ")
    table.insert(_rows("a"))
    table.sync(options)
    table.upsert({"id": [0], "p": ["a"], "n": [100]})

    def numbers(name: str, **more: Any) -> list[int]:
        opened = hoodoo.Table.from_catalog(f"{database}.{name}", metastore.uri, **more)
        found: list[int] = opened.to_arrow(columns=["n"])["n"].to_pylist()
        return found

    assert (numbers("t"), numbers("T_RT"), numbers("t_ro")) == ([100], [100], [0])
    assert numbers("t_ro", options={"hoodie.datasource.query.type": "snapshot"}) == [100]
    assert hoodoo.Table.from_catalog(f"{database}.t", options=options).uri == table.uri
    with pytest.raises(hoodoo.TableNotFoundError, match=f"has no table {database}.nope"):
        hoodoo.Table.from_catalog(f"{database}.nope", metastore.uri)
    with pytest.raises(hoodoo.TableNotFoundError, match="has no table default"):
        hoodoo.Table.from_catalog("t", metastore.uri)
    for named in ("hoodie.datasource.hive_sync.database", "hoodie.database.name"):
        assert hoodoo.Table.from_catalog("t", metastore.uri, options={named: database}).uri == table.uri
    for wrong in ["", "a.b.c", ".t", "t."]:
        with pytest.raises(hoodoo.InvalidOptionError, match="expected table or database"):
            hoodoo.Table.from_catalog(wrong, metastore.uri)
    for uri in ["http://x", "thrift://", "thrift://x:port"]:
        with pytest.raises(hoodoo.InvalidOptionError, match="expected thrift://host:port"):
            hoodoo.Table.from_catalog("t", uri)


def test_the_command_line(metastore: Metastore, database: str, tmp_path: Path):
    table = _create(tmp_path)
    commit = table.insert(_rows("a", "b"))
    arguments = ["sync", table.uri, "--metastore", metastore.uri, "--database", database]

    def run(*more: str) -> str:
        result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, [*arguments, *more])
        assert result.exit_code == 0, result.output
        return result.output

    assert "2 partitions added: a, b" in run("--table", "Trips")
    assert f"{database}.trips is up to date" in run("--table", "trips")
    (found,) = json.loads(run("--json", "--set", f"{SYNC}omit_metadata_fields=true"))["tables"]
    assert (found["name"], found["created"], found["synced"]) == (f"{database}.t", True, commit.instant)
    assert metastore.client.get_table(database, "t").sd.cols[0].name == "id"
    both = CliRunner().invoke(app, [*arguments, "--glue"])
    assert both.exit_code == 2


@pytest.fixture
def newer_metastore(monkeypatch: pytest.MonkeyPatch) -> None:
    """A metastore without the calls that Hive 4 has no more."""

    def missing(*_: Any) -> Any:
        raise TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid method name: 'get_table'")

    monkeypatch.setattr(Client, "get_table", missing)


@pytest.mark.usefixtures("newer_metastore")
def test_a_metastore_without_the_old_calls(options: dict[str, str], database: str, tmp_path: Path):
    table = _create(tmp_path)
    table.insert(_rows("a"))
    assert table.sync(options).tables[0].created
    assert not table.sync(options).changed
    assert hoodoo.Table.from_catalog(f"{database}.t", options=options).uri == table.uri


def test_a_refusal_of_the_metastore_is_told(
    metastore: Metastore, database: str, options: dict[str, str], tmp_path: Path
):
    table = _create(tmp_path)
    table.insert(_rows("a"))
    with pytest.raises(hoodoo.CatalogError, match=r"refused to create .*Nothing in the table changed.*Table\.sync"):
        table.sync({**options, f"{SYNC}table": "no-such-name!"})
    client = metastores.connect([metastore.uri])
    client.close()
    with pytest.raises(hoodoo.CatalogError, match=r"the connection to .* broke"):
        client.table(database, "t")
