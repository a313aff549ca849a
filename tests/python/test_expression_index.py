"""Expression indexes of the metadata table: built, and kept in step by every action."""

from __future__ import annotations

import datetime as dt
import json
import warnings
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import hoodoo
from hoodoo import Table
from hoodoo.cli.commands import app
from tests.expression_index import OFFSETS, check_index, ranges_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

QUIET = {"hoodie.clean.automatic": "false", "hoodie.compact.inline": "false"}
MICROSECOND = dt.timedelta(microseconds=1)
DAY_0, START = dt.date(1970, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("seconds", pa.int64()),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("part", pa.string()),
    ]
)
# Letters whose forms depend on their place in a word, or on the version of the runtime, give the range of all values.
ODD = [None, "", "  x ", "Straße", "ΣΑΣ", "İ", "ÀÉ", "日本"]


def rows(keys: list[int] | range, ts: int, part: str | None = None) -> pa.Table:
    """Rows of keys; some values are odd, and some are null."""
    data = {
        "id": [f"k{key:04}" for key in keys],
        "ts": [ts] * len(keys),
        "seconds": [1_577_880_000 + key * 200_000 + ts for key in keys],
        "name": [ODD[key % 8] if key % 5 == 0 else f" N{key * ts} " for key in keys],
        "day": [None if key % 7 == 0 else DAY_0 + dt.timedelta(days=18_000 + key * 40) for key in keys],
        "at": [START + dt.timedelta(hours=37 * key, microseconds=key) for key in keys],
        "part": [part or f"p{key // 12}" for key in keys],
    }
    return pa.table(data, schema=SCHEMA)


def _local(format_: str) -> Callable[[Any], set[Any]]:
    return lambda at: {(at + offset).strftime(format_) for offset in OFFSETS}


def _days(day: dt.date) -> int:
    return (day - DAY_0).days


