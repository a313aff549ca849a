"""hoodoo and Hudi write to one merge-on-read table in turns; after every commit both read the same rows."""

from __future__ import annotations

import random
from decimal import Decimal
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from tests.interop.hudi import Hudi
from tests.interop.layouts import LAYOUTS, Layout, batch, row
from tests.interop.merge_on_read import NO_SMALL_FILES, compact_by_hudi, mor_options, same_rows
from tests.pairs import others_later

# The others are every day in the turns on copy-on-write tables.
_USUAL = ("simple_url", "nonpartitioned", "nonpartitioned_two_keys", "timestamp", "complex_one_key")


class Writers:
    """Writes with one of both."""

    def __init__(self, hudi: Hudi, uri: str, options: dict[str, str]) -> None:
        self._hudi, self.uri, self.options = hudi, uri, options

    def write(self, who: str, operation: str, rows: pa.Table) -> Any:
        if who == "hudi":
            return self._hudi.write(rows, self.uri, operation, **self.options)
        return hoodoo.write(rows, self.uri, operation=operation, options=self.options)


_EVENT, _COMMIT = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"
_QUICK = {(_EVENT, 9, True), (_COMMIT, 8, False)}
_TURNS = [
    pytest.param(mode, version, small_files, marks=[] if (mode, version, small_files) in _QUICK else pytest.mark.slow)
    for mode in (_EVENT, _COMMIT)
    for version in (9, 8)
    for small_files in (True, False)
]


@pytest.mark.parametrize(("mode", "version", "small_files"), _TURNS)
def test_turns(hudi: Hudi, tmp_path: Path, mode: str, version: int, small_files: bool) -> None:
    """Every operation by either, in any order, with a compaction by Hudi now and then."""
    options = {**mor_options(version=version, mode=mode), **({} if small_files else NO_SMALL_FILES)}
    writers = Writers(hudi, str(tmp_path / "table"), options)
    chance = random.Random(f"{mode} {version} {small_files}")
    writers.write(chance.choice(["hudi", "hoodoo"]), "insert", batch([row(n, 4, "first") for n in range(8)]))
    appended = 0
    for turn in range(14):
        numbers = chance.sample(range(14), chance.randint(1, 6))
        rows = batch([row(n, chance.randint(0, 9), f"turn {turn}.{n}") for n in numbers])
        who = chance.choice(["hoodoo", "hoodoo", "hudi"])
        operation = chance.choice(["upsert", "upsert", "upsert", "delete", "bulk_insert"])
        if operation == "bulk_insert":
            # New keys: neither side looks whether they are there.
            rows = batch([row(100 + turn, 1, f"turn {turn}")])
        commit = writers.write(who, operation, rows)
        if who == "hoodoo":
            appended += sum(".log." in file for file in commit.files)
        same_rows(hudi, writers.uri, (turn, who, operation, rows.to_pylist()))
        if turn % 5 == 4:
            compact_by_hudi(hudi, writers.uri)
            same_rows(hudi, writers.uri, (turn, "compacted"))
    assert appended, "hoodoo wrote no log file"


@pytest.mark.parametrize("layout", others_later(LAYOUTS, *_USUAL, name=attrgetter("name")))
def test_layouts(hudi: Hudi, tmp_path: Path, layout: Layout) -> None:
    writers = Writers(hudi, str(tmp_path / "table"), {**mor_options(layout), **NO_SMALL_FILES})
    writers.write("hoodoo", "insert", batch([row(n, 1, "first") for n in range(9)]))
    writers.write("hoodoo", "upsert", batch([row(n, 2, "second") for n in range(0, 12, 2)]))
    writers.write("hoodoo", "delete", batch([row(4, 0, ""), row(5, 0, "")]))
    same_rows(hudi, writers.uri)
    writers.write("hudi", "upsert", batch([row(n, 3, "third") for n in range(3)]))
    compact_by_hudi(hudi, writers.uri)
    same_rows(hudi, writers.uri)


