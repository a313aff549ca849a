"""Brings rows of Spark and of Arrow to one form, so that they can be compared."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

Row = dict[str, Any]

META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)


def plain(value: Any) -> Any:  # noqa: PLR0911  # one return for each kind of value
    """Gives the one Python form of a value: UTC without zone, bytes, dicts, lists; NaN and decimals comparable."""
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.timezone.utc).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, Decimal):
        return value.normalize()
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def _spelled(value: Any) -> str:
    """Spells a value for sorting: equal values are spelled the same, a widened 1.0 as a 1."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr(float(value))
    if isinstance(value, dict):
        return repr([(name, _spelled(item)) for name, item in sorted(value.items())])
    if isinstance(value, list):
        return repr([_spelled(item) for item in value])
    return repr(value)


def _order(row: Row) -> str:
    return _spelled({name: item for name, item in row.items() if item is not None})


def _sort(rows: Iterable[Mapping[str, Any]], meta: bool) -> list[Row]:
    kept = [{name: plain(item) for name, item in row.items() if meta or name not in META_COLUMNS} for row in rows]
    return sorted(kept, key=_order)


def arrow_rows(data: Any, *, meta: bool = False) -> list[Row]:
    """Gives the rows of anything Arrow, sorted; the meta columns only when `meta` is set."""
    table = pa.table(data) if not isinstance(data, (pa.Table, pa.RecordBatchReader)) else data
    if isinstance(table, pa.RecordBatchReader):
        table = table.read_all()
    return _sort(table.to_pylist(maps_as_pydicts="strict"), meta)


def plain_rows(rows: Iterable[Mapping[str, Any]], *, meta: bool = False) -> list[Row]:
    """Gives dictionaries in the same form and order as `arrow_rows`."""
    return _sort(rows, meta)


def spark_rows(frame: Any, *, meta: bool = False) -> list[Row]:
    """Gives the rows of a Spark DataFrame in the same form and order as `arrow_rows`."""
    return _sort((row.asDict(recursive=True) for row in frame.collect()), meta)


def golden_line(row: Mapping[str, Any]) -> str:
    """Spells a row as the lines of `fixtures/tables/expected.json` are spelled: typed text, keys sorted."""
    return json.dumps({name: _golden(item) for name, item in row.items()}, sort_keys=True)


def _golden(value: Any) -> Any:  # noqa: PLR0911  # one return for each kind of value
    if isinstance(value, dt.datetime):
        return "ts:" + plain(value).isoformat()
    if isinstance(value, dt.date):
        return "d:" + value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "hex:" + bytes(value).hex()
    if isinstance(value, Decimal):
        return f"dec:{value.normalize():f}"
    if isinstance(value, float):
        return f"f:{value!r}"
    if isinstance(value, Mapping):
        return {key: _golden(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_golden(item) for item in value]
    return value