# Function, column, options, and what it may say of a value, in one time zone or another.
CASES: dict[str, tuple[str, str, dict[str, Any], Callable[[Any], set[Any]]]] = {
    "low": ("lower", "name", {}, lambda name: {name.lower()}),
    "up": ("upper", "name", {}, lambda name: {name.upper()}),
    "trimmed": ("trim", "name", {}, lambda name: {name.strip(" ")}),
    "left": ("ltrim", "name", {"trimString": " N"}, lambda name: {name.lstrip(" N")}),
    "right": ("rtrim", "name", {}, lambda name: {name.rstrip(" ")}),
    "letters": ("length", "name", {}, lambda name: {len(name)}),
    "middle": ("substring", "id", {"pos": 2, "len": 3}, lambda key: {key[1:4]}),
    "last": ("substring", "id", {"pos": -2, "len": 2}, lambda key: {key[-2:]}),
    "year": ("year", "day", {}, lambda day: {day.year}),
    "month": ("month", "day", {}, lambda day: {day.month}),
    "in_month": ("day", "day", {}, lambda day: {day.day}),
    "date": ("to_date", "day", {}, lambda day: {_days(day)}),
    "later": ("date_add", "day", {"days": 3}, lambda day: {_days(day) + 3}),
    "before": ("date_sub", "day", {"days": "3"}, lambda day: {_days(day) - 3}),
    "months": ("date_format", "day", {"format": "yyyy-MM"}, lambda day: {day.strftime("%Y-%m")}),
    "year_at": ("year", "at", {}, lambda at: {(at + offset).year for offset in OFFSETS}),
    "month_at": ("month", "at", {}, lambda at: {(at + offset).month for offset in OFFSETS}),
    "hour": ("hour", "at", {}, lambda at: {(at + offset).hour for offset in OFFSETS}),
    "date_at": ("to_date", "at", {}, lambda at: {_days((at + offset).date()) for offset in OFFSETS}),
    "format_at": ("date_format", "at", {"format": "yyyy-MM-dd HH:mm:ss"}, _local("%Y-%m-%d %H:%M:%S")),
    "unix": ("unix_timestamp", "at", {}, lambda at: {int((at - START).total_seconds()) + 1_577_836_800}),
    "same": (
        "to_timestamp",
        "at",
        {},
        lambda at: {(at - START) // dt.timedelta(microseconds=1) + 1_577_836_800_000_000},
    ),
    "by_day": (
        "from_unixtime",
        "seconds",
        {"format": "yyyy-MM-dd"},
        lambda seconds: _local("%Y-%m-%d")(dt.datetime.fromtimestamp(seconds, dt.timezone.utc)),
    ),
    "by_second": (
        "from_unixtime",
        "seconds",
        {},
        lambda seconds: _local("%Y-%m-%d %H:%M:%S")(dt.datetime.fromtimestamp(seconds, dt.timezone.utc)),
    ),
}
# Ranges of these leave nothing out, or not with these rows.
ALL_VALUES = {"month", "in_month", "month_at", "hour", "letters"}


def build(path: Path, name: str, *, options: dict[str, str] | None = None) -> hoodoo.IndexCommit:
    """Build the index of a case; what users of Hudi have to know is said each time."""
    function, column, of_function, _ = CASES[name]
    with pytest.warns(hoodoo.HudiWarning, match="skipping"):
        return Table(path, options or {}).index(
            "expression_index", column, expression=function, name=name, **of_function
        )


def make(path: Path, table_type: str = "COPY_ON_WRITE", version: str = "9") -> Table:
    """A table with rows and no index."""
    options = {"hoodie.write.table.version": version, "hoodie.metadata.index.column.stats.enable": "false", **QUIET}
    table = Table.create(
        path,
        SCHEMA,
        name="t",
        record_key="id",
        partition_by=["part"],
        ordering=["ts"],
        table_type=table_type,
        options=options,
    )
    table.insert(rows(range(40), 1))
    return Table(path, QUIET)


def check(path: Path, names: list[str]) -> dict[str, int]:
    """All indexes hold what they have to."""
    useful = {name: check_index(path, f"expr_index_{name}", CASES[name][1], CASES[name][3]) for name in names}
    problems = Table(path).verify().problems
    assert not problems, problems
    return useful


def test_each_function_has_its_ranges(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path)
    for name in CASES:
        assert f"expr_index_{name}" in build(path, name).partitions
    useful = check(path, list(CASES))
    assert {name for name in CASES if not useful[name]} <= ALL_VALUES
    Table(path).upsert(rows(range(30, 60), 2))
    check(path, list(CASES))
    files, partitions = ranges_of(path, "expr_index_year")
    assert all(len(str(bound)) == 4 for one in files.values() for bound in one)
    assert set(partitions) == {f"p{number}" for number in range(5)}


@pytest.mark.parametrize("version", ["9", pytest.param("8", marks=pytest.mark.slow)])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_every_action_keeps_it(tmp_path: Path, table_type: str, version: str) -> None:
    path = tmp_path / "t"
    table = make(path, table_type, version)
    names = ["low", "year", "by_day", "date_at"]
    for name in names:
        build(path, name, options={"hoodie.metadata.index.expression.file.group.count": "3"})
    definitions = json.loads((path / ".hoodie/.index_defs/index.json").read_text(encoding="utf-8"))
    assert definitions["indexDefinitions"]["expr_index_by_day"] == {
        "indexName": "expr_index_by_day",
        "indexType": "column_stats",
        "indexFunction": "from_unixtime",
        "sourceFields": ["seconds"],
        "indexOptions": {"expr": "from_unixtime", "format": "yyyy-MM-dd"},
        "version": "V2" if version == "9" else "V1",
    }
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        steps: list[Any] = [
            lambda: table.upsert(rows(range(30, 50), 2)),
            lambda: table.upsert(rows([7], 0)),
            lambda: table.delete(rows([1, 2, 51], 3)),
            lambda: table.upsert(rows([2], 5)),
            lambda: table.compact() if table_type == "MERGE_ON_READ" else None,
            lambda: table.upsert(rows(range(5), 6)),
            lambda: table.cluster() and None,
            lambda: table.insert(rows(range(60, 70), 7)),
            lambda: table.insert_overwrite(rows([0, 3, 90], 8)),
            lambda: table.delete_partitions(["p1"]),
            lambda: table.upsert(rows([14, 4], 9)),
            lambda: Table(path, {"hoodie.clean.commits.retained": "1"}).upsert(rows([4], 9)),
            lambda: table.insert_overwrite_table(rows(range(20, 30), 10)),
            lambda: table.upsert(rows(range(15, 25), 11)),
            lambda: Table(path, {**QUIET, "hoodie.metadata.compact.max.delta.commits": "1"}).upsert(rows([16], 12)),
            lambda: table.upsert(rows(range(15, 45), 13)),
        ]
        for number, step in enumerate(steps):
            table = Table(path, QUIET)
            step()
            try:
                check(path, names)
            except (AssertionError, KeyError) as error:
                raise AssertionError(f"after step {number}") from error
    assert not [str(warning.message) for warning in told]


def test_indexes_are_built_anew_and_dropped(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path)
    for name in ("low", "year"):
        build(path, name)
    before = ranges_of(path, "expr_index_low")
    again = Table(path).rebuild_metadata_table()
    assert not again.warnings
    assert set(again.partitions) >= {"expr_index_low", "expr_index_year"}
    with pytest.warns(hoodoo.HudiWarning, match="skipping"):
        Table(path).index("expr_index_low")
    assert ranges_of(path, "expr_index_low") == before
    assert Table(path).drop_index("expr_index_low") == ("expr_index_low",)
    Table(path).upsert(rows(range(5), 2))
    check(path, ["year"])
    definitions = json.loads((path / ".hoodie/.index_defs/index.json").read_text(encoding="utf-8"))
    assert "expr_index_low" not in definitions["indexDefinitions"]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_writers_that_were_there_before_keep_it(tmp_path: Path, table_type: str) -> None:
    path = tmp_path / "t"
    table = make(path, table_type)
    for name in ("low", "year", "date_at"):
        build(path, name)
    table.upsert(rows(range(35, 50), 2))
    check(path, ["low", "year", "date_at"])
    build(path, "low")
    table.delete(rows([1, 2, 41], 3))
    check(path, ["low", "year", "date_at"])


def test_a_column_that_is_new_or_wider(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path)
    data = rows(range(50, 60), 2)
    Table(path, QUIET).upsert(data.append_column("more", pa.array(range(10), pa.int32())))
    function, options = "from_unixtime", {"format": "yyyy-MM-dd"}
    with pytest.warns(hoodoo.HudiWarning, match="skipping"):
        Table(path).index("expression_index", "more", expression=function, name="more", **options)
    wider = pa.array([2**33 + number for number in range(10)], pa.int64())
    Table(path, QUIET).upsert(rows(range(55, 65), 3).append_column("more", wider))
    values = CASES["by_day"][3]
    assert check_index(path, "expr_index_more", "more", values)
    files, _ = ranges_of(path, "expr_index_more")
    # The files that are older than the column have no values of it.
    assert (None, None) in files.values()


def test_the_command_line_builds_one(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path)
    asked = ["--columns", "seconds", "--expression", "from_unixtime", "--name", "by_day", "--with", "format=yyyy-MM-dd"]
    with pytest.warns(hoodoo.HudiWarning, match="skipping"):
        result = CliRunner().invoke(app, ["metadata", "index", str(path), "expression_index", *asked])
    assert result.exit_code == 0, result.output
    check(path, ["by_day"])


def _redefine(path: Path, index: str, change: dict[str, Any]) -> None:
    """Let index.json say something else of an index."""
    file = path / ".hoodie/.index_defs/index.json"
    definitions = json.loads(file.read_text(encoding="utf-8"))
    definitions["indexDefinitions"][index] |= change
    file.write_text(json.dumps(definitions), encoding="utf-8")


def test_ranges_that_are_too_narrow_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path)
    for name in ("low", "year"):
        build(path, name)
    # What is stored is of another function than what is said to be.
    _redefine(path, "expr_index_low", {"indexFunction": "upper", "indexOptions": {"expr": "upper"}})
    problems = Table(path).verify().problems
    assert problems
    assert all("expr_index_low" in problem.subject and "narrower" in problem.message for problem in problems)
    build(path, "low")
    check(path, ["low", "year"])


