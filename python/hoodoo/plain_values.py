"""Plain Python values of a column as Arrow, if they come back from it as they were.

pyarrow cuts what does not fit a type that it is told (1.5 becomes 1), and the times of datetimes behind a date.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from numbers import Number
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hoodoo.exceptions import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["array_of", "check_dates"]


def array_of(values: Any, data_type: pa.DataType | None) -> pa.Array | pa.ChunkedArray:
    """Return values as an array: of the type that they have, or of the one that they need to be told.

    Args:
        values: A value for each row: a list, or an array of NumPy or Arrow.
        data_type: The type of the column in the table, if there is one.

    Returns:
        The array. Maps and fixed-size binaries cannot be told from other values, so they get the type of the column;
        others keep their own, which the writer compares with that of the table.

    Raises:
        SchemaError: A value would not come back as it is.
        pa.ArrowException: The values have no common type; also TypeError, ValueError and OverflowError.

    Examples:
        >>> array_of([{"a": 1}], pa.map_(pa.string(), pa.int64())).to_pylist()
        [[('a', 1)]]
    """
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if data_type is not None and _cannot_be_inferred(data_type):
        array = pa.array(values, type=data_type)
        for value, back in zip(values, array.to_pylist(), strict=True):
            _check(value, back, data_type)
        return array
    inferred = pa.array(values)
    if data_type is not None and pa.types.is_temporal(data_type) and pa.types.is_integer(inferred.type):
        return pa.array(values, type=data_type)
    if str(getattr(values, "dtype", "object")) != "object":
        # An array of NumPy has one type, which Arrow takes over.
        return inferred
    if _has_dates(inferred.type):
        check_dates(values)
    if pa.types.is_timestamp(inferred.type) and any(getattr(value, "nanosecond", 0) for value in values):
        # pyarrow takes microseconds for all that looks like a datetime.
        return pa.array(values, type=pa.timestamp("ns", inferred.type.tz))
    return inferred


def check_dates(values: Iterable[Any]) -> None:
    """Refuse datetimes among dates, of which pyarrow would keep the dates.

    Raises:
        SchemaError: There is one.
    """
    for value in _leaves(values):
        # NaT is no time.
        if isinstance(value, dt.datetime) and value == value:  # noqa: PLR0124
            raise SchemaError(
                f"there are dates and datetimes among the values, and the time of {value} would be lost: give values "
                "of one type"
            )


def _leaves(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, Mapping):
            yield from _leaves(value.values())
        elif isinstance(value, list | tuple):
            yield from _leaves(value)
        else:
            yield value


def _has_dates(data_type: pa.DataType) -> bool:
    inner = [data_type.field(n).type for n in range(data_type.num_fields)]
    return pa.types.is_date(data_type) or any(_has_dates(one) for one in inner)


def _cannot_be_inferred(data_type: pa.DataType) -> bool:
    if pa.types.is_map(data_type) or pa.types.is_fixed_size_binary(data_type):
        return True
    inner = [data_type.field(n).type for n in range(data_type.num_fields)]
    return any(_cannot_be_inferred(one) for one in inner)


def _check(value: Any, back: Any, data_type: pa.DataType) -> None:
    if value is None or back is None:
        return
    if pa.types.is_map(data_type):
        pairs = list(value.items() if isinstance(value, Mapping) else value)
        for (key, item), (key_back, item_back) in zip(pairs, back, strict=True):
            _check(key, key_back, data_type.key_type)
            _check(item, item_back, data_type.item_type)
    elif pa.types.is_struct(data_type):
        _check_fields(value, back, data_type)
    elif pa.types.is_list(data_type) or pa.types.is_large_list(data_type) or pa.types.is_fixed_size_list(data_type):
        for item, item_back in zip(value, back, strict=True):
            _check(item, item_back, data_type.value_type)
    elif not _comes_back(value, back, data_type):
        raise SchemaError(
            f"the value {value!r} would become {back!r}, for the column has {data_type} there: give values of that "
            "type, or Arrow data, whose type the column can take"
        )


def _check_fields(value: Any, back: Mapping[str, Any], data_type: pa.DataType) -> None:
    given = value if isinstance(value, Mapping) else dict(zip(back, value, strict=False))
    unknown = [str(name) for name in given if name not in back]
    if unknown:
        raise SchemaError(
            f"the value has fields that {data_type} does not have: {', '.join(unknown)}. Give Arrow data, whose type "
            "the column can take, or leave them out"
        )
    for field in data_type:
        _check(given.get(field.name), back[field.name], field.type)


def _comes_back(value: Any, back: Any, data_type: pa.DataType) -> bool:
    if pa.types.is_floating(data_type) and isinstance(value, float):
        # Any float is written to a narrower column, as in other forms of rows.
        return True
    if isinstance(value, Number | Decimal) and isinstance(back, Number | Decimal):
        return bool(value == back) or (_is_nan(value) and _is_nan(back))
    if isinstance(value, dt.datetime):
        is_cut = getattr(value, "nanosecond", 0) and not hasattr(back, "nanosecond")
        return isinstance(back, dt.datetime) and value == back and not is_cut
    if isinstance(value, dt.time) and isinstance(back, dt.time):
        return value == back
    return True


def _is_nan(value: Any) -> bool:
    try:
        return math.isnan(value)
    except (TypeError, ValueError, OverflowError):
        return False
