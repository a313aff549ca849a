"""`hoodoo.merge`: the rules of tables over any Arrow streams, kept in memory, on the disk, or not at all."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import hoodoo

SCHEMA = pa.schema({"k": pa.int64(), "part": pa.string(), "ts": pa.int32(), "v": pa.string(), "w": pa.float64()})


def _row(key: int, ts: int, value: str | None, more: float | None = None) -> dict[str, Any]:
    return {"k": key, "part": f"p{key % 3}", "ts": ts, "v": value, "w": more}


def _table(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema)


def _cut(table: pa.Table, sizes: random.Random) -> pa.RecordBatchReader:
    batches, start = [], 0
    while start < table.num_rows:
        rows = sizes.randint(1, 40)
        batches += table.slice(start, rows).combine_chunks().to_batches()
        start += rows
    return pa.RecordBatchReader.from_batches(table.schema, iter(batches))


def _expected(older: list[Any], newer: list[Any], mode: str, fill: bool) -> list[Any]:
    """The same by a dictionary."""

    def merged(old: Any, new: Any) -> Any:
        late = mode == "EVENT_TIME_ORDERING" and new["ts"] < old["ts"]
        high, low = (old, new) if late else (new, old)
        return {name: low[name] if fill and value is None else value for name, value in high.items()}

    delta: dict[int, Any] = {}
    for row in newer:
        delta[row["k"]] = merged(delta[row["k"]], row) if row["k"] in delta else row
    out = {row["k"]: row for row in older}
    for key, row in delta.items():
        out[key] = merged(out[key], row) if key in out else row
    return sorted(out.values(), key=lambda r: r["k"])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("fill", [False, True])
@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
def test_equal_to_a_dictionary(mode: str, fill: bool, seed: int) -> None:
    chance = random.Random(seed)
    some = lambda: chance.choice([None, "x", "y", "z"])  # noqa: E731
    older = [_row(k, chance.randint(0, 9), some(), chance.random()) for k in sorted(chance.sample(range(500), 300))]
    newer = [_row(chance.randrange(500), chance.randint(0, 9), some(), None) for _ in range(chance.choice([0, 5, 400]))]
    newer.sort(key=lambda r: r["k"])
    expected = _expected(older, newer, mode, fill)
    given: dict[str, Any] = {"key": "k", "ordering": ["ts"], "mode": mode}
    if fill:
        given["partial_update_mode"] = "IGNORE_DEFAULTS"
    spilled = {"options": {"hoodoo.memory.budget": 0}}
    for more in ({}, spilled, {"sorted": True}, {"sorted": True, **spilled}):
        merged = hoodoo.merge(_cut(_table(older), chance), _cut(_table(newer), chance), **given, **more)
        rows = merged.read_all().to_pylist()
        assert rows == expected if more.get("sorted") else sorted(rows, key=lambda r: r["k"]) == expected, more


def test_deletes() -> None:
    marked = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_())).append(pa.field("op", pa.string()))
    older = _table([_row(1, 5, "a"), _row(2, 5, "b"), _row(3, 5, "c"), _row(4, 5, "d")])
    rows = [
        {**_row(1, 6, None), "_hoodie_is_deleted": True},
        {**_row(2, 4, None), "_hoodie_is_deleted": True},
        {**_row(3, 6, None), "op": "D"},
        {**_row(4, 6, "kept"), "op": "d"},
    ]
    merged = hoodoo.merge(older, _table(rows, marked), "k", "ts", delete_marker=("op", "D")).read_all()
    assert merged.schema == SCHEMA
    assert merged["v"].to_pylist() == ["b", "kept"]


@pytest.mark.parametrize("sorted_inputs", [False, True])
def test_rows_of_some_columns(sorted_inputs: bool) -> None:
    older = _table([_row(1, 5, "a", 1.0), _row(2, 5, "b", 2.0)])
    newer = {"k": [1, 2, 3], "ts": pa.array([6, 4, 1], pa.int32()), "v": ["A", "stale", "new"]}
    merged = hoodoo.merge(older, newer, "k", "ts", partial=True, sorted=sorted_inputs).read_all()
    assert merged["v"].to_pylist() == ["A", "b", "new"]
    assert merged["w"].to_pylist() == [1.0, 2.0, None]


def test_unavailable_values() -> None:
    older = _table([_row(1, 5, "a"), _row(2, 5, "b")])
    newer = _table([_row(1, 6, "__gone"), _row(2, 6, "B")])
    options = {"hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value": "__gone"}
    merged = hoodoo.merge(older, newer, "k", "ts", partial_update_mode="FILL_UNAVAILABLE", options=options)
    assert merged.read_all()["v"].to_pylist() == ["a", "B"]


def test_a_payload_class() -> None:
    name = "org.apache.hudi.common.model.PartialUpdateAvroPayload"
    older, newer = _table([_row(1, 10, "a1")]), _table([_row(1, 9, "a2", 2.0)])
    merged = hoodoo.merge(older, newer, "k", "ts", payload_class=name).read_all().to_pylist()
    assert merged == [_row(1, 10, "a1", 2.0)]


@pytest.mark.parametrize("kind", [pa.int32(), pa.date32(), pa.timestamp("us"), pa.binary(), pa.decimal128(15, 2)])
def test_keys_of_any_type(kind: pa.DataType) -> None:
    keys = pa.array(["3", "4", "5"]).cast(pa.binary()) if kind == pa.binary() else pa.array([3, 4, 5], pa.int32())
    keys = (
        keys if kind == pa.binary() else (keys.cast(pa.int64()).cast(kind) if "time" in str(kind) else keys.cast(kind))
    )
    older = pa.table({"k": keys, "j": ["a", "ab", "b"], "v": [1, 2, 3]})
    newer = pa.table({"k": keys, "j": ["ab", "ab", "c"], "v": [10, 20, 30]})
    merged = hoodoo.merge(older, newer, key=["k", "j"]).read_all()
    assert merged["v"].to_pylist() == [1, 20, 3, 10, 30]


class Producer:
    """What polars, DuckDB and others give: a stream of Arrow data that is nothing of pyarrow's, with views of texts."""

    def __init__(self, numbers: list[int], texts: list[str]) -> None:
        self._table = pa.table({"k": numbers, "v": pa.array(texts, pa.string_view())})

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def test_any_producer() -> None:
    older, newer = Producer([1, 2], ["a", "b"]), Producer([2, 3], ["B", "c"])
    merged = hoodoo.merge(older, newer, "k").read_all()
    assert merged["v"].to_pylist() == ["a", "B", "c"]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"key": []}, hoodoo.InvalidOptionError, "the key has no columns"),
        ({"key": "nope"}, hoodoo.SchemaError, "nope"),
        ({"ordering": "nope"}, hoodoo.SchemaError, "nope"),
        ({"newer": {"k": [1]}}, hoodoo.SchemaError, "have no column"),
        ({"newer": {**{n: [None] for n in SCHEMA.names}, "more": [1]}}, hoodoo.SchemaError, "more"),
        ({"mode": "CUSTOM"}, hoodoo.InvalidOptionError, "CUSTOM"),
        ({"mode": "COMMIT_TIME_ORDERING", "payload_class": "com.acme.P"}, hoodoo.InvalidOptionError, "inconsistent"),
        ({"payload_class": "com.acme.P"}, hoodoo.UnsupportedError, r"com\.acme\.P"),
    ],
)
def test_what_is_refused(given: dict[str, Any], error: type[Exception], message: str) -> None:
    older = _table([_row(1, 1, "a")])
    arguments = {"older": older, "newer": older, "key": "k"} | given
    with pytest.raises(error, match=message):
        hoodoo.merge(**arguments).read_all()


@pytest.mark.parametrize(
    ("older", "newer", "message"),
    [
        ([2, 1], [1], "older rows are not sorted"),
        ([1, 1], [1], "not unique"),
        ([1, 2], [2, 1], "newer rows are not sorted"),
        ([None], [1], "null"),
    ],
)
def test_sorted_inputs_have_to_be(older: list[Any], newer: list[Any], message: str) -> None:
    with pytest.raises((pa.ArrowInvalid, OSError, hoodoo.HudiError), match=message):
        hoodoo.merge({"k": older, "v": older}, {"k": newer, "v": newer}, "k", sorted=True).read_all()


def test_an_error_of_an_input_comes_through() -> None:
    def batches() -> Any:
        yield _table([_row(1, 1, "a")]).to_batches()[0]
        raise ValueError("the source went away")

    older = pa.RecordBatchReader.from_batches(SCHEMA, batches())
    with pytest.raises(Exception, match="went away"):
        hoodoo.merge(older, _table([_row(1, 2, "b")]), "k", "ts").read_all()
