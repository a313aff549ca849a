"""The command line."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from . import dataset, duck, harness, report
from .case import PROJECT, Case
from .systems import NAMES

CACHE = PROJECT / ".cache" / "bench"


def _peers(text: str) -> list[str]:
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    for name in chosen:
        if name not in NAMES:
            raise argparse.ArgumentTypeError(f"no peer is called {name!r}; there are {', '.join(NAMES)}")
    return chosen


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benches.peers", description="One upsert by many, side by side.")
    parser.add_argument("--data", choices=["lineitem", "flights"], default="lineitem")
    parser.add_argument("--rows", type=int, help="rows of the table (2,000,000 of lineitem, all 336,776 flights)")
    parser.add_argument(
        "--update-share", type=float, default=dataset.SHARE, help="rows that change; 1 %% new ones come on top"
    )
    parser.add_argument(
        "--change-all", action="store_true", help="a change alters all columns that can change, not a few"
    )
    parser.add_argument("--peers", type=_peers, default=list(NAMES), help=f"some of {','.join(NAMES)}")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each, after a warm-up")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--java-memory", default="8g", help="heap of Spark's JVM")
    parser.add_argument("--json", type=Path, help="file for all figures")
    return parser.parse_args()


def main() -> int:
    """Makes the data, runs the peers, shows the figures; 1 when a peer's rows were wrong or it failed."""
    given = _arguments()
    # A pipe or a log has no width of its own; figures that are cut off are worth nothing there.
    console = Console() if sys.stdout.isatty() else Console(width=180)
    load = os.getloadavg()[0]
    CACHE.mkdir(parents=True, exist_ok=True)
    with console.status("data") as status:
        data = dataset.load(given.data, given.rows, given.update_share, CACHE, change_all=given.change_all)
        with tempfile.TemporaryDirectory(prefix="work-", dir=CACHE, ignore_cleanup_errors=True) as scratch:
            # Tables are made anew each time: a table of an older build must not be what is measured.
            tables = Path(scratch) / "tables"
            tables.mkdir()
            case = Case(data, given.cores, given.runs, given.java_memory, str(tables), scratch)
            status.update("what must come out, by DuckDB")
            expected = duck.expected(data)
            console.print(f"{data.origin}: {data.rows:,} rows, {data.changes:,} changes -> {expected.rows:,} rows")
            outcomes = [harness.run(name, case, expected, status.update) for name in given.peers]
            failed = [o for o in outcomes if o.problem and not o.problem.startswith("not there")]
            if failed:
                _keep_logs(Path(scratch), failed, console)
    report.show(console, case, outcomes, load)
    if given.json:
        report.save(given.json, case, outcomes, load)
    return 1 if failed else 0


def _keep_logs(scratch: Path, failed: list[harness.Outcome], console: Console) -> None:
    for outcome in failed:
        log = scratch / f"{outcome.name}.log"
        kept = CACHE / log.name
        log.replace(kept)
        console.print(f"[red]{outcome.name}[/red]: {outcome.problem}; its output is in {kept}")


if __name__ == "__main__":
    sys.exit(main())