_ORDERINGS: dict[str, tuple[pa.DataType, list[object]]] = {
    "int": (pa.int32(), [-1, 0, 1, 2]),
    "long": (pa.int64(), [-1, 0, 1, 2]),
    "float": (pa.float32(), [-0.5, 0.0, 1.5, 2.5]),
    "double": (pa.float64(), [-0.5, 0.0, 1.5, float("nan")]),
    "text": (pa.string(), ["", "10", "9", "é"]),
    "timestamp": (pa.timestamp("us", "UTC"), [0, 1, 10**15, 10**15 + 1]),
    "boolean": (pa.bool_(), [False, True, True, False]),
    "decimal": (pa.decimal128(10, 2), [Decimal("-1.25"), Decimal("0.00"), Decimal("0.50"), Decimal(7)]),
}


@pytest.mark.parametrize("name", sorted(_ORDERINGS))
def test_marked_deletes_keep_their_ordering(hudi: Hudi, tmp_path: Path, name: str) -> None:
    """Rows and marked deletes that hoodoo wrote, over each pair of values of each comparable type."""
    kind, values = _ORDERINGS[name]
    options = {**mor_options(Layout("plain", partitions="")), **NO_SMALL_FILES, "hoodie.table.ordering.fields": "o"}
    writers = Writers(hudi, str(tmp_path / "table"), options)
    pairs = [(a, b) for a in values for b in values]

    def rows(values: list[object], text: str, every: int) -> pa.Table:
        return pa.table(
            {
                "id": pa.array([f"k{n}" for n in range(len(values))]),
                "o": pa.array(values, kind),
                "val": pa.array([text] * len(values)),
                "_hoodie_is_deleted": pa.array([every > 0 and n % every == 0 for n in range(len(values))]),
            }
        )

    writers.write("hoodoo", "insert", rows([a for a, _ in pairs], "base", 0))
    writers.write("hoodoo", "upsert", rows([b for _, b in pairs], "later", 3))
    same_rows(hudi, writers.uri)
    writers.write("hoodoo", "upsert", rows([a for a, _ in pairs], "last", 5))
    same_rows(hudi, writers.uri)
    compact_by_hudi(hudi, writers.uri)
    same_rows(hudi, writers.uri)


def test_several_ordering_fields(hudi: Hudi, tmp_path: Path) -> None:
    options = {**mor_options(), **NO_SMALL_FILES, "hoodie.table.ordering.fields": "ts,site"}
    writers = Writers(hudi, str(tmp_path / "table"), options)

    def rows(turn: int, low: int, gone: int = 99) -> pa.Table:
        made = [{**row(n, low + n % 2, f"turn {turn}"), "site": n % 2, "part": "p"} for n in range(8)]
        return batch(made).append_column("_hoodie_is_deleted", pa.array([n == gone for n in range(8)]))

    writers.write("hoodoo", "insert", rows(0, 1))
    for turn, low, gone in ((1, 1, 3), (2, 0, 2), (3, 2, 1)):
        writers.write("hoodoo", "upsert", rows(turn, low, gone))
        same_rows(hudi, writers.uri, turn)
    writers.write("hoodoo", "delete", rows(4, 0).slice(5, 2))
    same_rows(hudi, writers.uri, "deleted")
    writers.write("hoodoo", "upsert", rows(5, 0).slice(5, 2))
    same_rows(hudi, writers.uri, "after")


def test_types(hudi: Hudi, tmp_path: Path) -> None:
    fields: list[tuple[str, pa.DataType, object]] = [
        ("flag", pa.bool_(), True),
        ("i", pa.int32(), 1),
        ("f", pa.float32(), 1.5),
        ("d", pa.float64(), float("nan")),
        ("b", pa.binary(), b"\x00\xff"),
        ("day", pa.date32(), 20_000),
        ("at", pa.timestamp("us", "UTC"), 1_700_000_000_123_456),
        ("local", pa.timestamp("us"), 1_700_000_000_123_456),
        ("money", pa.decimal128(12, 2), Decimal("-12345678.90")),
        ("large", pa.decimal128(38, 10), Decimal("-1234567890123456789.0123456789")),
        ("list", pa.list_(pa.int64()), [1, None]),
        ("map", pa.map_(pa.string(), pa.float64()), [("k", 1.5)]),
        ("deep", pa.struct([("a", pa.list_(pa.struct([("b", pa.string())]))), ("m", pa.int32())]), {"a": [{"b": "c"}]}),
    ]

    def rows(text: str) -> pa.Table:
        columns = {"id": pa.array(["a", "b"]), "ts": pa.array([1, 1]), "val": pa.array([text, text])}
        return pa.table({**columns, **{name: pa.array([value, None], kind) for name, kind, value in fields}})

    writers = Writers(hudi, str(tmp_path / "table"), {**mor_options(Layout("plain", partitions="")), **NO_SMALL_FILES})
    writers.write("hoodoo", "insert", rows("first"))
    writers.write("hoodoo", "upsert", rows("later"))
    assert {r["val"] for r in same_rows(hudi, writers.uri)} == {"later"}
    compact_by_hudi(hudi, writers.uri)
    same_rows(hudi, writers.uri)


