"""Starts the workers one after the other, watches them, and judges what they did."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .case import PROJECT, Case
from .duck import Digest
from .processes import PeakMemory

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Outcome:
    """What came of a peer.

    Attributes:
        name: Its name on the command line.
        label: Its name in the report.
        versions: What ran.
        wall: Seconds of each run, without the warm-up.
        cpu: CPU seconds of each.
        peak: Most resident memory of the process and its children in any run, in bytes.
        changes_rows: False for the floor, whose rows are those from before.
        problem: Why there are no figures; None when there are.
    """

    name: str
    label: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    peak: int = 0
    changes_rows: bool = True
    problem: str | None = None

    @property
    def median_wall(self) -> float:
        """The median of the wall times."""
        return statistics.median(self.wall)

    @property
    def median_cpu(self) -> float:
        """The median of the CPU times."""
        return statistics.median(self.cpu)


def run(name: str, case: Case, expected: Digest, say: Callable[[str], None]) -> Outcome:
    """Runs one peer in a process of its own.

    Args:
        name: The peer.
        case: What to do.
        expected: What its table must hold then.
        say: Shows progress.
    """
    outcome = Outcome(name)
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=case.scratch))
    described = folder / "case.json"
    described.write_text(replace(case, scratch=str(folder)).to_json())
    log = Path(case.scratch) / f"{name}.log"
    for step in (["--prepare"], []):
        say(f"{name}: {'its table' if step else 'starting'}")
        command = [sys.executable, "-m", "benches.peers.worker", "--peer", name, "--case", str(described), *step]
        if outcome.problem is None:
            _work(command, outcome, log, expected, say)
    shutil.rmtree(folder, ignore_errors=True)
    return outcome


def _work(command: list[str], outcome: Outcome, log: Path, expected: Digest, say: Callable[[str], None]) -> None:
    reading, writing = os.pipe()
    with log.open("a") as output:
        worker = subprocess.Popen(
            [*command, "--descriptor", str(writing)], cwd=PROJECT, pass_fds=[writing], stdout=output, stderr=output
        )
    os.close(writing)
    memory = PeakMemory(worker.pid)
    memory.start()
    with os.fdopen(reading) as lines:
        for line in lines:
            _note(outcome, json.loads(line), memory, expected, say)
    memory.close()
    if worker.wait() and outcome.problem is None:
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        outcome.problem = f"failed: {' '.join(last)}"


def _note(
    outcome: Outcome, event: dict[str, Any], memory: PeakMemory, expected: Digest, say: Callable[[str], None]
) -> None:
    kind = event["event"]
    if kind == "missing":
        outcome.problem = f"not there: {event['reason']}"
    elif kind == "versions":
        outcome.label, outcome.versions = event["label"], event["versions"]
        outcome.changes_rows = event["changes_rows"]
    elif kind == "begin":
        say(f"{outcome.label}: {'warm-up' if event['run'] == 0 else 'run ' + str(event['run'])}")
        memory.begin()
    elif kind == "end":
        peak = memory.end()
        if event["run"]:
            outcome.wall.append(event["wall"])
            outcome.cpu.append(event["cpu"])
            outcome.peak = max(outcome.peak, peak)
    elif kind == "digest":
        found = Digest(event["rows"], event["hashes"])
        if outcome.changes_rows and found != expected:
            outcome.problem = f"WRONG ROWS: {found.rows:,} of {expected.rows:,}, hashes {found.hashes}"
