"""Tests for custom record mergers: the extra `hoodoo[testing]`."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.exceptions import InvalidOptionError
from hoodoo.extras import import_extra
from hoodoo.record_merger import MergeContext, RecordMerger, Records

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["check_merger"]


def check_merger(
    merger: RecordMerger,
    schema: pa.Schema,
    ordering: str | Sequence[str] = (),
    *,
    deletes: bool = False,
    late: bool = False,
    examples: int = 100,
) -> None:
    """Test a merger with generated records, and fail with the smallest example that it merges wrongly.

    Log records are merged with each other before they are merged with base files, and a reader, a compaction and a log
    compaction group them in different ways. So merging must be associative: for any three versions a, b, c of a record,
    merging (a, b) with c must return what merging a with (b, c) returns. A merger must also return a row for each pair,
    in the same columns and types, keep values in the ordering columns, and return the same each time.

    Args:
        merger: The merger.
        schema: Columns of the records; required ones get no nulls.
        ordering: Names of the ordering columns.
        deletes: Generate deletes too. A rule that adds values cannot be associative with them, because a delete before
            a record is lost.
        late: Generate versions with a smaller ordering value than the version before. Many rules are not associative
            with them: the values that fill nulls depend on the order of merging.
        examples: How many groups of records to test.

    Raises:
        AssertionError: The merger breaks a rule; the message has the records.
        InvalidOptionError: A column has a type that cannot be generated.
        MissingDependencyError: hypothesis is not installed (`pip install 'hoodoo[testing]'`).

    Examples:
        >>> import pyarrow as pa
        >>> from hoodoo.mergers import KeepNonNull
        >>> from hoodoo.testing import check_merger
        >>> schema = pa.schema({"id": pa.string(), "ts": pa.int64(), "name": pa.string()})
        >>> check_merger(KeepNonNull(), schema, ordering=["ts"], examples=20)
    """
    import_extra("hypothesis", "testing", "check_merger")
    from hypothesis import HealthCheck, given, settings  # noqa: PLC0415 - only for tests
    from hypothesis import strategies as st  # noqa: PLC0415

    fields = [ordering] if isinstance(ordering, str) else list(ordering)
    row = st.fixed_dictionaries({field.name: _values(st, field, required=field.name in fields) for field in schema})
    version = st.tuples(row, st.booleans() if deletes else st.just(False))
    versions = st.lists(st.tuples(version, version, version), min_size=1, max_size=6)
    context = MergeContext(ordering=tuple(fields))

    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(versions)
    def check(keys: list[tuple[Any, Any, Any]]) -> None:
        if fields and not late:
            keys = [_ascending(key, fields) for key in keys]
        a, b, c = (_records([key[i] for key in keys], schema, fields) for i in range(3))
        left = _merged(merger, _merged(merger, a, b, context), c, context)
        right = _merged(merger, a, _merged(merger, b, c, context), context)
        again = _merged(merger, _merged(merger, a, b, context), c, context)
        shown = _shown(keys)
        assert _rows(left) == _rows(again), f"merging again returned something else, for {shown}"
        message = f"not associative: ((a, b), c) is {_rows(left)}, (a, (b, c)) is {_rows(right)}, for {shown}"
        assert _rows(left) == _rows(right), message

    check()


def _merged(merger: RecordMerger, older: Records, newer: Records, context: MergeContext) -> Records:
    result = merger.merge(older, newer, context)
    if isinstance(result, pa.RecordBatch):
        result = Records(result, newer.keys, newer.deleted)
    schema = older.data.schema
    assert result.data.num_rows == len(older), f"{result.data.num_rows} rows for {len(older)} pairs"
    assert len(result.deleted) == len(older), f"'deleted' has {len(result.deleted)} values for {len(older)} pairs"
    assert result.deleted.null_count == 0, "'deleted' has nulls"
    assert result.data.schema.names == schema.names, f"columns {result.data.schema.names} for {schema.names}"
    assert result.data.schema.types == schema.types, f"types {result.data.schema.types} for {schema.types}"
    deleted = result.deleted
    deleted = deleted.combine_chunks() if isinstance(deleted, pa.ChunkedArray) else deleted
    ordering = []
    for number, name in enumerate(context.ordering):
        lost = pc.and_(pc.invert(deleted), pc.is_null(result.data[name]))
        assert not pc.any(lost).as_py(), f"the value of the ordering column '{name}' was lost"
        of_delete = pc.if_else(newer.deleted, newer.ordering[number], older.ordering[number])
        ordering.append(pc.if_else(deleted, of_delete, result.data[name]))
    unordered = pa.array([False] * len(older), pa.bool_())
    return Records(result.data, newer.keys, deleted, tuple(ordering), unordered)


def _records(versions: list[tuple[dict[str, Any], bool]], schema: pa.Schema, ordering: list[str]) -> Records:
    data = pa.RecordBatch.from_pylist([row for row, _ in versions], schema=schema)
    keys = pa.array([str(i) for i in range(len(versions))])
    deleted = pa.array([is_delete for _, is_delete in versions], pa.bool_())
    unordered = pa.array([False] * len(versions), pa.bool_())
    return Records(data, keys, deleted, tuple(data[name] for name in ordering), unordered)


def _ascending(versions: tuple[Any, Any, Any], ordering: list[str]) -> tuple[Any, ...]:
    return tuple(sorted(versions, key=lambda version: tuple(version[0][name] for name in ordering)))


def _rows(records: Records) -> list[dict[str, Any] | None]:
    rows = zip(records.data.to_pylist(), records.deleted.to_pylist(), strict=True)
    return [None if deleted else row for row, deleted in rows]


def _shown(keys: list[tuple[Any, Any, Any]]) -> str:
    shown = [" | ".join("delete" if is_delete else str(row) for row, is_delete in key) for key in keys]
    return "; ".join(shown)


def _values(st: Any, field: pa.Field, *, required: bool) -> Any:
    values = _of_type(st, field.type, field.name)
    return values if required or not field.nullable else st.none() | values


def _of_type(st: Any, kind: pa.DataType, name: str) -> Any:  # noqa: PLR0911
    """Values of a type: few distinct values, so that ties occur."""
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_integer(kind):
        return st.integers(0, 9)
    if pa.types.is_floating(kind):
        return st.sampled_from([0.0, 0.5, 1.0, 2.0, 4.0])
    if pa.types.is_decimal(kind):
        return st.decimals(0, 9, places=min(kind.scale, 1), allow_nan=False)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return st.text("abc", max_size=3)
    if pa.types.is_binary(kind):
        return st.binary(max_size=3)
    if pa.types.is_date(kind):
        return st.dates(date(2026, 1, 1), date(2026, 1, 9))
    if pa.types.is_timestamp(kind):
        zone = st.just(timezone.utc) if kind.tz else st.none()
        return st.datetimes(datetime(2026, 1, 1), datetime(2026, 1, 2), timezones=zone)  # noqa: DTZ001
    if pa.types.is_list(kind):
        return st.lists(_of_type(st, kind.value_type, name), max_size=3)
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({f.name: _values(st, f, required=False) for f in kind})
    if pa.types.is_map(kind):
        return st.dictionaries(_of_type(st, kind.key_type, name), _of_type(st, kind.item_type, name), max_size=3).map(
            lambda d: list(d.items())
        )
    message = f"column '{name}': values of type {kind} cannot be generated. Leave the column out of the schema"
    raise InvalidOptionError(message)
