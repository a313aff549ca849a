"""Values of partitions, and their names in a catalog."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING

from hoodoo.exceptions import InvalidOptionError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["extractor_of", "partition_name", "path_of", "same_place"]

_KEY = "hoodie.datasource.hive_sync.partition_extractor_class"
_PACKAGE = "org.apache.hudi.hive."
# What Hive escapes in names of partitions.
_ESCAPED = re.compile(r"""[\x01-\x1f"#%'*/:=?\\\x7f{[\]^]""")
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")

Values = tuple[str, ...]


def extractor_of(class_name: str, fields: Sequence[str]) -> Callable[[str], Values]:
    """Return the function that takes the values from a partition path.

    Args:
        class_name: The class of Hudi.
        fields: The partition columns.

    Returns:
        The function. It raises an `InvalidOptionError` for a path that does not have a value for each column.

    Raises:
        UnsupportedError: The class is not one of Hudi's own.

    Examples:
        >>> extractor_of("org.apache.hudi.hive.MultiPartKeysValueExtractor", ["city", "day"])("city=sf/day=1")
        ('sf', '1')
        >>> extractor_of("org.apache.hudi.hive.SlashEncodedDayPartitionValueExtractor", ["day"])("2026/1/31")
        ('2026-01-31',)
    """
    extract = _EXTRACTORS.get(class_name.removeprefix(_PACKAGE))
    if extract is None or not class_name.startswith(_PACKAGE):
        known = ", ".join(f"{_PACKAGE}{name}" for name in _EXTRACTORS)
        raise UnsupportedError(f"option {_KEY}={class_name} is not supported: expected one of {known}")

    def values(path: str) -> Values:
        found = extract(path)
        if found is None or len(found) != len(fields):
            raise InvalidOptionError(
                f"{class_name} finds {'no' if found is None else len(found)} values in the partition path {path!r}, "
                f"and the partition columns are {', '.join(fields) or 'none'}: set {_KEY} to the class that fits"
            )
        return found

    return values


def partition_name(fields: Sequence[str], values: Sequence[str]) -> str:
    """Return the name by which a metastore finds a partition.

    Args:
        fields: The partition columns.
        values: Their values.

    Returns:
        The name.

    Examples:
        >>> partition_name(["City", "day"], ["s/f", "a b"])
        'city=s%2Ff/day=a b'
    """
    return "/".join(f"{_escape(field.lower())}={_escape(value)}" for field, value in zip(fields, values, strict=True))


def path_of(location: str) -> str:
    """Return a location without scheme and authority: what Hudi compares.

    Args:
        location: A path or URI.

    Returns:
        The path.

    Examples:
        >>> path_of("s3a://bucket/t/"), path_of("file:/data/t"), path_of("/data/t")
        ('/t', '/data/t', '/data/t')
    """
    rest = _SCHEME.sub("", location, count=1)
    if rest.startswith("//"):
        rest = "/" + rest[2:].partition("/")[2]
    return rest.rstrip("/") or "/"


def same_place(one: str, other: str) -> bool:
    """Return whether two locations are one, by path and, where both name one, by bucket.

    Args:
        one: A path or URI.
        other: Another one.

    Returns:
        Whether they are the same.

    Examples:
        >>> same_place("s3://b/t", "s3a://b/t"), same_place("s3://b/t", "s3://c/t"), same_place("file:///t", "/t")
        (True, False, True)
    """
    names = {_authority(place) for place in (one, other)} - {""}
    return path_of(one) == path_of(other) and len(names) <= 1


def _authority(location: str) -> str:
    rest = _SCHEME.sub("", location, count=1)
    return rest[2:].partition("/")[0] if rest.startswith("//") else ""


def _escape(value: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", value)


def _value(part: str) -> str | None:
    if "=" not in part:
        return part
    pieces = part.split("=")
    # Java's split drops empty strings at the end.
    while pieces and not pieces[-1]:
        pieces.pop()
    return pieces[1] if len(pieces) == len(("field", "value")) else None


def _parts(path: str) -> Values | None:
    if not path:
        return ()
    values = [_value(part) for part in path.split("/")]
    return tuple(value for value in values if value is not None) if None not in values else None


def _hive_style(path: str) -> Values | None:
    value = _value(path) if "=" in path else None
    return None if value is None else (value,)


def _single(path: str) -> Values:
    return (path.replace("/", "-"),)


def _nothing(_: str) -> Values:
    return ()


def _slashes(count: int, *, hours: bool = False) -> Callable[[str], Values | None]:
    def extract(path: str) -> Values | None:
        parts = _parts(path) or ()
        if len(parts) != count or not all(part.isdecimal() for part in parts):
            return None
        try:
            numbers = [int(part) for part in parts]
            day = dt.date(numbers[0], numbers[1], numbers[2]).isoformat()
        except (ValueError, OverflowError):
            return None
        hour = f"-{numbers[3]:02d}" if hours else ""
        return (f"{day}{hour}",)

    return extract


_EXTRACTORS: dict[str, Callable[[str], Values | None]] = {
    "MultiPartKeysValueExtractor": _parts,
    "HiveStylePartitionValueExtractor": _hive_style,
    "SinglePartPartitionValueExtractor": _single,
    "SlashEncodedDayPartitionValueExtractor": _slashes(3),
    "SlashEncodedHourPartitionValueExtractor": _slashes(4, hours=True),
    "NonPartitionedExtractor": _nothing,
}