@pytest.mark.parametrize(
    "change",
    [
        {"indexFunction": "regexp_extract", "indexOptions": {"expr": "regexp_extract", "pattern": "x", "idx": "0"}},
        {"indexFunction": "date_format", "indexOptions": {"expr": "date_format", "format": "EEEE"}},
        {"indexFunction": "lower", "indexOptions": {"expr": "lower"}},
        {"indexType": "bloom_filters"},
        {"sourceFields": ["nothing"]},
    ],
)
def test_what_is_not_kept_is_dropped_with_a_warning(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "t"
    make(path)
    for name in ("year_at", "low"):
        build(path, name)
    _redefine(path, "expr_index_year_at", change)
    with pytest.warns(hoodoo.HudiWarning, match="expr_index_year_at"):
        Table(path, QUIET).upsert(rows(range(5), 2))
    metadata = Table(path).metadata_table
    assert metadata is not None
    assert {"expr_index_year_at", "expr_index_low"} & set(metadata.partitions) == {"expr_index_low"}
    assert not (path / ".hoodie/metadata/expr_index_year_at").exists()
    check(path, ["low"])


def test_what_cannot_be_built_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(path)
    unsupported: list[tuple[str, str, dict[str, Any]]] = [
        ("name", "regexp_replace", {"pattern": "x", "replacement": "y"}),
        ("name", "year", {}),
        ("seconds", "lower", {}),
        ("at", "date_format", {"format": "EEEE"}),
        ("name", "lower", {"using": "bloom_filters"}),
        ("day", "hour", {}),
    ]
    for column, function, options in unsupported:
        with pytest.raises(hoodoo.UnsupportedError):
            table.index("expression_index", column, expression=function, **options)
    invalid: list[tuple[str | list[str], str, dict[str, Any]]] = [
        ("nothing", "lower", {}),
        (["name", "id"], "lower", {}),
        ("name", "lower", {"format": "yyyy"}),
        ("name", "substring", {"pos": 1}),
        ("day", "date_add", {"days": "x"}),
        ("at", "date_format", {}),
    ]
    for columns, function, options in invalid:
        with pytest.raises(hoodoo.InvalidOptionError):
            table.index("expression_index", columns, expression=function, **options)
    for kind, options in (("expression_index", {}), ("expr_index_x", {}), ("expression_index", {"name": "x"})):
        with pytest.raises(hoodoo.InvalidOptionError):
            table.index(kind, "name", **options)
    with pytest.raises(hoodoo.InvalidOptionError, match="not of a function"):
        table.index("column_stats", "name", expression="lower")
    assert [i.action for i in Table(path).timeline.instants()] == ["commit"]
