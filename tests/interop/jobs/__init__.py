"""Option dictionaries of Hudi jobs as people have them: quick starts, documentation, vendors' guides, bug reports.

Each is written here from what such jobs set; `Job.source` says what kind of text it is like.
"""

from __future__ import annotations

from tests.interop.jobs import catalogs, changes, clouds, indexes, keys, quick_starts, services, writers
from tests.interop.jobs.job import Job

JOBS: tuple[Job, ...] = (
    *quick_starts.JOBS,
    *clouds.JOBS,
    *catalogs.JOBS,
    *changes.JOBS,
    *keys.JOBS,
    *indexes.JOBS,
    *services.JOBS,
    *writers.JOBS,
)
