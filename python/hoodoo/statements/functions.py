"""Functions and operators of expressions that work on whole columns, with the results of Spark SQL."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.exceptions import SchemaError, UnsupportedError
from hoodoo.statements.coercion import Value, aligned, as_array, cast, decimal_of
from hoodoo.values.strings import mapped

__all__ = ["FUNCTIONS", "equal_key", "is_in"]

Function: TypeAlias = Callable[[list[Value], str], Value]
"""Takes the arguments, and the expression for messages."""


def _is_nan(value: Value) -> Value:
    return pc.is_nan(value)


def _compare(name: str, values: list[Value], what: str) -> Value:
    left, right = aligned(values, what)
    if pa.types.is_nested(left.type):
        raise UnsupportedError(f"`{what}` compares values of type {left.type}, which is not supported")
    if pa.types.is_null(left.type):
        return pa.scalar(None, pa.bool_())
    if not pa.types.is_floating(left.type):
        return getattr(pc, name)(left, right)
    # To SQL, NaN equals itself and is larger than any number; to Arrow it compares with nothing.
    if name in {"equal", "not_equal"}:
        same = pc.or_kleene(pc.equal(left, right), pc.and_kleene(_is_nan(left), _is_nan(right)))
        return same if name == "equal" else pc.invert(same)
    if name in {"greater", "less_equal"}:
        is_greater = pc.or_kleene(pc.greater(left, right), pc.and_kleene(_is_nan(left), pc.invert(_is_nan(right))))
        return is_greater if name == "greater" else pc.invert(is_greater)
    is_less = pc.or_kleene(pc.less(left, right), pc.and_kleene(_is_nan(right), pc.invert(_is_nan(left))))
    return is_less if name == "less" else pc.invert(is_less)


def _same(values: list[Value], what: str) -> Value:
    equal = _compare("equal", values, what)
    nulls = [pc.is_null(value) for value in values]
    both, either = pc.and_(nulls[0], nulls[1]), pc.or_(nulls[0], nulls[1])
    return pc.if_else(either, both, pc.fill_null(equal, False))


def is_in(value: Value, members: list[Value], what: str) -> Value:
    """Return whether values are among literals, by SQL's rules for nulls."""
    first, *others = aligned([value, *members], what)
    if pa.types.is_nested(first.type):
        raise UnsupportedError(f"`{what}` is not supported: IN needs a list of simple values")
    known = [other for other in others if other.is_valid]
    # Arrow compares bits here, to which zeros of two signs differ, and some NaN.
    found = pc.is_in(equal_key(first), value_set=equal_key(_array_of(known, first.type)))
    if len(known) < len(others):
        found = pc.if_else(found, True, pa.scalar(None, pa.bool_()))
    return pc.if_else(pc.is_null(first), pa.scalar(None, pa.bool_()), found)


def _array_of(scalars: list[Value], data_type: pa.DataType) -> pa.Array:
    if not scalars:
        return pa.array([], data_type)
    return pa.concat_arrays([pa.repeat(scalar, 1) for scalar in scalars])


def _operands(values: list[Value], what: str) -> list[Value]:
    """The operands of + - *: in their common type, but each decimal with the digits that it has."""
    types = [value.type for value in values]
    exact = [pa.types.is_decimal(t) or pa.types.is_integer(t) for t in types]
    if not all(exact) or all(pa.types.is_integer(t) for t in types):
        return aligned(values, what)
    return [value if pa.types.is_decimal(value.type) else _as_decimal(value, what) for value in values]


def _as_decimal(value: Value, what: str) -> Value:
    if isinstance(value, pa.Scalar) and value.is_valid:
        return pa.scalar(Decimal(value.as_py()))
    return cast(value, decimal_of(value.type), what)


