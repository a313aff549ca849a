"""The merge truth table, the other way round: hoodoo writes, alone or in turns with Hudi, and real Hudi reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.merging.cases import groups
from tests.fixtures.merging.hoodoo_engine import HoodooEngine
from tests.fixtures.merging.hudi_engine import HudiEngine
from tests.fixtures.merging.play import COW, MOR, Run, commits
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


def _tables() -> Iterator[object]:
    """Gives every table that Hudi itself can write and read."""
    for group in groups():
        for version in group.versions:
            for table_type in (COW, MOR):
                kinds = ("cow",) if table_type == COW else ("mor", "compacted")
                for number, table in enumerate(group.tables()):
                    if any(
                        isinstance(outcome(group.name, c, f"{k}{version}"), str) for c in table.cases for k in kinds
                    ):
                        continue
                    for writers in _WRITERS:
                        quick = not number and (group.name, version, table_type, writers) in _QUICK
                        yield pytest.param(
                            group.name,
                            number,
                            version,
                            table_type,
                            writers,
                            marks=[] if quick else pytest.mark.slow,
                            id=f"{group.name}-{number}-v{version}-{table_type}-{writers}",
                        )


@pytest.mark.parametrize(("name", "number", "version", "table_type", "writers"), _tables())
def test_hudi_reads_what_hoodoo_wrote(
    hudi: Hudi, tmp_path: Path, name: str, number: int, version: int, table_type: str, writers: str
) -> None:
    """All cases of a table: both read what real Hudi makes of them alone, before and after a compaction."""
    (group,) = (group for group in groups() if group.name == name)
    table = group.tables()[number]
    path = tmp_path / "table"
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
        wanted = {case: outcome(name, case, f"{kind}{version}") for case in table.cases}
        for engine in (theirs, ours):
            found = run.results(engine)
            assert {c: rows for c, rows in found.items() if rows != wanted[c]} == {}, (kind, type(engine).__name__)
            assert found == wanted
