"""The metadata table of tables that Hudi wrote (tests/fixtures/metadata_table), whole and damaged."""

from __future__ import annotations

import json
import os
import random
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from hoodoo import CorruptFileError, InvalidOptionError, MetadataTable, Problem, Table, UnsupportedError
from hoodoo.cli.commands import app

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "metadata_table"
EXPECTED: dict[str, dict[str, Any]] = json.loads((FIXTURES / "expected.json").read_text(encoding="utf-8"))
PARTITIONS = ("files", "column_stats", "bloom_filters", "record_index")
# Tables of other origin, some with secondary indexes.
OTHERS = (
    "cow__v9_timebasedkeygen_epochmillis",
    "cow__v9_timebasedkeygen_nonhivestyle",
    "cow__v9_txns_nonpart_meta",
    "cow__v9_txns_simple_meta",
    "cow__v9_txns_simple_overwrite",
    "mor__avro__v9_timebasedkeygen_nonhivestyle",
    "mor__avro__v9_txns_simple_meta",
    "mor__avro__v9_txns_simple_overwrite",
)


@pytest.fixture(params=["cow", "mor"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpacked(request.param, tmp_path)


@pytest.fixture
def cow(tmp_path: Path) -> Path:
    return unpacked("cow", tmp_path)


@pytest.fixture
def mor(tmp_path: Path) -> Path:
    return unpacked("mor", tmp_path)


def unpacked(name: str, tmp_path: Path) -> Path:
    path = tmp_path / name
    with zipfile.ZipFile(FIXTURES / f"{name}.zip") as archive:
        archive.extractall(path)
    return path


def metadata_of(path: Path) -> MetadataTable:
    metadata = Table(path).metadata_table
    assert metadata is not None
    return metadata


def errors_of(path: Path) -> list[Problem]:
    return [problem for problem in metadata_of(path).verify().problems if problem.severity == "error"]


def hfile(path: Path, partition: str = "files") -> Path:
    """Find the newest base file of a partition."""
    files = (path / ".hoodie/metadata" / partition).glob("*.hfile")
    return max(files, key=lambda file: (file.name.rsplit("_", 1)[1], file.name))


def newest_log(path: Path, partition: str = "files") -> Path:
    return max((path / ".hoodie/metadata" / partition).glob(".*.log.*"), key=lambda file: file.name)


def test_files_are_what_hudi_reads(path: Path):
    rows = metadata_of(path).to_arrow("files").to_pylist()
    found = {f"{row['partition']}/{row['file_name']}".lstrip("/"): row["size"] for row in rows}
    assert found == EXPECTED[path.name]["files"]


def test_keys_and_filters_are_what_hudi_reads(path: Path):
    metadata, expected = metadata_of(path), EXPECTED[path.name]
    index = metadata.to_arrow("record_index").to_pylist()
    assert {r["key"]: [r["partition"], r["file_id"], r["instant_time"]] for r in index} == expected["record_index"]
    filters = metadata.to_arrow("bloom_filters").to_pylist()
    assert {r["key"]: [r["type"], r["timestamp"], r["size"]] for r in filters} == expected["bloom_filters"]
    assert metadata.to_arrow("column_stats").num_rows == expected["column_stats"]


def test_statistics_are_those_of_the_files(cow: Path):
    statistics = metadata_of(cow).to_arrow("column_stats").to_pylist()
    for row in (row for row in statistics if row["column_name"] == "ts"):
        file = cow / row["partition"] / row["file_name"]
        values = pq.read_table(file, columns=["ts"], partitioning=None)["ts"].to_pylist()
        assert (row["min_long"], row["max_long"], row["value_count"]) == (min(values), max(values), len(values))
        assert (row["min"], row["value_type"], row["null_count"]) == (str(min(values)), "LONG", 0)
    kinds = {row["column_name"]: row["value_type"] for row in statistics if row["min"] is not None}
    assert {kinds[name] for name in ("name", "price", "amount", "day", "at")} == {
        "STRING",
        "DOUBLE",
        "DECIMAL",
        "DATE",
        "TIMESTAMP_MICROS",
    }


def test_partitions_and_repr(path: Path):
    metadata = metadata_of(path)
    assert set(PARTITIONS) <= set(metadata.partitions)
    files = metadata.partitions["files"]
    assert (files.name, files.shards) == ("files", 1)
    assert files.logs > 0
    assert files.latest_instant == max(one.requested for one in Table(path).timeline.instants())
    assert repr(metadata).startswith(f"MetadataTable('{path}', partitions=['")
    with pytest.raises(InvalidOptionError, match="no partition 'nothing'"):
        metadata.to_arrow("nothing")


@pytest.mark.parametrize("name", OTHERS)
def test_indexes_have_the_keys_of_the_table(name: str, tmp_path: Path):
    with zipfile.ZipFile(FIXTURES.parent / "tables" / f"sample_table__{name}.zip") as archive:
        archive.extractall(tmp_path)
    (properties,) = tmp_path.glob("*/.hoodie/hoodie.properties")
    path = properties.parents[1]
    metadata, rows = metadata_of(path), Table(path).to_arrow()
    keys = rows["_hoodie_record_key"].to_pylist()
    index = metadata.to_arrow("record_index").to_pylist()
    # Rows of several partitions share a key in some of them.
    assert sorted(row["key"] for row in index) == sorted(set(keys))
    groups = {(one.partition, one.file_id) for one in Table(path).file_slices()}
    assert {(row["partition"], row["file_id"]) for row in index} <= groups
    if "secondary_index_merchant_idx" in metadata.partitions:
        merchants = metadata.to_arrow("secondary_index_merchant_idx").to_pylist()
        wanted = dict(zip(keys, rows["merchant_name"].to_pylist(), strict=True))
        assert {row["record_key"]: row["value"] for row in merchants} == wanted
    listed = metadata.to_arrow("files")
    on_disk = {file.name: file.stat().st_size for file in path.rglob("*.parquet") if ".hoodie" not in file.parts}
    sizes = dict(zip(listed["file_name"].to_pylist(), listed["size"].to_pylist(), strict=True))
    assert {name: size for name, size in sizes.items() if name.endswith(".parquet")} == on_disk
    assert errors_of(path) == []


def test_a_table_without_one(tmp_path: Path):
    made = Table.create(tmp_path / "t", pa.schema({"id": pa.int64()}), name="t", record_key="id")
    assert made.metadata_table is None
    assert "has no metadata table" in run("metadata", "show", str(tmp_path / "t"))
    assert "has no metadata table" in run("metadata", "verify", str(tmp_path / "t"))


def run(*arguments: str, status: int = 0) -> str:
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, list(arguments))
    assert result.exit_code == status, result.output
    return result.output


def test_the_command_line(cow: Path):
    shown = run("metadata", "show", str(cow))
    assert all(name in shown for name in PARTITIONS)
    rows = run("metadata", "show", str(cow), "--partition", "files", "--limit", "2")
    assert "2 rows shown" in rows
    assert f"{len(EXPECTED['cow']['files'])} rows in files" in rows
    assert "no problem found" in run("metadata", "verify", str(cow))
    newest = Table(cow).file_slices("p0")[0].base_file
    assert newest is not None
    (cow / newest).unlink()
    assert "metadata table lists" in run("metadata", "verify", str(cow), status=1)


def test_nothing_is_found_in_what_hudi_wrote(path: Path):
    assert metadata_of(path).verify().problems == ()
    assert Table(path).verify().problems == ()


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("find", [hfile, newest_log])
def test_a_truncated_file_is_an_error_that_names_it(path: Path, partition: str, find: Callable[[Path, str], Path]):
    try:
        file = find(path, partition)
    except ValueError:
        pytest.skip("there is no such file")
    whole = file.read_bytes()
    for size in (0, 1, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(CorruptFileError, match=file.name.replace(".", r"\.")):
            metadata_of(path).to_arrow(partition)


# Of each file; each takes two reads of a partition.
_FLIPS = 40 if "HOODOO_TEST_ALL" in os.environ else 12


@pytest.mark.parametrize("partition", PARTITIONS)
def test_flipped_bits_are_errors_or_change_nothing_of_the_form(path: Path, partition: str):
    whole_rows = metadata_of(path).to_arrow(partition)
    random.seed(7)
    for file in {hfile(path, "files"), *(path / ".hoodie/metadata" / partition).glob("*")}:
        whole = file.read_bytes()
        for position in random.sample(range(len(whole)), min(_FLIPS, len(whole))):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << random.randrange(8)
            file.write_bytes(damaged)
            # Damage that nothing notices changes values, not columns. An InternalError is no answer.
            with suppress(CorruptFileError, UnsupportedError):
                assert metadata_of(path).to_arrow(partition).schema == whole_rows.schema
        file.write_bytes(whole)
    assert metadata_of(path).to_arrow(partition) == whole_rows


def test_a_missing_log_file_is_an_error_that_names_it(path: Path):
    log = newest_log(path)
    log.unlink()
    with pytest.raises(CorruptFileError, match="missing") as caught:
        metadata_of(path).to_arrow("files")
    assert log.name in str(caught.value)
    (problem, *_) = errors_of(path)
    assert problem.subject.startswith(".hoodie/metadata")
    assert "hoodie.metadata.enable" in problem.remedy


def test_a_partition_without_files_is_an_error(path: Path):
    for file in (path / ".hoodie/metadata/record_index").glob(".*.log.*"):
        file.unlink()
    for file in (path / ".hoodie/metadata/record_index").glob("*.hfile"):
        file.unlink()
    with pytest.raises(CorruptFileError, match="has no files"):
        metadata_of(path).to_arrow("record_index")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("hoodie.table.type=MERGE_ON_READ", "hoodie.table.type=COPY_ON_WRITE", "expected MERGE_ON_READ"),
        ("hoodie.table.base.file.format=HFILE", "", "has no hoodie.table.base.file.format"),
        ("hoodie.table.checksum=", "hoodie.table.checksum=1", "checksum"),
        ("hoodie.timeline.path=timeline", "hoodie.timeline.path=../../..", "no folder within it"),
    ],
)
def test_wrong_properties(cow: Path, old: str, new: str, message: str):
    file = cow / ".hoodie/metadata/.hoodie/hoodie.properties"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(CorruptFileError, match=message):
        _ = Table(cow).metadata_table
    assert any("cannot be read" in problem.message for problem in Table(cow).verify().problems)


