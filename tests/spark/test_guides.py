"""The guides that need a Spark session run as they stand there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import guides


@pytest.mark.parametrize("name", guides.ON_SPARK)
def test_a_guide_runs_on_spark(name: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    guides.run(name, tmp_path, {"spark": spark})
