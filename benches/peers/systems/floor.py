"""The floor: arrow-rs reads the table's files and writes them again."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from ..case import PROJECT, Case
from ..duck import Digest, digest
from ..tables import hudi_table, latest_files
from .peer import Peer


class Floor(Peer):
    """The example program `parquet_floor`; it changes nothing, so nothing is faster that rewrites all files."""

    label = "floor: read + write the files"
    changes_rows = False

    def __init__(self) -> None:
        target = Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target"))
        self._program = target / "release" / "examples" / "parquet_floor"
        self._files: list[str] = []

    def missing(self) -> str | None:
        """Builds it."""
        command = ["cargo", "build", "--release", "--locked", "--example", "parquet_floor"]
        done = subprocess.run(command, cwd=PROJECT, check=False, capture_output=True, text=True)
        return None if done.returncode == 0 else f"cargo cannot build it: {done.stderr.strip().splitlines()[-1:]}"

    def versions(self) -> dict[str, str]:
        """Reads arrow-rs's from the lock file."""
        lock = (PROJECT / "Cargo.lock").read_text()
        return {"arrow-rs": lock.partition('name = "parquet"\nversion = "')[2].partition('"')[0]}

    def table(self, case: Case) -> Path:
        """Takes hoodoo's."""
        table = hudi_table(case)
        self._files = [str(f.relative_to(table)) for files in latest_files(table).values() for f in files]
        return table

    def upsert(self, case: Case, table: Path) -> None:
        """Copies."""
        files = [str(table / file) for file in self._files]
        command = [self._program, "--threads", str(case.cores), "--codec", "zstd", "--out", table / "floor", *files]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        rows = json.loads(done.stdout)["rows"]
        if rows != case.data.rows:
            raise RuntimeError(f"the floor copied {rows} rows of {case.data.rows}")

    def digest(self, case: Case, table: Path) -> Digest:
        """Reads the copies."""
        return digest(case.data, f"read_parquet('{table}/floor/*.parquet')")
