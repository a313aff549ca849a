"""Text as values of other types, and decimals as text: as Spark's ANSI mode reads and writes them, whole columns."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["decimals_of", "mapped", "text_of_decimals", "values_of"]

# What Spark trims before it reads: the control characters of ASCII and blanks, and no other white space.
_BLANKS = "".join(chr(code) for code in (*range(33), 127))
_TRUE = ["t", "true", "y", "yes", "1"]
_FALSE = ["f", "false", "n", "no", "0"]
_INTEGER = r"^[+-]?[0-9]+$"
_PLAIN = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_DECIMAL = rf"^[+-]?{_PLAIN}$"
# Java's numbers may end in the letter of their type.
_FLOAT = rf"^(?:[+-]?(?:{_PLAIN}[dDfF]?|(?i:inf|infinity))|(?i:nan))$"
_DATE = r"^\+?0{0,3}(?P<year>[0-9]{4})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})%s)?)?$"
"""With what may follow a day."""
_ANYTHING = r"(?:[ T](?s:.*))?"
_TIME = r"(?:[ T](?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<part>[0-9]*))?)?)?)?"
_MOST_DIGITS = 76
_FARTHEST = 100
"""A decimal point that is moved farther than this leaves no digit that a decimal can have."""


def values_of(text: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return the values that text says.

    Args:
        text: The text.
        wanted: The type of the values.

    Returns:
        The values.

    Raises:
        pyarrow.ArrowInvalid: A text says no value of the type.

    Examples:
        >>> values_of(pa.array(["2024-1-1", " 2024-02 "]), pa.date32()).to_pylist()
        [datetime.date(2024, 1, 1), datetime.date(2024, 2, 1)]
    """
    types = pa.types
    if types.is_string(wanted) or types.is_binary(wanted) or types.is_fixed_size_binary(wanted):
        return pc.cast(text, wanted)
    text = pc.ascii_trim(text, _BLANKS)
    for is_kind, function in _READERS:
        if is_kind(wanted):
            return function(text, wanted)
    return pc.cast(text, wanted)


def _refuse_others(text: pa.Array, good: pa.Array, wanted: pa.DataType) -> None:
    bad = text.filter(pc.invert(good))
    if len(bad):
        raise pa.ArrowInvalid(f"{bad[0].as_py()!r} is no {wanted}")


def _booleans(text: pa.Array, wanted: pa.DataType) -> pa.Array:
    lower = pc.ascii_lower(text)
    is_true = pc.is_in(lower, value_set=pa.array(_TRUE))
    known = pc.or_(is_true, pc.is_in(lower, value_set=pa.array(_FALSE)))
    _refuse_others(text, pc.or_(known, pc.is_null(text)), wanted)
    return pc.if_else(pc.is_null(text), pa.scalar(None, wanted), is_true)


def _integers(text: pa.Array, wanted: pa.DataType) -> pa.Array:
    _refuse_others(text, pc.match_substring_regex(text, _INTEGER), wanted)
    return pc.cast(pc.ascii_ltrim(text, "+"), wanted)


def _floats(text: pa.Array, wanted: pa.DataType) -> pa.Array:
    _refuse_others(text, pc.match_substring_regex(text, _FLOAT), wanted)
    return pc.cast(pc.replace_substring_regex(text, r"([0-9.])[dDfF]$", r"\1"), wanted)


def _dates(text: pa.Array, wanted: pa.DataType) -> pa.Array:
    return pc.cast(_date(_parts(text, _DATE % _ANYTHING, wanted)), wanted)


def _parts(text: pa.Array, pattern: str, wanted: pa.DataType) -> pa.Array:
    parts = pc.extract_regex(text, pattern)
    _refuse_others(text, pc.or_(pc.is_valid(parts), pc.is_null(text)), wanted)
    return parts


def _two_digits(parts: pa.Array, name: str, otherwise: str) -> pa.Array:
    given = pc.struct_field(parts, name)
    return pc.utf8_lpad(pc.if_else(pc.equal(given, ""), otherwise, given), 2, "0")


def _date(parts: pa.Array) -> pa.Array:
    days = (_two_digits(parts, name, "1") for name in ("month", "day"))
    return pc.binary_join_element_wise(pc.struct_field(parts, "year"), *days, "-")