def _checked(name: str, values: list[Value], what: str) -> Value:
    left, right = _operands(values, what)
    if not (pa.types.is_integer(left.type) or pa.types.is_floating(left.type) or pa.types.is_decimal(left.type)):
        if pa.types.is_null(left.type):
            return pa.scalar(None, pa.float64())
        raise SchemaError(f"`{what}` computes with {left.type}. Cast it to a number")
    try:
        return getattr(pc, name)(left, right)
    except pa.ArrowInvalid as error:
        message = f"`{what}` does not fit {left.type} ({error}). Cast an operand to a larger type"
        raise SchemaError(message) from error


def _divide(values: list[Value], what: str) -> Value:
    left, right = aligned(values, what)
    if pa.types.is_decimal(left.type):
        raise UnsupportedError(f"the division of decimals `{what}` is not supported: cast one side to double")
    left, right = (cast(value, pa.float64(), what) for value in (left, right))
    _refuse_zero(left, right, what)
    return pc.divide(left, right)


def _refuse_zero(dividend: Value, divisor: Value, what: str) -> None:
    zero = pc.and_(pc.equal(divisor, pc.cast(pa.scalar(0), divisor.type)), pc.is_valid(dividend))
    found = pc.any(zero) if isinstance(zero, pa.Array) else zero
    if found.as_py():
        raise SchemaError(f"division by zero in `{what}`. Use nullif(…, 0) or a case for such rows")


def _whole(values: list[Value], what: str) -> tuple[Value, Value]:
    left, right = aligned(values, what)
    if not pa.types.is_integer(left.type):
        raise UnsupportedError(f"`{what}` of {left.type} is not supported: it needs integers")
    _refuse_zero(left, right, what)
    return left, right


def _whole_division(values: list[Value], what: str) -> Value:
    left, right = _whole(values, what)
    try:
        return pc.cast(pc.divide_checked(left, right), pa.int64())
    except pa.ArrowInvalid as error:
        raise SchemaError(f"`{what}` does not fit {left.type} ({error}). Cast an operand to a larger type") from error


def _remainder(values: list[Value], what: str) -> Value:
    left, right = _whole(values, what)
    # The smallest integer has no quotient by -1. The remainder is that of 1.
    one = pc.cast(pa.scalar(1), right.type)
    right = pc.if_else(pc.equal(right, pc.negate(one)), one, right)
    return pc.subtract(left, pc.multiply(pc.divide(left, right), right))


def _one(name: str, values: list[Value], what: str) -> Value:
    try:
        return getattr(pc, name)(values[0])
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise SchemaError(f"`{what}` does not take a value of type {values[0].type}: cast it") from error


def _texts(values: list[Value], what: str) -> list[Value]:
    for value in values:
        if not (pa.types.is_string(value.type) or pa.types.is_null(value.type)):
            raise SchemaError(f"`{what}` needs strings, and a value has type {value.type}: cast it to string")
    return [pc.cast(value, pa.string()) for value in values]


def _text(name: str, values: list[Value], what: str) -> Value:
    return getattr(pc, name)(_texts(values[:1], what)[0])


def _cased(name: str, values: list[Value], what: str) -> Value:
    """Text in another case. Kernels keep the number of letters, and `ß` has two of them in upper case."""
    text = _texts(values[:1], what)[0]
    if isinstance(text, pa.Scalar):
        return _cased(name, [as_array(text, 1)], what)[0]
    others = pc.invert(pc.string_is_ascii(text))
    cased = getattr(pc, f"ascii_{name}")(text)
    return mapped(text, others, getattr(str, name), cased) if pc.any(others).as_py() else cased


def _concat(values: list[Value], what: str) -> Value:
    return pc.binary_join_element_wise(*_texts(values, what), "")


def _constant(value: Value, what: str) -> object:
    if not isinstance(value, pa.Scalar):
        raise UnsupportedError(f"`{what}` is not supported: this argument has to be a literal")
    return value.as_py()


def _like(values: list[Value], what: str) -> Value:
    text, pattern = _texts(values, what)
    wanted = _constant(pattern, what)
    if wanted is None:
        return pa.scalar(None, pa.bool_())
    return pc.match_like(text, str(wanted))


