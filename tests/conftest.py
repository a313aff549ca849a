"""Settings shared by every Python test: the zone of the clock, and how hard hypothesis looks."""

from __future__ import annotations

import os
import time

from hypothesis import HealthCheck, settings

# Hudi stamps instants in the table's zone, LOCAL by default: all writers of one table must agree on it.
os.environ["TZ"] = "UTC"
time.tzset()

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("hoodoo", deadline=None, suppress_health_check=_QUIET)
settings.load_profile("hoodoo")
