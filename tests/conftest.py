"""What every Python test shares: the zone of the clock, how hypothesis looks, and the session of real Hudi."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.interop.hudi import Hudi, HudiUnavailableError

# Hudi stamps instants in the table's zone, LOCAL by default: all writers of one table must agree on it.
os.environ["TZ"] = "UTC"
time.tzset()

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("hoodoo", deadline=None, suppress_health_check=_QUIET)
settings.load_profile("hoodoo")


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