def test_columns_that_came_later(hudi: Hudi, tmp_path: Path) -> None:
    writers = Writers(hudi, str(tmp_path / "table"), {**mor_options(), **NO_SMALL_FILES})
    writers.write("hoodoo", "insert", batch([row(n, 1, "first") for n in range(6)]))
    writers.write("hoodoo", "upsert", batch([row(n, 2, "second") for n in range(3)]))
    wider = batch([row(n, 3, "third") for n in range(1, 5)])
    writers.write("hoodoo", "upsert", wider.append_column("extra", pa.array(["a", None, "", "b"])))
    same_rows(hudi, writers.uri)


def test_rows_that_move_to_another_partition(hudi: Hudi, tmp_path: Path) -> None:
    index = {"hoodie.index.type": "GLOBAL_SIMPLE"}
    writers = Writers(hudi, str(tmp_path / "table"), {**mor_options(), **NO_SMALL_FILES, **index})
    writers.write("hoodoo", "insert", batch([row(n, 1, "first") for n in range(6)]))
    writers.write("hoodoo", "upsert", batch([row(n, 2, "second", part="p 9") for n in range(3)]))
    read = same_rows(hudi, writers.uri)
    assert sorted(r["part"] for r in read) == ["p 0", "p 1", "p 2", "p 9", "p 9", "p 9"]
    writers.write("hudi", "upsert", batch([row(0, 3, "third", part="p 0")]))
    same_rows(hudi, writers.uri)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_rows_that_move_late_and_back(hudi: Hudi, tmp_path: Path, seed: int) -> None:
    """What is stored of a key is in log files too: older rows of another partition lose, and rows come back."""
    chance = random.Random(seed)
    index = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}
    writers = Writers(hudi, str(tmp_path / "table"), {**mor_options(), **NO_SMALL_FILES, **index})
    writers.write("hoodoo", "insert", batch([row(n, 4, "first") for n in range(6)]))
    for turn in range(9 if seed == 0 else 30):
        numbers = chance.sample(range(8), chance.randint(1, 4))
        rows = batch([row(n, chance.randint(1, 9), f"{turn}.{n}", part=f"p {chance.randrange(3)}") for n in numbers])
        who = "hudi" if turn % 3 == 1 else "hoodoo"
        writers.write(who, "upsert", rows)
        read = same_rows(hudi, writers.uri, (turn, who, rows.to_pylist()))
        assert len({r["id"] for r in read}) == len(read), (turn, who, rows.to_pylist())


@pytest.mark.parametrize("version", [9, pytest.param(8, marks=pytest.mark.slow)])
def test_failed_writes_are_taken_back(hudi: Hudi, tmp_path: Path, version: int) -> None:
    """Log files of a write that died go with the next write of either side."""
    writers = Writers(hudi, str(tmp_path / "table"), {**mor_options(version=version), **NO_SMALL_FILES})
    writers.write("hoodoo", "insert", batch([row(n, 1, "first") for n in range(6)]))
    for turn, (failing, next_one) in enumerate([("hoodoo", "hudi"), ("hudi", "hoodoo"), ("hoodoo", "hoodoo")]):
        writers.write(failing, "upsert", batch([row(n, 2 + turn, "lost") for n in range(4)]))
        last = hoodoo.Table(writers.uri).timeline.instants(action="deltacommit")[-1].requested
        (completed,) = Path(writers.uri).glob(f".hoodie/timeline/{last}_*.deltacommit")
        completed.unlink()
        # Markers went when the write was complete.
        for file in Path(writers.uri).glob(f"*/.*_{last}.log.*"):
            if not file.name.endswith(".crc"):
                marker = Path(writers.uri) / ".hoodie/.temp" / last / file.parent.name / f"{file.name}.marker.CREATE"
                marker.parent.mkdir(parents=True, exist_ok=True)
                marker.touch()
        assert not any(r["val"] == "lost" for r in same_rows(hudi, writers.uri, turn))
        writers.write(next_one, "upsert", batch([row(0, 2 + turn, f"turn {turn}")]))
        read = same_rows(hudi, writers.uri, turn)
        assert not any(r["val"] == "lost" for r in read)
        assert any(r["val"] == f"turn {turn}" for r in read)
        assert not list(Path(writers.uri).glob(f"*/.*_{last}.log.*"))


