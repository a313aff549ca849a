"""Indexes that a metadata table gets late, when it has archived instants already, and those that are built again."""

from __future__ import annotations

import logging
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Table

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("c", pa.string()), ("v", pa.int64())])
SERVICES: dict[str, Any] = {
    "hoodie.metadata.compact.max.delta.commits": 4,
    "hoodie.clean.commits.retained": 3,
    "hoodie.keep.min.commits": 5,
    "hoodie.keep.max.commits": 7,
    "hoodie.parquet.small.file.limit": 0,
}
BY_INDEX: dict[str, Any] = {
    "hoodie.metadata.global.record.level.index.enable": True,
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
}
METADATA = ".hoodie/metadata"
INDEXES: dict[str, tuple[str, ...]] = {
    "record_index": (),
    "bloom_filters": (),
    "secondary_index_c": ("secondary_index", "c"),
    "column_stats": (),
}


class Written:
    """A table to which rows are upserted one commit after the other; nothing may go wrong after a commit."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path, self.options, self.at = str(path), SERVICES | options, 0
        if not path.exists():
            Table.create(
                self.path,
                SCHEMA,
                name="t",
                record_key="id",
                partition_by="p",
                ordering=["v"],
                options=self.options,
            )

    @property
    def table(self) -> Table:
        return Table(self.path, self.options)

    def upsert(self, *keys: str) -> int:
        """The number of rows that were inserted."""
        self.at += 1
        columns = [list(keys), ["p"] * len(keys), ["x"] * len(keys), [self.at] * len(keys)]
        return self.table.upsert(pa.table(columns, schema=SCHEMA)).inserted

    def index(self, name: str) -> None:
        kind, *columns = INDEXES[name] or (name,)
        self.table.index(kind, *columns)

    def keys_of_index(self) -> list[str]:
        metadata = self.table.metadata_table
        assert metadata is not None
        return sorted(metadata.to_arrow("record_index")["key"].to_pylist())

    def keys(self) -> list[str]:
        return sorted(Table(self.path, {"hoodie.metadata.enable": False}).to_arrow(columns=["id"])["id"].to_pylist())


@pytest.fixture(autouse=True)
def nothing_goes_wrong(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", hoodoo.HudiWarning)
        yield
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


KEYS = [f"k{n}" for n in range(50)]


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose record index has base files of a compaction that is archived."""
    path = tmp_path_factory.mktemp("archived") / "t"
    written = Written(path, **BY_INDEX)
    written.upsert(*KEYS)
    for _ in range(17):
        written.upsert("k0")
    metadata = path / METADATA
    first = min(file.name for file in (metadata / ".hoodie/timeline").glob("*_*.deltacommit"))
    assert min(base.stem.rsplit("_", 1)[1] for base in (metadata / "record_index").glob("*.hfile")) < first
    return path


@pytest.fixture
def late(archived: Path, tmp_path: Path) -> Written:
    """A copy of it."""
    path = shutil.copytree(archived, tmp_path / "t")
    written = Written(path, **BY_INDEX)
    written.at = 100
    return written


@pytest.mark.parametrize("name", ["bloom_filters", "secondary_index_c"])
def test_the_record_index_keeps_its_keys(late: Written, name: str) -> None:
    late.index(name)
    assert late.keys_of_index() == sorted(KEYS)
    assert late.upsert("new") == 1
    for at in range(6):
        assert late.upsert(*KEYS[at::6]) == 0
        assert late.table.verify().ok
    assert late.keys() == sorted([*KEYS, "new"])


def test_so_it_does_beside_an_index_that_hudi_built_late(late: Written) -> None:
    late.index("bloom_filters")
    folder = Path(late.path) / METADATA
    # The names are longer than those of other instants.
    [completed] = (folder / ".hoodie/timeline").glob("????????????????????_*.deltacommit")
    # Hudi gives it a time before all others.
    ours, theirs = completed.name.split("_")[0], "0" * 17
    for file in [*(folder / ".hoodie/timeline").glob(f"{ours}*"), *(folder / "bloom_filters").glob(f"*{ours}*")]:
        file.rename(file.with_name(file.name.replace(ours, theirs)))
    assert late.keys_of_index() == sorted(KEYS)
    assert late.upsert("new") == 1
    assert late.upsert(*KEYS) == 0
    assert len(late.keys()) == 51


@pytest.mark.parametrize("name", list(INDEXES))
def test_an_index_that_is_dropped_and_built_again(tmp_path: Path, name: str) -> None:
    written = Written(tmp_path / "t")
    written.upsert("k0")
    for goes in (True, False, False):
        written.index(name)
        for _ in range(7):
            written.upsert(f"k{written.at % 5}")
        assert written.table.verify().ok
        if goes:
            written.table.drop_index(name)
            written.upsert("k0")
            written.upsert("k1")


def _drop_and_build(written: Written) -> None:
    written.table.drop_index("record_index")
    written.index("record_index")


def _rebuild(written: Written) -> None:
    written.table.rebuild_metadata_table()


@pytest.mark.parametrize("change", [_drop_and_build, _rebuild])
def test_an_upsert_beside_an_index_that_is_built_again(tmp_path: Path, change: Callable[[Written], None]) -> None:
    """Such an upsert is not told that the table is damaged."""
    written = Written(tmp_path / "t", **BY_INDEX, **{"hoodoo.write.lease": False})
    written.upsert(*[f"k{n}" for n in range(20)])

    def rows() -> Iterator[pa.RecordBatch]:
        change(written)
        yield from pa.table([["k1", "new"], ["p", "p"], ["x", "x"], [9, 9]], schema=SCHEMA).to_batches()

    done = written.table.upsert(pa.RecordBatchReader.from_batches(SCHEMA, rows()))
    assert done.inserted == 1
    assert len(written.keys()) == 21


def test_a_base_file_of_no_instant_is_an_error(late: Written, caplog: pytest.LogCaptureFixture) -> None:
    """Without it, keys of its shard would be taken for new ones."""
    folder = Path(late.path) / METADATA
    first = min(file.name for file in (folder / ".hoodie/timeline").glob("*_*.deltacommit")).split("_")[0]
    for base in (folder / "record_index").glob("*.hfile"):
        stem, instant = base.stem.rsplit("_", 1)
        if instant < first:
            base.rename(base.with_name(f"{stem}_{int(first) + 1}.hfile"))
    with pytest.raises(hoodoo.CorruptFileError, match="no instant that is known"):
        late.keys_of_index()
    # Keys are looked for in the files, and no compaction makes it permanent.
    with pytest.warns(hoodoo.HudiWarning, match="no instant that is known"):
        assert late.upsert(*KEYS) == 0
    with pytest.raises(hoodoo.CorruptFileError, match="no instant that is known"):
        late.keys_of_index()
    caplog.clear()
