"""The merge truth table, the other way round: hoodoo writes, alone or in turns with Hudi, and real Hudi reads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from tests.fixtures.merging.cases import groups
from tests.fixtures.merging.hoodoo_engine import HoodooEngine
from tests.fixtures.merging.hudi_engine import HudiEngine
from tests.fixtures.merging.otherwise import otherwise, rows_of
from tests.fixtures.merging.play import COW, MOR, Group, Run, commits
from tests.fixtures.merging.truth import outcome
from tests.interop.hudi import Hudi

# What the quick run takes: a table of each kind.
_QUICK = {
    ("event long", 9, MOR, "turns"),
    ("event several", 9, MOR, "hoodoo"),
    ("commit", 8, MOR, "turns"),
    ("marker event", 9, COW, "turns"),
    ("event IGNORE_DEFAULTS", 9, MOR, "turns"),
    ("PartialUpdateAvroPayload", 8, MOR, "turns"),
    ("PostgresDebeziumAvroPayload", 9, COW, "turns"),
}
_WRITERS = ("hoodoo", "turns", "turns, hoodoo first")


def _playable(group: Group, table_type: str, version: int) -> list[Group]:
    """Gives the tables of a group, without the cases in which Hudi itself fails."""
    kinds = ("cow",) if table_type == COW else ("mor", "compacted")
    tables = []
    for table in group.tables():
        found = {name: [outcome(group.name, name, f"{kind}{version}") for kind in kinds] for name in table.cases}
        cases = {name: table.cases[name] for name, views in found.items() if all(isinstance(v, list) for v in views)}
        if cases:
            tables.append(replace(table, cases=cases))
    return tables


def _parameters() -> Iterator[object]:
    for group, table_type, writers in itertools.product(groups(), (COW, MOR), _WRITERS):
        for version in group.versions:
            for number, table in enumerate(_playable(group, table_type, version)):
                quick = not number and (group.name, version, table_type, writers) in _QUICK
                name = f"{group.name}-{number}-v{version}-{table_type}-{writers}"
                marks = () if quick else (pytest.mark.slow,)
                yield pytest.param(table, version, table_type, writers, marks=marks, id=name)


@pytest.mark.parametrize(("table", "version", "table_type", "writers"), list(_parameters()))
def test_hudi_reads_what_hoodoo_wrote(
    hudi: Hudi, tmp_path: Path, table: Group, version: int, table_type: str, writers: str
) -> None:
    """All cases of a table: both read what real Hudi makes of them alone, before and after a compaction."""
    # MERGE INTO goes by the name, in a catalog that all tests share.
    path = tmp_path / f"merging_{uuid4().hex}"
    run = Run(table, path, table_type)
    ours = HoodooEngine(table, path, table_type, version)
    theirs = HudiEngine(hudi, table, path, table_type, version)
    first = writers.endswith("first")
    for turn, commit in enumerate(commits(table)):
        run.write(ours if writers == "hoodoo" or (turn % 2 == 0) == first else theirs, commit)
    kinds = ("cow",) if table_type == COW else ("mor", "compacted")
    for kind in kinds:
        if kind == "compacted":
            (ours if first or writers == "hoodoo" else theirs).compact()
        wanted = {case: outcome(table.name, case, f"{kind}{version}") for case in table.cases}
        for engine in (theirs, ours):
            found = run.results(engine)
            assert found.keys() == wanted.keys()
            differing = {c: rows for c, rows in found.items() if rows != wanted[c]}
            # What Hudi decides when it writes or compacts stays as it decided, and what we decide stays as we did.
            allowed = {c: otherwise(table.name, c, kind, version) for c in differing}
            if (table.name, version, writers) == ("columns event", 8, "turns"):
                # After a block of ours with some columns, MERGE INTO of Hudi writes whole rows in tables of version 8.
                allowed.update({c: rows_of(table.name, c, "cow8") for c, rows in allowed.items() if rows is None})
            assert differing == allowed, (kind, type(engine).__name__)
            if engine is ours and writers == "hoodoo":
                own = {c: otherwise(table.name, c, kind, version) for c in found}
                assert {c: rows for c, rows in own.items() if rows not in (None, found[c])} == {}
