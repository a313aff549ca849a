"""A dataset and a lazy frame stay at their snapshot, whatever other writers commit, roll back, archive and clean."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hoodoo import CorruptFileError, InvalidOptionError, Table
from hoodoo.distributed.write import prepare_write
from tests.local_executor import LocalExecutor

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string(), "value": pa.int64()})
KINDS = ("COPY_ON_WRITE", "MERGE_ON_READ")
TWO_WRITERS = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodoo.write.lease": "false",
}


def rows(numbers: range, value: int) -> pa.Table:
    data = {"id": list(numbers), "part": [f"p{n % 2}" for n in numbers], "value": [value] * len(numbers)}
    return pa.table(data, schema=SCHEMA)


def make(folder: Path, kind: str, **options: str) -> Table:
    given = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
    given |= {key.replace("__", "."): value for key, value in options.items()}
    table = Table.create(
        folder / "t", SCHEMA, name="t", record_key="id", partition_by="part", table_type=kind, options=given
    )
    table.insert(rows(range(10), 1))
    table.upsert(rows(range(4), 2))
    return table


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_stays_while_another_writer_commits(tmp_path: Path, kind: str):
    table = make(tmp_path, kind)
    full, dataset, frame = table.to_arrow(), table.to_dataset(), table.to_polars()
    for value in (3, 4):
        Table(table.uri).upsert(rows(range(2, 30), value))
    Table(table.uri).delete_partitions("p1")
    Table(table.uri).insert_overwrite(rows(range(0, 4, 2), 9))
    assert dataset.to_table() == full
    assert dataset.to_table(filter=pc.field("value") == 2) == full.filter(pc.field("value") == 2)
    assert dataset.count_rows(pc.field("value") > 2) == 0
    assert frame.collect().equals(pl.DataFrame(full))
    assert frame.filter(pl.col("value") == 2).collect().height == 4
    assert duckdb.sql("select count(*) from dataset where value = 2").fetchall() == [(4,)]
    assert table.to_dataset().count_rows() == table.to_arrow().num_rows == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_that_began_before_and_ended_after_is_not_seen(tmp_path: Path, kind: str):
    table = make(tmp_path, kind)
    prepared = prepare_write(SCHEMA, table.uri, "upsert", TWO_WRITERS, None)
    executor, late = LocalExecutor(), rows(range(1, 20, 2), 100)
    begun = prepared.begin(SCHEMA, 1)
    reports = begun.execute(executor, [late], "upsert", TWO_WRITERS)
    Table(table.uri, options=TWO_WRITERS).upsert(rows(range(0, 2, 2), 50))
    full, dataset, frame = table.to_arrow(), table.to_dataset(), table.to_polars()
    commit = begun.commit(reports)
    assert commit.instant < str(dataset.instant)
    # Reading as of that instant has the late rows: the dataset must not.
    assert 100 in table.to_arrow(as_of=dataset.instant)["value"].to_pylist()
    for value in (1, 2, 50, 100):
        condition = pc.field("value") == value
        assert dataset.to_table(filter=condition) == full.filter(condition), value
        assert frame.filter(pl.col("value") == value).collect().height == full.filter(condition).num_rows, value
    assert dataset.to_table() == full


def test_a_snapshot_of_a_commit_that_was_rolled_back(tmp_path: Path):
    table = make(tmp_path, "COPY_ON_WRITE")
    last = table.upsert(rows(range(0, 10, 2), 7))
    dataset, frame = table.to_dataset(), table.to_polars()
    table.rollback(last.instant)
    # Its file is gone, so that this is an error, and never the rows of the commit before.
    for condition in (pc.field("value") == 7, pc.field("value") == 1, pc.field("part") == "p0"):
        with pytest.raises(InvalidOptionError, match=f"{last.instant} was rolled back"):
            dataset.to_table(filter=condition)
    with pytest.raises(InvalidOptionError, match="rolled back"):
        frame.collect()
    assert table.to_dataset().count_rows(pc.field("value") == 7) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_that_was_archived_is_still_read(tmp_path: Path, kind: str):
    options = {
        "hoodie__keep__min__commits": "2",
        "hoodie__keep__max__commits": "3",
        "hoodie__clean__commits__retained": "1",
    }
    table = make(tmp_path, kind, **options)
    full, dataset = table.to_arrow(), table.to_dataset()
    for value in range(10, 16):
        table.upsert(rows(range(2), value))
    table.archive()
    instants = [instant.requested for instant in table.timeline.instants()]
    assert str(dataset.instant) < min(instants)
    for condition in (pc.field("value") == 1, pc.field("value") == 2, pc.field("value") > 2):
        assert dataset.to_table(filter=condition) == full.filter(condition)
    assert dataset.to_table() == full


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_that_was_cleaned_is_an_error(tmp_path: Path, kind: str):
    table = make(
        tmp_path, kind, hoodie__clean__policy="KEEP_LATEST_FILE_VERSIONS", hoodie__clean__fileversions__retained="1"
    )
    dataset, frame = table.to_dataset(), table.to_polars()
    condition = pc.field("value") == 2
    fragments, scanner = list(dataset.get_fragments()), dataset.scanner(filter=condition)
    assert scanner.count_rows() == 4
    for value in (3, 4):
        table.upsert(rows(range(10), value))
        if kind == "MERGE_ON_READ":
            table.schedule_compaction()
            table.compact()
    assert table.clean().files
    reads = [
        dataset.to_table,
        dataset.count_rows,
        lambda: dataset.to_table(filter=condition),
        lambda: dataset.head(1),
        lambda: list(dataset.to_batches()),
        lambda: list(dataset.get_fragments(condition)),
        fragments[0].to_table,
        lambda: dataset.scanner(filter=condition),
    ]
    for read in reads:
        with pytest.raises(InvalidOptionError, match=r"cannot be read as of .* were cleaned"):
            read()
    with pytest.raises(InvalidOptionError, match="cannot be read as of"):
        frame.collect()
    with pytest.raises(InvalidOptionError, match="cannot be read as of"):
        frame.filter(pl.col("value") == 2).collect()
    with pytest.raises(duckdb.Error, match="cleaned"):
        duckdb.sql("select sum(value) from dataset").fetchall()
    assert table.to_dataset().count_rows(pc.field("value") == 4) == 10


def test_a_stream_whose_files_are_cleaned_before_it_is_read_is_an_error(tmp_path: Path):
    table = make(tmp_path, "COPY_ON_WRITE", hoodie__clean__fileversions__retained="1")
    reader = pa.RecordBatchReader.from_stream(table)
    for value in (3, 4):
        table.upsert(rows(range(10), value))
    assert table.clean().files
    with pytest.raises(pa.ArrowException, match="cannot be read as of"):
        reader.read_all()


def test_a_missing_file_and_a_damaged_one_are_errors(tmp_path: Path):
    table = make(tmp_path, "COPY_ON_WRITE")
    dataset = table.to_dataset()
    newest = {s.partition: Path(table.uri) / str(s.base_file) for s in table.file_slices()}
    newest["p0"].unlink()
    with pytest.raises(CorruptFileError, match="is missing"):
        dataset.to_table()
    newest["p1"].write_bytes(b"PAR1" + b"x" * (newest["p1"].stat().st_size - 4))
    with pytest.raises(CorruptFileError):
        dataset.to_table(filter=pc.field("part") == "p1")


def test_a_snapshot_outlives_the_metadata_table(tmp_path: Path):
    table = make(tmp_path, "COPY_ON_WRITE")
    full, dataset = table.to_arrow(), table.to_dataset()
    table.upsert(rows(range(2), 5))
    assert table.drop_metadata_table()
    for condition in (pc.field("value") == 1, pc.field("id") >= 0):
        assert dataset.to_table(filter=condition) == full.filter(condition)
