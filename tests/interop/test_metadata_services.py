"""The services of the metadata table: hoodoo compacts, cleans and archives it, and real Hudi goes on with it."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from hoodoo import Table
from tests.interop.hudi import Hudi
from tests.interop.test_writing_metadata import Turns, rows
from tests.interop.turns import IN_FULL

COMPACT_AFTER = "4"
OPTIONS = {
    "hoodie.metadata.compact.max.delta.commits": COMPACT_AFTER,
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.compact.inline": "false",
    "hoodie.clustering.inline": "false",
}

MERGE_LOGS = {
    "hoodie.metadata.log.compaction.enable": "true",
    "hoodie.metadata.log.compaction.blocks.threshold": "3",
    "hoodie.metadata.compact.max.delta.commits": "14",
}


def _instants(path: Path) -> set[str]:
    timeline = path / ".hoodie" / "metadata" / ".hoodie" / "timeline"
    return {file.name for file in timeline.iterdir() if file.is_file() and not file.name.endswith(".crc")}


def _services(names: set[str]) -> set[str]:
    return {name.rsplit(".", 1)[-1] for name in names} - {"requested", "inflight", "deltacommit"}


def _compacted_by_us(path: Path) -> bool:
    """Tasks of hoodoo have other names than those of Spark."""
    files = (path / ".hoodie" / "metadata" / "files").glob("*.hfile")
    return any(re.search(r"_\d+-0-0_2\d{16}\.hfile$", file.name) for file in files)


class Served:
    """A table to which hoodoo and Hudi write in turns, both with services of the metadata table."""

    def __init__(self, hudi: Hudi, path: Path, table_type: str, version: str, **options: str) -> None:
        self.hudi, self.path, self.options = hudi, path, OPTIONS | options
        self.turns = Turns(hudi, path, table_type, version)
        self.turns.options |= self.options
        self.seen: set[str] = set()

    def ours(self, at: int) -> None:
        """Write once; what was archived meanwhile is seen too."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            commit = Table(self.path, self.options).upsert(rows(range(at, at + 3), at))
        assert not commit.warnings
        self.seen |= _instants(self.path)

    def check(self, what: str) -> None:
        """All ways of reading give the same rows, and Hudi's own check finds nothing."""
        self.turns.compare(what)
        name = self.path.name
        self.hudi.sql(f"create table if not exists {name} using hudi location '{self.path}'")
        assert self.hudi.sql(f"call validate_metadata_table_files(table => '{name}')") == [], what


@pytest.mark.parametrize(
    ("table_type", "version"),
    [
        ("MERGE_ON_READ", "9"),
        pytest.param("COPY_ON_WRITE", "8", marks=pytest.mark.slow),
        pytest.param("COPY_ON_WRITE", "9", marks=pytest.mark.slow),
        pytest.param("MERGE_ON_READ", "8", marks=pytest.mark.slow),
    ],
)
def test_both_serve_one_metadata_table(hudi: Hudi, tmp_path: Path, table_type: str, version: str) -> None:
    served = Served(hudi, tmp_path / f"served_{table_type[0].lower()}{version}", table_type, version)
    served.turns.theirs(rows(range(30), 1), "insert", mode="overwrite")
    properties = served.path / ".hoodie" / "metadata" / ".hoodie" / "hoodie.properties"
    made = properties.read_text(encoding="utf-8")
    at = 2
    while not _compacted_by_us(served.path):
        served.ours(at)
        at += 1
        assert at < 20, "no compaction"
    served.check("our first compaction")
    # Hudi goes on with it, and compacts again.
    for _ in range(2):
        hudi.write(rows(range(at, at + 3), at), served.path, "upsert", **served.turns.options)
        at += 1
    if IN_FULL:
        served.check("writes of Hudi after our compaction")
    while "clean" not in _services(served.seen):
        served.ours(at)
        at += 1
        assert at < 50, "no clean"
    if IN_FULL:
        served.check("our clean")
    for _ in range(12):
        served.ours(at)
        at += 1
    history = served.path / ".hoodie" / "metadata" / ".hoodie" / "timeline" / "history"
    assert list(history.glob("*.parquet")), "nothing was archived"
    assert len([name for name in _instants(served.path) if name.endswith("deltacommit")]) < 45
    served.check("our archiving")
    for _ in range(int(COMPACT_AFTER) + 1):
        hudi.write(rows(range(at, at + 3), at), served.path, "upsert", **served.turns.options)
        at += 1
    served.check("Hudi's compaction after ours")
    served.ours(at)
    served.check("our write after Hudi's compaction")
    assert properties.read_text(encoding="utf-8") == made, "Hudi built a new metadata table"