def _timestamps(text: pa.Array, wanted: pa.DataType) -> pa.Array:
    unit = "ns" if wanted.unit == "ns" else "us"
    parts = _parts(text, _DATE % _TIME, wanted)
    time = pc.binary_join_element_wise(*(_two_digits(parts, name, "0") for name in ("hour", "minute", "second")), ":")
    digits = 9 if unit == "ns" else 6
    part = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.struct_field(parts, "part"), digits, "0"), 0, digits)
    whole = pc.binary_join_element_wise(_date(parts), time, " ")
    exact = pc.cast(pc.binary_join_element_wise(whole, part, "."), pa.timestamp(unit))
    naive = pc.cast(exact, pa.timestamp(wanted.unit))
    return pc.cast(pc.assume_timezone(naive, "UTC"), wanted) if wanted.tz else naive


def decimals_of(text: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return the decimals that text says, half rounded up. Arguments and errors as those of `values_of`."""
    _refuse_others(text, pc.match_substring_regex(text, _DECIMAL), wanted)
    has_exponent = pc.match_substring(text, "e", ignore_case=True)
    if pc.any(has_exponent).as_py():
        # No kernel moves the decimal point of each number as far as its exponent says.
        text = mapped(text, has_exponent, _without_exponent)
    parts = pc.extract_regex(text, r"^(?P<sign>[+-]?)0*(?P<whole>[0-9]*)\.?(?P<part>[0-9]*)$")
    # One digit more than is wanted says whether half is rounded up.
    digits = wanted.scale + 1
    part = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.struct_field(parts, "part"), digits, "0"), 0, digits)
    given = pc.struct_field(parts, "whole")
    whole = pc.if_else(pc.equal(given, ""), "0", given)
    signed = pc.binary_join_element_wise(pc.struct_field(parts, "sign"), whole, "")
    exact = pc.cast(pc.binary_join_element_wise(signed, part, "."), pa.decimal256(_MOST_DIGITS, digits))
    return pc.cast(pc.round(exact, ndigits=wanted.scale, round_mode="half_towards_infinity"), wanted)


def _without_exponent(text: str) -> str:
    try:
        number = Decimal(text)
    except ArithmeticError as error:
        raise pa.ArrowInvalid(f"the exponent of {text!r} is too large") from error
    if number and number.adjusted() > _FARTHEST:
        raise pa.ArrowInvalid(f"{text!r} has too many digits")
    return format(number, "f") if number and number.adjusted() > -_FARTHEST else "0"


def mapped(
    text: pa.Array, mask: pa.Array, function: Callable[[str], str], otherwise: pa.Array | None = None
) -> pa.Array:
    """Return text with a function applied to the rows of a mask, one by one.

    Args:
        text: The text.
        mask: The rows.
        function: The function.
        otherwise: What the other rows get; without it their text.
    """
    found = [function(value) for value in text.filter(mask).to_pylist()]
    rest = text if otherwise is None else otherwise
    return pc.replace_with_mask(rest, pc.fill_null(mask, False), pa.array(found, rest.type))


def text_of_decimals(values: pa.Array) -> pa.Array:
    """Return decimals as text without exponents.

    Examples:
        >>> text_of_decimals(pa.array([Decimal("0.0000001")])).to_pylist()
        ['0.0000001']
    """
    text, scale = pc.cast(values, pa.string()), values.type.scale
    if scale <= 0 or not pc.any(pc.match_substring(text, "E")).as_py():
        return text
    # The same bytes without a scale are the digits, which Arrow writes as they are.
    whole = pa.decimal128(values.type.precision, 0)
    unscaled = pa.Array.from_buffers(whole, len(values), values.buffers(), values.null_count, values.offset)
    digits = pc.cast(unscaled, pa.string())
    sign = pc.if_else(pc.starts_with(digits, "-"), "-", "")
    padded = pc.utf8_lpad(pc.ascii_ltrim(digits, "-"), scale + 1, "0")
    parts = (pc.utf8_slice_codeunits(padded, 0, -scale), pc.utf8_slice_codeunits(padded, -scale))
    return pc.binary_join_element_wise(sign, pc.binary_join_element_wise(*parts, "."), "")


_READERS = (
    (pa.types.is_boolean, _booleans),
    (pa.types.is_integer, _integers),
    (pa.types.is_floating, _floats),
    (pa.types.is_decimal, decimals_of),
    (pa.types.is_date32, _dates),
    (pa.types.is_timestamp, _timestamps),
)
"""What reads text as values of a kind of types."""
