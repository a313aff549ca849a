"""The demo's change feed: applied by event time, it must give back the real flights, and it must be a hard one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from demo import feed as demo


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return demo.read_flights()


@pytest.fixture(scope="module")
def feed(flights: pa.Table) -> demo.Feed:
    return demo.make_feed(flights)


def apply_in_order(feed: demo.Feed, *, by_event_time: bool) -> pa.Table:
    """A naive upsert of batch after batch: all events in one row order, the last one of each key stays."""
    batches = [feed.timetable, *feed.batches]
    events = pa.concat_tables(batches)
    if by_event_time:
        batch = np.repeat(np.arange(len(batches)), [batch.num_rows for batch in batches])
        events = events.take(pa.array(np.lexsort((batch, events[demo.ORDERING].to_numpy()))))
    events = events.append_column("position", pa.array(np.arange(events.num_rows)))
    last = events.group_by(demo.KEY).aggregate([("position", "max")])
    return events.take(last["position_max"]).drop_columns("position")


def ordered(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in demo.KEY]).combine_chunks().replace_schema_metadata(None)


def test_the_data_are_the_real_ones(flights: pa.Table):
    assert flights.num_rows == 336_776
    assert flights["dep_time"].null_count == 8_255
    assert flights["arr_delay"].null_count == 9_430
    assert flights["tailnum"].null_count == 2_512
    assert flights["time_hour"].null_count == 0


def test_applied_by_event_time_it_gives_the_source(feed: demo.Feed, flights: pa.Table):
    result = ordered(apply_in_order(feed, by_event_time=True))
    assert result.equals(ordered(feed.final))
    assert result.select(flights.schema.names).equals(ordered(flights))


def test_applied_by_order_of_arrival_it_does_not(feed: demo.Feed):
    assert not ordered(apply_in_order(feed, by_event_time=False)).equals(ordered(feed.final))


def test_events_come_late_twice_and_out_of_order(feed: demo.Feed):
    assert len(feed.batches) == 24
    assert all(batch.num_rows > 10_000 for batch in feed.batches)
    assert feed.late > 50_000
    assert feed.twice > 20_000
    assert feed.overtaken > 20_000
    first = feed.batches[0][demo.ORDERING].to_numpy()
    assert (np.diff(first) < 0).any()


def test_the_timetable_knows_no_actual_time(feed: demo.Feed):
    for name in demo.DEPARTURE_COLUMNS + demo.ARRIVAL_COLUMNS:
        assert feed.timetable[name].null_count == feed.timetable.num_rows


def test_the_same_seed_gives_the_same_feed(flights: pa.Table, feed: demo.Feed):
    again = demo.make_feed(flights)
    assert all(one.equals(other) for one, other in zip(feed.batches, again.batches, strict=True))


def test_overtaken_events_are_counted():
    flight = np.array([0, 0, 0, 1, 1])
    happened = np.array([10, 20, 10, 5, 6])
    batch = np.array([0, 1, 2, 3, 3])
    # Only the second delivery of flight 0's first event comes after a newer one.
    assert demo.count_overtaken(flight, happened, batch) == 1
