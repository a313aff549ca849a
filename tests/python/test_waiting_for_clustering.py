"""An update of a file group that is being clustered waits for that; of a mere plan it is refused."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.distributed.clustering import begin_clusterings

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def _rows(v: int) -> pa.Table:
    return pa.table({"id": range(10), "v": [v] * 10}, SCHEMA)


def _table(folder: Path, kind: str, **options: str) -> hoodoo.Table:
    table = hoodoo.Table.create(folder, SCHEMA, name="t", record_key="id", table_type=kind, options=options)
    table.insert(_rows(0))
    return table


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_one_that_is_carried_out_is_waited_for(tmp_path: Path, kind: str) -> None:
    table = _table(tmp_path / "t", kind)
    (clustering,) = begin_clusterings(table.uri, "v")
    files = [clustering.task.execute(group, "0-0-0") for group in clustering.units]
    over = threading.Event()

    def commit() -> None:
        time.sleep(1)
        over.set()
        clustering.commit(files)

    other = threading.Thread(target=commit)
    other.start()
    written = table.upsert(_rows(1))
    other.join()
    assert over.is_set()
    assert written.updated == 10
    assert set(table.to_arrow(columns=["v"])["v"].to_pylist()) == {1}
    assert table.verify().ok


@pytest.mark.parametrize("leave", [True, False])
def test_one_that_is_not_completed_is_an_error(tmp_path: Path, *, leave: bool) -> None:
    wait = {"hoodie.write.lock.wait_time_ms": "1500", "hoodie.write.lock.client.num_retries": "0"}
    table = _table(tmp_path / "t", "COPY_ON_WRITE", **wait)
    if leave:
        assert table.schedule_clustering(sort_by="v") is not None
        clustering = None
        # For a plan that is newer than two seconds a writer waits: somebody may be about to execute it.
        time.sleep(2.1)
    else:
        (clustering,) = begin_clusterings(table.uri, "v")
    begun = time.monotonic()
    with pytest.raises(hoodoo.ConflictError, match="pending clustering"):
        table.upsert(_rows(1))
    took = time.monotonic() - begun
    assert took < 1.4 if leave else 1.4 < took < 10
    assert set(table.to_arrow(columns=["v"])["v"].to_pylist()) == {0}
    del clustering
