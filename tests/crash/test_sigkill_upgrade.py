"""Upgrades whose process is killed: the table reads the same, and the next upgrade ends it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from hoodoo import Table
from tests.crash.forks import Forks
from tests.rows import Row, arrow_rows
from tests.upgrade_fixtures import unpack


def _rows(path: Path) -> list[Row]:
    return arrow_rows(Table(path).to_arrow())


@pytest.mark.parametrize("kills", [8, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["cow", "mor"])
def test_killed_at_any_moment(tmp_path: Path, name: str, kills: int) -> None:
    whole = unpack(name, tmp_path / "whole")
    expected = _rows(whole)
    forks = Forks("hoodoo.Table(table).upgrade()")
    ended, takes = forks.run(whole, 0)
    assert ended == "exit 0"
    chosen = random.Random(7)
    seen = set()
    for number in range(kills):
        path = unpack(name, tmp_path / f"{number}")
        ended, _ = forks.run(path, chosen.uniform(0.0, takes))
        seen.add((ended, Table(path).version))
        assert _rows(path) == expected, f"{number}: {ended}"
        done = Table(path).upgrade()
        assert (done.version_after, Table(path).version) == (9, 9)
        assert _rows(path) == expected, f"{number}, upgraded"
        assert not Table(path).verify().problems
        assert not list(Table(path).timeline.instants(state="INFLIGHT"))
        Table(path).upsert({"id": ["k001"], "part": ["p1"], "ts": [1000], "name": ["next"]})
        shutil.rmtree(path)
    assert {ended for ended, _ in seen} >= {"killed"}
