"""Times of instants: parsing, durations, and bounds that people type.

Instants are in the zone of the table (`hoodie.table.timeline.timezone`), so times here have no zone.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from hoodoo.exceptions import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoodoo.timeline import Instant

__all__ = ["bound", "now_in", "parse_instant", "took", "zone_of"]

# yyyyMMddHHmmssSSS. Old writers leave out the milliseconds.
_MILLIS = 17
_SECONDS = 14
_AGO = re.compile(r"(\d{1,6})\s*([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DATE = re.compile(r"(\d{4})-(\d\d)(?:-(\d\d)(?:[T ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,3}))?)?)?)?)?")


def parse_instant(name: str) -> datetime | None:
    """Return the time of an instant.

    Args:
        name: The instant: `yyyyMMddHHmmss`, with or without `SSS`.

    Returns:
        The time in the zone of the table; None when the instant is not a time, such as the instant of a bootstrap.

    Examples:
        >>> parse_instant("20260102030405678").isoformat()
        '2026-01-02T03:04:05.678000'
        >>> parse_instant("00000000000001")
    """
    if len(name) not in {_MILLIS, _SECONDS} or not (name.isascii() and name.isdigit()):
        return None
    try:
        whole = datetime.strptime(name[:_SECONDS], "%Y%m%d%H%M%S")  # noqa: DTZ007  # the table's own zone
    except ValueError:
        return None
    return whole + timedelta(milliseconds=int(name[_SECONDS:] or 0))


def took(instant: Instant) -> timedelta | None:
    """Return the duration of an action, from requested to completion time.

    Args:
        instant: The action.

    Returns:
        The duration, at least zero; None while the action is pending, or when its instant is not a time.
    """
    begin = parse_instant(instant.requested)
    end = parse_instant(instant.completed) if instant.completed else None
    return None if begin is None or end is None else max(end - begin, timedelta())


def zone_of(options: Mapping[str, str]) -> str:
    """Return the zone of the instants of a table.

    Args:
        options: The table config.

    Returns:
        `UTC`, or `LOCAL` for the zone of the writers.
    """
    return "UTC" if options.get("hoodie.table.timeline.timezone", "").upper() == "UTC" else "LOCAL"


def now_in(zone: str) -> datetime:
    """Return the current time in the zone of a table.

    Args:
        zone: See `zone_of`.

    Returns:
        The time, without a zone.
    """
    now = datetime.now(timezone.utc)
    return (now if zone == "UTC" else now.astimezone()).replace(tzinfo=None)


def bound(text: str, now: datetime, *, upper: bool) -> str:
    """Return a time that people type as a string that compares with instants.

    Args:
        text: An instant or its first digits, `2026-11-21` or `2026-11-21T17:05:09`, or how long ago: `90s`, `30m`,
            `2h`, `7d`, `1w`.
        now: The current time in the zone of the table.
        upper: Whether this is the end of a range: then a day ends with its last millisecond.

    Returns:
        Digits that compare as strings with requested times.

    Raises:
        InvalidOptionError: The text has none of these forms.

    Examples:
        >>> bound("2h", datetime(2026, 11, 21, 17, 0), upper=False)
        '20261121150000000'
        >>> bound("2026-11-21", datetime(2026, 12, 1), upper=True)
        '20261121999999999'
    """
    given = text.strip()
    if ago := _AGO.fullmatch(given):
        try:
            then = now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        except OverflowError:
            then = datetime.min  # noqa: DTZ901  # before any table
        return f"{then:%Y%m%d%H%M%S}{then.microsecond // 1000:03d}".rjust(_MILLIS, "0")
    if date := _DATE.fullmatch(given):
        given = "".join(part for part in date.groups() if part)
    if not (given.isascii() and given.isdigit() and len(given) <= _MILLIS):
        message = (
            f"invalid time {text!r}: expected an instant, 2026-11-21, 2026-11-21T17:05, or an age such as 2h or 7d"
        )
        raise InvalidOptionError(message)
    return given.ljust(_MILLIS, "9") if upper else given
