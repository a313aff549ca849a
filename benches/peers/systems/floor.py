"""The floor: arrow-rs reads the table's files and writes them again."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from benches.peers.case import PROJECT, Case
from benches.peers.codec import codec
from benches.peers.duck import Digest, digest
from benches.peers.tables import folder, hudi_files, prepare_hudi

from .peer import Peer

if TYPE_CHECKING:
    from collections.abc import Iterable


class Floor(Peer):
    """The example program `parquet_floor`; it changes nothing, so nothing is faster that rewrites all files."""

    label = "floor: read + write the files"
    changes_rows = False

    def __init__(self) -> None:
        target = Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target"))
        self._program = target / "release" / "examples" / "parquet_floor"

    def missing(self) -> str | None:
        """Builds it, unless it is newer than its source and the packages it is made of."""
        made_of = (PROJECT / "examples" / "parquet_floor.rs", PROJECT / "Cargo.lock")
        if self._program.exists() and all(f.stat().st_mtime < self._program.stat().st_mtime for f in made_of):
            return None
        command = ["cargo", "build", "--release", "--locked", "--example", "parquet_floor"]
        done = subprocess.run(command, cwd=PROJECT, check=False, capture_output=True, text=True)
        return None if done.returncode == 0 else f"cargo cannot build it: {done.stderr.strip().splitlines()[-1:]}"

    def versions(self) -> dict[str, str]:
        """Reads arrow-rs's from the lock file."""
        lock = (PROJECT / "Cargo.lock").read_text()
        return {"arrow-rs": lock.partition('name = "parquet"\nversion = "')[2].partition('"')[0]}

    def prepare(self, case: Case) -> None:
        """Takes hoodoo's table."""
        prepare_hudi(case)

    def table(self, case: Case) -> Path:
        """Takes the Hudi table."""
        return folder(case, "hudi")

    def command(self, cores: int, out: Path, files: Iterable[Path]) -> list[str]:
        """Spells the command line.

        Args:
            cores: Its threads.
            out: The folder that it writes into.
            files: What it reads.
        """
        given = ["--threads", str(cores), "--codec", codec(), "--out", str(out)]
        return [str(self._program), *given, *(str(file) for file in files)]

    def upsert(self, case: Case, table: Path) -> None:
        """Copies."""
        files = (table / file for found in hudi_files(case).values() for file in found)
        command = self.command(case.cores, table / "floor", files)
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        rows = json.loads(done.stdout)["rows"]
        if rows != case.data.rows:
            raise RuntimeError(f"the floor copied {rows} rows of {case.data.rows}")

    def digest(self, case: Case, table: Path) -> Digest:
        """Reads the copies."""
        return digest(case.data, f"read_parquet('{table}/floor/*.parquet')")