def test_properties_that_are_missing(cow: Path):
    (cow / ".hoodie/metadata/.hoodie/hoodie.properties").unlink()
    with pytest.raises(CorruptFileError, match=r"no hoodie\.properties"):
        _ = Table(cow).metadata_table
    # Reading does not need it.
    assert Table(cow).to_arrow().num_rows > 0


def test_verify_finds_a_file_that_is_gone(cow: Path):
    newest = next(one for one in Table(cow).file_slices("p0"))
    assert newest.base_file is not None
    (cow / newest.base_file).unlink()
    (problem,) = (problem for problem in errors_of(cow) if newest.base_file in problem.subject)
    assert "lists a file that is not there" in problem.message


def test_verify_finds_a_wrong_size_and_a_narrow_range(cow: Path):
    newest = next(one for one in Table(cow).file_slices("p0"))
    assert newest.base_file is not None
    file = cow / newest.base_file
    rows = pq.read_table(file, partitioning=None)
    later = rows.set_column(rows.schema.get_field_index("ts"), "ts", pa.array([500] * len(rows), pa.int64()))
    pq.write_table(later.replace_schema_metadata(rows.schema.metadata), file)
    messages = [problem.message for problem in errors_of(cow)]
    assert any("bytes, but the metadata table says" in message for message in messages)
    assert any("column 'ts' is narrower" in message for message in messages)


def test_verify_finds_a_file_that_is_not_listed(cow: Path):
    """A writer without metadata table added a commit."""
    properties = cow / ".hoodie/hoodie.properties"
    before = properties.read_text(encoding="utf-8")
    saved = {file: file.read_bytes() for file in (cow / ".hoodie/metadata").rglob("*") if file.is_file()}
    table = Table(cow, {"hoodie.metadata.enable": "false", "hoodie.clean.automatic": "false"})
    row = table.to_arrow(columns=table.schema.names).slice(0, 1)
    commit = table.insert(row.set_column(0, "id", pa.array(["new"])))
    for file, content in saved.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    properties.write_text(before, encoding="utf-8")
    (new,) = commit.files
    problems = errors_of(cow)
    assert any(problem.subject == new and "do not see its rows" in problem.message for problem in problems)
    assert any("record index" in problem.message for problem in problems)
