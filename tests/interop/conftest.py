"""Marks every test of this folder; the `hudi` fixture is in the folder above, for the model tests use it too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.metastore import Metastore, MetastoreUnavailableError

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Adds the mark `interop`."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    """Gives a running Hive metastore; skips when there is none, unless HOODOO_REQUIRE_INTEROP=1 asks for it."""
    try:
        running = Metastore(tmp_path_factory.mktemp("metastore"))
    except MetastoreUnavailableError as error:
        if os.environ.get("HOODOO_REQUIRE_INTEROP") == "1":
            pytest.fail(f"HOODOO_REQUIRE_INTEROP=1, but {error}")
        pytest.skip(str(error))
    yield running
    running.close()
