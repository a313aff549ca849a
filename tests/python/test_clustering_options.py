"""Options of clustering that hoodoo honours are not said to be ignored."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import hoodoo

_CLASS = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("hoodie.clustering.updates.strategy", _CLASS),
        ("hoodie.clustering.rollback.pending.replacecommit.on.conflict", "true"),
        ("hoodie.clustering.inline", "false"),
        ("hoodie.clustering.inline.max.commits", "4"),
        ("hoodie.clustering.schedule.inline", "false"),
        ("hoodie.clustering.async.enabled", "false"),
        ("hoodie.clustering.async.max.commits", "4"),
        ("hoodie.clustering.plan.strategy.sort.columns", "id"),
        ("hoodie.clustering.plan.strategy.small.file.limit", "1000"),
        ("hoodie.clustering.plan.strategy.target.file.max.bytes", "1000"),
        ("hoodie.clustering.plan.strategy.max.bytes.per.group", "1000"),
        ("hoodie.clustering.plan.strategy.max.num.groups", "3"),
        ("hoodie.clustering.plan.strategy.single.group.clustering.enabled", "true"),
        ("hoodie.clustering.plan.strategy.file.slices.sort.by", "SIZE"),
        ("hoodie.clustering.plan.strategy.partition.selected", "p"),
        ("hoodie.clustering.plan.strategy.partition.regex.pattern", "p"),
        ("hoodie.clustering.plan.partition.filter.mode", "NONE"),
        ("hoodie.layout.optimize.strategy", "ZORDER"),
    ],
)
def test_no_warning(tmp_path: Path, option: str, value: str) -> None:
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id", option: value}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hoodoo.write({"id": [1], "n": [1]}, tmp_path / "t", operation="insert", options=options)
