"""Marks every test of this folder; the `hudi` fixture is in the folder above, for the model tests use it too."""

from __future__ import annotations

from pathlib import Path

import pytest

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Adds the mark `interop`."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)
