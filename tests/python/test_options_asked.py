"""What options ask for is done, refused or warned of by name, wherever they are given; nothing is swallowed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo

SCHEMA = pa.schema({"id": pa.int64(), "n": pa.int64()})
BASIC = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
ASKED = {
    "hoodie.metadata.index.expression.enable": "Table.index",
    "hoodie.datasource.compaction.async.enable": "hoodie.compact.inline",
    "hoodie.clustering.async.enabled": "hoodie.clustering.inline",
    "hoodie.datasource.clustering.async.enable": "hoodie.clustering.inline",
    "hoodie.clean.async": "hoodie.clean.automatic",
    "hoodie.archive.async": "hoodie.archive.automatic",
}


def _told(options: dict[str, Any], uri: Path) -> list[str]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        hoodoo.write({"id": [1], "n": [1]}, str(uri), options={**BASIC, **options})
    assert all(issubclass(warning.category, hoodoo.HudiWarning) for warning in told)
    assert all(warning.filename == __file__ for warning in told)
    return [str(warning.message) for warning in told]


@pytest.mark.parametrize(("option", "way_out"), ASKED.items())
def test_services_that_are_not_there_are_named_with_the_way_out(tmp_path: Path, option: str, way_out: str):
    (told,) = _told({option: True}, tmp_path / "t")
    assert option in told
    assert way_out in told
    assert _told({option: "false"}, tmp_path / "t") == []


def test_a_sync_that_is_not_supported_is_refused_before_anything_is_written(tmp_path: Path):
    tool = {"hoodie.meta.sync.client.tool.class": "org.apache.hudi.sync.datahub.DataHubSyncTool"}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"hoodie.datasource.hive_sync.enable": True}, r"Set hoodie\.datasource\.hive_sync\.mode=hms"),
        ({"hoodie.datasource.meta.sync.enable": True, **tool}, "DataHubSyncTool is not supported"),
    ]
    for options, remedy in cases:
        with pytest.raises(hoodoo.UnsupportedError, match=remedy):
            hoodoo.write({"id": [1], "n": [1]}, str(tmp_path / "t"), options={**BASIC, **options})
    assert not (tmp_path / "t").exists()
    off = {"hoodie.datasource.hive_sync.enable": False, "hoodie.datasource.hive_sync.mode": "jdbc", **tool}
    assert _told(off, tmp_path / "t") == []


def test_other_values_that_ask_for_something(tmp_path: Path):
    validators = {"hoodie.precommit.validators": "org.apache.hudi.client.validator.SqlQueryEqualityPreCommitValidator"}
    assert "Check the rows" in _told(validators, tmp_path / "t")[0]
    # Hudi builds no index either where the metadata table is off.
    off = {"hoodie.metadata.enable": "false", "hoodie.metadata.index.column.stats.enable": "true"}
    assert _told(off, tmp_path / "t") == []
    assert "no.such.option" in _told({"no.such.option": 1}, tmp_path / "t")[0]


INDEXED = {
    "hoodie.metadata.global.record.level.index.enable=false": "record_index is kept. Drop it with Table.drop_index",
    "hoodie.metadata.record.level.index.enable=false": "record_index is kept. Drop it with Table.drop_index",
    "hoodie.metadata.index.column.stats.enable=false": "column_stats is kept. Drop it with Table.drop_index",
    "hoodie.metadata.index.column.stats.max.columns.to.index=1": "statistics of 2 columns are kept",
    "hoodie.metadata.index.column.stats.column.list=id,n,other": "there are no statistics of other",
    "hoodie.metadata.index.bloom.filter.enable=true": "the metadata table has no bloom_filters",
}


@pytest.mark.parametrize("option", INDEXED)
def test_options_that_ask_for_another_metadata_table_than_there_is(tmp_path: Path, option: str):
    path = str(tmp_path / "t")
    table = hoodoo.Table.create(path, SCHEMA, name="t", record_key="id")
    table.insert({"id": [1], "n": [1]})
    table.index("record_index")
    name, _, value = option.partition("=")
    commit = hoodoo.Table(path, options={name: value}).upsert({"id": [1], "n": [2]})
    assert [told for told in commit.warnings if INDEXED[option] in told and name in told]
    metadata = hoodoo.Table(path).metadata_table
    assert metadata is not None
    assert {"column_stats", "record_index"} <= set(metadata.partitions)
    # What asks for what there is says nothing.
    same = {
        "hoodie.metadata.global.record.level.index.enable": "true",
        "hoodie.metadata.index.column.stats.max.columns.to.index": "2",
        "hoodie.metadata.index.column.stats.column.list": "id,n",
    }
    assert not hoodoo.Table(path, options=same).upsert({"id": [1], "n": [3]}).warnings


def test_all_refused_options_are_named_at_once(tmp_path: Path):
    bad = {
        "hoodie.datasource.write.insert.drop.duplicates": True,
        "hoodie.allow.operation.metadata.field": True,
        "hoodie.time.generator.type": "X",
    }
    with pytest.raises(hoodoo.UnsupportedError) as refused:
        hoodoo.write({"id": [1], "n": [1]}, str(tmp_path / "t"), options={**BASIC, **bad})
    assert all(key in str(refused.value) for key in bad)


def test_read_options_given_to_a_write_are_said(tmp_path: Path):
    reads = {"hoodie.datasource.query.type": "incremental", "as.of.instant": "2024-01-01"}
    (told,) = _told(reads, tmp_path / "t")
    assert "for reads and have no effect on writes" in told
    assert all(key in told for key in reads)


@pytest.mark.parametrize("layout", ["z-order", "ZORDER", "Hilbert", "linear"])
def test_layouts_are_spelled_as_hudi_takes_them(tmp_path: Path, layout: str):
    table = hoodoo.Table.create(str(tmp_path / "t"), SCHEMA, name="t", record_key="id")
    table.insert({"id": [2, 1], "n": [1, 2]})
    done = table.cluster(sort_by=["n", "id"], options={"hoodie.layout.optimize.strategy": layout})
    assert done is not None
    assert done.inserted == 2


@pytest.fixture
def history(tmp_path: Path) -> tuple[str, list[hoodoo.Commit]]:
    table = hoodoo.Table.create(str(tmp_path / "t"), SCHEMA, name="t", record_key="id", table_type="MERGE_ON_READ")
    return table.uri, [table.insert({"id": [1], "n": [1]}), table.upsert({"id": [1], "n": [10]})]


def _ids(rows: pa.Table | pa.RecordBatchReader) -> list[tuple[int, int]]:
    table = rows if isinstance(rows, pa.Table) else rows.read_all()
    return sorted(zip(table["id"].to_pylist(), table["n"].to_pylist(), strict=True))


def test_a_table_answers_the_query_of_its_options(history: tuple[str, list[hoodoo.Commit]]):
    uri, (first, second) = history
    begin = "hoodie.datasource.read.begin.instanttime"
    end = "hoodie.datasource.read.end.instanttime"
    incremental = {"hoodie.datasource.query.type": "incremental", begin: first.completed}
    later = hoodoo.Table(uri, options=incremental)
    newest = [(1, 10)]
    assert _ids(later.scan()) == _ids(later.to_arrow()) == newest
    assert _ids(hoodoo.Table(uri, {**incremental, begin: "0", end: first.completed}).scan()) == [(1, 1)]
    assert _ids(hoodoo.Table(uri, {**incremental, begin: second.completed}).scan()) == []
    assert _ids(later.to_arrow(filters=[("n", ">", 5)])) == [(1, 10)]
    # What is named wins.
    assert _ids(later.scan(query="snapshot")) == newest
    assert _ids(later.changes(second.completed)) == []
    then = hoodoo.Table(uri, options={"as.of.instant": first.instant})
    assert _ids(then.scan()) == [(1, 1)]
    assert _ids(then.scan(as_of=second.instant)) == newest
    base = hoodoo.Table(uri, options={"hoodie.datasource.view.type": "READ_OPTIMIZED"})
    assert _ids(base.to_arrow()) == _ids(hoodoo.Table(uri).to_arrow(query="read_optimized")) == [(1, 1)]


def test_queries_that_are_not_there_or_make_no_sense_are_refused(history: tuple[str, list[hoodoo.Commit]]):
    uri, (first, _) = history
    with pytest.raises(hoodoo.UnsupportedError, match=r"format=cdc"):
        hoodoo.Table(uri).scan(query="cdc")
    with pytest.raises(hoodoo.UnsupportedError, match=r"merge\.type=skip_merge"):
        hoodoo.Table(uri, options={"hoodie.datasource.merge.type": "skip_merge"})
    for options, message in [
        ({"hoodie.datasource.query.type": "newest"}, "newest"),
        ({"hoodie.datasource.query.type": "incremental"}, "needs a time to begin"),
        ({"hoodie.datasource.read.begin.instanttime": "0"}, r"query\.type=incremental"),
    ]:
        with pytest.raises(hoodoo.InvalidOptionError, match=message):
            hoodoo.Table(uri, options=options).scan()
    with pytest.raises(hoodoo.InvalidOptionError, match="no state of an instant"):
        hoodoo.Table(uri, options={"as.of.instant": first.instant}).changes("0")


@pytest.mark.parametrize("prefix", ["_", "job."])
def test_options_that_become_entries_of_the_commit_metadata(tmp_path: Path, prefix: str) -> None:
    """As with Hudi; without a warning, for the key is the user's own."""
    options = {f"{prefix}note": "nightly"}
    if prefix != "_":
        options["hoodie.datasource.write.commitmeta.key.prefix"] = prefix
    table = hoodoo.Table.create(tmp_path / "t", {"id": pa.string()}, name="t", record_key="id")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        commit = hoodoo.Table(table.uri, options).insert({"id": ["a"]})
    extra = table.timeline.metadata(commit.instant)["extraMetadata"]
    assert extra[f"{prefix}note"] == "nightly"
    assert "schema" in extra


def test_statements_on_rows_of_an_instant_are_refused(history: tuple[str, list[hoodoo.Commit]]):
    """They would write rows as they were over what was written since."""
    uri, (first, _) = history
    newest = hoodoo.Table(uri).to_arrow().to_pylist()
    then = hoodoo.Table(uri, options={"as.of.instant": first.instant})
    statements = [
        lambda: then.update({"n": "n + 1"}),
        lambda: then.delete(where="n = 1"),
        lambda: then.merge({"id": [1], "n": [2]}, ["id"]).when_matched_update_all().execute(),
    ]
    for statement in statements:
        with pytest.raises(hoodoo.InvalidOptionError, match=f"as.of.instant={first.instant} asks for those of an inst"):
            statement()
    assert hoodoo.Table(uri).to_arrow().to_pylist() == newest
    assert then.count() == then.count("n = 1") == then.count("n > 0") == 1
    assert hoodoo.Table(uri).count("n = 1") == 0