def test_overwriting(hudi: Hudi, tmp_path: Path) -> None:
    writers = Writers(hudi, str(tmp_path / "table"), {**mor_options(), **NO_SMALL_FILES})
    writers.write("hoodoo", "insert", batch([row(n, 1, "first") for n in range(6)]))
    writers.write("hoodoo", "upsert", batch([row(n, 2, "second") for n in range(6)]))
    writers.write("hoodoo", "insert_overwrite", batch([row(0, 1, "over")]))
    same_rows(hudi, writers.uri)
    hoodoo.Table(writers.uri, options=writers.options).delete_partitions(["p 1"])
    assert sorted({r["part"] for r in same_rows(hudi, writers.uri)}) == ["p 0", "p 2"]
    writers.write("hudi", "upsert", batch([row(0, 3, "third"), row(1, 3, "third")]))
    same_rows(hudi, writers.uri)


def test_cleaning_and_archiving(hudi: Hudi, tmp_path: Path) -> None:
    """A table that both write for long: compacted, cleaned and archived on the way."""
    services = {
        "hoodie.clean.commits.retained": "2",
        "hoodie.keep.min.commits": "4",
        "hoodie.keep.max.commits": "6",
        "hoodie.timeline.compaction.batch.size": "3",
    }
    writers = Writers(hudi, str(tmp_path / "table"), {**mor_options(), **NO_SMALL_FILES, **services})
    writers.write("hoodoo", "insert", batch([row(n, 1, "first") for n in range(6)]))
    for turn in range(18):
        who = "hudi" if turn % 4 == 3 else "hoodoo"
        writers.write(who, "upsert", batch([row(n, 2 + turn, f"turn {turn}") for n in range(turn % 4, 6)]))
        if turn % 4 == 2:
            compact_by_hudi(hudi, writers.uri)
        same_rows(hudi, writers.uri, turn)
    timeline = hoodoo.Table(writers.uri).timeline
    assert len(timeline.instants()) < len(timeline.instants(history=True))
    assert timeline.instants(action="clean", history=True)


@pytest.mark.parametrize("who", ["hudi", "hoodoo"])
def test_copies_of_a_key(hudi: Hudi, tmp_path: Path, who: str) -> None:
    """Inserts look for no keys; which of the copies that they leave are merged depends on positions in log blocks.

    Hudi's writer logs a record for each copy: they differ in their numbers, and nothing else.
    """
    options = {**mor_options(Layout("plain", partitions="")), **NO_SMALL_FILES}
    writers = Writers(hudi, str(tmp_path / "table"), options)
    copies = [row(0, 1, "first"), row(1, 1, "other"), row(0, 1, "second"), row(2, 1, "other"), row(0, 1, "third")]
    writers.write("hoodoo", "insert", batch(copies))
    assert len(same_rows(hudi, writers.uri, meta=False)) == 5
    writers.write(who, "upsert", batch([row(0, 2, "later")]))
    same_rows(hudi, writers.uri, meta=False, what="updated")
    writers.write("hoodoo" if who == "hudi" else "hudi", "upsert", batch([row(0, 3, "latest")]))
    same_rows(hudi, writers.uri, meta=False, what="updated by the other")
    writers.write(who, "delete", batch([row(0, 0, "")]))
    same_rows(hudi, writers.uri, meta=False, what="deleted")
