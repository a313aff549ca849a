"""The guide to moving a job: what it says of Hudi's side holds with real Hudi."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
import hoodoo.spark
from tests import guides
from tests.interop.hudi import Hudi
from tests.rows import Row, arrow_rows

GUIDE = "move-a-spark-job"
SCHEMA = pa.schema([("uuid", pa.string()), ("city", pa.string()), ("fare", pa.float64()), ("ts", pa.int64())])


def _row(uuid: str, city: str, fare: float, ts: int) -> Row:
    return {"uuid": uuid, "city": city, "fare": fare, "ts": ts}


@pytest.mark.slow  # turns of both engines run every day in other tests
def test_a_job_moves_and_goes_back(hudi: Hudi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (job,) = [block for block in guides.blocks(GUIDE) if block.language == "py"]

    def by_hudi(uri: Path, *rows: Row) -> dict[str, Any]:
        given = {"df": hudi.frame(list(rows), SCHEMA)}
        exec(job.code.replace("s3://lake/trips", str(uri)), given)
        return given

    # Hudi goes on with the table that the guide made.
    guides.run(GUIDE, tmp_path, {"spark": hudi.spark})
    trips = tmp_path / "lake" / "trips"
    by_hudi(trips, _row("b", "ny", 8.0, 5), _row("c", "sf", 1.0, 1))
    expected = [_row("a", "sf", 12.0, 2), _row("b", "ny", 8.0, 5), _row("c", "sf", 1.0, 1)]
    assert hudi.read(trips) == arrow_rows(hoodoo.Table(trips).to_arrow())
    assert hoodoo.Table(trips).to_arrow(columns=SCHEMA.names).sort_by("uuid").to_pylist() == expected
    assert hoodoo.Table(trips).verify().ok

    # hoodoo goes on with a table of the job.
    moved = tmp_path / "moved"
    options = by_hudi(moved, _row("a", "sf", 1.0, 1), _row("b", "ny", 2.0, 9))["hudi_options"]
    rows = hudi.frame([_row("a", "sf", 3.0, 2), _row("b", "ny", 4.0, 8)], SCHEMA)
    commit = hoodoo.spark.write(rows, str(moved), options=options)
    assert (commit.inserted, commit.updated) == (0, 1)
    assert hudi.read(moved) == arrow_rows(hoodoo.Table(moved).to_arrow())
