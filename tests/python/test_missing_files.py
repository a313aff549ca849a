"""Data files that the metadata table names and that are not there: lost, or cleaned while they were wanted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import CorruptFileError, StorageError
from hoodoo.distributed import BatchFunction
from hoodoo.distributed.read import read_table
from tests.local_executor import LocalExecutor, Splits

_ROWS = pa.table({"id": ["a", "b"], "part": ["p", "q"], "n": [1, 2]})
_NO_CLEAN = {"hoodie.clean.automatic": "false"}


def _make(path: Path, kind: str) -> hoodoo.Table:
    table = hoodoo.Table.create(
        path, _ROWS.schema, name="t", record_key="id", partition_by="part", table_type=kind, options=_NO_CLEAN
    )
    table.insert(_ROWS)
    table.upsert(_ROWS)
    assert (path / ".hoodie" / "metadata" / "files").is_dir()
    return table


def _read(table: hoodoo.Table) -> object:
    return table.to_arrow()


def _filter(table: hoodoo.Table) -> object:
    return table.to_arrow(filters=[("n", "=", 1)])


def _write(table: hoodoo.Table) -> object:
    return table.upsert(_ROWS)


def _compact(table: hoodoo.Table) -> object:
    return table.compact()


def _cluster(table: hoodoo.Table) -> object:
    return table.cluster()


@pytest.mark.parametrize(
    ("kind", "act"),
    [
        *(("COPY_ON_WRITE", act) for act in (_read, _filter, _write, _cluster)),
        *(("MERGE_ON_READ", act) for act in (_read, _filter, _compact, _cluster)),
    ],
)
def test_a_lost_file_is_told(tmp_path: Path, kind: str, act: Callable[[hoodoo.Table], object]) -> None:
    table = _make(tmp_path / "t", kind)
    [lost] = [s.log_files[0] if s.log_files else s.base_file for s in table.file_slices() if s.partition == "p"]
    assert lost is not None
    (tmp_path / "t" / lost).unlink()
    with pytest.raises(CorruptFileError, match="missing") as caught:
        act(table)
    assert lost in str(caught.value)
    assert "Restore the file from a copy" in str(caught.value)
    assert any(lost in p.subject + p.message for p in table.verify().problems if p.severity == "error")


class _Late(LocalExecutor):
    """Lets something happen after a read was planned."""

    def __init__(self, first: Callable[[], object]) -> None:
        super().__init__()
        self.first = first

    def map_batches(self, data: Splits, function: BatchFunction, schema: pa.Schema) -> Splits:
        self.first()
        return super().map_batches(data, function, schema)


def test_a_file_that_was_cleaned_while_it_was_wanted(tmp_path: Path) -> None:
    """A read is of the state that it was planned for; when files of that are gone, it has to begin anew."""
    path = tmp_path / "t"
    table = _make(path, "COPY_ON_WRITE")
    old = [s.base_file for s in table.file_slices()]
    cleaning = {"hoodie.clean.commits.retained": "1", "hoodie.clean.automatic": "true"}

    def clean() -> None:
        for n in range(3):
            hoodoo.Table(path, options=cleaning).upsert(_ROWS.set_column(2, "n", pa.array([n, n])))

    with pytest.raises((StorageError, pa.ArrowInvalid), match="do it again"):
        read_table(_Late(clean), str(path))
    assert not any((path / str(file)).exists() for file in old)
    assert table.to_arrow()["n"].to_pylist() == [2, 2]


def test_a_file_that_is_being_cleaned(tmp_path: Path) -> None:
    """A clean deletes files before it is completed, so that nobody knows yet whether the file is lost."""
    path = tmp_path / "t"
    table = _make(path, "COPY_ON_WRITE")
    later = f"{int(table.timeline.instants()[-1].requested) + 1}"
    for state in ("requested", "inflight"):
        (path / ".hoodie" / "timeline" / f"{later}.clean.{state}").touch()
    gone = table.file_slices()[0].base_file
    (path / str(gone)).unlink()
    with pytest.raises(StorageError, match="do it again"):
        table.to_arrow()
