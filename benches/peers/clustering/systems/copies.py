"""What is below every clustering: the files read and written again, or their bytes copied."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benches.peers.merge_on_read.systems import System
from benches.peers.systems.floor import Floor as Program

from .files import inputs, keep

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.peers.merge_on_read.job import Job


class Files(System):
    """Something that writes Parquet files into a folder."""

    def save(self, job: Job, place: Path, result: Any) -> None:
        """Keeps the files."""
        del place
        keep(job, sorted(Path(result).glob("*.parquet")))


class Floor(Files):
    """The example program `parquet_floor`."""

    def __init__(self) -> None:
        self._program = Program()

    def missing(self, job: Job) -> str | None:
        """Builds it unless it is there."""
        del job
        return self._program.missing()

    def versions(self) -> dict[str, str]:
        """Gives arrow-rs's."""
        return self._program.versions()

    def prepare(self, job: Job, place: Path) -> Callable[[], Any]:
        """Gives the call."""
        out = place / "floor"
        command = self._program.command(job.cores, out, inputs(job, place))

        def copy() -> Path:
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            self.ended_peak = json.loads(done.stdout)["peak_rss"]
            return out

        return copy


class Copy(System):
    """All bytes into one file, which is no Parquet file then."""

    def prepare(self, job: Job, place: Path) -> Callable[[], Any]:
        """Gives the call."""
        sources, target = inputs(job, place), place / "all"

        def copy() -> Path:
            with target.open("wb") as out:
                for source in sources:
                    with source.open("rb") as file:
                        shutil.copyfileobj(file, out)
            return target

        return copy

    def save(self, job: Job, place: Path, result: Any) -> None:
        """Cuts the copy into the files again."""
        out = place / "cut"
        out.mkdir()
        with Path(result).open("rb") as file:
            for number, source in enumerate(inputs(job, place)):
                (out / f"{number:05}.parquet").write_bytes(file.read(source.stat().st_size))
        keep(job, sorted(out.iterdir()))


class Cp(Files):
    """The `cp` of the machine."""

    def prepare(self, job: Job, place: Path) -> Callable[[], Any]:
        """Gives the call."""
        out = place / "cp"
        out.mkdir()
        command = ["cp", *inputs(job, place), out]

        def copy() -> Path:
            subprocess.run(command, check=True)
            return out

        return copy
