"""The session of real Hudi that all interop tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.hudi import Hudi, HudiUnavailableError

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks every test of this folder."""
    for item in items:
        if _HERE in Path(str(item.fspath)).parents:
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def hudi() -> Iterator[Hudi]:
    """Gives a running Hudi; skips when there is none, unless HOODOO_REQUIRE_INTEROP=1 asks for it."""
    try:
        session = Hudi()
    except HudiUnavailableError as error:
        if os.environ.get("HOODOO_REQUIRE_INTEROP") == "1":
            pytest.fail(f"HOODOO_REQUIRE_INTEROP=1, but {error}")
        pytest.skip(str(error))
    yield session
    session.close()
