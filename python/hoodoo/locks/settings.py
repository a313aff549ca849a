"""Options of locks in services, with Hudi's names and defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoodoo.exceptions import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["hash_of", "positive", "required"]

_MASK = (1 << 64) - 1
_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_STRIPE = 32
# Hudi's seed 0xdabadaba, a negative integer of Java.
_SEED = 0xFFFFFFFFDABADABA


def required(settings: Mapping[str, str], key: str, default: str | None = None) -> str:
    """Return an option that a lock cannot do without.

    Args:
        settings: The options.
        key: The option.
        default: What it is inferred from.

    Raises:
        InvalidOptionError: It is not given.

    Examples:
        >>> required({"hoodie.table.name": "trips"}, "hoodie.table.name")
        'trips'
    """
    value = settings.get(key) or default
    if not value:
        message = f"the option {key} is not given: the lock provider needs it, with the same value for every writer"
        raise InvalidOptionError(message)
    return value


def positive(settings: Mapping[str, str], key: str, default: int) -> int:
    """Return an option that is a number from 1, such as a time in milliseconds.

    Args:
        settings: The options.
        key: The option.
        default: Its default.

    Raises:
        InvalidOptionError: It is no positive number.

    Examples:
        >>> positive({}, "hoodie.write.lock.zookeeper.session_timeout_ms", 60000)
        60000
    """
    text = settings.get(key)
    if text is None:
        return default
    if not text.strip().isdigit() or int(text) == 0:
        message = f"invalid value {text!r} for {key}: expected a number from 1"
        raise InvalidOptionError(message)
    return int(text)


def hash_of(uri: str) -> str:
    """Return the name that Hudi gives the lock of a table whose options name none: a hash of its location.

    Args:
        uri: The location; `s3a://` counts as `s3://`.

    Returns:
        16 hexadecimal digits, as `HashID.generateXXHashAsString` of Hudi has them.

    Examples:
        >>> hash_of("s3a://bucket/table"), hash_of("file:/tmp/t")
        ('4DCF035CB614089C', '1C11CD7070E28123')
    """
    normal = "s3://" + uri.removeprefix("s3a://") if uri.startswith("s3a://") else uri
    return f"{xxhash64(normal.encode(), _SEED):016X}"


def xxhash64(data: bytes, seed: int = 0) -> int:
    """Return the xxHash64 of bytes, by the published algorithm.

    Examples:
        >>> hex(xxhash64(b"")), hex(xxhash64(b"abc"))
        ('0xef46db3751d8e999', '0x44bc2cf5ad770999')
    """
    one, two, three, four, five = _PRIMES

    def left(value: int, by: int) -> int:
        return ((value << by) | (value >> (64 - by))) & _MASK

    def round_of(state: int, lane: int) -> int:
        return left((state + lane * two) & _MASK, 31) * one & _MASK

    def lane(at: int, size: int = 8) -> int:
        return int.from_bytes(data[at : at + size], "little")

    at = 0
    if len(data) >= _STRIPE:
        states = [(seed + one + two) & _MASK, (seed + two) & _MASK, seed, (seed - one) & _MASK]
        while at + _STRIPE <= len(data):
            states = [round_of(state, lane(at + 8 * n)) for n, state in enumerate(states)]
            at += _STRIPE
        value = sum(left(state, by) for state, by in zip(states, (1, 7, 12, 18), strict=True)) & _MASK
        for state in states:
            value = ((value ^ round_of(0, state)) * one + four) & _MASK
    else:
        value = (seed + five) & _MASK
    value = (value + len(data)) & _MASK
    while at + 8 <= len(data):
        value = (left(value ^ round_of(0, lane(at)), 27) * one + four) & _MASK
        at += 8
    if at + 4 <= len(data):
        value = (left(value ^ (lane(at, 4) * one & _MASK), 23) * two + three) & _MASK
        at += 4
    for byte in data[at:]:
        value = left(value ^ (byte * five & _MASK), 11) * one & _MASK
    for shift, prime in ((33, two), (29, three), (32, 1)):
        value = ((value ^ (value >> shift)) * prime) & _MASK
    return value
