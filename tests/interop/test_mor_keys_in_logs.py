"""Keys that Hudi's bucket index puts into log files: hoodoo updates them there, and neither side sees one twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hoodoo
from tests.interop.layouts import SIMPLE, batch, row
from tests.interop.merge_on_read import mor_options, same_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.hudi import Hudi

_BUCKETS = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.compact.inline": "false",
}
_NON_BLOCKING = {
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}


@pytest.mark.parametrize("alone", [True, False], ids=["logs alone", "base files and logs"])
def test_keys_of_a_bucket_index(hudi: Hudi, tmp_path: Path, alone: bool) -> None:
    uri = str(tmp_path / "table")
    options = mor_options(SIMPLE, 9, "EVENT_TIME_ORDERING")
    theirs = {**options, **_BUCKETS, **(_NON_BLOCKING if alone else {})}
    hudi.write(batch([row(n, 1, "first", part="p") for n in range(3)]), uri, "upsert", **theirs)
    hudi.write(batch([row(n, 2, "second", part="p") for n in range(2, 6)]), uri, "upsert", **theirs)
    table = hoodoo.Table(uri, options={"hoodie.compact.inline": "false"})
    slices = table.file_slices()
    assert any(s.log_files for s in slices)
    assert all((s.base_file is None) is alone for s in slices)

    commit = table.upsert(batch([row(n, 3, "third", part="p") for n in range(1, 6)]))
    assert (commit.updated, commit.inserted) == (5, 0)
    same_rows(hudi, uri)
    table.delete(batch([row(0, 4, "", part="p"), row(5, 4, "", part="p")]))
    seen = same_rows(hudi, uri)
    assert sorted(r["val"] for r in seen) == ["third"] * 4
    assert not table.verify().problems

    hudi.write(batch([row(1, 5, "fourth", part="p")]), uri, "upsert", **theirs)
    same_rows(hudi, uri)
    table.schedule_compaction()
    table.compact()
    table.upsert(batch([row(n, 6, "fifth", part="p") for n in (1, 2)]))
    assert len(same_rows(hudi, uri)) == 4
    assert not table.verify().problems
