"""The merge truth table: hoodoo makes of every case what real Hudi 1.2 made of it, as recorded in fixtures/merging."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import hoodoo
from tests.fixtures.merging.cases import groups
from tests.fixtures.merging.creation import CREATIONS, EXISTING, LATER, creation_data, creation_options
from tests.fixtures.merging.hoodoo_engine import HoodooEngine
from tests.fixtures.merging.ordering_cases import ORDERINGS
from tests.fixtures.merging.otherwise import Rows, otherwise, rows_of
from tests.fixtures.merging.play import COW, MOR, Group, Run, changed, commits, persisted
from tests.fixtures.merging.truth import outcome, recorded, recorded_creations, recorded_later_writes
from tests.rows import golden_line, plain

_GROUPS = {group.name: group for group in groups()}
_TABLES = [
    pytest.param(name, version, number, id=f"{name}-{number}-v{version}")
    for name, group in _GROUPS.items()
    for version in group.versions
    for number, _ in enumerate(group.tables())
]
_LONG = [case for case in _GROUPS["event long"].cases if re.search(r"(^|, )(del )?(-1|0|1)$", case)]


@dataclass(frozen=True)
class Choice:
    """What hoodoo does where real Hudi fails.

    Attributes:
        group: The groups, a pattern.
        error: What is recorded of Hudi there, a pattern.
        rows: What hoodoo gives, by group, case and kind.
        reason: Why.
    """

    group: str
    error: str
    rows: Callable[[str, str, str], Rows]
    reason: str


def _as_long(group: str, case: str, kind: str) -> Rows:
    """The same steps with a long for ordering, whose values are replaced one by one."""
    _, levels, values, _ = ORDERINGS[group.split()[1]]
    ours = dict(zip((9, 10, 11, -1, 0, 1), (*levels, *values), strict=False))
    names = {repr(long): repr(value) for long, value in ours.items()}
    by_name = {re.sub(r"-?\d+(?=,|$)", lambda found: names.get(found[0], ""), name): name for name in _LONG}
    rows = rows_of("event long", by_name.get(case, case), f"{kind}9")
    spelled = {long: json.loads(golden_line({"ts": plain(value)}))["ts"] for long, value in ours.items()}
    return sorted(([spelled[ts], names.get(a, a), *more] for ts, a, *more in rows), key=json.dumps)


_NULLS: dict[str, Rows] = {
    "null, value": [[5, "b", None, 2]],
    "null, value in logs": [[5, "c", None, 3]],
    "value, null": [[5, "a", None, 1]],
    "null, null": [[None, "b", None, 2]],
    "value, del null": [],
    "null, del value": [],
    "batch null, value": [[5, "c", None, 2]],
    "batch value, null": [[5, "b", None, 2]],
}


def _by_operation(_: str, case: str, kind: str) -> Rows:
    """Rows with `_hoodie_operation`, merged by hand."""
    word = next((word for word in ("-U", "D", "I", "U") if re.search(f"operation {word}(,|$)", case)), "D")
    gone = word in ("-U", "D")
    ours: Rows = [] if gone else [[11, "b", word, 1 if case.startswith("new") else 2]]
    if "batch" in case:
        return [[13, "a@13", "I", 2]]
    if case.endswith("stale"):
        return [[12, "a@12", "I", 1]]
    if case.endswith("then newer"):
        return [[13, "a@13", "I", 3]]
    if case.endswith("then older") and gone and kind == "cow":
        return [[10, "a@10", "I", 3]]
    return ours


_POSITIONS = ("_event_pos", "_event_seq", "_event_lsn")


def _null_position(group: str, case: str, kind: str) -> Rows:
    """Two rows of Debezium, of which some have no position: that is the lowest."""
    rows = rows_of(group, "value, value", f"{kind}{_GROUPS[group].versions[0]}")
    later = dict(zip(recorded()[group]["columns"], rows[0], strict=True))
    if case == "value, null":
        return [list({**later, "a": "a", "step": 1}.values())]
    if case == "null, null":
        later.update(dict.fromkeys(later.keys() & set(_POSITIONS)))
    return [list(later.values())]


_SEVERAL_NULLS: dict[str, Rows] = {
    "null, null": [[5, None, "b", 2]],
    "null, value": [[5, 5, "b", 2]],
    "value, null": [[5, 5, "value", 1]],
}

CHOICES = (
    Choice(
        "null (long|int)",
        "NullPointerException|Integer cannot be cast|cannot be cast to class java.lang.Integer",
        lambda _, case, __: _NULLS[case],
        "a null ordering value counts as the lowest; a delete that has one is a delete by commit time, as it is "
        "for Hudi in MERGE_ON_READ tables",
    ),
    Choice(
        "null several",
        "NullPointerException|cannot be cast",
        lambda _, case, __: _SEVERAL_NULLS[case],
        "nulls are lowest in every one of several ordering columns",
    ),
    Choice(
        "null .*Debezium.*",
        "NullPointerException|cannot be cast|cannot be null",
        _null_position,
        "a row of Debezium without position is older than every other",
    ),
    Choice(
        "event date.*",
        "ChronoLocalDate|UnresolvedUnionException",
        _as_long,
        "dates are compared like every other type; Hudi compares days with java.time.LocalDate, and has no form for "
        "them in delete blocks",
    ),
    Choice(
        "event decimal",
        "GenericData.Fixed cannot be cast to class java.math.BigDecimal",
        _as_long,
        "decimals are compared like every other type, in COPY_ON_WRITE tables as in MERGE_ON_READ ones",
    ),
    Choice(
        "PartialUpdateAvroPayload",
        "Failed to write to Hudi",
        lambda *_: [],
        "in version 8 these batches come to a delete, see those of a key that is there; here nothing "
        "is left to write, where Hudi fails",
    ),
    Choice(
        "PostgresDebeziumAvroPayload",
        "SerializableIndexedRecord cannot be cast",
        lambda group, case, kind: rows_of(group, case, f"{kind}9"),
        "bytes that are not available are taken from the stored row in version 8 as well",
    ),
    Choice(
        "columns commit",
        "NullPointerException",
        lambda group, case, _: rows_of(group, case, "cow9"),
        "by commit time every update of columns counts, in logs as in copy-on-write tables; Hudi cannot read these",
    ),
    Choice(
        "operation",
        "Failed to write to Hudi",
        _by_operation,
        "Hudi's Spark writer fails on rows that have the column; by the rules of its reader D and -U are deletes",
    ),
)


# Hudi's Spark writer fails on rows with the column; so do we, by name.
_REFUSED = {
    "operation": "hoodie.allow.operation.metadata.field",
    "operation null": "hoodie.allow.operation.metadata.field",
}


def _expected(group: str, case: str, kind: str, version: int) -> Rows:
    ours = otherwise(group, case, kind, version)
    if ours is not None:
        return ours
    rows = outcome(group, case, f"{kind}{version}")
    if not isinstance(rows, str):
        return rows
    for choice in CHOICES:
        if re.fullmatch(choice.group, group) and re.search(choice.error, rows):
            return choice.rows(group, case, kind)
    raise AssertionError(f"Hudi failed here, and no choice of ours is written down: {rows}")


def _played(part: Group, path: Path, table_type: str, version: int) -> dict[str, dict[str, Rows]]:
    """Gives what hoodoo makes of the cases of a table, by kind and case."""
    engine = HoodooEngine(part, path, table_type, version)
    run = Run(part, path, table_type)
    for commit in commits(part):
        run.write(engine, commit)
    if table_type == COW:
        return {"cow": run.results(engine)}
    found = {"mor": run.results(engine)}
    engine.compact()
    return {**found, "compacted": run.results(engine)}


@pytest.mark.parametrize("table_type", [COW, MOR])
@pytest.mark.parametrize(("group", "version", "number"), _TABLES)
def test_cases_of_a_table(tmp_path: Path, group: str, version: int, number: int, table_type: str) -> None:
    """Copy-on-write, merge-on-read, and merge-on-read after a compaction: case by case."""
    part = _GROUPS[group].tables()[number]
    path = tmp_path / "table"
    if group in _REFUSED:
        with pytest.raises(hoodoo.UnsupportedError, match=_REFUSED[group]):
            _played(part, path, table_type, version)
        return
    for kind, found in _played(part, path, table_type, version).items():
        wanted = {case: _expected(group, case, kind, version) for case in part.cases}
        assert found.keys() == wanted.keys()
        differing = {case: (rows, wanted[case]) for case, rows in found.items() if rows != wanted[case]}
        assert differing == {}, kind


def test_everything_is_recorded() -> None:
    assert {name: set(group.cases) for name, group in _GROUPS.items()} == {
        name: set(group["cases"]) for name, group in recorded().items() if name != "producer"
    }
    assert set(CREATIONS) == set(recorded_creations()) - {"producer"}


@pytest.mark.parametrize(("group", "version"), [(g.name, version) for g in groups() for version in g.versions])
def test_what_is_persisted(tmp_path: Path, group: str, version: int) -> None:
    """A table made with the options of a group keeps the properties that Hudi keeps."""
    part = _GROUPS[group].tables()[0]
    path = tmp_path / "table"
    run = Run(part, path, COW)
    if group in _REFUSED:
        with pytest.raises(hoodoo.UnsupportedError, match=_REFUSED[group]):
            run.write(HoodooEngine(part, path, COW, version), next(commits(part)))
        return
    run.write(HoodooEngine(part, path, COW, version), next(commits(part)))
    assert persisted(path) == recorded()[group]["persisted"][str(version)]


# Hudi honours these in hoodie.properties, but does not put them there; whoever gives them wants them to count.
_KEPT = {
    "partial update mode": "hoodie.table.partial.update.mode",
    "merge property": "hoodie.record.merge.property.some",
}


@pytest.mark.parametrize("version", [9, 8])
@pytest.mark.parametrize("name", CREATIONS)
def test_creation(tmp_path: Path, name: str, version: int) -> None:
    """What a new table keeps of merge options; combinations that Hudi refuses are refused."""
    wanted = recorded_creations()[name][str(version)]
    options = creation_options(CREATIONS[name], version)
    path = tmp_path / "table"
    if isinstance(wanted, str) or (name == "partial update mode" and version < 9):
        with pytest.raises(hoodoo.HudiError):
            hoodoo.write(creation_data(), path, operation="insert", options=options)
        return
    if name in _KEPT:
        wanted = wanted | {_KEPT[name]: options[_KEPT[name]]}
    hoodoo.write(creation_data(), path, operation="insert", options=options)
    assert persisted(path) == wanted


@pytest.mark.parametrize("version", [9, 8])
@pytest.mark.parametrize("name", EXISTING)
def test_later_writes(tmp_path: Path, name: str, version: int) -> None:
    """Merge options of a later write: what Hudi refuses is refused, the rest changes what it changes with Hudi."""
    path = tmp_path / "table"
    hoodoo.write(creation_data(), path, operation="insert", options=creation_options(CREATIONS[name], version))
    answers: dict[str, Any] = {}
    for write, options in LATER.items():
        known = persisted(path)
        try:
            hoodoo.write(creation_data(), path, operation="insert", options=creation_options(options, version))
        except hoodoo.HudiError:
            answers[write] = "refused"
            continue
        answers[write] = changed(known, persisted(path))
    recorded_answers = recorded_later_writes()[f"{name}, version {version}"]
    wanted = {write: "refused" if isinstance(answer, str) else answer for write, answer in recorded_answers.items()}
    assert answers.keys() == wanted.keys()
    for write, answer in answers.items():
        if answer == wanted[write]:
            continue
        same = _says_what_the_table_says(name, write, version)
        # What contradicts the table is refused, also where Hudi goes on without a word; what says the same is not.
        assert (answer == "refused") != same, (write, answer, wanted[write])
        assert answer in ("refused", {}), (write, answer, wanted[write])


def _mode(name: str, version: int) -> str:
    """The mode that a mode, strategy or payload class of `creation` stands for; itself where that is no mode."""
    letter, _, value = name.partition("=")
    by_payload = {"OWL": "COMMIT", "DHR": "EVENT", "ET": "EVENT"}
    if version >= 9:
        mapped = {"PartialUpdate": "EVENT", "OverwriteNonDefaults": "COMMIT", "AWSDms": "COMMIT"}
        by_payload |= mapped | {"MySql": "EVENT", "Postgres": "EVENT"}
    by_strategy = {"event": "EVENT", "commit": "COMMIT"}
    return {"P": by_payload, "S": by_strategy, "M": {}}.get(letter, {}).get(value, value)


def _says_what_the_table_says(table: str, write: str, version: int) -> bool:
    if write.startswith(("ordering=", "precombine=")):
        # A table of Debezium's is ordered by its own columns, whatever the job that made it said besides.
        return False
    of_table, of_write = (_mode(name.rsplit(" ", maxsplit=1)[-1], version) for name in (table, write))
    custom = ("EVENT", "COMMIT")
    if write == "M=CUSTOM":
        return of_table not in custom
    return of_write == of_table or (write == "S=zero" and table.startswith("P=") and of_table not in custom)


def test_new_tables_of_version_6_are_refused(tmp_path: Path) -> None:
    with pytest.raises(hoodoo.UnsupportedError, match="version"):
        hoodoo.write(creation_data(), tmp_path / "table", options=creation_options({}, 6))
