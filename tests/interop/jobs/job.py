"""What a job is: its options, the batches that it writes, and what becomes of it in hoodoo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from tests.rows import Row

TRIP = pa.schema(
    [
        ("uuid", pa.string()),
        ("ts", pa.int64()),
        ("rider", pa.string()),
        ("driver", pa.string()),
        ("fare", pa.float64()),
        ("city", pa.string()),
        ("day", pa.string()),
        ("event_ms", pa.int64()),
    ]
)
_CITIES = ("san_francisco", "sao_paulo", "chennai")
_DAY_MS = 86_400_000


def trip(number: int, ts: int, fare: float, *, city: str | None = None) -> Row:
    """Makes a row; city, day and rider follow from the number."""
    return {
        "uuid": f"trip-{number:02d}",
        "ts": ts,
        "rider": f"rider-{chr(65 + number)}",
        "driver": None if number == 4 else f"driver-{number}",
        "fare": fare,
        "city": city or _CITIES[number % 3],
        "day": f"2023-11-{10 + number % 2}",
        "event_ms": 1_699_574_400_000 + (number % 2) * _DAY_MS + number * 1000,
    }


def trips(*rows: Row) -> pa.Table:
    """Makes the table of rows made by `trip`."""
    return pa.Table.from_pylist(list(rows), schema=TRIP)


FIRST = trips(*(trip(number, 10, 10.0 + number) for number in range(7)))
# A newer row, one with an earlier ordering value, one twice, one that is new.
SECOND = trips(trip(0, 20, 99.5), trip(1, 5, 98.5), trip(2, 15, 1.5), trip(2, 20, 2.5), trip(8, 10, 18.0))
GONE = trips(trip(3, 30, 0.0), trip(5, 30, 0.0))

Step = tuple[str | None, pa.Table]
"""The operation (None: that of the options) and the rows."""

UPSERTS: tuple[Step, ...] = ((None, FIRST), (None, SECOND), ("delete", GONE))


@dataclass(frozen=True)
class Job:
    """A job.

    Attributes:
        name: A short name.
        source: The kind of text that has such options.
        options: The options, whole.
        steps: What the job writes.
        refused: Keys that the error names, if hoodoo refuses the options.
        remedy: What to change then, as the error says; None leaves an option out. With it the job must work.
        warned: The keys of options that have no effect, which warnings name.
        theirs: What only Hudi needs there.
        needs: The server that the test starts: `metastore`, `zookeeper` or `aws`.
        copies: Whether the job stores several rows of one key, as insert and bulk_insert may.
        daily: Whether its rows are compared every day.
        differs: A known defect: what differs and why.
    """

    name: str
    source: str
    options: Mapping[str, str]
    steps: tuple[Step, ...] = UPSERTS
    refused: tuple[str, ...] = ()
    remedy: Mapping[str, str | None] = field(default_factory=dict)
    warned: tuple[str, ...] = ()
    theirs: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""
    copies: bool = False
    daily: bool = False
    differs: str = ""

    def remedied(self) -> dict[str, str]:
        """The options after what the error says."""
        changed = {**self.options, **self.remedy}
        return {key: value for key, value in changed.items() if value is not None}
