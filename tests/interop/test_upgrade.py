"""Tables of version 6 that we upgraded, beside real Hudi: it reads the same rows, and goes on writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hoodoo import Table
from tests.fixtures.upgrade.record import OPTIONS, rows
from tests.interop.hudi import Hudi
from tests.interop.metadata_tables import stored_files
from tests.rows import arrow_rows
from tests.upgrade_fixtures import unpack

_WITH_METADATA: dict[str, Any] = {"hoodie.metadata.enable": "true"}


@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("mor", 9),
        ("cow", 8),
        pytest.param("mor", 8, marks=pytest.mark.slow),
        pytest.param("cow", 9, marks=pytest.mark.slow),
        pytest.param("latest", 9, marks=pytest.mark.slow),
        pytest.param("partial", 9, marks=pytest.mark.slow),
    ],
)
def test_hudi_goes_on(hudi: Hudi, tmp_path: Path, name: str, to: int) -> None:
    path = unpack(name, tmp_path / name)
    before = hudi.read(path)
    Table(path).upgrade(to)
    assert hudi.read(path) == hudi.read(path, **_WITH_METADATA) == arrow_rows(Table(path).to_arrow()) == before
    table_type = "COPY_ON_WRITE" if name == "cow" else "MERGE_ON_READ"
    options = {
        **OPTIONS,
        "hoodie.write.table.version": str(to),
        "hoodie.table.name": name,
        "hoodie.datasource.write.table.type": table_type,
        **(_WITH_METADATA if name == "mor" else {}),
    }
    for ts in (200, 202, 204):
        hudi.write(rows(range(4, 9), ts), path, "upsert", **options)
        Table(path).upsert(rows(range(7, 11), ts + 1))
        ours = arrow_rows(Table(path).to_arrow())
        assert hudi.read(path) == hudi.read(path, **_WITH_METADATA) == ours
        assert max(row["ts"] for row in ours) == ts + 1
    if table_type == "MERGE_ON_READ":
        Table(path).compact()
        assert hudi.read(path) == ours
    assert not Table(path).verify().problems
    catalog = f"upgraded_{name}{to}"
    hudi.sql(f"create table {catalog} using hudi location '{path}'")
    span = "start_ts => '0', end_ts => '99999999999999999', limit => 1000"
    shown = hudi.sql(f"call show_archived_commits(table => '{catalog}', {span})")
    archived = {one["commit_time"] for one in shown}
    timeline = Table(path).timeline
    active = {i.requested for i in timeline.instants()}
    writes = {
        i.requested
        for i in timeline.instants(history=True)
        if i.requested not in active and i.action in {"commit", "deltacommit", "replacecommit"}
    }
    assert archived == writes
    assert stored_files(path)


def test_a_metadata_table_that_hudi_upgraded(hudi: Hudi, tmp_path: Path) -> None:
    """Its log files belong to the slice in their name: some completed after base files that are newer than they are."""
    path = tmp_path / "t"
    options = {
        **OPTIONS,
        "hoodie.write.table.version": "6",
        "hoodie.table.name": "upgraded_metadata",
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.compact.max.delta.commits": "2",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.clean.automatic": "false",
    }
    hudi.write(rows(range(4), 1), path, "insert", **options)
    hudi.write(rows(range(4), 2), path, "upsert", **options)
    gone = max(row["part"] for row in hudi.read(path))
    deleted = {**options, "hoodie.datasource.write.partitions.to.delete": gone}
    hudi.write(rows(range(1), 3).slice(0, 0), path, "delete_partition", **deleted)
    hudi.sql(f"create table upgraded_metadata using hudi location '{path}'")
    hudi.sql("call upgrade_table(table => 'upgraded_metadata', to_version => 'NINE')")
    table = Table(path)
    assert table.version == 9
    assert table.metadata_table is not None
    for _ in range(2):
        assert table.verify().problems == ()
        assert table.metadata_table.to_arrow("column_stats").num_rows > 0
        assert arrow_rows(Table(path).to_arrow()) == hudi.read(path, **_WITH_METADATA)
        table.upsert(rows(range(6), 10))