def _substring(values: list[Value], what: str) -> Value:
    text = _texts(values[:1], what)[0]
    numbers = [_constant(value, what) for value in values[1:]]
    if not all(isinstance(n, int) for n in numbers):
        raise UnsupportedError(f"`{what}` is not supported: start and length have to be integers")
    start, *length = (n for n in numbers if isinstance(n, int))
    if start < 0:
        raise UnsupportedError(f"`{what}` is not supported: a start from the end of the string")
    # To Spark, 0 is the first letter, as 1 is.
    begin = max(start - 1, 0)
    stop = None if not length else max(begin + length[0], begin)
    return pc.utf8_slice_codeunits(text, begin, stop)


def _nullif(values: list[Value], what: str) -> Value:
    equal = pc.fill_null(_compare("equal", values, what), False)
    return pc.if_else(equal, pa.scalar(None, values[0].type), values[0])


def _extreme(name: str, values: list[Value], what: str) -> Value:
    numbers = aligned(values, what)
    if any(pa.types.is_floating(v.type) or pa.types.is_nested(v.type) for v in numbers):
        raise UnsupportedError(f"`{what}` of {numbers[0].type} is not supported: use a case")
    return getattr(pc, name)(*numbers)


def _round_to_whole(name: str, values: list[Value], what: str) -> Value:
    if pa.types.is_integer(values[0].type):
        return values[0]
    if pa.types.is_decimal(values[0].type):
        raise UnsupportedError(f"`{what}` of decimals is not supported: cast it to double")
    return cast(_one(name, values, what), pa.int64(), what)


def equal_key(array: Value) -> Value:
    """Return values of which two have the same bits where SQL calls them equal: the positive zero, and one NaN."""
    if not pa.types.is_floating(array.type):
        return array
    return pc.if_else(pc.is_nan(array), pa.scalar(math.nan, array.type), pc.add(array, pa.scalar(0, array.type)))


FUNCTIONS: dict[str, tuple[Function, int, int]] = {
    **{
        sign: (functools.partial(_compare, name), 2, 2)
        for sign, name in {
            "=": "equal",
            "!=": "not_equal",
            "<": "less",
            "<=": "less_equal",
            ">": "greater",
            ">=": "greater_equal",
        }.items()
    },
    "<=>": (_same, 2, 2),
    "+": (functools.partial(_checked, "add_checked"), 2, 2),
    "-": (functools.partial(_checked, "subtract_checked"), 2, 2),
    "*": (functools.partial(_checked, "multiply_checked"), 2, 2),
    "/": (_divide, 2, 2),
    "%": (_remainder, 2, 2),
    "div": (_whole_division, 2, 2),
    "neg": (functools.partial(_one, "negate_checked"), 1, 1),
    "abs": (functools.partial(_one, "abs_checked"), 1, 1),
    "ceil": (functools.partial(_round_to_whole, "ceil"), 1, 1),
    "floor": (functools.partial(_round_to_whole, "floor"), 1, 1),
    "is_null": (functools.partial(_one, "is_null"), 1, 1),
    "like": (_like, 2, 2),
    "upper": (functools.partial(_cased, "upper"), 1, 1),
    "lower": (functools.partial(_cased, "lower"), 1, 1),
    "length": (functools.partial(_text, "utf8_length"), 1, 1),
    "trim": (lambda values, what: pc.utf8_trim(_texts(values, what)[0], " "), 1, 1),
    "ltrim": (lambda values, what: pc.utf8_ltrim(_texts(values, what)[0], " "), 1, 1),
    "rtrim": (lambda values, what: pc.utf8_rtrim(_texts(values, what)[0], " "), 1, 1),
    "substring": (_substring, 2, 3),
    "concat": (_concat, 1, 100),
    "nullif": (_nullif, 2, 2),
    "greatest": (functools.partial(_extreme, "max_element_wise"), 2, 100),
    "least": (functools.partial(_extreme, "min_element_wise"), 2, 100),
}
"""Functions by name, with the smallest and the largest number of arguments."""
