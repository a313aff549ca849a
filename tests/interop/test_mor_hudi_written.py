"""Merge-on-read tables that Hudi wrote: hoodoo merges their log files as Hudi does."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from tests.interop.hudi import Hudi
from tests.interop.layouts import LAYOUTS, SIMPLE, Layout, batch, row
from tests.interop.merge_on_read import NO_SMALL_FILES, mor_options, same_rows
from tests.rows import Row, arrow_rows

_PARQUET = {"hoodie.logfile.data.block.format": "parquet"}
_COMPACTING = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
_LOG_COMPACTING = {
    "hoodie.log.compaction.inline": "true",
    "hoodie.log.compaction.blocks.threshold": "2",
    "hoodie.compact.inline.max.delta.commits": "20",
}


def _options(layout: Layout = SIMPLE, version: int = 9, mode: str = "EVENT_TIME_ORDERING") -> dict[str, str]:
    return {**mor_options(layout, version, mode), **NO_SMALL_FILES}


def _turn(random: random.Random, turn: int) -> tuple[str, list[Row]]:
    numbers = random.sample(range(12), random.randint(1, 6))
    operation = random.choice(["upsert", "upsert", "upsert", "delete"])
    return operation, [row(n, random.randint(0, 9), f"turn {turn}.{n}") for n in numbers]


_EVENT, _COMMIT = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"
_QUICK = {(_COMMIT, 9, "parquet"), (_EVENT, 6, "avro"), (_EVENT, 8, "avro")}
_HISTORIES = [
    pytest.param(mode, version, blocks, marks=[] if (mode, version, blocks) in _QUICK else pytest.mark.slow)
    for mode in (_EVENT, _COMMIT)
    for version in (9, 8, 6)
    for blocks in ("avro", "parquet")
]


@pytest.mark.parametrize(("mode", "version", "blocks"), _HISTORIES)
def test_random_histories(hudi: Hudi, tmp_path: Path, mode: str, version: int, blocks: str) -> None:
    """Upserts and deletes in any order of their ordering values, compared after every commit."""
    uri = str(tmp_path / "table")
    options = {**_options(version=version, mode=mode), **(_PARQUET if blocks == "parquet" else {})}
    chance = random.Random(f"{mode} {version} {blocks}")
    hudi.write(batch([row(n, 4, "first") for n in range(8)]), uri, "insert", **options)
    for turn in range(7):
        operation, rows = _turn(chance, turn)
        hudi.write(batch(rows), uri, operation, **options)
        same_rows(hudi, uri, (turn, operation, rows))
    assert any(s["logs"] for s in _slices(uri)), "no log file was read"


def _slices(uri: str) -> list[dict[str, object]]:
    return [{"base": s.base_file, "logs": list(s.log_files)} for s in hoodoo.Table(uri).file_slices()]


@pytest.mark.slow  # the layouts that hoodoo writes are read in test_mor_turns
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_layouts(hudi: Hudi, tmp_path: Path, layout: Layout) -> None:
    uri = str(tmp_path / "table")
    options = _options(layout)
    hudi.write(batch([row(n, 1, "first") for n in range(9)]), uri, "insert", **options)
    hudi.write(batch([row(n, 2, "second") for n in range(0, 12, 2)]), uri, "upsert", **options)
    hudi.write(batch([row(4, 0, ""), row(5, 0, "")]), uri, "delete", **options)
    same_rows(hudi, uri)


_slow = pytest.mark.slow


@pytest.mark.parametrize(
    "services", ["both", pytest.param("compaction", marks=_slow), pytest.param("log compaction", marks=_slow)]
)
@pytest.mark.parametrize("version", [9, pytest.param(8, marks=pytest.mark.slow)])
def test_between_compactions(hudi: Hudi, tmp_path: Path, services: str, version: int) -> None:
    uri = str(tmp_path / "table")
    extra = {
        "compaction": _COMPACTING,
        "log compaction": _LOG_COMPACTING,
        "both": {**_LOG_COMPACTING, **_COMPACTING, "hoodie.compact.inline.max.delta.commits": "5"},
    }[services]
    options = {**_options(version=version), **extra}
    chance = random.Random(services)
    hudi.write(batch([row(n, 4, "first") for n in range(8)]), uri, "insert", **options)
    for turn in range(8):
        operation, rows = _turn(chance, turn)
        hudi.write(batch(rows), uri, operation, **options)
        same_rows(hudi, uri, turn)
    actions = {i.action for i in hoodoo.Table(uri).timeline.instants()}
    assert "commit" in actions or services == "log compaction", actions


@pytest.mark.parametrize("version", [9, pytest.param(8, marks=pytest.mark.slow), 6])
def test_a_pending_compaction(hudi: Hudi, tmp_path: Path, version: int) -> None:
    """Writes that come after the plan go to the slice that it is about to make."""
    uri = str(tmp_path / "table")
    options = _options(version=version)
    hudi.write(batch([row(n, 1, "first") for n in range(6)]), uri, "insert", **options)
    hudi.write(batch([row(n, 2, "second") for n in range(4)]), uri, "upsert", **options)
    hudi.call(
        "run_compaction",
        uri,
        op="schedule",
        options="hoodie.metadata.enable=false,hoodie.compact.inline.max.delta.commits=1",
    )
    hudi.write(batch([row(n, 3, "third") for n in range(2)]), uri, "upsert", **options)
    assert [i for i in hoodoo.Table(uri).timeline.instants() if i.action == "compaction" and i.state != "COMPLETED"]
    same_rows(hudi, uri)
    hudi.call("run_compaction", uri, op="run", options="hoodie.metadata.enable=false")
    same_rows(hudi, uri)
    hudi.write(batch([row(1, 4, "fourth")]), uri, "upsert", **options)
    same_rows(hudi, uri)


@pytest.mark.parametrize("version", [9, pytest.param(8, marks=pytest.mark.slow), 6])
def test_a_failed_commit(hudi: Hudi, tmp_path: Path, version: int) -> None:
    uri = str(tmp_path / "table")
    options = _options(version=version)
    hudi.write(batch([row(n, 1, "first") for n in range(6)]), uri, "insert", **options)
    for turn in (2, 3):
        hudi.write(batch([row(n, turn, f"turn {turn}") for n in range(4)]), uri, "upsert", **options)
    # As if the writer had died before the last step; the next one takes back what it wrote.
    (completed,) = Path(uri).glob(f".hoodie/**/{_deltacommits(uri)[-1]}*.deltacommit")
    completed.unlink()
    read = hudi.read(uri, meta=True)
    assert arrow_rows(hoodoo.Table(uri).to_arrow(), meta=True) == read
    assert not any(r["val"] == "turn 3" for r in read)
    if version > 6:
        # No markers are left, so it may have been completed: that file may have been deleted by accident.
        assert [p.severity for p in hoodoo.Table(uri).verify().problems if "completed instant" in p.message] == [
            "error"
        ]
    hudi.write(batch([row(0, 9, "after")]), uri, "upsert", **options)
    assert hoodoo.Table(uri).timeline.instants(action="rollback")
    read = same_rows(hudi, uri)
    assert not any(r["val"] == "turn 3" for r in read)


def _deltacommits(uri: str) -> list[str]:
    return [i.requested for i in hoodoo.Table(uri).timeline.instants(action="deltacommit")]


_ORDERINGS: dict[str, tuple[str, pa.DataType, list[object]]] = {
    "int": ("int", pa.int32(), [-1, 0, 1, 2]),
    "double": ("double", pa.float64(), [-0.5, 0.0, 1.5, float("nan")]),
    "text": ("text", pa.string(), ["", "10", "9", "é"]),
    "timestamp": ("timestamp", pa.timestamp("us", "UTC"), [0, 1, 10**15, 10**15 + 1]),
    "boolean": ("boolean", pa.bool_(), [False, True, True, False]),
    "decimal": ("decimal", pa.decimal128(10, 2), [Decimal("-1.25"), Decimal("0.00"), Decimal("0.50"), Decimal(7)]),
}


def _ordered(kind: pa.DataType, rows: Sequence[tuple[int, object, str, bool | None]]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([f"k{n}" for n, _, _, _ in rows]),
            "o": pa.array([o for _, o, _, _ in rows], kind),
            "val": pa.array([v for _, _, v, _ in rows]),
            "_hoodie_is_deleted": pa.array([d for _, _, _, d in rows], pa.bool_()),
        }
    )


@pytest.mark.slow  # the same values, written by hoodoo, are in test_mor_turns
@pytest.mark.parametrize("name", sorted(_ORDERINGS))
def test_ordering_types(hudi: Hudi, tmp_path: Path, name: str) -> None:
    """Rows and marked deletes over each pair of values of each comparable type."""
    _, kind, values = _ORDERINGS[name]
    uri = str(tmp_path / "table")
    options = {**_options(Layout("plain", partitions="")), "hoodie.table.ordering.fields": "o"}
    pairs = [(a, b) for a in values for b in values]
    numbers = range(len(pairs))
    hudi.write(_ordered(kind, [(n, pairs[n][0], "base", None) for n in numbers]), uri, "insert", **options)
    later = [(n, pairs[n][1], "later", n % 3 == 0) for n in numbers]
    hudi.write(_ordered(kind, later), uri, "upsert", **options)
    same_rows(hudi, uri)
    back = [(n, pairs[n][0], "last", n % 5 == 0) for n in numbers]
    hudi.write(_ordered(kind, back), uri, "upsert", **options)
    same_rows(hudi, uri)


@pytest.mark.parametrize("version", [9, pytest.param(8, marks=pytest.mark.slow)])
def test_several_ordering_fields(hudi: Hudi, tmp_path: Path, version: int) -> None:
    uri = str(tmp_path / "table")
    options = {**_options(version=version), "hoodie.table.ordering.fields": "ts,site"}

    def rows(turn: int, low: int) -> list[Row]:
        return [{**row(n, low + n % 2, f"turn {turn}"), "site": n % 2, "part": "p"} for n in range(8)]

    hudi.write(batch(rows(0, 1)), uri, "insert", **options)
    for turn, low in ((1, 1), (2, 0), (3, 2)):
        hudi.write(batch(rows(turn, low)), uri, "upsert", **options)
        same_rows(hudi, uri, turn)
    hudi.write(batch(rows(4, 0)[:3]), uri, "delete", **options)
    same_rows(hudi, uri, "deleted")
    hudi.write(batch(rows(5, 0)[:2]), uri, "upsert", **options)
    same_rows(hudi, uri, "after")


def test_columns_that_came_later(hudi: Hudi, tmp_path: Path) -> None:
    """Log blocks of an older schema, and base files that lack a column of the logs."""
    uri = str(tmp_path / "table")
    options = _options()
    hudi.write(batch([row(n, 1, "first") for n in range(6)]), uri, "insert", **options)
    hudi.write(batch([row(n, 2, "second") for n in range(3)]), uri, "upsert", **options)
    wider = batch([row(n, 3, "third") for n in range(1, 5)])
    site = pa.array([2**40] * 4, pa.int64())
    wider = wider.set_column(wider.schema.get_field_index("site"), "site", site)
    wider = wider.append_column("extra", pa.array([["a", None], [], None, ["b"]], pa.list_(pa.string())))
    wider = wider.append_column("more", pa.array([{"x": 1, "y": {"z": "d"}}] * 4))
    hudi.write(wider, uri, "upsert", **options)
    same_rows(hudi, uri)


def all_types() -> pa.Table:
    """Gives a row with a value of every type, and one of nulls."""
    return pa.table(
        {
            "id": ["a", "b"],
            "ts": pa.array([1, 1], pa.int64()),
            "val": ["x", None],
            "flag": [True, None],
            "i": pa.array([1, None], pa.int32()),
            "f": pa.array([1.5, None], pa.float32()),
            "d": pa.array([float("nan"), None], pa.float64()),
            "b": pa.array([b"\x00\xff", None], pa.binary()),
            "day": pa.array([20_000, None], pa.date32()),
            "at": pa.array([1_700_000_000_123_456, None], pa.timestamp("us", "UTC")),
            "local": pa.array([1_700_000_000_123_456, None], pa.timestamp("us")),
            "money": pa.array([Decimal("-12345678.90"), None], pa.decimal128(12, 2)),
            "list": pa.array([[1, None], None], pa.list_(pa.int64())),
            "map": pa.array([[("k", 1.5)], None], pa.map_(pa.string(), pa.float64())),
            "deep": pa.array(
                [{"a": [{"b": "c"}], "m": None}, None],
                pa.struct([("a", pa.list_(pa.struct([("b", pa.string())]))), ("m", pa.int32())]),
            ),
        }
    )


@pytest.mark.parametrize("blocks", ["avro", "parquet"])
def test_types(hudi: Hudi, tmp_path: Path, blocks: str) -> None:
    uri = str(tmp_path / "table")
    options = {**_options(Layout("plain", partitions="")), **(_PARQUET if blocks == "parquet" else {})}
    hudi.write(all_types(), uri, "insert", **options)
    hudi.write(all_types().set_column(2, "val", pa.array(["later", "later"])), uri, "upsert", **options)
    assert {r["val"] for r in same_rows(hudi, uri)} == {"later"}


def test_time_travel_and_changes(hudi: Hudi, tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    options = _options()
    chance = random.Random(3)
    hudi.write(batch([row(n, 4, "first") for n in range(8)]), uri, "insert", **options)
    for turn in range(4):
        _, rows = _turn(chance, turn)
        hudi.write(batch([{**r, "ts": 5 + turn} for r in rows]), uri, "upsert", **options)
    table = hoodoo.Table(uri)
    commits = table.timeline.instants(action="deltacommit")
    assert len(commits) == 5
    for commit in commits:
        assert arrow_rows(table.to_arrow(as_of=commit.requested)) == hudi.read_as_of(uri, commit.requested)
    stamps = ["000", *(str(c.completed) for c in commits)]
    for first, since in enumerate(stamps):
        assert arrow_rows(table.changes(since)) == hudi.read_changes(uri, since), since
        for until in stamps[first + 1 :]:
            assert arrow_rows(table.changes(since, until)) == hudi.read_changes(uri, since, until), (since, until)


@pytest.mark.parametrize(
    ("filters", "keep"),
    [
        ([("part", "=", "p 1")], lambda r: r["part"] == "p 1"),
        ([("val", "=", "first")], lambda r: r["val"] == "first"),
        ([("ts", "<", 2)], lambda r: r["ts"] < 2),
    ],
)
def test_filters_see_what_was_merged(
    hudi: Hudi, tmp_path: Path, filters: list[tuple[str, str, object]], keep: Callable[[Row], bool]
) -> None:
    """A row whose older state matches is not given back in that state."""
    uri = str(tmp_path / "table")
    options = _options()
    hudi.write(batch([row(n, 1, "first") for n in range(9)]), uri, "insert", **options)
    hudi.write(batch([row(n, 2, "second") for n in range(0, 9, 2)]), uri, "upsert", **options)
    expected = sorted(r["id"] for r in hudi.read(uri) if keep(r))
    assert sorted(hoodoo.Table(uri).to_arrow(columns=["id"], filters=filters)["id"].to_pylist()) == expected


@pytest.mark.parametrize("blocks", ["avro", "parquet"])
def test_copies_of_a_key(hudi: Hudi, tmp_path: Path, blocks: str) -> None:
    """Inserts look for no keys; positions in the log blocks say that all copies are merged."""
    uri = str(tmp_path / "table")
    options = {**_options(Layout("plain", partitions="")), **(_PARQUET if blocks == "parquet" else {})}
    copies = [row(0, 1, "first"), row(1, 1, "other"), row(0, 1, "second"), row(2, 1, "other"), row(0, 1, "third")]
    hudi.write(batch(copies), uri, "insert", **options)
    same_rows(hudi, uri)
    hudi.write(batch([row(0, 2, "later")]), uri, "upsert", **options)
    # A record was logged for each copy: they differ in their numbers, and nothing else.
    same_rows(hudi, uri, meta=False)
    hudi.write(batch([row(0, 0, "")]), uri, "delete", **options)
    # A record was logged for each copy: they differ in their numbers, and nothing else.
    same_rows(hudi, uri, meta=False)
