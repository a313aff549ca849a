"""The main job on real data: a year of flights as a change feed, upserted through PySpark into a Hudi table.

    make demo          or, with everything prepared:  python demo/flights.py [--folder DIR] [--batches N]

Spark reads the feed, `hoodoo.spark.write` upserts batch after batch with inline cleaning, then the table is read with
Spark and with Arrow and compared with the source data, every column of every row.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid

import hoodoo
import hoodoo.spark
from hoodoo.cli import render, render_timeline
from hoodoo.instant_time import now_in, zone_of

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from demo import feed as flights_feed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

# What the same job hands to `df.write.format("hudi").options(**options)`.
OPTIONS = {
    "hoodie.table.name": "flights",
    "hoodie.datasource.write.recordkey.field": ",".join(flights_feed.KEY),
    "hoodie.datasource.write.partitionpath.field": flights_feed.PARTITION,
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.precombine.field": flights_feed.ORDERING,
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.metadata.enable": "false",
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "4",
}

console = render.console


@dataclass
class Times:
    """How long each part took, in the order of the parts."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """Adds the time of a `with` block to a part."""
        begin = time.perf_counter()
        yield
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - begin


class MismatchError(Exception):
    """The table does not hold what it must."""


def start_spark(cores: int) -> SparkSession:
    """Starts a local session as a small pipeline would have it."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("hoodoo demo")
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", str(2 * cores))
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def land(batch: pa.Table, folder: Path, name: str) -> str:
    """Puts a batch where the pipeline picks it up."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.parquet"
    pq.write_table(batch, path)
    return str(path)


def replay(spark: SparkSession, feed: flights_feed.Feed, landing: Path, uri: str, times: Times) -> None:
    """Writes the timetable and then every batch, one commit each."""
    parts = [("timetable", feed.timetable)]
    parts += [(f"batch {number:02}", batch) for number, batch in enumerate(feed.batches, 1)]
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )
    with bar:
        task = bar.add_task("upserting the feed", total=len(parts))
        for name, batch in parts:
            path = land(batch, landing, name.replace(" ", "-"))
            begin = time.perf_counter()
            with times.measure(f"{len(parts)} commits through Spark"):
                commit = hoodoo.spark.write(spark.read.parquet(path), uri, operation="upsert", options=OPTIONS)
            took = time.perf_counter() - begin
            bar.console.print(
                f"  {commit.instant}  {name:<9}  {batch.num_rows:>7,} events  {commit.inserted:>7,} inserted"
                f"  {commit.updated:>6,} updated  {took:6.2f} s",
                highlight=False,
            )
            bar.advance(task)


def in_key_order(table: pa.Table) -> pa.Table:
    """Brings rows into one order, so that two tables can be compared."""
    return table.sort_by([(name, "ascending") for name in flights_feed.KEY])


def check_arrow(expected: pa.Table, got: pa.Table) -> None:
    """Compares what Arrow reads with the source, column by column, and says which one differs."""
    if got.num_rows != expected.num_rows:
        raise MismatchError(f"Arrow reads {got.num_rows:,} rows, the source has {expected.num_rows:,}")
    expected, got = in_key_order(expected), in_key_order(got)
    for name in expected.schema.names:
        if got.schema.field(name).type != expected.schema.field(name).type:
            raise MismatchError(f"column {name} has type {got.schema.field(name).type} when read with Arrow")
        if not got[name].combine_chunks().equals(expected[name].combine_chunks()):
            raise MismatchError(f"column {name} differs from the source when read with Arrow")


def check_spark(expected: DataFrame, got: DataFrame) -> None:
    """Compares what Spark reads with the source: the same rows, each as often, in both directions."""
    rows = got.count()
    missing = expected.exceptAll(got).count()
    foreign = got.exceptAll(expected).count()
    if missing or foreign:
        raise MismatchError(
            f"Spark reads {rows:,} rows: {missing:,} of the source are missing, {foreign:,} are not in it"
        )


def check(spark: SparkSession, feed: flights_feed.Feed, landing: Path, uri: str, times: Times) -> None:
    """Reads the table with Spark and with Arrow and compares both with the source."""
    columns = feed.final.schema.names
    table = hoodoo.Table(uri)
    with times.measure("read with Arrow"):
        rows = table.to_arrow(columns=columns)
    with times.measure("compare with the source"):
        check_arrow(feed.final, rows)
    console.print(f"  Arrow reads {rows.num_rows:,} rows, {len(columns)} columns: equal to the source", style="green")

    source = spark.read.parquet(land(feed.final, landing, "source"))
    with times.measure("read and compare with Spark"):
        check_spark(source, hoodoo.spark.read(spark, uri).select(columns))
    console.print(f"  Spark reads {rows.num_rows:,} rows, {len(columns)} columns: equal to the source", style="green")

    with times.measure("verify"):
        report = table.verify()
    if not report.ok:
        render.show_report(report)
        raise MismatchError("the table is damaged")
    console.print("  verify finds no problem", style="green")


def show_timeline(uri: str) -> None:
    """Prints what happened to the table, and makes sure that the inline clean was part of it."""
    table = hoodoo.Table(uri)
    instants = table.timeline.instants()
    stats = table.timeline.commit_stats(instants)
    render_timeline.show_timeline(instants, stats, now=now_in(zone_of(table.options)))
    if not any(found.files for one, found in stats.items() if one.action == "clean"):
        raise MismatchError("no clean removed an old file")


def show_times(times: Times, total: float) -> None:
    """Prints where the time went."""
    grid = Grid(title="Time", title_justify="left", header_style="bold")
    grid.add_column("part")
    grid.add_column("seconds", justify="right")
    for part, seconds in times.seconds.items():
        grid.add_row(part, f"{seconds:.2f}")
    grid.add_section()
    grid.add_row("everything", f"{total:.2f}")
    console.print(grid)


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="Upserts a year of real flights into a Hudi table through PySpark.")
    parser.add_argument("--folder", type=Path, default=Path(".cache/demo"), help="for the feed and the table")
    parser.add_argument("--batches", type=int, default=24, help="into how many commits the year is cut (12 or more)")
    parser.add_argument("--cores", type=int, default=2, help="of Spark's local session")
    arguments = parser.parse_args()
    if arguments.batches < 12:  # noqa: PLR2004  # fewer would not show what the demo is for
        parser.error("--batches must be 12 or more")
    return arguments


def main() -> int:
    """Runs the demo; the exit status is 1 when the table is not what it must be."""
    arguments = parse_arguments()
    logging.getLogger("py4j").setLevel(logging.ERROR)
    begin = time.perf_counter()
    times = Times()
    table, landing = arguments.folder / "flights", arguments.folder / "feed"
    for folder in (table, landing):
        shutil.rmtree(folder, ignore_errors=True)
    uri = str(table.resolve())

    with times.measure("make the feed"):
        feed = flights_feed.make_feed(flights_feed.read_flights(), arguments.batches)
    events = sum(batch.num_rows for batch in feed.batches)
    console.print(
        f"[bold]{feed.final.num_rows:,} real flights[/bold] of 2013; a feed of {events:,} departures and arrivals in "
        f"{len(feed.batches)} batches:\n{feed.late:,} deliveries come late, {feed.twice:,} events come twice, and "
        f"{feed.overtaken:,} deliveries come after a newer event of the same flight."
    )
    with times.measure("start Spark"):
        spark = start_spark(arguments.cores)
    try:
        console.print(f"\n[bold]Upserting into[/bold] {uri}")
        replay(spark, feed, landing, uri, times)
        console.print("\n[bold]Reading it back[/bold]")
        check(spark, feed, landing, uri, times)
        console.print()
        show_timeline(uri)
    except MismatchError as problem:
        console.print(f"The demo failed: {problem}", style="bold red")
        return 1
    finally:
        spark.stop()
    show_times(times, time.perf_counter() - begin)
    console.print(f"The table stays in {uri}; look at it with:  .venv/bin/hoodoo info {arguments.folder / 'flights'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