@pytest.mark.parametrize(
    ("options", "requested"), [({}, ".compaction.requested"), (MERGE_LOGS, ".logcompaction.requested")]
)
def test_hudi_reads_what_hoodoo_compacted_alone(
    hudi: Hudi, tmp_path: Path, options: dict[str, str], requested: str
) -> None:
    """Every record of the metadata table, by Hudi's own reader, before and after."""
    path = tmp_path / "alone"
    served = Served(hudi, path, "MERGE_ON_READ", "9", **options)
    served.turns.theirs(rows(range(30), 1), "insert", mode="overwrite")

    def records() -> list[str]:
        frame = hudi.spark.read.format("hudi").load(str(path / ".hoodie" / "metadata"))
        columns = [name for name in frame.columns if not name.startswith("_hoodie")]
        return sorted(str(row.asDict(recursive=True)) for row in frame.select(*columns).collect())

    at = 2
    found = False
    for at in range(2, 14):
        before = _instants(path)
        served.ours(at)
        new = _instants(path) - before
        if any(name.endswith(requested) for name in new):
            found = True
            break
    assert found, "no compaction"
    compacted = records()
    (plan,) = [name for name in new if name.endswith(requested)]
    time = plan.split(".")[0]
    # Without the compaction: the log files are still there.
    timeline = path / ".hoodie" / "metadata" / ".hoodie" / "timeline"
    for file in timeline.glob(f"{time}*"):
        file.unlink()
    written = [file for file in (path / ".hoodie" / "metadata").rglob(f"*_{time}.*") if not file.name.endswith(".crc")]
    assert len(written) >= 3, "hardly anything was compacted"
    for file in written:
        file.unlink()
    assert compacted == records()


@pytest.mark.slow
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_both_merge_log_files_of_one_metadata_table(hudi: Hudi, tmp_path: Path, table_type: str) -> None:
    """With a record index, whose records are deleted and come back."""
    index = {
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.global.record.level.index.enable": "true",
        # With another index, Hudi finds deleted keys in base files, and leaves them out of the record index.
        "hoodie.index.type": "RECORD_INDEX",
    }
    served = Served(hudi, tmp_path / f"merged_{table_type[0].lower()}", table_type, "9", **MERGE_LOGS, **index)
    served.turns.theirs(rows(range(30), 1), "insert", mode="overwrite")
    merged: dict[str, set[str]] = {"ours": set(), "theirs": set()}
    for at in range(2, 30):
        before = _instants(served.path)
        ours = at % 5 in (0, 1, 2)
        if at % 7 == 0:
            Table(served.path, served.options).delete(rows(range(3, 6), at).select(["id"]))
        if ours:
            served.ours(at)
        else:
            hudi.write(rows(range(at % 12, at % 12 + 3), at), served.path, "upsert", **served.turns.options)
        new = {name for name in _instants(served.path) - before if name.endswith(".logcompaction.requested")}
        merged["ours" if ours else "theirs"] |= new
        if new or at % 6 == 0:
            served.check(f"write {at}, log compactions: {merged}")
    assert all(merged.values()), merged
    assert Table(served.path).verify().ok


def test_hudi_reads_a_metadata_table_that_got_an_index_late(hudi: Hudi, tmp_path: Path) -> None:
    """The metadata table goes on from an archived compaction, whose base files stay those of most shards."""
    path, keys = tmp_path / "late", 40
    options = OPTIONS | {"hoodie.metadata.global.record.level.index.enable": "true"}
    served = Served(hudi, path, "COPY_ON_WRITE", "9", **options)
    served.turns.create(rows(range(3), 1).schema)
    index = path / ".hoodie" / "metadata" / "record_index"
    Table(path, options).insert(rows(range(keys), 1))

    def first_active() -> str:
        return min(name for name in _instants(path) if "_" in name).split("_")[0]

    def is_archived() -> bool:
        bases = {base.stem.rsplit("_", 1)[1] for base in index.glob("*.hfile")}
        # Others have base files that are as old as the index.
        return "2" < max(bases, default="") < first_active()

    at = 2
    while not is_archived():
        Table(path, options).upsert(rows(range(3), at))
        at += 1
        assert at < 40, "nothing was archived"

    def keys_of_hudi() -> list[str]:
        frame = hudi.spark.read.format("hudi").load(str(path / ".hoodie" / "metadata"))
        return sorted(row["key"] for row in frame.where("type = 5").select("key").collect())

    def keys_of_ours() -> list[str]:
        metadata = Table(path, options).metadata_table
        assert metadata is not None
        return sorted(metadata.to_arrow("record_index")["key"].to_pylist())

    before = keys_of_hudi()
    assert len(before) == keys
    assert before == keys_of_ours()
    Table(path, options).index("bloom_filters")
    assert keys_of_hudi() == keys_of_ours() == before
    served.check("an index that was built late")
    Table(path, options).upsert(rows(range(keys - 2, keys + 2), at))
    assert len(keys_of_ours()) == keys + 2
    served.check("a write after it")
