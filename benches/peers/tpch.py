"""TPC-H's lineitem from DuckDB's tpch extension.

DuckDB fetches extensions from a server of its own, which not every machine reaches. The same extension is on PyPI, for
an older DuckDB than the one that the benches measure; it gets an environment of its own, used for nothing else.
"""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
import venv
from typing import TYPE_CHECKING

from .case import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

ENVIRONMENT = PROJECT / ".cache" / "tpch" / "env"
PACKAGES = ("duckdb==1.5.5", "duckdb-extension-tpch==1.5.5")
ROWS_OF_SCALE_1 = 6_001_215

_GENERATE = """
import sys
from pathlib import Path

import duckdb

rows, scale, target = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
db = duckdb.connect()
db.execute("SET enable_progress_bar = false")
try:
    import duckdb_extension_tpch
    folder = Path(duckdb_extension_tpch.__file__).parent
    extension = next(folder.rglob("*.duckdb_extension"))
    db.execute(f"LOAD '{extension}'")
except ImportError:
    db.execute("INSTALL tpch")
    db.execute("LOAD tpch")
db.execute(f"CALL dbgen(sf={scale})")
found = db.execute("SELECT count(*) FROM lineitem").fetchone()[0]
if found < rows:
    sys.exit(f"dbgen made only {found} rows")
db.execute(
    f"COPY (SELECT * FROM lineitem ORDER BY l_orderkey, l_linenumber LIMIT {rows}) "
    f"TO '{target}' (FORMAT parquet, COMPRESSION zstd)"
)
print(duckdb.__version__)
"""


class TpchUnavailableError(RuntimeError):
    """The extension is not to be had here; the message says why."""


def lineitem(rows: int, target: Path) -> str:
    """Writes the first rows of lineitem, by key, into a Parquet file.

    Args:
        rows: How many.
        target: The file.

    Returns:
        Where they come from, for the report.

    Raises:
        TpchUnavailableError: DuckDB's extension can neither be installed nor fetched.
    """
    # A little above what is wanted: the number of lines of an order is random.
    scale = round(rows / ROWS_OF_SCALE_1 * 1.02 + 0.001, 4)
    if scale > 1:
        # Of more than one, dbgen makes whole ones.
        scale = math.ceil(scale)
    problems = []
    for python in (sys.executable, _environment):
        try:
            program = python if isinstance(python, str) else python()
            version = _run([program, "-c", _GENERATE, str(rows), str(scale), str(target)])
        except (TpchUnavailableError, OSError) as error:
            problems.append(str(error))
            continue
        return f"TPC-H lineitem, scale {scale}, by the tpch extension of DuckDB {version}"
    raise TpchUnavailableError("; ".join(problems))


def _environment() -> str:
    python = ENVIRONMENT / "bin" / "python"
    if python.exists() and subprocess.run([python, "-c", "import duckdb_extension_tpch"], check=False).returncode == 0:
        return str(python)
    venv.create(ENVIRONMENT, clear=True, with_pip=False)
    uv = shutil.which("uv") or str(PROJECT / ".cache" / "uv" / "bin" / "uv")
    _run([uv, "pip", "install", "--quiet", "--python", str(python), *PACKAGES])
    return str(python)


def _run(command: list[str]) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise TpchUnavailableError(said[-1] if said else f"{command[0]} failed")
    return done.stdout.strip()
