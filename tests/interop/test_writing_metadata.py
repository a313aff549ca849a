"""hoodoo and real Hudi write to one table in turns, and both keep its metadata table: each goes on with the other's."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest

from hoodoo import Table
from tests.interop.hudi import Hudi
from tests.interop.metadata_tables import Case, stored_files
from tests.interop.test_reading_by_metadata import FILTERS, LISTED, Filter
from tests.interop.test_reading_by_metadata import rows as all_columns
from tests.interop.turns import hudi_reads, one_of
from tests.record_index import index_of, stored_keys
from tests.rows import Row, arrow_rows, spark_rows

SKIPPING = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
# Clean often, so that files are deleted.
SERVICES = {
    "hoodie.clean.commits.retained": "2",
    "hoodie.clustering.inline": "false",
    "hoodie.compact.inline": "false",
}


# One of each kind of type: a query of Spark takes its time.
CHOSEN = [one for one in FILTERS if one[1] in {"ts > 9", "name > 'n9'", "amount > 4.00", "id < 'k0003'"}]


def rows(keys: range, ts: int) -> pa.Table:
    """Rows without the columns of which Hudi itself loses rows: those with a NaN, and bytes."""
    return all_columns(keys, ts).drop(["data", "single", "price"])


def _by_metadata(hudi: Hudi, path: Path) -> list[Row]:
    return spark_rows(hudi.spark.read.format("hudi").options(**SKIPPING).load(str(path)))


class Turns:
    """A table, and what both sides read of it."""

    def __init__(self, hudi: Hudi, path: Path, table_type: str, version: str) -> None:
        self.hudi, self.path, self.version = hudi, path, version
        self.compared, self.is_long = 0, False
        self.ours_options = dict(SERVICES)
        self.options = {
            "hoodie.metadata.enable": "true",
            "hoodie.table.name": path.name,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.datasource.write.table.type": table_type,
            "hoodie.write.table.version": version,
            **SERVICES,
        }

    def theirs(self, data: pa.Table, operation: str, **options: str) -> None:
        """Let Hudi write, and compare."""
        self.hudi.write(data, self.path, operation, **self.options, **options)
        self.compare(f"Hudi's {operation}")

    def ours(self, operation: str, *data: object) -> None:
        """Write, and compare."""
        getattr(Table(self.path, self.ours_options), operation)(*data)
        self.compare(f"our {operation}")

    def create(self, schema: pa.Schema) -> None:
        """Create the table, as we do without any word about a metadata table."""
        Table.create(
            self.path,
            schema,
            name=self.path.name,
            record_key="id",
            ordering="ts",
            partition_by="part",
            table_type=self.options["hoodie.datasource.write.table.type"],
            options={"hoodie.write.table.version": self.version},
        )

    def compare(self, what: str, *, is_last: bool = False) -> None:
        """All four ways of reading give the same rows, whatever they filter by, and nothing is wrong.

        They filter in another way after each turn, and in all ways after the last one.
        """
        expected = arrow_rows(Table(self.path, LISTED).to_arrow())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert arrow_rows(Table(self.path).to_arrow()) == expected, f"hoodoo after {what}"
        chosen = CHOSEN if is_last else [one_of(CHOSEN, self.compared)]
        for filters, condition in chosen:
            one, other = (arrow_rows(Table(self.path, of).to_arrow(filters=filters)) for of in (None, LISTED))
            assert one == other, f"{what}: {condition}"
        if not self.is_long or hudi_reads(self.compared, is_last=is_last):
            self._compare_with_hudi(what, expected, chosen)
        self.compared += 1
        problems = Table(self.path).verify().problems
        assert not problems, f"after {what}: {problems}"

    def _compare_with_hudi(self, what: str, expected: list[Row], chosen: Sequence[Filter]) -> None:
        plain = self.hudi.spark.read.format("hudi").options(**LISTED).load(str(self.path))
        indexed = self.hudi.spark.read.format("hudi").options(**SKIPPING).load(str(self.path))
        assert spark_rows(plain) == expected, f"Hudi by listing after {what}"
        assert spark_rows(indexed) == expected, f"Hudi by its metadata table after {what}"
        for filters, condition in chosen:
            found = spark_rows(plain.where(condition))
            assert spark_rows(indexed.where(condition)) == found, f"Hudi skips rows after {what}: {condition}"
            assert arrow_rows(Table(self.path).to_arrow(filters=filters)) == found, f"{what}: {condition}"


@pytest.mark.parametrize(
    ("table_type", "version", "first"),
    [
        ("COPY_ON_WRITE", "9", "hudi"),
        ("MERGE_ON_READ", "9", "hoodoo"),
        pytest.param("MERGE_ON_READ", "8", "hudi", marks=pytest.mark.slow),
        pytest.param("COPY_ON_WRITE", "9", "hoodoo", marks=pytest.mark.slow),
        pytest.param("COPY_ON_WRITE", "8", "hudi", marks=pytest.mark.slow),
        pytest.param("COPY_ON_WRITE", "8", "hoodoo", marks=pytest.mark.slow),
        pytest.param("MERGE_ON_READ", "9", "hudi", marks=pytest.mark.slow),
        pytest.param("MERGE_ON_READ", "8", "hoodoo", marks=pytest.mark.slow),
    ],
)
def test_both_keep_one_metadata_table(hudi: Hudi, tmp_path: Path, table_type: str, version: str, first: str) -> None:
    """Whoever makes it."""
    turns = Turns(hudi, tmp_path / f"turns_{first}_{table_type[0].lower()}{version}", table_type, version)
    turns.is_long = True
    data = [rows(range(40), 1), *(rows(range(at, at + 8), at) for at in range(2, 14))]
    if first == "hudi":
        turns.theirs(data[0], "insert", mode="overwrite")
    else:
        turns.create(data[0].schema)
        turns.ours("insert", data[0])
    properties = turns.path / ".hoodie" / "metadata" / ".hoodie" / "hoodie.properties"
    made = properties.read_text(encoding="utf-8")
    turns.ours("upsert", data[1])
    turns.ours("delete", data[2].slice(0, 3))
    turns.theirs(data[3], "upsert")
    turns.ours("insert", rows(range(40, 60), 4))
    turns.ours("cluster")
    turns.theirs(data[4], "upsert")
    if table_type == "MERGE_ON_READ":
        turns.ours("upsert", data[5])
        turns.ours("compact")
    turns.theirs(data[6], "delete")
    turns.ours("insert_overwrite", rows(range(60, 70), 6))
    for at in range(7, 11):
        turns.ours("upsert", data[at])
    turns.theirs(data[11], "upsert")
    turns.ours("upsert", data[12])
    turns.compare("all", is_last=True)
    assert properties.read_text(encoding="utf-8") == made, "Hudi built a new metadata table"
    table = Table(turns.path)
    assert table.metadata_table is not None
    assert {"files", "column_stats", "partition_stats"} <= set(table.metadata_table.partitions)
    listed = {row["file_name"]: row["size"] for row in table.metadata_table.to_arrow("files").to_pylist()}
    on_disk = {name.rsplit("/", 1)[-1]: size for name, size in stored_files(turns.path).items()}
    assert listed == on_disk
    name = turns.path.name
    hudi.sql(f"create table if not exists {name} using hudi location '{turns.path}'")
    assert hudi.sql(f"call validate_metadata_table_files(table => '{name}')") == []


def test_indexes_of_hudi_are_kept(hudi: Hudi, tmp_path: Path) -> None:
    """A stale record index would make Hudi insert keys twice."""
    path = tmp_path / "indexed"
    case = Case("indexed", "COPY_ON_WRITE", partitioned=True, version="9")
    hudi.write(rows(range(20), 1), path, "insert", mode="overwrite", **case.options)
    before = Table(path).metadata_table
    assert before is not None
    assert {"record_index", "bloom_filters"} <= set(before.partitions)
    assert Table(path).upsert(rows(range(15, 30), 2)).warnings == ()
    after = Table(path).metadata_table
    assert after is not None
    assert set(after.partitions) == set(before.partitions)
    hudi.write(rows(range(10, 40), 3), path, "upsert", **case.options)
    ours = arrow_rows(Table(path).to_arrow())
    assert ours == hudi.read(path) == _by_metadata(hudi, path)
    assert len(ours) == 40
    assert not Table(path).verify().problems


def test_a_write_that_died_between_both_commits_is_taken_back(hudi: Hudi, tmp_path: Path) -> None:
    """The metadata table has completed it, and the table has not."""
    path = tmp_path / "died"
    options = Turns(hudi, path, "MERGE_ON_READ", "9").options
    hudi.write(rows(range(20), 1), path, "insert", mode="overwrite", **options)
    expected = hudi.read(path)
    commit = Table(path, SERVICES).upsert(rows(range(15, 30), 2))
    (completed,) = (path / ".hoodie" / "timeline").glob(f"{commit.instant}_*.deltacommit")
    completed.unlink()
    assert hudi.read(path) == _by_metadata(hudi, path) == expected
    for options_of_ours in (LISTED, None):
        assert arrow_rows(Table(path, options_of_ours).to_arrow()) == expected
    again = tmp_path / "again"
    shutil.copytree(path, again)
    # Either side takes it back.
    Table(path, SERVICES).upsert(rows(range(18, 22), 3))
    assert not list((path / ".hoodie" / "metadata").rglob(f"*{commit.instant}*"))
    hudi.write(rows(range(18, 22), 3), again, "upsert", **options)
    for one in (path, again):
        ours = arrow_rows(Table(one).to_arrow())
        assert _by_metadata(hudi, one) == ours == arrow_rows(Table(one, LISTED).to_arrow())
        assert len(ours) == 22
        # The dead write had removed its markers: Hudi leaves its files then.
        problems = Table(one).verify().problems
        assert all("no instant on the timeline wrote this file" in problem.message for problem in problems)
    assert not Table(path).verify().problems


@pytest.mark.parametrize("table_type", [pytest.param("COPY_ON_WRITE", marks=pytest.mark.slow), "MERGE_ON_READ"])
def test_hudi_goes_on_with_indexes_that_we_built(hudi: Hudi, tmp_path: Path, table_type: str) -> None:
    """On a table of Hudi that had no metadata table; the actions of the timeline among them are ours."""
    turns = Turns(hudi, tmp_path / f"built_{table_type[0].lower()}", table_type, "9")
    without = turns.options | {"hoodie.metadata.enable": "false"}
    hudi.write(rows(range(30), 1), turns.path, "insert", mode="overwrite", **without)
    hudi.write(rows(range(10, 20), 2), turns.path, "upsert", **without)
    hudi.write(rows(range(5), 3), turns.path, "delete", **without)
    for name in ("column_stats", "partition_stats", "bloom_filters", "record_index"):
        assert name in Table(turns.path).index(name).partitions
        turns.compare(f"our index {name}")
    properties = turns.path / ".hoodie" / "metadata" / ".hoodie" / "hoodie.properties"
    made = properties.read_text(encoding="utf-8")
    turns.options["hoodie.metadata.index.bloom.filter.enable"] = "true"
    by_key = {
        "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
        "hoodie.metadata.global.record.level.index.enable": "true",
    }
    turns.theirs(rows(range(8, 36), 4), "upsert", **by_key)
    turns.theirs(rows(range(20, 25), 5), "delete", **by_key)
    turns.ours("upsert", rows(range(15, 45), 6))
    turns.theirs(rows(range(40, 50), 7), "upsert", **by_key)
    assert index_of(turns.path) == stored_keys(turns.path)
    assert properties.read_text(encoding="utf-8") == made, "Hudi built a new metadata table"
    metadata = Table(turns.path).metadata_table
    assert metadata is not None
    assert {"column_stats", "partition_stats", "bloom_filters", "record_index"} <= set(metadata.partitions)


@pytest.mark.parametrize("table_type", [pytest.param("COPY_ON_WRITE", marks=pytest.mark.slow), "MERGE_ON_READ"])
def test_hudi_fills_a_partition_that_a_clean_left(hudi: Hudi, tmp_path: Path, table_type: str) -> None:
    """It was emptied, and stayed because a write was pending, which might have been filling it."""
    turns = Turns(hudi, tmp_path / f"left_{table_type[0].lower()}", table_type, "9")
    turns.options["hoodie.clean.automatic"] = "false"
    turns.theirs(rows(range(30), 1), "insert", mode="overwrite")
    turns.ours_options["hoodie.clean.automatic"] = "false"
    turns.ours("delete_partitions", ["p1"])
    elsewhere = rows(range(0, 30, 3), 2)
    for _ in range(2):
        turns.ours("upsert", elsewhere)
    instant = datetime.now(timezone.utc).strftime("%Y%m%d%H%M%S%f")[:17]
    action, inflight = ("commit", "") if table_type == "COPY_ON_WRITE" else ("deltacommit", ".deltacommit")
    heartbeats = turns.path / ".hoodie" / ".heartbeat"
    heartbeats.mkdir(exist_ok=True)
    names = [
        f"timeline/{instant}.{action}.requested",
        f"timeline/{instant}{inflight}.inflight",
        f".heartbeat/{instant}",
    ]
    pending = [turns.path / ".hoodie" / name for name in names]
    for file in pending:
        file.touch()
    Table(turns.path, turns.ours_options | {"hoodie.clean.automatic": "true"}).upsert(elsewhere)
    assert not list((turns.path / "p1").glob("*.parquet"))
    assert (turns.path / "p1" / ".hoodie_partition_metadata").exists()
    for file in pending:
        file.unlink()
    turns.compare("the clean")
    turns.theirs(rows(range(1, 30, 3), 3), "upsert")
    turns.ours("upsert", rows(range(1, 30, 6), 4))


def test_a_partition_that_a_clean_removed_is_no_longer_listed(hudi: Hudi, tmp_path: Path) -> None:
    """Though the base file of `files` has it, and log files before the clean say so again."""
    turns = Turns(hudi, tmp_path / "removed", "COPY_ON_WRITE", "9")
    turns.ours_options |= {"hoodie.clean.commits.retained": "1", "hoodie.metadata.compact.max.delta.commits": "2"}
    turns.theirs(rows(range(30), 1), "insert", mode="overwrite")
    turns.ours("upsert", rows(range(30), 2))
    timeline = turns.path / ".hoodie/metadata/.hoodie/timeline"
    assert list(timeline.glob("*.compaction.requested")), "the metadata table was not compacted"
    turns.ours_options["hoodie.metadata.compact.max.delta.commits"] = "20"
    turns.ours("upsert", rows(range(1, 30, 3), 3))
    turns.ours("delete_partitions", ["p1"])
    turns.ours("upsert", rows(range(0, 30, 3), 4))
    assert not (turns.path / "p1").exists()
    hudi.sql(f"create table if not exists removed using hudi location '{turns.path}'")
    listed = hudi.sql("call show_metadata_table_partitions(table => 'removed')")
    assert sorted(str(next(iter(row.values()))) for row in listed) == ["p0", "p2"]
    assert hudi.sql("call validate_metadata_table_files(table => 'removed')") == []
    turns.theirs(rows(range(1, 30, 3), 5), "upsert")
    listed = hudi.sql("call show_metadata_table_partitions(table => 'removed')")
    assert sorted(str(next(iter(row.values()))) for row in listed) == ["p0", "p1", "p2"]
    turns.ours("upsert", rows(range(1, 30, 3), 6))
